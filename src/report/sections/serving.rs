//! The frontier of serving: output tokens/s of one user against those of one GPU, and $ per million output tokens, over
//! everything that was measured.

use std::cmp::Ordering;

use crate::compare::{Origin, Role, ServingPoint, dominated, serving_points};
use crate::fmt::{Unit, number};
use crate::report::Page;
use crate::report::document::{Block, Section};
use crate::report::plot::{
    Axis, Colour, Entry, Layer, MarkerShape, Marks, Panel, Plot, Sheet, TooltipPoint, Tooltips, text,
};
use crate::report::sections::source::Source;

/// The points of each input, under its name; a run alone has none.
type Served<'a> = [(&'a str, &'a [ServingPoint])];

/// A point, the name of its series, and whether another point dominates it.
type Placed<'a> = (&'a ServingPoint, &'a str, bool);

/// More workloads than this are left out, those with the fewest points first.
const MAX_WORKLOADS: usize = 4;

/// A table in the terminal has this many rows at most.
const MAX_ROWS: usize = 12;

/// The section of a run; none with fewer than two points.
pub(super) fn sections(source: &Source, _: &mut Vec<String>) -> Vec<Section> {
    let points = serving_points(source.found);
    serving_section("serving", &[("", &points)]).into_iter().collect()
}

/// The section of one or several inputs; none with fewer than two points of a workload.
pub fn serving_section(name: &str, served: &Served) -> Option<Section> {
    let plot = frontier(&format!("{name}-frontier"), served)?;
    Some(Section::new(name, "Users against GPUs").with([plot]))
}

/// The frontier for a terminal: its best points as a table, and its picture.
pub fn serving_sketch(served: &Served, page: Page) -> Vec<Block> {
    let Some(plot) = frontier("serving-frontier", served) else {
        return Vec::new();
    };
    let mut dots = plot.clone();
    for panel in &mut dots.panels {
        panel.layers.retain(|layer| matches!(layer.marks, Marks::Dots { .. }));
    }
    // The page and the CSV have the rest, and the command of each.
    let mut sheet = plot.sheet.clone().without("command");
    let whole = sheet.rows.len();
    sheet.rows.truncate(MAX_ROWS);
    let title = match whole - sheet.rows.len() {
        0 => plot.title.clone(),
        more => format!("{} ({more} more on the page)", plot.title),
    };
    vec![Block::Table(sheet.titled(title)), Block::Sketch(text(&dots, page))]
}

/// The plot, with its table; none with fewer than two points of a workload.
fn frontier(name: &str, served: &Served) -> Option<Plot> {
    let single = served.len() == 1;
    let named: Vec<(&ServingPoint, &str)> = served
        .iter()
        .flat_map(|(name, points)| {
            points
                .iter()
                .map(move |point| (point, if single { point.engine.as_str() } else { *name }))
        })
        .collect();
    let points: Vec<&ServingPoint> = named.iter().map(|(point, _)| *point).collect();
    let beaten = dominated(&points);
    let placed: Vec<Placed> = named
        .into_iter()
        .zip(beaten)
        .map(|((point, name), beaten)| (point, name, beaten))
        .collect();
    let mut workloads: Vec<(&str, Vec<Placed>)> = Vec::new();
    for one in placed {
        let Some(workload) = &one.0.workload else { continue };
        match workloads.iter_mut().find(|(name, _)| name == workload) {
            Some((_, points)) => points.push(one),
            None => workloads.push((workload, vec![one])),
        }
    }
    workloads.retain(|(_, points)| points.len() > 1);
    workloads.sort_by_key(|(_, points)| std::cmp::Reverse(points.len()));
    workloads.truncate(MAX_WORKLOADS);
    let mut names: Vec<&str> = Vec::new();
    for (_, name, _) in workloads.iter().flat_map(|(_, points)| points) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let several = workloads.len() > 1;
    let mut panels = Vec::new();
    for (workload, points) in &workloads {
        let of = if several {
            format!("{workload}: ")
        } else {
            String::new()
        };
        let y = Axis::new("output per GPU", Unit::TokensPerSecond);
        panels.extend(panel(format!("{of}tokens/s per GPU"), y, points, &names, |point| {
            point.per_gpu
        }));
        let y = Axis::new("$ for a million output tokens", Unit::Count);
        panels.extend(panel(format!("{of}cost"), y, points, &names, |point| point.cost));
    }
    let all: Vec<&Placed> = workloads.iter().flat_map(|(_, points)| points).collect();
    let best = all.iter().filter(|one| !one.2).count();
    let mut words = format!(
        "{best} of {} measured or forecast loads are on the frontier.",
        all.len()
    );
    for (point, ..) in all.iter().filter(|one| one.0.role == Some(Role::Chosen)) {
        words += &format!(
            " Chosen: {}{}, {} tokens/s per user{}.",
            prefixed(&point.settings),
            point.level,
            number(point.per_user),
            point
                .per_gpu
                .map_or_else(String::new, |per_gpu| format!(", {} tokens/s per GPU", number(per_gpu)))
        );
    }
    let caption = "Up is more from a GPU, or dearer; right is faster for each user (output tokens/s of all, shared among the \
                   concurrent requests; of whole loads, with ramp and drain). Grey is dominated: another load is better in one and no worse in the rest. Hollow was only \
                   simulated or forecast. Stars are the chosen points, squares the engine's defaults.";
    let plot = Plot::new(name, "Tokens/s per user against tokens/s per GPU", panels).with_alt(words, caption);
    let sheet = sheet(&all, single);
    (!plot.panels.is_empty()).then_some(Plot { sheet, ..plot })
}

/// One picture; none if fewer than two points have the value.
fn panel(
    title: String,
    y: Axis,
    points: &[Placed],
    names: &[&str],
    value: impl Fn(&ServingPoint) -> Option<f64>,
) -> Option<Panel> {
    let at = |point: &ServingPoint| Some((point.per_user, value(point)?));
    if points.iter().filter(|one| at(one.0).is_some()).count() < 2 {
        return None;
    }
    let hollow = |point: &ServingPoint| point.origin != Origin::Measured;
    let places = |wanted: &dyn Fn(&Placed) -> bool| -> Vec<(f64, f64)> {
        points
            .iter()
            .filter(|one| wanted(one))
            .filter_map(|one| at(one.0))
            .collect()
    };
    let mut line = places(&|one| !one.2 && one.0.origin != Origin::Forecast);
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    line.dedup_by(|a, b| a.0 == b.0);
    let line = line.into_iter().map(|(x, y)| (x, Some(y)));
    let mut layers = vec![Layer::line("frontier", line, Colour::Quiet)];
    let shapes = [
        (false, MarkerShape::Circle, ""),
        (true, MarkerShape::Ring, ", simulated"),
    ];
    for (is_hollow, shape, suffix) in shapes {
        let grey = places(&|one| one.2 && hollow(one.0) == is_hollow);
        layers.push(Layer::dots(format!("dominated{suffix}"), grey, Colour::Quiet, shape));
        for (index, name) in names.iter().enumerate() {
            let own = places(&|one| !one.2 && one.1 == *name && hollow(one.0) == is_hollow);
            layers.push(Layer::dots(
                format!("{name}{suffix}"),
                own,
                Colour::Series(index),
                shape,
            ));
        }
    }
    let marks = [
        (Role::Defaults, "defaults", Colour::Predicted, MarkerShape::Square),
        (Role::Chosen, "chosen", Colour::Recommended, MarkerShape::Star),
    ];
    for (role, name, colour, shape) in marks {
        layers.push(Layer::dots(
            name,
            places(&|one| one.0.role == Some(role)),
            colour,
            shape,
        ));
    }
    layers.retain(|layer| !layer.values().0.is_empty());
    let spots = points.iter().filter_map(|one| {
        let point = one.0;
        let entries = vec![
            one.1.into(),
            text_or_none(&point.settings),
            point.level.as_str().into(),
            point.per_gpu.into(),
            point.cost.into(),
            text_or_none(&standing(one)),
            point.command.clone().into(),
        ];
        Some(TooltipPoint::new(at(point)?, entries))
    });
    let columns = [
        "",
        "settings",
        "load",
        "output tokens/s per GPU",
        "$ per million output tokens",
        "",
        "command",
    ];
    let x = Axis::new("output per user", Unit::TokensPerSecond);
    Some(Panel::new(title, x, y, layers).with_tooltips(Tooltips::new(columns, spots)))
}

/// A row for each point, the most for a GPU first.
fn sheet(points: &[&Placed], single: bool) -> Sheet {
    let mut points = points.to_vec();
    points.sort_by(|a, b| {
        a.2.cmp(&b.2)
            .then(b.0.per_gpu.partial_cmp(&a.0.per_gpu).unwrap_or(Ordering::Equal))
    });
    let rows = points.into_iter().map(|one| {
        let point = one.0;
        [
            (if single { "engine" } else { "" }, one.1.into()),
            ("settings", text_or_none(&point.settings)),
            ("workload", point.workload.clone().into()),
            ("load", point.level.as_str().into()),
            ("tokens/s per user", Entry::from(point.per_user)),
            ("tokens/s per GPU", point.per_gpu.into()),
            ("$ per million", point.cost.into()),
            ("GPUs", point.gpus.map(|gpus| gpus as f64).into()),
            ("standing", text_or_none(&standing(one))),
            ("command", point.command.clone().into()),
        ]
    });
    Sheet::from_rows(rows).filled()
}

/// The standing of a point among the others: `chosen`, `defaults`, `dominated`; and how it is known, if it was not measured.
fn standing((point, _, beaten): &Placed) -> String {
    let mut words = Vec::new();
    words.extend(match point.role {
        Some(Role::Chosen) => Some("chosen"),
        Some(Role::Defaults) => Some("defaults"),
        None => None,
    });
    words.extend(beaten.then_some("dominated"));
    words.extend((point.origin == Origin::Forecast).then_some("forecast"));
    words.join(", ")
}

fn prefixed(settings: &str) -> String {
    if settings.is_empty() {
        String::new()
    } else {
        format!("{settings}, ")
    }
}

fn text_or_none(text: &str) -> Entry {
    (!text.is_empty()).then_some(text).into()
}
