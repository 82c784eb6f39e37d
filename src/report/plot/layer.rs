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
