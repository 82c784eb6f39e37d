//! Cost of tokens by level: money if a price was given, and energy if power was measured.

use super::super::format::{list, number};
use super::shared::{finding_marks, sweep_panel};
use super::sweep::{LoadValue, Sweep, SweepLevel};
use crate::load::engine_side::SweepFindings;
use crate::report::plot::{Axis, Colour, Layer, Panel, Plot, Scale, Sheet};
use crate::unit::Unit;

const MONEY: [(&str, LoadValue); 2] = [
    ("output tokens", |load| load.cost.per_million_output),
    ("input and output tokens", |load| load.cost.per_million_total),
];
const ENERGY: [(&str, LoadValue); 2] = [
    ("output tokens", |load| load.cost.wh_per_million_output),
    ("input and output tokens", |load| load.cost.wh_per_million_total),
];

/// The chart; none if neither is known.
pub(super) fn plot(sweep: &Sweep, findings: &SweepFindings, name: String) -> Option<Plot> {
    let price = sweep
        .levels
        .iter()
        .flat_map(|level| &level.loads)
        .find_map(|load| load.cost.price_per_hour);
    let panels = [
        ("$ per million tokens", &MONEY),
        ("energy per million tokens, Wh", &ENERGY),
    ];
    let panels: Vec<Panel> = panels
        .into_iter()
        .filter_map(|(title, curves)| panel(sweep, findings, title, curves))
        .collect();
    if panels.is_empty() {
        return None;
    }
    let caption = price.map_or_else(String::new, |price| {
        format!(
            "At ${} per hour for all GPUs together. Each curve divides the full price: they are two views, not parts of a sum.",
            number(price)
        )
    });
    Some(Plot {
        name,
        title: "What a million tokens cost".to_owned(),
        words: alt_text(sweep),
        caption,
        panels,
        sheet: sheet(sweep),
        ..Plot::default()
    })
}

fn panel(sweep: &Sweep, findings: &SweepFindings, title: &str, curves: &[(&str, LoadValue); 2]) -> Option<Panel> {
    let mut layers = finding_marks(findings, true);
    let before = layers.len();
    for (index, (name, cost)) in curves.iter().enumerate() {
        let points = sweep.points(|level| level.mean(cost).filter(|cost| *cost > 0.0));
        if points.iter().any(|point| point.1.is_some()) {
            layers.push(Layer::line(*name, points, Colour::series(index)).with_markers());
        }
    }
    let first = curves[0].1;
    (layers.len() > before).then(|| {
        sweep_panel(
            title,
            &[sweep],
            Axis::new("", Unit::Count).with_scale(Scale::Log),
            layers,
            |level| level.mean(first).filter(|cost| *cost > 0.0),
        )
    })
}

/// The cheapest and the most expensive level.
fn alt_text(sweep: &Sweep) -> String {
    let sentences = [(MONEY[0].1, "$", "", "costs"), (ENERGY[0].1, "", " Wh", "takes")]
        .into_iter()
        .filter_map(|(cost, sign, unit, verb)| {
            let known: Vec<(&SweepLevel, f64)> = sweep
                .levels
                .iter()
                .filter_map(|level| Some((level, level.mean(cost)?)))
                .collect();
            let (cheapest, low) = known.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
            let (most_expensive, high) = known.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            Some(format!(
                "{verb} least at {}, {sign}{}{unit}, and most at {}, {sign}{}{unit}",
                sweep.level_text(cheapest.at),
                number(*low),
                sweep.level_text(most_expensive.at),
                number(*high)
            ))
        });
    let sentences: Vec<String> = sentences.collect();
    format!("A million output tokens {}.", list(&sentences))
}

fn sheet(sweep: &Sweep) -> Sheet {
    let columns = [
        "$/1M output tokens",
        "$/1M total tokens",
        "Wh per 1M output tokens",
        "Wh per 1M total tokens",
    ];
    let all: Vec<(&str, LoadValue)> = columns
        .into_iter()
        .zip(MONEY.iter().chain(&ENERGY).map(|one| one.1))
        .collect();
    let known: Vec<&(&str, LoadValue)> = all
        .iter()
        .filter(|(_, cost)| sweep.levels.iter().any(|level| level.mean(cost).is_some()))
        .collect();
    let head = std::iter::once(sweep.axis.name());
    Sheet::new(
        head.chain(known.iter().map(|one| one.0)),
        sweep.levels.iter().map(|level| {
            std::iter::once(level.at.into())
                .chain(known.iter().map(|one| level.mean(one.1).into()))
                .collect()
        }),
    )
}
