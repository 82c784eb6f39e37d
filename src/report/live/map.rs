//! The boundary of a search as it grows, and the largest point that fits.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::state::TICK;
use crate::boundary::{Answer, Axis, Boundary, Easier, Moves, Point};
use crate::report::Page;
use crate::report::picture::draw_compact;
use crate::run::RecordedBoundary;

/// Rows of a map: fewer show nothing, and more are in the result.
const ROWS: std::ops::RangeInclusive<usize> = 3..=18;

/// Lines around the rows of a map: names of the axes, edge, ruler and legend.
const AROUND: usize = 5;

/// Columns without which there is no map.
const MIN_WIDTH: usize = 40;

/// Pause between two drawings, as a multiple of the time that one takes.
const PAUSE: u32 = 20;

/// With more points there is no map: a second copy of them would only take memory.
const MOST_POINTS: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Map {
    boundary: Option<Boundary>,
    /// The fitting point with the largest product of coordinates.
    largest: Option<(f64, String)>,
    drawn: Option<Drawn>,
}

/// The map as it was last drawn. Drawing takes time that the search needs.
#[derive(Debug)]
struct Drawn {
    points: usize,
    rows: usize,
    page: Page,
    /// When it may be drawn again.
    again: Duration,
    lines: Vec<String>,
}

impl Map {
    /// Starts over: points of different boundaries are not compared.
    pub(super) fn start(&mut self, described: &Value) {
        let recorded = RecordedBoundary {
            described: described.clone(),
            ..RecordedBoundary::default()
        };
        *self = Self {
            // The script got an error if its axes are wrong.
            boundary: recorded.rebuild().ok(),
            ..Self::default()
        };
    }

    pub(super) fn add(&mut self, point: &Point, answer: &Value) {
        let (Some(boundary), Ok(answer)) = (&mut self.boundary, Answer::parse(answer)) else {
            return;
        };
        let moves = boundary.record(point, &answer);
        if boundary.records().len() > MOST_POINTS {
            self.boundary = None;
            return;
        }
        if moves != Ok(Moves::Fits) {
            return;
        }
        let part = |axis: &Axis| {
            let value = point.0.get(axis.name()).map_or(1.0, |value| value.as_f64());
            let logarithm = value.max(f64::MIN_POSITIVE).ln();
            match axis.easier() {
                Easier::Down => logarithm,
                Easier::Up => -logarithm,
            }
        };
        let size: f64 = boundary.lattice().axes().iter().map(part).sum();
        if self.largest.as_ref().is_none_or(|(largest, _)| size > *largest) {
            self.largest = Some((size, point.to_string()));
        }
    }

    pub(super) fn largest(&self) -> Option<&str> {
        self.largest.as_ref().map(|(_, point)| point.as_str())
    }

    /// The map in at most so many lines; nothing if there is no room for it.
    pub(super) fn lines(&mut self, most: usize, elapsed: Duration, page: Page) -> &[String] {
        let rows = most.saturating_sub(AROUND).min(*ROWS.end());
        let Some(boundary) = self.boundary.as_ref().filter(|boundary| boundary.records().len() > 0) else {
            return &[];
        };
        if rows < *ROWS.start() || page.width < MIN_WIDTH {
            return &[];
        }
        let points = boundary.records().len();
        let current = self.drawn.as_ref().is_some_and(|drawn| {
            let newest = drawn.points == points && drawn.rows == rows;
            drawn.page == page && drawn.rows <= rows && (newest || elapsed < drawn.again)
        });
        if !current {
            let began = Instant::now();
            let text = draw_compact(boundary, rows, page);
            let again = elapsed + TICK.max(PAUSE * began.elapsed());
            self.drawn = text.ok().map(|text| Drawn {
                points,
                rows,
                page,
                again,
                lines: text.lines().map(str::to_owned).collect(),
            });
        }
        self.drawn.as_ref().map_or(&[], |drawn| &drawn.lines)
    }
}
