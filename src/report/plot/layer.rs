//! What is drawn between two axes.

use serde::{Deserialize, Serialize};

use super::Colour;

/// One kind of marks. `name` appears in the legend unless it is empty. `right` reads values on the second y axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layer {
    /// A line through points, x rising; interrupted where y is none.
    Line {
        /// Legend name.
        #[serde(default)]
        name: String,
        /// The points.
        points: Vec<(f64, Option<f64>)>,
        /// Its colour.
        #[serde(default)]
        colour: Colour,
        /// Dashed: estimates and targets, in contrast to measurements.
        #[serde(default)]
        dashed: bool,
        /// Step line: a value holds until the next x.
        #[serde(default)]
        steps: bool,
        /// Whether its points have markers.
        #[serde(default)]
        dots: bool,
        /// Whether it is read on the second y axis.
        #[serde(default)]
        right: bool,
    },
    /// The area between two lines: percentiles, intervals, a component of a stack. `(x, low, high)`, x rising.
    Ribbon {
        /// Legend name.
        #[serde(default)]
        name: String,
        /// The points.
        points: Vec<(f64, f64, f64)>,
        /// Its colour.
        #[serde(default)]
        colour: Colour,
        /// Opaque: a component of a stack.
        #[serde(default)]
        solid: bool,
        /// Whether values hold until the next x.
        #[serde(default)]
        steps: bool,
        /// Whether it is read on the second y axis.
        #[serde(default)]
        right: bool,
    },
    /// Scatter points.
    Dots {
        /// Legend name.
        #[serde(default)]
        name: String,
        /// The points.
        points: Vec<(f64, f64)>,
        /// Their colour.
        #[serde(default)]
        colour: Colour,
        /// Their marker.
        #[serde(default)]
        shape: Shape,
    },
    /// Filled regions with closed outlines.
    Area {
        /// Legend name.
        #[serde(default)]
        name: String,
        /// The outlines; holes run in the opposite direction.
        outlines: Vec<Vec<(f64, f64)>>,
        /// Its colour.
        colour: Colour,
        /// Hatched: predicted or contradictory.
        #[serde(default)]
        hatched: bool,
    },
    /// Intervals of the x axis over the whole height, named at the top: phases.
    Spans {
        /// The intervals.
        spans: Vec<Span>,
    },
    /// A straight line across the panel: a limit, a saturation point.
    Rule {
        /// Its label.
        name: String,
        /// Position on its axis.
        at: f64,
        /// Vertical at an x; otherwise horizontal at a y.
        #[serde(default)]
        upright: bool,
        /// Its colour.
        #[serde(default)]
        colour: Colour,
        /// Whether it is dashed.
        #[serde(default)]
        dashed: bool,
        /// Whether a horizontal rule is read on the second y axis.
        #[serde(default)]
        right: bool,
    },
    /// Events on the x axis, each with a vertical line and a label: deaths, starts.
    Moments {
        /// The events.
        moments: Vec<Moment>,
        /// Their colour.
        #[serde(default)]
        colour: Colour,
    },
    /// A bar at each position of the x axis. Several layers stand side by side unless `base` stacks them.
    Bars {
        /// Legend name.
        #[serde(default)]
        name: String,
        /// The bars.
        bars: Vec<Bar>,
        /// Their colour.
        #[serde(default)]
        colour: Colour,
        /// Hatched: estimated, in contrast to measured.
        #[serde(default)]
        hatched: bool,
    },
    /// A heat map: rectangles coloured by value, with a colour scale in the legend.
    Cells {
        /// What the values are, with their unit.
        name: String,
        /// The rectangles.
        cells: Vec<Cell>,
    },
}

impl Layer {
    /// A solid line without markers.
    pub(in crate::report) fn line(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, Option<f64>)>,
        colour: Colour,
    ) -> Self {
        Self::Line {
            name: name.into(),
            points: points.into_iter().collect(),
            colour,
            dashed: false,
            steps: false,
            dots: false,
            right: false,
        }
    }

    /// A translucent area between two lines.
    pub(in crate::report) fn ribbon(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64)>,
        colour: Colour,
    ) -> Self {
        Self::Ribbon {
            name: name.into(),
            points: points.into_iter().collect(),
            colour,
            solid: false,
            steps: false,
            right: false,
        }
    }

    pub(in crate::report) fn dots(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
        colour: Colour,
        shape: Shape,
    ) -> Self {
        Self::Dots {
            name: name.into(),
            points: points.into_iter().collect(),
            colour,
            shape,
        }
    }

    pub(in crate::report) fn area(
        name: impl Into<String>,
        outlines: impl IntoIterator<Item = Vec<(f64, f64)>>,
        colour: Colour,
    ) -> Self {
        Self::Area {
            name: name.into(),
            outlines: outlines.into_iter().collect(),
            colour,
            hatched: false,
        }
    }

    pub(in crate::report) fn bars(
        name: impl Into<String>,
        bars: impl IntoIterator<Item = Bar>,
        colour: Colour,
    ) -> Self {
        Self::Bars {
            name: name.into(),
            bars: bars.into_iter().collect(),
            colour,
            hatched: false,
        }
    }

    /// A solid rule at an x.
    pub(in crate::report) fn vertical_rule(name: impl Into<String>, at: f64, colour: Colour) -> Self {
        Self::Rule {
            name: name.into(),
            at,
            upright: true,
            colour,
            dashed: false,
            right: false,
        }
    }

    /// A solid rule at a y.
    pub(in crate::report) fn horizontal_rule(name: impl Into<String>, at: f64, colour: Colour) -> Self {
        Self::Rule {
            name: name.into(),
            at,
            upright: false,
            colour,
            dashed: false,
            right: false,
        }
    }

    /// Dashes a line or a rule.
    pub(in crate::report) fn dashed(mut self, on: bool) -> Self {
        if let Self::Line { dashed, .. } | Self::Rule { dashed, .. } = &mut self {
            *dashed = on;
        }
        self
    }

    /// Makes values of a line or a ribbon hold until the next x.
    pub(in crate::report) fn stepped(mut self, on: bool) -> Self {
        if let Self::Line { steps, .. } | Self::Ribbon { steps, .. } = &mut self {
            *steps = on;
        }
        self
    }

    /// Adds markers to a line.
    pub(in crate::report) fn with_markers(mut self) -> Self {
        if let Self::Line { dots, .. } = &mut self {
            *dots = true;
        }
        self
    }

    /// Reads a line on the second y axis.
    pub(in crate::report) fn on_right_axis(mut self, on: bool) -> Self {
        if let Self::Line { right, .. } = &mut self {
            *right = on;
        }
        self
    }

    /// Makes a ribbon opaque.
    pub(in crate::report) fn opaque(mut self) -> Self {
        if let Self::Ribbon { solid, .. } = &mut self {
            *solid = true;
        }
        self
    }

    /// Whether values are read on the second y axis.
    pub(super) fn on_right(&self) -> bool {
        match self {
            Self::Line { right, .. } | Self::Ribbon { right, .. } => *right,
            Self::Rule { right, upright, .. } => *right && !upright,
            _ => false,
        }
    }

    /// All its x values and all its y values.
    pub(super) fn values(&self) -> (Vec<f64>, Vec<f64>) {
        match self {
            Self::Line { points, .. } => (
                points.iter().map(|point| point.0).collect(),
                points.iter().filter_map(|point| point.1).collect(),
            ),
            Self::Ribbon { points, .. } => (
                points.iter().map(|point| point.0).collect(),
                points.iter().flat_map(|point| [point.1, point.2]).collect(),
            ),
            Self::Dots { points, .. } => points.iter().copied().unzip(),
            Self::Area { outlines, .. } => outlines.iter().flatten().copied().unzip(),
            Self::Spans { spans } => (spans.iter().flat_map(|span| [span.from, span.to]).collect(), Vec::new()),
            Self::Rule { at, upright: true, .. } => (vec![*at], Vec::new()),
            Self::Rule { at, .. } => (Vec::new(), vec![*at]),
            Self::Moments { moments, .. } => (moments.iter().map(|moment| moment.at).collect(), Vec::new()),
            Self::Bars { bars, .. } => {
                let interval = |bar: &Bar| bar.interval.map_or([bar.value; 2], |(low, high)| [low, high]);
                let ends = |bar: &Bar| [[bar.base, bar.value], interval(bar)].concat();
                (
                    bars.iter().map(|bar| bar.at).collect(),
                    bars.iter().flat_map(ends).collect(),
                )
            }
            Self::Cells { cells, .. } => (
                cells.iter().flat_map(|cell| [cell.x.0, cell.x.1]).collect(),
                cells.iter().flat_map(|cell| [cell.y.0, cell.y.1]).collect(),
            ),
        }
    }

    /// Hatches areas or bars.
    pub(in crate::report) fn hatched(mut self, on: bool) -> Self {
        if let Self::Area { hatched, .. } | Self::Bars { hatched, .. } = &mut self {
            *hatched = on;
        }
        self
    }
}

/// Shape of a marker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A filled circle.
    #[default]
    Circle,
    /// A cross.
    Cross,
    /// A diamond.
    Diamond,
    /// A ring.
    Ring,
    /// A star, larger than the others.
    Star,
    /// A triangle that points left: a value beyond the left edge.
    Before,
    /// A triangle that points right: a value beyond the right edge.
    Beyond,
}

/// An interval of the x axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Its start.
    pub from: f64,
    /// Its end.
    pub to: f64,
    /// Its name.
    pub label: String,
}

/// An event on the x axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// Its x value.
    pub at: f64,
    /// What happened.
    pub label: String,
}

/// A bar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Position on the x axis.
    pub at: f64,
    /// Its top.
    pub value: f64,
    /// Where it starts: 0, or the top of the bar below it.
    #[serde(default)]
    pub base: f64,
    /// Interval of the value, drawn as an error bar.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
}

impl Bar {
    /// A bar from 0 at the category with this index.
    pub(in crate::report) fn new(category: usize, value: f64) -> Self {
        Self {
            at: category as f64,
            value,
            ..Self::default()
        }
    }
}

/// A cell of a heat map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Left and right edge.
    pub x: (f64, f64),
    /// Lower and upper edge.
    pub y: (f64, f64),
    /// Its value.
    pub value: f64,
}
