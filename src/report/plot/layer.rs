//! What is drawn between two axes.

use serde::{Deserialize, Serialize};

use super::Colour;

/// Marks of one kind and colour.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Layer {
    /// Its name in the legend, or the label of a rule; without a name it has neither.
    pub name: String,
    /// Its colour.
    pub colour: Colour,
    /// Estimates and targets, in contrast to measurements: lines are dashed, areas and bars hatched.
    pub dashed: bool,
    /// Values of a line or a band hold until the next x.
    pub steps: bool,
    /// The marks.
    #[serde(flatten)]
    pub marks: Marks,
}

/// Marks of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Marks {
    /// A line through points, x rising; interrupted where y is none.
    Line {
        /// The points.
        points: Vec<(f64, Option<f64>)>,
        /// Whether they have markers.
        dots: bool,
        /// The markers.
        #[serde(default)]
        shape: Shape,
    },
    /// The area between two lines: percentiles, intervals.
    Ribbon {
        /// `(x, low, high)`, x rising.
        points: Vec<(f64, f64, f64)>,
    },
    /// Scattered points.
    Dots {
        /// The points.
        points: Vec<(f64, f64)>,
        /// Their marker.
        shape: Shape,
    },
    /// Regions.
    Area {
        /// Their closed outlines; holes run in the opposite direction.
        outlines: Vec<Vec<(f64, f64)>>,
    },
    /// Phases: intervals of the x axis, named above the panel.
    Spans {
        /// The intervals.
        spans: Vec<Span>,
    },
    /// A straight line across the panel with a label: a limit, a saturation point, an event.
    Rule {
        /// Position on its axis.
        at: f64,
        /// Vertical at an x; otherwise horizontal at a y.
        upright: bool,
    },
    /// A bar at each position of an axis of categories. Several layers stand side by side unless `base` stacks them.
    Bars {
        /// The bars.
        bars: Vec<Bar>,
    },
    /// A heat map: rectangles coloured by value, with a colour scale in the legend.
    Cells {
        /// The rectangles.
        cells: Vec<Cell>,
    },
}

impl Default for Marks {
    fn default() -> Self {
        Self::Line {
            points: Vec::new(),
            dots: false,
            shape: Shape::default(),
        }
    }
}

impl Layer {
    fn new(name: impl Into<String>, colour: Colour, marks: Marks) -> Self {
        Self {
            name: name.into(),
            colour,
            marks,
            ..Self::default()
        }
    }

    /// A solid line without markers.
    pub(in crate::report) fn line(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, Option<f64>)>,
        colour: Colour,
    ) -> Self {
        let marks = Marks::Line {
            points: points.into_iter().collect(),
            dots: false,
            shape: Shape::default(),
        };
        Self::new(name, colour, marks)
    }

    /// A translucent area between two lines.
    pub(in crate::report) fn ribbon(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64, f64)>,
        colour: Colour,
    ) -> Self {
        let points = points.into_iter().collect();
        Self::new(name, colour, Marks::Ribbon { points })
    }

    pub(in crate::report) fn dots(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
        colour: Colour,
        shape: Shape,
    ) -> Self {
        let points = points.into_iter().collect();
        Self::new(name, colour, Marks::Dots { points, shape })
    }

    pub(in crate::report) fn area(
        name: impl Into<String>,
        outlines: impl IntoIterator<Item = Vec<(f64, f64)>>,
        colour: Colour,
    ) -> Self {
        let outlines = outlines.into_iter().collect();
        Self::new(name, colour, Marks::Area { outlines })
    }

    pub(in crate::report) fn bars(
        name: impl Into<String>,
        bars: impl IntoIterator<Item = Bar>,
        colour: Colour,
    ) -> Self {
        let bars = bars.into_iter().collect();
        Self::new(name, colour, Marks::Bars { bars })
    }

    pub(in crate::report) fn spans(spans: Vec<Span>) -> Self {
        Self::new("", Colour::Quiet, Marks::Spans { spans })
    }

    /// A heat map; `name` says what the values are, with their unit.
    pub(in crate::report) fn cells(name: impl Into<String>, cells: Vec<Cell>) -> Self {
        Self::new(name, Colour::Quiet, Marks::Cells { cells })
    }

    /// A solid rule at an x.
    pub(in crate::report) fn vertical_rule(name: impl Into<String>, at: f64, colour: Colour) -> Self {
        Self::new(name, colour, Marks::Rule { at, upright: true })
    }

    /// A solid rule at a y.
    pub(in crate::report) fn horizontal_rule(name: impl Into<String>, at: f64, colour: Colour) -> Self {
        Self::new(name, colour, Marks::Rule { at, upright: false })
    }

    /// Dashes lines and rules, hatches areas and bars.
    pub(in crate::report) fn dashed(self, dashed: bool) -> Self {
        Self { dashed, ..self }
    }

    /// Makes values of a line or a ribbon hold until the next x.
    pub(in crate::report) fn stepped(self, steps: bool) -> Self {
        Self { steps, ..self }
    }

    /// Adds markers to a line.
    pub(in crate::report) fn with_markers(mut self, marker: Shape) -> Self {
        if let Marks::Line { dots, shape, .. } = &mut self.marks {
            (*dots, *shape) = (true, marker);
        }
        self
    }

    /// All its x values and all its y values.
    pub(super) fn values(&self) -> (Vec<f64>, Vec<f64>) {
        let (mut xs, mut ys) = (Vec::new(), Vec::new());
        let mut add = |x: &[f64], y: &[f64]| {
            xs.extend(x);
            ys.extend(y);
        };
        match &self.marks {
            Marks::Line { points, .. } => points.iter().for_each(|(x, y)| add(&[*x], y.as_slice())),
            Marks::Ribbon { points } => points.iter().for_each(|(x, low, high)| add(&[*x], &[*low, *high])),
            Marks::Dots { points, .. } => points.iter().for_each(|(x, y)| add(&[*x], &[*y])),
            Marks::Area { outlines } => outlines.iter().flatten().for_each(|(x, y)| add(&[*x], &[*y])),
            Marks::Spans { spans } => spans.iter().for_each(|span| add(&[span.from, span.to], &[])),
            Marks::Rule { at, upright: true } => add(&[*at], &[]),
            Marks::Rule { at, upright: false } => add(&[], &[*at]),
            Marks::Cells { cells } => cells
                .iter()
                .for_each(|cell| add(&<[f64; 2]>::from(cell.x), &<[f64; 2]>::from(cell.y))),
            Marks::Bars { bars } => bars.iter().for_each(|bar| {
                let (low, high) = bar.interval.unwrap_or((bar.value, bar.value));
                add(&[bar.at - 0.5, bar.at + 0.5], &[bar.base, bar.value, low, high]);
            }),
        }
        (xs, ys)
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
    /// The outline of a square.
    Square,
    /// The outline of a triangle.
    Triangle,
    /// A star, larger than the others.
    Star,
}

impl Shape {
    /// The marker of the series with this index: series do not differ by hue alone. Diamonds mark saturation points.
    pub(in crate::report) fn series(index: usize) -> Self {
        let all = [Self::Circle, Self::Cross, Self::Ring, Self::Square, Self::Triangle];
        all[index % all.len()]
    }
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
