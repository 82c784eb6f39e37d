//! A picture on the page: drawn wide and narrow, said in words, as a table, and as data for the script.

use minijinja::Value;
use serde::Serialize;
use serde_json::json;

use super::columns::{Columns, number};
use super::table::Table;
use crate::report::plot::{Axis, Corner, Drawing, Ground, Plot, Scale, Width, panel, svg};
use crate::run::hide;

/// From which share of its two ends on an axis is worth seeing on the other scale too.
const SPREAD: f64 = 4.0;

/// A figure.
#[derive(Serialize)]
pub(super) struct Figure {
    id: String,
    title: String,
    /// Whether the heading of its part says the same already: then it is only read aloud.
    pub(super) titled_above: bool,
    words: String,
    caption: String,
    slider: Option<String>,
    panels: Vec<String>,
    views: Vec<View>,
    /// What the other scale is called, where there is one.
    other: Option<&'static str>,
    table: Option<Table>,
    /// JSON within a script element.
    data: Value,
}

/// The whole picture, or one of its panels, on one of two scales.
#[derive(Serialize)]
struct View {
    /// The panel that the slider must be at; none for the whole picture.
    panel: Option<usize>,
    /// 0 as it was made, 1 on the other scale.
    scale: usize,
    wide: Value,
    narrow: Value,
    /// Where its panels are, for the script.
    #[serde(skip)]
    frames: serde_json::Value,
}

impl Figure {
    /// `heading` is that of its part.
    pub(super) fn of(plot: &Plot, id: &str, heading: &str) -> Self {
        let slider = plot.slider.clone().filter(|_| plot.panels.len() > 1);
        let named = |plot: &Plot, name: String| Plot { name, ..plot.clone() };
        let mut views = views(&named(plot, id.to_owned()), 0, slider.is_some());
        let other = other_scale(plot);
        if let Some((plot, _)) = &other {
            views.extend(self::views(&named(plot, format!("{id}-other")), 1, slider.is_some()));
        }
        let table = (!plot.sheet.columns.is_empty()).then(|| Table::of_figure(&plot.sheet));
        Self {
            id: id.to_owned(),
            title: plot.title.clone(),
            titled_above: plot.title == heading,
            words: plot.words.clone(),
            caption: plot.caption.clone(),
            slider,
            panels: plot.panels.iter().map(|panel| panel.title.clone()).collect(),
            other: other.map(|(_, name)| name),
            table,
            data: Value::from_safe_string(data(plot, &views)),
            views,
        }
    }
}

/// The whole picture, and with a slider each of its panels.
fn views(plot: &Plot, scale: usize, each: bool) -> Vec<View> {
    let all = if plot.panels.is_empty() { 0 } else { 1 };
    let whole = std::iter::repeat_n(None, all);
    let panels = (0..if each { plot.panels.len() } else { 0 }).map(Some);
    let view = |at: Option<usize>| {
        let drawn = |width: Width| match at {
            Some(index) => panel(plot, index, width),
            None => svg(plot, width),
        };
        let (wide, narrow) = (drawn(Width::Wide), drawn(Width::Narrow));
        let place = |drawing: &Drawing| json!({ "size": drawing.size, "frames": drawing.frames });
        let panels: Vec<usize> = at.map_or_else(|| (0..plot.panels.len()).collect(), |index| vec![index]);
        View {
            panel: at,
            scale,
            frames: json!({ "panels": panels, "wide": place(&wide), "narrow": place(&narrow) }),
            wide: safe(&wide.svg),
            narrow: safe(&narrow.svg),
        }
    };
    whole.chain(panels).map(view).collect()
}

/// A drawing escapes what it is given; what must be hidden is hidden here.
fn safe(svg: &str) -> Value {
    Value::from_safe_string(hide(svg).into_owned())
}

/// A boundary with its axes on the other scale, and what that is called; none where an axis reaches 0, or is too short to be worth it.
fn other_scale(plot: &Plot) -> Option<(Plot, &'static str)> {
    let bounded = |panel: &crate::report::plot::Panel| panel.ground.is_some();
    if !plot.panels.iter().any(bounded) {
        return None;
    }
    let worth =
        |axis: &Axis| axis.names.is_empty() && axis.range.is_some_and(|(low, high)| low > 0.0 && high / low >= SPREAD);
    let mut other = plot.clone();
    let mut turned = None;
    for axis in other
        .panels
        .iter_mut()
        .flat_map(|panel| [&mut panel.x, &mut panel.y])
        .filter(|axis| worth(axis))
    {
        axis.scale = match axis.scale {
            Scale::Linear => Scale::Log,
            Scale::Log => Scale::Linear,
        };
        turned = Some(if axis.scale == Scale::Log {
            "Logarithmic axes"
        } else {
            "Linear axes"
        });
    }
    Some((other, turned?))
}

/// What the script reads: `columns` of everything, `panels` with their places and what proves what lies between, the `table` and its rows, and
/// where each of the `views` has its panels.
fn data(plot: &Plot, views: &[View]) -> String {
    let mut columns = Columns::default();
    let places = columns.places(&plot.panels);
    let panels = plot.panels.iter().zip(places).map(|(panel, places)| {
        let axis = |axis: &Axis| json!([axis.label, axis.unit, axis.names]);
        json!({
            "title": panel.title,
            "x": axis(&panel.x),
            "y": axis(&panel.y),
            "places": places,
            "ground": panel.ground.as_ref().map(ground),
        })
    });
    let panels: Vec<_> = panels.collect();
    let long = Table::of_figure(&plot.sheet).is_long();
    let table = if long { columns.sheet(&plot.sheet) } else { Vec::new() };
    let frames: Vec<_> = views.iter().map(|view| &view.frames).collect();
    let data = json!({ "panels": panels, "views": frames, "table": table, "rows": plot.sheet.rows.len(), "columns": columns.into_values() });
    // The only letter that could end the element that it stands in.
    hide(&data.to_string()).replace('<', "\\u003c")
}

fn ground(ground: &Ground) -> serde_json::Value {
    let corners = |corners: &[Corner]| -> Vec<_> {
        let corner = |corner: &Corner| json!([number(corner.at.0), number(corner.at.1), corner.words]);
        corners.iter().map(corner).collect()
    };
    let lines = |lines: &[Vec<(f64, f64)>]| -> Vec<Vec<_>> {
        let line = |line: &Vec<(f64, f64)>| line.iter().map(|(x, y)| json!([number(*x), number(*y)])).collect();
        lines.iter().map(line).collect()
    };
    json!({
        "rising": ground.rising, "fits": corners(&ground.fits), "fails": corners(&ground.fails), "clips": corners(&ground.clips),
        "band": lines(&ground.band), "predicted": lines(&ground.predicted),
    })
}
