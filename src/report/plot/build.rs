//! Constructors of plots and their parts.

use super::{Axis, Bar, Colour, Entry, Layer, Note, Panel, Plot, Scale, Shape, Sheet, TooltipPoint, Tooltips};
use crate::unit::Unit;

impl Axis {
    /// A linear axis over what the layers need.
    pub(in crate::report) fn new(label: impl Into<String>, unit: Unit) -> Self {
        Self {
            label: label.into(),
            unit,
            ..Self::default()
        }
    }

    /// An axis of categories.
    pub(in crate::report) fn categories(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            names: names.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(in crate::report) fn with_range(self, range: impl Into<Option<(f64, f64)>>) -> Self {
        Self {
            range: range.into(),
            ..self
        }
    }

    pub(in crate::report) fn with_scale(self, scale: Scale) -> Self {
        Self { scale, ..self }
    }
}

impl Colour {
    /// The colour of the series with this index.
    pub(in crate::report) fn series(index: usize) -> Self {
        Self::Series(u8::try_from(index).unwrap_or(u8::MAX))
    }
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

    /// Hatches areas or bars.
    pub(in crate::report) fn hatched(mut self, on: bool) -> Self {
        if let Self::Area { hatched, .. } | Self::Bars { hatched, .. } = &mut self {
            *hatched = on;
        }
        self
    }
}

impl Sheet {
    /// A table without a title.
    pub(in crate::report) fn new(
        columns: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<Entry>>,
    ) -> Self {
        Self {
            title: String::new(),
            columns: columns.into_iter().map(Into::into).collect(),
            rows: rows.into_iter().collect(),
        }
    }

    pub(in crate::report) fn titled(self, title: impl Into<String>) -> Self {
        Self {
            title: title.into(),
            ..self
        }
    }
}

impl Tooltips {
    pub(in crate::report) fn new(
        columns: impl IntoIterator<Item = impl Into<String>>,
        points: impl IntoIterator<Item = TooltipPoint>,
    ) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            spots: points.into_iter().collect(),
        }
    }
}

impl Plot {
    /// A plot of panels, one below the other, without words and table.
    pub(in crate::report) fn new(
        name: impl Into<String>,
        title: impl Into<String>,
        panels: impl IntoIterator<Item = Panel>,
    ) -> Self {
        Self {
            name: name.into(),
            title: title.into(),
            panels: panels.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Sets its text alternative and its caption.
    pub(in crate::report) fn with_words(self, words: impl Into<String>, caption: impl Into<String>) -> Self {
        Self {
            words: words.into(),
            caption: caption.into(),
            ..self
        }
    }

    /// Adds the same data as a table.
    pub(in crate::report) fn with_sheet(self, sheet: Sheet) -> Self {
        Self { sheet, ..self }
    }
}

impl Panel {
    /// A panel without tooltips and labels of points.
    pub(in crate::report) fn new(
        title: impl Into<String>,
        x: Axis,
        y: Axis,
        layers: impl IntoIterator<Item = Layer>,
    ) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            layers: layers.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(in crate::report) fn with_tooltips(self, spots: Tooltips) -> Self {
        Self { spots, ..self }
    }

    pub(in crate::report) fn with_notes(self, notes: Vec<Note>) -> Self {
        Self { notes, ..self }
    }
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

impl TooltipPoint {
    pub(in crate::report) fn new(at: (f64, f64), entries: impl Into<Vec<Entry>>) -> Self {
        Self {
            at,
            entries: entries.into(),
        }
    }
}

impl Note {
    pub(in crate::report) fn new(at: (f64, f64), label: impl Into<String>) -> Self {
        Self {
            at,
            label: label.into(),
        }
    }
}
