//! Where memory went in each run, component by component.

use super::super::loads::tenths;
use super::super::{Section, Source};
use crate::memory::{Breakdown, Component, Footprint};
use crate::report::plot::{Axis, Bar, Colour, Entry, Layer, Panel, Plot, Sheet};
use crate::unit::Unit;

const GIB: f64 = 1_073_741_824.0;

/// The section; none for fewer than two breakdowns.
pub(super) fn section(named: &[(&str, &Source)]) -> Option<Section> {
    let mut all: Vec<(String, Breakdown)> = Vec::new();
    for (name, source) in named {
        let breakdowns = &source.found.breakdowns;
        for (what, value) in breakdowns {
            let Ok(footprint) = serde_json::from_value::<Footprint>(value.clone()) else {
                continue;
            };
            let label = if breakdowns.len() > 1 {
                format!("{name}, {what}")
            } else {
                (*name).to_owned()
            };
            all.push((label, footprint.all));
        }
    }
    if all.len() < 2 {
        return None;
    }
    let plot = plot(&all);
    Some(Section {
        name: "together-memory".to_owned(),
        title: "Where memory goes".to_owned(),
        paragraphs: vec![plot.words.clone()],
        plots: vec![plot],
        ..Section::default()
    })
}

fn bytes(of: &Breakdown, component: Component) -> Option<f64> {
    let section = of.parts.iter().find(|section| section.component == component)?;
    Some(section.bytes as f64)
}

fn total(of: &Breakdown) -> f64 {
    of.total as f64
}

fn plot(all: &[(String, Breakdown)]) -> Plot {
    let components: Vec<Component> = Component::ALL
        .into_iter()
        .filter(|component| {
            all.iter()
                .any(|(_, one)| bytes(one, *component).is_some_and(|bytes| bytes != 0.0))
        })
        .collect();
    let names: Vec<String> = components
        .iter()
        .map(|component| {
            component
                .name()
                .replace('_', " ")
                .replace("kv ", "KV ")
                .replace("cuda ", "CUDA ")
        })
        .collect();
    let layers = all.iter().enumerate().map(|(index, (name, one))| Layer::Bars {
        name: name.clone(),
        bars: (0_u32..)
            .map(f64::from)
            .zip(&components)
            .filter_map(|(at, component)| {
                Some(Bar {
                    at,
                    value: bytes(one, *component)?,
                    ..Bar::default()
                })
            })
            .collect(),
        colour: Colour::Series(u8::try_from(index).unwrap_or(u8::MAX)),
        hatched: false,
    });
    let sentences = all
        .iter()
        .map(|(name, one)| format!("{name}: {} GiB in all.", tenths(total(one) / GIB)));
    let columns = std::iter::once("run".to_owned())
        .chain(names.iter().map(|name| format!("{name}, GiB")))
        .chain(["in all, GiB".to_owned()]);
    let rows = all.iter().map(|(name, one)| {
        let parts = components
            .iter()
            .map(|component| bytes(one, *component).map(|bytes| bytes / GIB).into());
        std::iter::once(Entry::from(name.as_str()))
            .chain(parts)
            .chain([(total(one) / GIB).into()])
            .collect()
    });
    Plot {
        name: "together-memory-parts".to_owned(),
        title: "Memory by component".to_owned(),
        words: sentences.collect::<Vec<_>>().join(" "),
        caption: "KV used lies within the KV pool where there is one. All devices of an engine together.".to_owned(),
        sheet: Sheet {
            title: String::new(),
            columns: columns.collect(),
            rows: rows.collect(),
        },
        panels: vec![Panel {
            x: Axis {
                names,
                ..Axis::default()
            },
            y: Axis {
                label: "memory".to_owned(),
                unit: Unit::Bytes,
                ..Axis::default()
            },
            layers: layers.collect(),
            ..Panel::default()
        }],
        ..Plot::default()
    }
}
