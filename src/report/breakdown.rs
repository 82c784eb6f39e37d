//! Memory by component: the finding, and a table in GiB with a column for each device, the estimate if there is one, and
//! the source of each number. The page shows the same.

use serde_json::Value;

use super::Page;
use super::changes::sheet_text;
use super::plot::{Entry, Sheet};
use super::table::wrapped;
use crate::experiment::is_negligible;
use crate::fmt::{GIB, signed, with_blanks, without_negative_zero};
use crate::memory::{Breakdown, Component, Footprint};
use crate::unit::Unit;

/// Components that the finding names after the largest.
const MAX_NAMED: usize = 3;

/// Longest line of prose.
const MAX_LINE: usize = 160;

/// Width of a column of figures with its gap, and of the others together.
const FIGURE: usize = 10;
const REST: usize = 22 + 17 + 9;

/// Formats the breakdown called `name`.
#[must_use]
pub fn breakdown(name: &str, footprint: &Footprint, page: Page) -> String {
    let mut parts: Vec<String> = Vec::new();
    let text = format!("memory of {name}: {}", finding(footprint));
    parts.push(wrapped(&text, page.width.min(MAX_LINE)).trim_start().to_owned());
    let estimate = if footprint.estimate().is_some() { 2 } else { 0 };
    let room = page.width.saturating_sub(REST + (1 + estimate) * FIGURE) / FIGURE;
    let devices = footprint.per_gpu.len();
    let labels: Vec<String> = (0..devices).map(|index| format!("[{index}]")).collect();
    let mut sheet = sheet(footprint, &labels, room);
    sheet.columns.pop();
    let sources: Vec<String> = sheet.rows.iter_mut().filter_map(source_line).collect();
    parts.push(sheet_text(&sheet, page));
    let sources = sources.iter().map(|text| wrapped(text, page.width));
    parts.push(format!(
        "where the figures come from\n{}",
        sources.collect::<Vec<_>>().join("\n")
    ));
    if devices > 1 {
        let named = footprint.per_gpu.iter().zip(&labels);
        let named =
            named.map(|(device, label)| format!("  {label} {}", device.device.as_deref().unwrap_or("not named")));
        parts.push(named.collect::<Vec<_>>().join("\n"));
    }
    let details = detail_lines(&footprint.details)
        .into_iter()
        .map(|line| wrapped(&line, page.width));
    parts.extend(Some(details.collect::<Vec<_>>().join("\n")).filter(|text| !text.is_empty()));
    parts.join("\n\n")
}

/// `weights 15.0 GiB of 21.6 GiB used; KV cache 4.1 GiB; activations 1.2 GiB; 0.3 GiB unaccounted`.
#[must_use]
pub fn finding(footprint: &Footprint) -> String {
    let all = &footprint.all;
    // One unit in a sentence, so that its figures compare.
    let (size, unit) = match all.total >= 1 << 30 {
        true => (GIB, "GiB"),
        false => (GIB / 1024.0, "MiB"),
    };
    let figure = |bytes: u64| {
        let value = bytes as f64 / size;
        let decimals = if value < 0.1 { 2 } else { 1 };
        format!("{value:.decimals$} {unit}")
    };
    let bytes = |bytes: i64| figure(bytes.unsigned_abs());
    let mut parts: Vec<_> = all
        .parts
        .iter()
        .filter(|part| part.within.is_none() && part.bytes > 0 && part.component != Component::Unexplained)
        .collect();
    parts.sort_by_key(|part| -part.bytes);
    let mut parts = parts
        .into_iter()
        .map(|part| format!("{} {}", part.component.title(), bytes(part.bytes)));
    let total = figure(all.total);
    let mut texts = vec![
        parts
            .next()
            .map_or_else(|| format!("{total} used"), |first| format!("{first} of {total} used")),
    ];
    texts.extend(parts.take(MAX_NAMED));
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

/// Takes the details, the last cell, from a row of [`sheet`].
fn source_line(row: &mut Vec<Entry>) -> Option<String> {
    let details = row.pop();
    match (row.first(), details) {
        (Some(Entry::Text(title)), Some(Entry::Text(details))) => Some(format!("{}: {details}", title.trim())),
        _ => None,
    }
}

/// A row for each component, the total, and the overhead of tensor parallelism. The columns are those of all devices, of
/// each device if they are at most `most`, else of the lowest and the highest, the estimate, share, source and details.
pub(super) fn sheet(footprint: &Footprint, labels: &[String], most: usize) -> Sheet {
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
    let row = |title: &str, bytes: &dyn Fn(&Breakdown) -> Option<i64>, expected: Option<i64>, sources: [Entry; 3]| {
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
    let mut rows = Vec::new();
    for component in Component::ALL {
        // An estimate has no unexplained rest to compare.
        let expected = estimate.as_ref().filter(|_| component != Component::Unexplained);
        let expected = expected.and_then(|estimate| estimate.part(component));
        let (title, sources) = match (all.part(component), expected) {
            (Some(part), _) => {
                let share = part.within.is_none().then(|| share(part.bytes)).into();
                let indent = if part.within.is_some() { "  " } else { "" };
                let sources = [share, part.provenance.to_string().into(), part.source.as_str().into()];
                (format!("{indent}{}", component.title()), sources)
            }
            (None, Some(part)) => {
                let details = format!("estimate ({}): {}", part.provenance, part.source);
                (component.title().to_owned(), [Entry::None, Entry::None, details.into()])
            }
            (None, None) => continue,
        };
        let bytes = |breakdown: &Breakdown| breakdown.part(component).map(|part| part.bytes);
        rows.push(row(&title, &bytes, expected.map(|part| part.bytes), sources));
    }
    let total = [
        "100.0 %".into(),
        "measured".into(),
        "of all processes at that moment".into(),
    ];
    rows.push(row("total used", &whole, estimate.as_ref().and_then(whole), total));
    if let Some(overhead) = &footprint.overhead {
        let only_all = |breakdown: &Breakdown| breakdown.device.is_none().then_some(overhead.bytes);
        let sources = [
            share(overhead.bytes).into(),
            overhead.provenance.to_string().into(),
            overhead.source.as_str().into(),
        ];
        rows.push(row(overhead.title(), &only_all, None, sources));
    }
    let headings = columns.iter().map(|(heading, _)| heading.as_str());
    let expected = ["estimate", "off by"].into_iter().filter(|_| estimate.is_some());
    let headings = std::iter::once("")
        .chain(headings)
        .chain(expected)
        .chain(["share", "source", "details"]);
    Sheet::new(headings, rows)
}

/// The details that are strings or maps of strings, which scripts write for people, each as `name: text`.
/// Numbers are in the JSON only.
pub(super) fn detail_lines(details: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(parts) => {
            let parts = parts
                .iter()
                .filter_map(|(name, value)| Some(format!("{} {}", with_blanks(name), value.as_str()?)));
            Some(parts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
        }
        _ => None,
    };
    let details = details.as_object().into_iter().flatten();
    let named = details.filter_map(|(name, value)| Some(format!("{}: {}", with_blanks(name), text(value)?)));
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{BaselineMemory, Part, Provenance};

    const GIB: i64 = 1 << 30;

    fn part(component: Component, bytes: i64, within: Option<Component>) -> Part {
        Part {
            component,
            bytes,
            provenance: Provenance::EngineReported,
            source: format!("what the log said of {component}, in a sentence that is longer than one line can be"),
            within,
        }
    }

    fn footprint(devices: usize) -> Footprint {
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
            serde_json::json!({"engine": "vllm", "n": 3}),
        )
        .unwrap()
    }

    #[test]
    fn one_device_is_one_column() {
        let text = breakdown("vllm", &footprint(1), Page::default());
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
        assert!(rest.ends_with("\n\n  engine: vllm"), "{rest}");
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn the_estimate_is_shown_next_to_the_measurement() {
        let mut footprint = footprint(1);
        let expected = vec![
            part(Component::Weights, 10 * GIB, None),
            part(Component::KvUsed, 6 * GIB, None),
            part(Component::Activations, GIB, None),
        ];
        let expected = Breakdown::new(None, 17 << 30, expected).unwrap();
        footprint.details = serde_json::json!({ "estimate": { "all": expected, "by": "the architecture" } });
        let text = breakdown("vllm", &footprint, Page::default());
        let (head, rest) = text.split_once("where the figures come from").unwrap();
        assert_eq!(
            head,
            "memory of vllm: KV cache 20.0 GiB of 31.0 GiB used; weights 10.5 GiB; 0.5 GiB\n    unaccounted\n\n\
                 \x20                      GiB  estimate  off by    share  source\n\
                 \x20 weights            10.50     10.00   +0.50   33.9 %  engine-reported\n\
                 \x20 KV cache           20.00         -       -   64.5 %  engine-reported\n\
                 \x20   KV cache in use   5.00      6.00   -1.00        -  engine-reported\n\
                 \x20 activations            -      1.00       -        -  -\n\
                 \x20 unaccounted         0.50         -       -    1.6 %  computed\n\
                 \x20 total used         31.00     17.00  +14.00  100.0 %  measured\n\n"
        );
        assert!(rest.ends_with("estimate: by the architecture"), "{rest}");
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn each_device_has_a_column_while_there_is_space() {
        let text = breakdown("vllm", &footprint(2), Page::default());
        assert!(
            text.contains("  weights               21.00  10.50  10.50   33.9 %  engine-reported"),
            "{text}"
        );
        assert!(text.contains("  beyond one copy"), "{text}");
        assert!(text.contains("  [1] GPU-1"), "{text}");
        let text = breakdown("vllm", &footprint(8), Page::default());
        assert!(text.contains("lowest  highest"), "{text}");
        assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
    }
}
