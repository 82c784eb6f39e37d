//! Where memory goes: the finding, a table in GiB with a column for each device and the estimate if there is one, the
//! source of each number, and a stack of the components.

use serde_json::Value;

use crate::experiment::is_negligible;
use crate::fmt::{GIB, Gib, Unit, gib_number, rounded, signed, with_blanks, without_negative_zero};
use crate::memory::{Breakdown, Component, Footprint};
use crate::report::document::Section;
use crate::report::plot::{Axis, Bar, Colour, Entry, Layer, Panel, Plot, Sheet, TooltipPoint, Tooltips};
use crate::report::sections::memory::{Device, SIMULATED, devices_of, memory_top};
use crate::report::sections::source::Source;
use crate::report::{Block, Bytes, Fact, Page, Weight};

/// With more devices than this, the table shows the lowest and the highest value instead of each.
const MAX_DEVICE_COLUMNS: usize = 4;

/// Maximum number of components that the finding names after the largest.
const MAX_NAMED: usize = 3;

/// Width of a column of figures in the terminal, including its gap, and of all other columns together.
const FIGURE: usize = 10;
const REST: usize = 22 + 17 + 9;

/// Minimum share of a stack at which a component is labelled. The label of a thinner part would hide its neighbours.
const MIN_LABELLED: f64 = 0.03;

/// One section with the breakdowns.
pub(super) fn sections(source: &Source, _: &mut Vec<String>) -> Vec<Section> {
    let found = source.found;
    let simulated = (found.manifest.simulated).then(|| SIMULATED.to_owned());
    let mut section = Section::new("breakdown", "Where memory goes").with(simulated);
    for (index, (name, footprint)) in found.footprints().enumerate() {
        let ids = footprint
            .per_gpu
            .iter()
            .map(|device| device.device.as_deref().unwrap_or_default());
        let devices = devices_of(&ids.collect::<Vec<_>>(), found);
        let labels: Vec<String> = devices.iter().map(|device| format!("{}, GiB", device.label)).collect();
        let mut blocks = blocks(name, &footprint, &labels, MAX_DEVICE_COLUMNS);
        let mut plot = plot(&footprint, &devices, found.manifest.simulated);
        plot.name = format!("breakdown-{}", index + 1);
        plot.title = format!("Where the memory of {name} goes");
        blocks.insert(1, plot.into());
        section = section.with(blocks);
    }
    match section.plots()[..] {
        [] => return Vec::new(),
        [only] => section.title = only.title.clone(),
        _ => {}
    }
    vec![section]
}

/// The breakdown called `name` for the terminal.
pub fn breakdown(name: &str, footprint: &Footprint, page: Page) -> Vec<Block> {
    let devices = &footprint.per_gpu;
    let labels: Vec<String> = (0..devices.len()).map(|index| format!("[{index}]")).collect();
    let estimate = if footprint.estimate().is_some() { 2 } else { 0 };
    let most = page.width.saturating_sub(REST + (1 + estimate) * FIGURE) / FIGURE;
    let mut blocks = blocks(name, footprint, &labels, most);
    if devices.len() > 1 {
        let named = labels
            .iter()
            .zip(devices)
            .map(|(label, device)| Fact::new(label, device.device.as_deref().unwrap_or("not named")));
        // Below the table.
        blocks.insert(2, Block::Facts(named.collect()));
    }
    blocks
}

/// The finding, the table, the sources of its figures, and the texts that the script recorded. Up to `most` devices get
/// a column each.
fn blocks(name: &str, footprint: &Footprint, labels: &[String], most: usize) -> Vec<Block> {
    let (sheet, sources) = table(footprint, labels, most);
    let mut details = detail_lines(&footprint.details);
    // A script that could not make an estimate says why.
    let has_reason = footprint.details.get("estimate").is_some_and(Value::is_string);
    if footprint.details.is_object() && footprint.estimate().is_none() && !has_reason {
        let how = "`architecture=true` makes one where the model's config.json can be read";
        details.push(format!("no estimate was recorded ({how})"));
    }
    let mut blocks = vec![
        Block::Paragraph(format!("memory of {name}: {}", finding(footprint))),
        Block::Table(sheet),
    ];
    blocks.extend(Block::list("where the figures come from", sources, Weight::Normal));
    blocks.extend(Block::list("details", details, Weight::Normal));
    blocks
}

/// `weights 15.0 GiB of 21.6 GiB used; KV cache 4.1 GiB; activations 1.2 GiB; 0.3 GiB unaccounted`.
pub fn finding(footprint: &Footprint) -> String {
    let all = &footprint.all;
    // A sentence uses only one unit, so that its figures can be compared.
    let (size, unit) = if all.total >= 1 << 30 {
        (GIB, "GiB")
    } else {
        (GIB / 1024.0, "MiB")
    };
    let figure = |bytes: u64| {
        let value = bytes as f64 / size;
        let decimals = if value < 0.1 { 2 } else { 1 };
        format!("{value:.decimals$} {unit}")
    };
    let bytes = |bytes: i64| figure(bytes.unsigned_abs());
    let mut parts: Vec<_> = all.parts.iter().collect();
    parts.retain(|part| part.within.is_none() && part.bytes > 0 && part.component != Component::Unexplained);
    parts.sort_by_key(|part| -part.bytes);
    let mut texts: Vec<String> = parts
        .into_iter()
        .take(1 + MAX_NAMED)
        .map(|part| format!("{} {}", part.component.title(), bytes(part.bytes)))
        .collect();
    let total = format!("{} used", figure(all.total));
    match texts.first_mut() {
        Some(first) => *first = format!("{first} of {total}"),
        None => texts.push(total),
    }
    let left = all.unexplained();
    let used = all.total as f64;
    if !is_negligible(used, used - left as f64, Unit::Bytes) {
        texts.push(match left {
            below if below < 0 => format!("the components exceed the total by {}", bytes(below)),
            left => format!("{} unaccounted", bytes(left)),
        });
    }
    if let Some(overhead) = &footprint.overhead {
        texts.push(format!("{} {}", overhead.title(), bytes(overhead.bytes)));
    }
    texts.join("; ")
}

/// The table, with a row for each component, the total, and the overhead of tensor parallelism; and sentences with the
/// sources of the figures. The columns are the sum over all devices; each device, or the lowest and the highest value
/// if there are more than `most` devices; the estimate with its error; the share; and the source.
fn table(footprint: &Footprint, labels: &[String], most: usize) -> (Sheet, Vec<String>) {
    let all = &footprint.all;
    let estimate = footprint.estimate();
    let devices = &footprint.per_gpu;
    let mut columns = vec![("all, GiB".to_owned(), vec![all])];
    match devices.len() {
        0 | 1 => columns[0].0 = "GiB".to_owned(),
        some if some <= most => columns.extend(
            labels
                .iter()
                .zip(devices)
                .map(|(label, one)| (label.clone(), vec![one])),
        ),
        _ => columns.extend(["lowest", "highest"].map(|name| (name.to_owned(), devices.iter().collect()))),
    }
    // Small engines, such as llama.cpp on the CPU, need more digits.
    let decimals = match all.total >> 30 {
        0 => 4,
        1..16 => 3,
        _ => 2,
    };
    let gib = |bytes: i64| without_negative_zero(format!("{:.decimals$}", bytes as f64 / GIB));
    let share =
        |bytes: i64| without_negative_zero(format!("{:.1}", 100.0 * bytes as f64 / all.total.max(1) as f64)) + " %";
    let row = |title: &str, bytes: &dyn Fn(&Breakdown) -> Option<i64>, expected: Option<i64>, sources: [Entry; 2]| {
        let mut row = vec![Entry::from(title)];
        row.extend(columns.iter().map(|(heading, breakdowns)| {
            let known = breakdowns.iter().filter_map(|one| bytes(one));
            Entry::from(if heading == "lowest" { known.min() } else { known.max() }.map(gib))
        }));
        if estimate.is_some() {
            let off = bytes(all)
                .zip(expected)
                .map(|(found, expected)| signed(gib(found - expected)));
            row.extend([expected.map(gib).into(), off.into()]);
        }
        row.extend(sources);
        row
    };
    let whole = |breakdown: &Breakdown| i64::try_from(breakdown.total).ok();
    let (mut rows, mut texts) = (Vec::new(), Vec::new());
    for component in Component::ALL {
        // An estimate has no unexplained rest to compare.
        let expected = estimate
            .as_ref()
            .filter(|_| component != Component::Unexplained)
            .and_then(|estimate| estimate.part(component));
        let (title, sources) = match (all.part(component), expected) {
            (Some(part), _) => {
                let share = part.within.is_none().then(|| share(part.bytes)).into();
                let indent = if part.within.is_some() { "  " } else { "" };
                texts.push(format!("{}: {}", component.title(), part.source));
                let sources = [share, part.provenance.to_string().into()];
                (format!("{indent}{}", component.title()), sources)
            }
            (None, Some(part)) => {
                let title = component.title();
                texts.push(format!("{title}: estimate ({}): {}", part.provenance, part.source));
                (title.to_owned(), [Entry::None, Entry::None])
            }
            (None, None) => continue,
        };
        let bytes = |breakdown: &Breakdown| breakdown.part(component).map(|part| part.bytes);
        rows.push(row(&title, &bytes, expected.map(|part| part.bytes), sources));
    }
    texts.push("total used: of all processes at that moment".to_owned());
    let total = ["100.0 %".into(), "measured".into()];
    rows.push(row("total used", &whole, estimate.as_ref().and_then(whole), total));
    if let Some(overhead) = &footprint.overhead {
        let only_all = |breakdown: &Breakdown| breakdown.device.is_none().then_some(overhead.bytes);
        texts.push(format!("{}: {}", overhead.title(), overhead.source));
        let sources = [share(overhead.bytes).into(), overhead.provenance.to_string().into()];
        rows.push(row(overhead.title(), &only_all, None, sources));
    }
    let expected: &[&str] = if estimate.is_some() {
        &["estimate", "off by"]
    } else {
        &[]
    };
    let columns: Vec<&str> = columns.iter().map(|(heading, _)| heading.as_str()).collect();
    let headings = [&[""], &columns[..], expected, &["share", "source"]].concat();
    (Sheet::new(headings, rows), texts)
}

/// The details that are strings or maps of strings, which scripts write for people, each as `name: text`.
/// Numbers are in the JSON only.
fn detail_lines(details: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(parts) => {
            let part = |(name, value): (&String, &Value)| Some(format!("{} {}", with_blanks(name), value.as_str()?));
            let parts: Vec<String> = parts.iter().filter_map(part).collect();
            (!parts.is_empty()).then(|| parts.join(", "))
        }
        _ => None,
    };
    let details = details.as_object().into_iter().flatten();
    let named = details.filter_map(|(name, value)| Some(format!("{}: {}", with_blanks(name), text(value)?)));
    named.collect()
}

/// The chart in words.
fn alt_text(footprint: &Footprint, devices: &[Device]) -> String {
    let total = footprint.all.total;
    let capacity: Option<u64> = devices.iter().map(|device| device.total).sum();
    let of_capacity = capacity
        .filter(|&capacity| capacity > 0)
        .map_or_else(String::new, |capacity| {
            let share = 100.0 * total as f64 / capacity as f64;
            format!(", {share:.1} % of {}", Gib::from(capacity))
        });
    let on = match devices {
        [one] => one.named(),
        several => format!("{} devices", several.len()),
    };
    let finding = finding(footprint);
    format!(
        "{finding}. {} in use on {on}{of_capacity}. The table has every component with its source.",
        Gib::from(total)
    )
}

/// The chart of a breakdown, without name and title: a stack of components for each device, and one for the estimate
/// (the average over devices).
fn plot(footprint: &Footprint, devices: &[Device], simulated: bool) -> Plot {
    let mut caption = if simulated {
        format!("{SIMULATED} ")
    } else {
        String::new()
    };
    caption += "Measured: read from the driver while the engine ran. Engine-reported: from the engine's log or metrics. \
                Computed: derived from other numbers. Assumed: a default. The table has the details.";
    if footprint.estimate().is_some() {
        caption += " Hatched bars were expected from the model's architecture, before anything was started.";
    }
    Plot::new("", "", [stacked_panel(footprint, devices)]).with_alt(alt_text(footprint, devices), caption)
}

fn stacked_panel(footprint: &Footprint, devices: &[Device]) -> Panel {
    let measured = footprint
        .per_gpu
        .iter()
        .zip(devices)
        .map(|(breakdown, device)| (device.named(), breakdown, 1.0));
    let mut columns: Vec<(String, &Breakdown, f64)> = measured.collect();
    let estimated = columns.len();
    let estimate = footprint.estimate();
    if let Some(estimate) = &estimate {
        let name = if estimated > 1 { "estimate, each" } else { "estimate" };
        columns.push((name.to_owned(), estimate, 1.0 / estimated as f64));
    }
    let (mut layers, mut tooltips, mut notes) = (Vec::new(), Vec::new(), Vec::new());
    let mut tops = vec![0.0; columns.len()];
    for component in Component::ALL {
        let title = component.title();
        let (mut bars, mut hatched, mut name) = (Vec::new(), Vec::new(), None);
        for (at, (of, breakdown, scale)) in columns.iter().enumerate() {
            // A part within another part is already in the stack.
            let part = breakdown
                .part(component)
                .filter(|part| part.within.is_none() && part.bytes > 0);
            let Some(part) = part else { continue };
            let bytes = part.bytes as f64 * scale;
            let base = tops[at];
            tops[at] += bytes;
            let mut bar = Bar::new(at, tops[at]);
            bar.base = base;
            if at == estimated {
                hatched.push(bar);
            } else {
                name.get_or_insert_with(|| format!("{title} ({})", part.provenance));
                bars.push(bar);
            }
            let share = part.bytes as f64 / breakdown.total.max(1) as f64;
            let middle = (at as f64, base + bytes / 2.0);
            let entries = [
                title.into(),
                of.as_str().into(),
                gib_number(bytes).into(),
                rounded(100.0 * share, 1).into(),
                part.provenance.to_string().into(),
            ];
            tooltips.push(TooltipPoint::new(middle, entries));
            if share >= MIN_LABELLED {
                notes.push((middle, format!("{title} {}", Bytes(bytes as u64))));
            }
        }
        // A component that only the estimate has needs its own entry in the legend.
        let of_estimate = name
            .as_ref()
            .map_or_else(|| format!("{title} (estimate)"), |_| String::new());
        for (name, bars, is_hatched) in [(name.unwrap_or_default(), bars, false), (of_estimate, hatched, true)] {
            if !bars.is_empty() {
                layers.push(Layer::bars(name, bars, colour(component)).dashed(is_hatched));
            }
        }
    }
    let highest = tops.into_iter().fold(1.0, f64::max);
    let first = devices.first().and_then(|device| device.total);
    let total = first.filter(|_| devices.iter().all(|device| device.total == first));
    let top = memory_top(highest, total);
    let limit = total.filter(|&total| total as f64 <= top);
    let name = |total| format!("capacity: {}", Gib::from(total));
    layers.extend(limit.map(|total| Layer::horizontal_rule(name(total), total as f64, Colour::Limit)));
    let x = Axis::categories(columns.into_iter().map(|(name, ..)| name));
    let y = Axis::new("memory", Unit::Bytes).with_range((0.0, top));
    let tooltips = Tooltips::new(["component", "of", "GiB", "share, %", "source"], tooltips);
    Panel::new("", x, y, layers).with_tooltips(tooltips).with_notes(notes)
}

pub(super) fn colour(component: Component) -> Colour {
    match component {
        Component::Weights => Colour::Series(0),
        Component::KvPool => Colour::Series(1),
        Component::KvUsed => Colour::Series(2),
        Component::Activations => Colour::Series(3),
        Component::CudaGraphs => Colour::Series(7),
        Component::RuntimeContext => Colour::Series(5),
        Component::OtherTenants => Colour::Series(6),
        Component::Unexplained => Colour::Open,
    }
}

#[cfg(test)]
mod tests {
    //! Breakdowns of recorded runs, and of one made up to have every feature.

    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::super::document;
    use super::super::source::Source;
    use super::breakdown;
    use crate::memory::{BaselineMemory, Breakdown, Component, Footprint, Part, Provenance};
    use crate::report::plot::{Entry, Layer, Marks};
    use crate::report::{Page, text};
    use crate::run::{Folder, RecordedRun};

    fn real(run: &str) -> crate::report::document::Section {
        let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
            .join("tests/data/runs")
            .join(run);
        let document = document(&folder).unwrap();
        document
            .sections
            .into_iter()
            .find(|part| part.name == "breakdown")
            .unwrap()
    }

    #[test]
    fn recorded_breakdown_has_its_limit() {
        let part = real("vllm-breakdown");
        let plot = part.plots()[0];
        assert!(
            plot.alt
                .contains("128.06 GiB in use on GPU 0 (NVIDIA H200), 91.6 % of 139.80 GiB"),
            "{}",
            plot.alt
        );
        assert!(
            part.paragraphs()[0]
                .starts_with("memory of vllm: KV cache 111.1 GiB of 128.1 GiB used; weights 13.5 GiB; "),
            "{}",
            part.paragraphs()[0]
        );
        let limit = |layer: &Layer| matches!(layer.marks, Marks::Rule { at, .. } if at == 150_109_880_320.0);
        assert!(plot.panels[0].layers.iter().any(limit));
        assert_eq!(plot.panels.len(), 1, "nothing was expected");
        let row = |name: &str| {
            part.sheets()[0]
                .rows
                .iter()
                .find(|row| row[0] == Entry::from(name))
                .unwrap()
        };
        assert_eq!(
            row("weights")[1..4],
            ["13.54".into(), "10.6 %".into(), "engine-reported".into()]
        );
        let text = text(&part.blocks, Page::default());
        assert!(text.contains("no estimate was recorded"), "{text}");
    }

    #[test]
    fn two_gpus_are_two_columns() {
        let part = real("vllm-two-gpus");
        let plot = part.plots()[0];
        assert_eq!(plot.panels[0].x.names, ["GPU 0 (NVIDIA H200)", "GPU 1 (NVIDIA H200)"]);
        assert!(
            part.sheets()[0].columns.contains(&"GPU 1, GiB".to_owned()),
            "{:?}",
            part.sheets()[0].columns
        );
        assert!(
            part.sheets()[0]
                .rows
                .iter()
                .all(|row| row.len() == part.sheets()[0].columns.len())
        );
        assert!(plot.alt.contains("beyond one copy"), "{}", plot.alt);
    }

    fn part(component: Component, bytes: i64, within: Option<Component>) -> Part {
        Part {
            component,
            bytes,
            provenance: Provenance::Computed,
            source: "made up".into(),
            within,
        }
    }

    #[test]
    fn estimate_is_drawn_with_the_measurement() {
        let parts = vec![
            part(Component::Weights, 15 * GIB, None),
            part(Component::KvPool, 40 * GIB, None),
            part(Component::KvUsed, 3 * GIB, Some(Component::KvPool)),
        ];
        let device = Breakdown::new(Some("a".into()), 54 << 30, parts).unwrap();
        let expected_parts = vec![
            part(Component::Weights, 10 * GIB, None),
            part(Component::KvUsed, 3 * GIB, None),
            part(Component::Activations, GIB, None),
        ];
        let expected = Breakdown::new(None, 14 << 30, expected_parts).unwrap();
        let details = json!({ "estimate": { "all": expected } });
        let footprint = Footprint::new(vec![device], None, details).unwrap();
        let mut found = RecordedRun::default();
        found.breakdowns = vec![("made up".into(), json!(footprint))];
        let source = Source::new(Folder::open(Path::new(".")).unwrap(), &found);
        let mut missing = Vec::new();
        let parts = super::sections(&source, &mut missing);
        assert!(missing.is_empty());
        let plot = parts[0].plots()[0];
        assert_eq!(plot.panels[0].x.names, ["a", "estimate"]);
        let sheet = parts[0].sheets()[0];
        let row = |name: &str| sheet.rows.iter().find(|row| row[0] == Entry::from(name)).unwrap();
        assert_eq!(row("weights")[1..4], ["15.00".into(), "10.00".into(), "+5.00".into()]);
        assert_eq!(row("activations")[1..4], [Entry::None, "1.00".into(), Entry::None]);
        assert!(sheet.rows.iter().all(|row| row.len() == sheet.columns.len()));
        assert!(
            plot.alt.contains("the components exceed the total by 1.0 GiB"),
            "{}",
            plot.alt
        );
        // The bars of a column are stacked without gaps.
        let mut top = 0.0;
        for layer in &plot.panels[0].layers {
            if let (Marks::Bars { bars }, false) = (&layer.marks, layer.dashed) {
                assert_eq!(bars[0].base, top);
                top = bars[0].value;
            }
        }
    }

    const GIB: i64 = 1 << 30;

    fn reported(devices: usize) -> Footprint {
        let part = |component: Component, bytes: i64, within: Option<Component>| Part {
            provenance: Provenance::EngineReported,
            source: format!("what the log said of {component}, in a sentence that is longer than one line can be"),
            ..part(component, bytes, within)
        };
        let device = |index| {
            let parts = vec![
                part(Component::Weights, 10 * GIB + GIB / 2, None),
                part(Component::KvPool, 20 * GIB, None),
                part(Component::KvUsed, 5 * GIB, Some(Component::KvPool)),
            ];
            Breakdown::new(Some(format!("GPU-{index}")), 31 << 30, parts).unwrap()
        };
        let copy = part(Component::Weights, 18 * GIB, None);
        Footprint::new(
            (0..devices).map(device).collect(),
            Some(BaselineMemory::Weights(&copy)),
            json!({ "engine": "vllm", "n": 3, "estimate": "none: no config" }),
        )
        .unwrap()
    }

    #[test]
    fn one_device_is_one_column_in_the_terminal() {
        let text = text(&breakdown("vllm", &reported(1), Page::default()), Page::default());
        let (head, rest) = text.split_once("where the figures come from").unwrap();
        assert_eq!(
            head,
            "memory of vllm: KV cache 20.0 GiB of 31.0 GiB used; weights 10.5 GiB; 0.5 GiB\n    unaccounted\n\n\
             \x20                      GiB    share  source\n\
             \x20 weights            10.50   33.9 %  engine-reported\n\
             \x20 KV cache           20.00   64.5 %  engine-reported\n\
             \x20   KV cache in use   5.00        -  engine-reported\n\
             \x20 unaccounted         0.50    1.6 %  computed\n\
             \x20 total used         31.00  100.0 %  measured\n\n"
        );
        assert!(
            rest.ends_with("\n\ndetails\n  engine: vllm\n  estimate: none: no config"),
            "{rest}"
        );
    }

    #[test]
    fn each_device_has_a_column_while_there_is_space() {
        let shown = |devices| text(&breakdown("vllm", &reported(devices), Page::default()), Page::default());
        let two = shown(2);
        for part in [
            "  weights               21.00  10.50  10.50   33.9 %  engine-reported",
            "  beyond one copy",
            "\n[1]  GPU-1",
        ] {
            assert!(two.contains(part), "{part}: {two}");
        }
        let eight = shown(8);
        assert!(eight.contains("lowest  highest"), "{eight}");
        let long = eight.lines().skip(1).find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{eight}");
    }
}
