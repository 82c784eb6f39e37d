//! Plots as data: panels with axes and layers, a text alternative, and tooltips. Reports build a [`Plot`]; it is drawn
//! as SVG for the page and as SVG or PNG file (`layout`), or as text (`text`).
//!
//! Pure: reads and writes no files. Colours are roles ([`Colour`]), so that one plot works on light, dark and paper
//! backgrounds.

mod layout;
mod marks;
mod scale;
mod style;
mod svg;
mod text;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use layout::{Drawing, Width, file, panel, png, svg};
pub(in crate::report) use scale::AxisLayout;
pub use scale::{AxisScale, unit_name};
pub use style::css;
pub use svg::{Frame, Rect};
pub(in crate::report) use text::{canvas, canvas_columns};
pub use text::{max_per_column, progress_bar, reduced, sparkline, text};

pub use super::sheet::{Entry, Sheet};
pub use crate::boundary::Scale;
use crate::fmt::Unit;

/// A plot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plot {
    /// File name and anchor: `a-z`, `0-9` and `-`; unique within a report.
    pub name: String,
    /// The title, without a full stop: `Largest input and output that fit`.
    pub title: String,
    /// Text alternative: sentences with the figures that matter, read aloud instead of the plot.
    pub alt: String,
    /// Notes for reading the plot; may be empty.
    pub caption: String,
    /// The panels: one below the other, or, with `slider`, one at a time.
    pub panels: Vec<Panel>,
    /// The quantity that varies between the panels (`concurrency`), if they are slices of one space. On the page a
    /// slider selects one; on paper and in files all are drawn, one below the other.
    pub slider: Option<String>,
    /// The plot's data as a table.
    pub sheet: Sheet,
}

/// A pair of axes and the layers between them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Panel {
    /// The title, which distinguishes the panel from others: `GPU 0`, or the slider's value; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The layers, the lowest first.
    pub layers: Vec<Layer>,
    /// Tooltips of single points.
    pub spots: Tooltips,
    /// Labels of single points, each with its position on the axes; labels without room are left out.
    pub notes: Vec<((f64, f64), String)>,
    /// True for a secondary panel, which is drawn less high.
    pub low: bool,
}

impl Plot {
    /// A plot of panels, one below the other, without alternative text and table.
    pub fn new(name: impl Into<String>, title: impl Into<String>, panels: impl IntoIterator<Item = Panel>) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            panels: panels.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets its text alternative and its caption.
    pub fn with_alt(self, alt: impl Into<String>, caption: impl Into<String>) -> Self {
        Self {
            alt: alt.into(),
            caption: caption.into(),
            ..self
        }
    }
}

impl Panel {
    /// A panel without tooltips and labels of points.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis, layers: impl IntoIterator<Item = Layer>) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            layers: layers.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Adds tooltips.
    pub fn with_tooltips(self, spots: Tooltips) -> Self {
        Self { spots, ..self }
    }

    /// Adds labels of points.
    pub fn with_notes(self, notes: Vec<((f64, f64), String)>) -> Self {
        Self { notes, ..self }
    }
}

/// An axis. Values are in `unit`; ticks are shown in a readable multiple (bytes as GiB).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Axis {
    /// The quantity: `output length`. The unit is added from `unit`.
    pub label: String,
    /// The unit of the values.
    pub unit: Unit,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// First and last value; by default the range that the layers need.
    pub range: Option<(f64, f64)>,
    /// Names of the positions 0, 1, 2, … of an axis of categories; empty for a numeric axis.
    pub names: Vec<String>,
}

impl Axis {
    /// A linear axis over the range that the layers need.
    pub fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self {
            label: label.into(),
            unit,
            ..Self::default()
        }
    }

    /// An axis of categories.
    pub fn categories(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            names: names.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets the first and the last value, if they are known.
    pub fn with_range(self, range: impl Into<Option<(f64, f64)>>) -> Self {
        Self {
            range: range.into(),
            ..self
        }
    }

    /// Sets its scale.
    pub fn with_scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }
}

/// The role of a colour. Roles also differ by shape, dash, pattern or label, never by hue alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Colour {
    /// Proven to fit.
    Fits,
    /// Proven to fail.
    Fails,
    /// Unknown.
    Open,
    /// Predicted to fit, not proven.
    Predicted,
    /// Results contradict each other.
    Band,
    /// The recommended point.
    Recommended,
    /// A limit that must not be exceeded; deaths.
    Limit,
    /// Background information: phases, grids, estimates.
    #[default]
    Quiet,
    /// One of several series, from 0. Eight have a colour of their own, then colours repeat with another dash.
    Series(usize),
}

/// Points with a tooltip. There may be 10,000 of them; repeated texts are stored once on the page.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tooltips {
    /// Heading of each entry, with its unit: `input`, `verdict`, `evidence`, `peak, GiB`.
    pub columns: Vec<String>,
    /// The points, in the order of keyboard navigation.
    pub spots: Vec<TooltipPoint>,
}

impl Tooltips {
    /// Points with these entries.
    pub fn new(
        columns: impl IntoIterator<Item = impl Into<String>>,
        points: impl IntoIterator<Item = TooltipPoint>,
    ) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            spots: points.into_iter().collect(),
        }
    }
}

/// A point and the values shown in its tooltip.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TooltipPoint {
    /// Position on the panel's axes.
    pub at: (f64, f64),
    /// One value for each of `columns`; [`Entry::None`] is not shown.
    pub entries: Vec<Entry>,
}

impl TooltipPoint {
    /// A point with these values.
    pub fn new(at: (f64, f64), entries: impl Into<Vec<Entry>>) -> Self {
        Self {
            at,
            entries: entries.into(),
        }
    }
}

/// Marks of one kind and colour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    /// Its name in the legend, or the label of a rule; without a name it has neither.
    #[serde(default)]
    pub name: String,
    /// Its colour.
    #[serde(default)]
    pub colour: Colour,
    /// Estimates and targets, in contrast to measurements: lines are dashed, areas and bars hatched.
    #[serde(default)]
    pub dashed: bool,
    /// Values of a line or a band hold until the next x.
    #[serde(default)]
    pub steps: bool,
    /// The marks.
    #[serde(flatten)]
    pub marks: Marks,
}

/// Marks of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Marks {
    /// A line through points, x rising; interrupted where y is `None`.
    Line {
        /// The points.
        points: Vec<(f64, Option<f64>)>,
        /// Whether they have markers.
        dots: bool,
        /// The markers.
        #[serde(default)]
        shape: MarkerShape,
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
        shape: MarkerShape,
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
        cells: Vec<HeatCell>,
    },
}

impl Layer {
    /// Solid marks.
    pub fn new(name: impl Into<String>, colour: Colour, marks: Marks) -> Self {
        Self {
            name: name.into(),
            colour,
            dashed: false,
            steps: false,
            marks,
        }
    }

    /// A solid line without markers.
    pub fn line(name: impl Into<String>, points: impl IntoIterator<Item = (f64, Option<f64>)>, colour: Colour) -> Self {
        let marks = Marks::Line {
            points: points.into_iter().collect(),
            dots: false,
            shape: MarkerShape::Circle,
        };
        Self::new(name, colour, marks)
    }

    /// Markers at points.
    pub fn dots(
        name: impl Into<String>,
        points: impl IntoIterator<Item = (f64, f64)>,
        colour: Colour,
        shape: MarkerShape,
    ) -> Self {
        let points = points.into_iter().collect();
        Self::new(name, colour, Marks::Dots { points, shape })
    }

    /// Bars of one series.
    pub fn bars(name: impl Into<String>, bars: impl IntoIterator<Item = Bar>, colour: Colour) -> Self {
        let bars = bars.into_iter().collect();
        Self::new(name, colour, Marks::Bars { bars })
    }

    /// A solid rule at an x.
    pub fn vertical_rule(name: impl Into<String>, at: f64, colour: Colour) -> Self {
        Self::new(name, colour, Marks::Rule { at, upright: true })
    }

    /// A solid rule at a y.
    pub fn horizontal_rule(name: impl Into<String>, at: f64, colour: Colour) -> Self {
        Self::new(name, colour, Marks::Rule { at, upright: false })
    }

    /// Dashes lines and rules, hatches areas and bars.
    pub fn dashed(self, dashed: bool) -> Self {
        Self { dashed, ..self }
    }

    /// Makes values of a line or a ribbon hold until the next x.
    pub fn stepped(self, steps: bool) -> Self {
        Self { steps, ..self }
    }

    /// Adds markers to a line.
    pub fn with_markers(mut self, marker: MarkerShape) -> Self {
        if let Marks::Line { dots, shape, .. } = &mut self.marks {
            (*dots, *shape) = (true, marker);
        }
        self
    }

    /// All its x values and all its y values.
    pub fn values(&self) -> (Vec<f64>, Vec<f64>) {
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
pub enum MarkerShape {
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

impl MarkerShape {
    /// The marker of the series with this index: series do not differ by hue alone. Diamonds mark saturation points.
    pub fn series(index: usize) -> Self {
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
    pub fn new(category: usize, value: f64) -> Self {
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
pub struct HeatCell {
    /// Left and right edge.
    pub x: (f64, f64),
    /// Lower and upper edge.
    pub y: (f64, f64),
    /// Its value.
    pub value: f64,
}

#[cfg(test)]
mod sheet_tests {
    use super::*;

    #[test]
    fn a_transposed_table_has_a_row_for_each_column() {
        let sheet = Sheet {
            title: "x".to_owned(),
            columns: vec!["level".to_owned(), "speed".to_owned()],
            rows: vec![vec![1.0.into(), 5.5.into()], vec![8.0.into(), Entry::None]],
            ..Sheet::default()
        };
        let transposed = sheet.transposed();
        assert_eq!(transposed.columns, ["level", "1", "8"]);
        assert_eq!(transposed.rows, [["speed".into(), 5.5.into(), Entry::None]]);
    }
}
