//! One plane or strip of a boundary: its regions, the probes on it, what is recommended, and what is told of any place in it.

use std::collections::{HashMap, HashSet};

use super::cuts;
use super::probes::{Class, Probe, Probes};
use super::sight::Sight;
use crate::boundary::{self, Boundary, Cut, Easier, Outlines, Point, Proof, Scalar};
use crate::fault::Result;
use crate::report::Advice;
use crate::report::plot::{Axis, Colour, Corner, Entry, Ground, Layer, Panel, Scale, Shape, Spot, Spots};
use crate::report::story::neighbour::neighbour;
use crate::unit::Unit;

/// The rows of a strip, from below.
const ROWS: [(Class, &str); 4] = [
    (Class::Fits, "fits"),
    (Class::Fails, "fails"),
    (Class::Clipped, "length limit"),
    (Class::Unclear, "says nothing"),
];

/// What pictures of a boundary are made of.
pub(super) struct Stage<'a> {
    /// The boundary.
    pub(super) boundary: &'a Boundary,
    /// Its probes.
    pub(super) probes: &'a Probes,
    /// What to run.
    pub(super) advice: Option<&'a Advice>,
    /// Why the neighbour of the safe point fails.
    pub(super) further: Option<String>,
    /// The verdicts of points that fail, or are beyond a length limit.
    failed: HashMap<&'a str, &'a str>,
}

/// The upward axis of a panel: an axis of the boundary, or the rows of a strip.
enum Upwards<'a> {
    Axis(&'a boundary::Axis),
    Rows(Vec<Class>),
}

impl<'a> Stage<'a> {
    pub(super) fn new(boundary: &'a Boundary, probes: &'a Probes, advice: Option<&'a Advice>) -> Self {
        let verdict = probes.columns.iter().position(|column| column == "verdict");
        let failing = probes
            .list
            .iter()
            .filter(|probe| matches!(probe.class, Class::Fails | Class::Clipped));
        let failed = failing.filter_map(|probe| match probe.entries.get(verdict?)? {
            Entry::Text(said) => Some((probe.name.as_str(), said.as_str())),
            _ => None,
        });
        Self {
            boundary,
            probes,
            advice,
            further: advice.and_then(|advice| Some(neighbour(boundary, &advice.safe)?.sentence())),
            failed: failed.collect(),
        }
    }

    /// The panels of a picture: one, or one for each cut.
    pub(super) fn panels(&self, sight: &Sight) -> Result<Vec<Panel>> {
        let Some(slider) = sight.slider else {
            let probes: Vec<&Probe> = self.probes.list.iter().filter(|probe| reaches(sight, probe)).collect();
            return Ok(vec![self.panel(sight, None, &probes)?]);
        };
        let values = cuts::values(self.boundary, slider, self.advice);
        let mut homes: Vec<Vec<&Probe>> = vec![Vec::new(); values.len()];
        for probe in self.probes.list.iter().filter(|probe| reaches(sight, probe)) {
            if let Some(home) = cuts::home(slider, &values, &probe.point, probe.class) {
                homes[home].push(probe);
            }
        }
        let panels = values.iter().zip(homes);
        panels
            .map(|(value, probes)| self.panel(sight, Some(*value), &probes))
            .collect()
    }

    fn panel(&self, sight: &Sight, at: Option<Scalar>, probes: &[&Probe]) -> Result<Panel> {
        let through = sight.through(self.boundary, at);
        let cut = self
            .boundary
            .cut(sight.x.name(), sight.y.map(boundary::Axis::name), &through)?;
        let (across, up) = cut.ranges();
        let upwards = match sight.y {
            Some(axis) => Upwards::Axis(axis),
            None => Upwards::Rows(rows(probes)),
        };
        let inside =
            |(x, y): &(f64, f64)| (across.0..=across.1).contains(x) && (sight.y.is_none() || (up.0..=up.1).contains(y));
        let at_of = |point: &Point, class: Class| {
            let x = point.0.get(sight.x.name())?.as_f64();
            Some((x, upwards.height(point, class)?)).filter(inside)
        };
        let spots: Vec<Spot> = probes
            .iter()
            .filter_map(|probe| {
                Some(Spot {
                    at: at_of(&probe.point, probe.class)?,
                    entries: probe.entries.clone(),
                })
            })
            .collect();
        let mut layers = regions(&cut, &upwards)?;
        let ground = self.ground(sight, &cut, &upwards, &layers);
        layers.extend(marks(probes, at_of));
        layers.extend(self.advised(sight, at, at_of));
        Ok(Panel {
            title: match (sight.slider, at) {
                (Some(axis), Some(value)) => title(axis, value),
                _ => String::new(),
            },
            x: axis(sight.x, across),
            y: upwards.axis(up),
            layers,
            spots: Spots {
                columns: self.probes.columns.clone(),
                spots,
            },
            ground: Some(ground),
            ..Panel::default()
        })
    }

    /// What is safe and what is recommended, where they lie on this cut.
    fn advised(
        &self,
        sight: &Sight,
        at: Option<Scalar>,
        place: impl Fn(&Point, Class) -> Option<(f64, f64)>,
    ) -> Vec<Layer> {
        let here = |point: &Point| match (sight.slider, at) {
            (Some(axis), Some(value)) => point
                .0
                .get(axis.name())
                .is_some_and(|own| own.as_f64() == value.as_f64()),
            _ => true,
        };
        let Some(advice) = self.advice else { return Vec::new() };
        let marks = [
            ("safe point", &advice.safe, Shape::Ring),
            ("recommended", &advice.recommended, Shape::Star),
        ];
        let marks = marks.into_iter().filter(|(_, point, _)| here(point));
        let layer = |(name, point, shape): (&str, &Point, Shape)| {
            Some(Layer::Dots {
                name: name.to_owned(),
                points: vec![place(point, Class::Fits)?],
                colour: Colour::Recommended,
                shape,
            })
        };
        marks.filter_map(layer).collect()
    }

    /// What is known between the probes. On a strip every row tells the same.
    fn ground(&self, sight: &Sight, cut: &Cut, upwards: &Upwards, regions: &[Layer]) -> Ground {
        let rising = |axis: &boundary::Axis| axis.easier() == Easier::Down;
        let corner = |proof: Proof, fits: bool| {
            let said = self.failed.get(proof.point.to_string().as_str());
            let said = if fits { "fits" } else { said.unwrap_or(&"fails") };
            Corner {
                at: (proof.at.0, upwards.edge(proof.at.1, fits)),
                words: format!("{} {said}", proof.point),
            }
        };
        let within = |role: Colour| {
            let outlines = regions.iter().filter_map(|layer| match layer {
                Layer::Area { outlines, colour, .. } if *colour == role => Some(outlines.clone()),
                _ => None,
            });
            outlines.flatten().collect()
        };
        Ground {
            rising: (rising(sight.x), sight.y.is_none_or(rising)),
            fits: cut.fitting().into_iter().map(|proof| corner(proof, true)).collect(),
            fails: cut.failing().into_iter().map(|proof| corner(proof, false)).collect(),
            clips: cut.clipping().into_iter().map(|proof| corner(proof, false)).collect(),
            band: within(Colour::Band),
            predicted: within(Colour::Predicted),
        }
    }
}

impl Upwards<'_> {
    fn axis(&self, range: (f64, f64)) -> Axis {
        match self {
            Upwards::Axis(own) => axis(own, range),
            Upwards::Rows(rows) => Axis {
                label: "probes".to_owned(),
                range: Some((-0.5, rows.len() as f64 - 0.5)),
                names: rows.iter().map(|row| name(*row).to_owned()).collect(),
                ..Axis::default()
            },
        }
    }

    fn height(&self, point: &Point, class: Class) -> Option<f64> {
        match self {
            Upwards::Axis(axis) => Some(point.0.get(axis.name())?.as_f64()),
            Upwards::Rows(rows) => rows.iter().position(|row| *row == class).map(|row| row as f64),
        }
    }

    /// A height of a cut as it is drawn: those of a strip reach over all of its rows.
    fn real(&self, height: f64) -> f64 {
        match self {
            Upwards::Axis(_) => height,
            Upwards::Rows(rows) => height * rows.len() as f64 - 0.5,
        }
    }

    /// How far a proof reaches upwards.
    fn edge(&self, height: f64, fits: bool) -> f64 {
        match self {
            Upwards::Axis(_) => height,
            Upwards::Rows(_) => self.real(if fits { 1.0 } else { 0.0 }),
        }
    }
}

/// What a cut is called: `concurrency=4`.
pub(super) fn title(axis: &boundary::Axis, value: Scalar) -> String {
    format!("{}={value}", axis.name())
}

/// Whether a probe says something of the picture's plane: on the axes that are held at their easiest, only what fits says something from afar.
fn reaches(sight: &Sight, probe: &Probe) -> bool {
    let easiest = |axis: &&boundary::Axis| {
        let own = probe.point.0.get(axis.name()).map(|value| value.as_f64());
        own == Some(super::sight::easiest(axis).as_f64())
    };
    probe.class == Class::Fits || sight.held.iter().all(easiest)
}

/// The rows that a strip needs: what fits and fails always has one.
fn rows(probes: &[&Probe]) -> Vec<Class> {
    let always = |class: Class| matches!(class, Class::Fits | Class::Fails);
    let needed = |class: Class| always(class) || probes.iter().any(|probe| probe.class == class);
    ROWS.iter()
        .map(|(class, _)| *class)
        .filter(|class| needed(*class))
        .collect()
}

fn name(class: Class) -> &'static str {
    ROWS.iter().find(|(row, _)| *row == class).map_or("", |(_, name)| name)
}

fn axis(axis: &boundary::Axis, range: (f64, f64)) -> Axis {
    let (label, unit) = match axis.name() {
        "input" => ("input length", Unit::Tokens),
        "output" => ("output length", Unit::Tokens),
        name => (name, Unit::Count),
    };
    Axis {
        label: label.to_owned(),
        unit,
        scale: match axis.scale() {
            boundary::Scale::Linear => Scale::Linear,
            boundary::Scale::Log => Scale::Log,
        },
        range: Some(range),
        ends: true,
        names: Vec::new(),
    }
}

/// The regions of a cut that are not empty.
fn regions(cut: &Cut, upwards: &Upwards) -> Result<Vec<Layer>> {
    let regions = cut.regions()?;
    let drawn = |outlines: Outlines| -> Outlines {
        let corner = |(x, y)| (x, upwards.real(y));
        outlines
            .into_iter()
            .map(|line| line.into_iter().map(corner).collect())
            .collect()
    };
    let all = [
        ("proven to fit", regions.fits, Colour::Fits, false),
        ("predicted to fit", regions.predicted, Colour::Predicted, true),
        ("open", regions.open, Colour::Open, false),
        ("contradictory, not safe", regions.band, Colour::Band, true),
        ("proven to fail", regions.fails, Colour::Fails, false),
        ("beyond a length limit", regions.clipped, Colour::Quiet, false),
    ];
    let some = all.into_iter().filter(|(_, outlines, ..)| !outlines.is_empty());
    let layer = |(name, outlines, colour, hatched): (&str, Outlines, Colour, bool)| Layer::Area {
        name: name.to_owned(),
        outlines: drawn(outlines),
        colour,
        hatched,
    };
    Ok(some.map(layer).collect())
}

/// The probes by what they say, each place once.
fn marks(probes: &[&Probe], place: impl Fn(&Point, Class) -> Option<(f64, f64)>) -> Vec<Layer> {
    let all = [
        (Class::Unclear, "probe that says nothing", Colour::Open, Shape::Ring),
        (Class::Clipped, "refused for its length", Colour::Quiet, Shape::Diamond),
        (Class::Fits, "probe that fits", Colour::Fits, Shape::Circle),
        (Class::Fails, "probe that fails", Colour::Fails, Shape::Cross),
    ];
    let layer = |(class, name, colour, shape): (Class, &str, Colour, Shape)| {
        let mut seen = HashSet::new();
        let places = probes.iter().filter(|probe| probe.class == class);
        let places = places.filter_map(|probe| place(&probe.point, class));
        let points: Vec<(f64, f64)> = places
            .filter(|(x, y)| seen.insert((x.to_bits(), y.to_bits())))
            .collect();
        (!points.is_empty()).then(|| Layer::Dots {
            name: name.to_owned(),
            points,
            colour,
            shape,
        })
    };
    all.into_iter().filter_map(layer).collect()
}
