//! What is drawn between two axes.

use serde::{Deserialize, Serialize};

use super::Colour;

/// One thing drawn. A `name` stands in the legend; empty names do not. `right` reads the values on the second scale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Layer {
    /// A line through points, x rising; interrupted where y is none.
    Line {
        /// Its name.
        #[serde(default)]
        name: String,
        /// The points.
        points: Vec<(f64, Option<f64>)>,
        /// Its colour.
        #[serde(default)]
        colour: Colour,
        /// Whether it is broken: what is estimated or asked for, beside what was measured.
        #[serde(default)]
        dashed: bool,
        /// Whether a value holds until the next x.
        #[serde(default)]
        steps: bool,
        /// Whether its points are marked.
        #[serde(default)]
        dots: bool,
        /// Whether it is read on the second scale.
        #[serde(default)]
        right: bool,
    },
    /// What lies between two lines: percentiles, intervals, a component of a stack. `(x, low, high)`, x rising.
    Ribbon {
        /// Its name.
        #[serde(default)]
        name: String,
        /// The points.
        points: Vec<(f64, f64, f64)>,
        /// Its colour.
        #[serde(default)]
        colour: Colour,
        /// Whether it is opaque: a component of a stack.
        #[serde(default)]
        solid: bool,
        /// Whether values hold until the next x.
        #[serde(default)]
        steps: bool,
        /// Whether it is read on the second scale.
        #[serde(default)]
        right: bool,
    },
    /// Single points.
    Dots {
        /// Their name.
        #[serde(default)]
        name: String,
        /// The points.
        points: Vec<(f64, f64)>,
        /// Their colour.
        #[serde(default)]
        colour: Colour,
        /// What each is drawn as.
        #[serde(default)]
        shape: Shape,
    },
    /// Filled regions, each bounded by a closed line.
    Area {
        /// Its name.
        #[serde(default)]
        name: String,
        /// The outlines; holes are outlines that run the other way.
        outlines: Vec<Vec<(f64, f64)>>,
        /// Its colour.
        colour: Colour,
        /// Whether it is hatched: what is predicted or contradictory.
        #[serde(default)]
        hatched: bool,
    },
    /// Stretches of the x axis over the whole height, named at their top: phases.
    Spans {
        /// The stretches.
        spans: Vec<Span>,
    },
    /// A straight line over the whole panel: a limit, a knee.
    Rule {
        /// Its name, written beside it.
        name: String,
        /// Where it crosses its axis.
        at: f64,
        /// Whether it is upright, at an x; level, at a y, otherwise.
        #[serde(default)]
        upright: bool,
        /// Its colour.
        #[serde(default)]
        colour: Colour,
        /// Whether it is broken.
        #[serde(default)]
        dashed: bool,
        /// Whether a level one is read on the second scale.
        #[serde(default)]
        right: bool,
    },
    /// Moments on the x axis, each with an upright line and its text: deaths, starts.
    Moments {
        /// The moments.
        moments: Vec<Moment>,
        /// Their colour.
        #[serde(default)]
        colour: Colour,
    },
    /// A bar for each place of the x axis. Several layers of bars stand beside each other, unless `base` stacks them.
    Bars {
        /// Their name.
        #[serde(default)]
        name: String,
        /// The bars.
        bars: Vec<Bar>,
        /// Their colour.
        #[serde(default)]
        colour: Colour,
        /// Whether they are hatched: what is estimated, beside what was measured.
        #[serde(default)]
        hatched: bool,
    },
    /// A heat map: rectangles coloured by their value, with a scale beside the panel.
    Cells {
        /// What the values are, with their unit.
        name: String,
        /// The rectangles.
        cells: Vec<Cell>,
    },
}

/// What a point is drawn as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// A filled circle.
    #[default]
    Circle,
    /// A cross.
    Cross,
    /// An upright square on its corner.
    Diamond,
    /// A ring.
    Ring,
    /// A star, larger than the others.
    Star,
    /// A triangle that points to the left: what lies beyond that edge.
    Before,
    /// A triangle that points to the right: what lies beyond that edge.
    Beyond,
}

/// A stretch of the x axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// What it is.
    pub label: String,
}

/// A moment of the x axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Moment {
    /// When.
    pub at: f64,
    /// What happened.
    pub label: String,
}

/// A bar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// Its place on the x axis.
    pub at: f64,
    /// How high it is.
    pub value: f64,
    /// From where it rises: 0, or the top of the bar below it.
    #[serde(default)]
    pub base: f64,
    /// The interval of the value, drawn as a whisker.
    #[serde(default)]
    pub interval: Option<(f64, f64)>,
}

/// A rectangle of a heat map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// From left to right.
    pub x: (f64, f64),
    /// From below upwards.
    pub y: (f64, f64),
    /// Its value.
    pub value: f64,
}
