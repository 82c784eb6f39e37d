//! Memory by component as a table in GiB: a column per device, the estimate if there is one, and below the source
//! of each number.

use serde_json::Value;

use super::table::{table, wrapped};
use super::{Page, SIMULATED};
use crate::fmt::{GIB, signed, with_blanks, without_negative_zero};
use crate::memory::{Breakdown, Component, Footprint, Part};

const GAP: usize = 2;

/// Formats the breakdown called `name`.
#[must_use]
pub fn breakdown(name: &str, footprint: &Footprint, simulated: bool, page: Page) -> String {
    let mut parts = Vec::new();
    if simulated {
        parts.push(SIMULATED.to_owned());
    }
    parts.push(format!(
        "memory of {name}, GiB\n{}",
        DeviceTable::new(footprint, page).table(page)
    ));
    parts.push(sources(footprint, page));
    if let Some(devices) = devices(footprint) {
        parts.push(devices);
    }
    if let Some(details) = details(&footprint.details, page) {
        parts.push(details);
    }
    parts.join("\n\n")
}

/// The table before formatting: a set of devices per column.
struct DeviceTable<'a> {
    footprint: &'a Footprint,
    columns: Vec<(String, Vec<&'a Breakdown>)>,
    /// The estimate for all devices together.
    estimate: Option<Breakdown>,
    decimals: usize,
}

const FIGURE: usize = 8;
/// Width of the component, provenance and share columns with their gaps.
const REST: usize = 22 + 17 + 9;

impl<'a> DeviceTable<'a> {
    fn new(footprint: &'a Footprint, page: Page) -> Self {
        let devices = &footprint.per_gpu;
        let estimate = footprint.estimate();
        let mut columns = vec![("all".to_owned(), vec![&footprint.all])];
        if devices.len() > 1 {
            let others = 1 + if estimate.is_some() { ESTIMATE_HEADINGS.len() } else { 0 };
            let space = page.width.saturating_sub(REST + others * (FIGURE + GAP)) / (FIGURE + GAP);
            if devices.len() <= space {
                let each = devices.iter().enumerate();
                columns.extend(each.map(|(index, device)| (format!("[{index}]"), vec![device])));
            } else {
                columns.push(("lowest".to_owned(), devices.iter().collect()));
                columns.push(("highest".to_owned(), devices.iter().collect()));
            }
        }
        // Small engines, such as llama.cpp on the CPU, need more digits.
        let decimals = match footprint.all.total >> 30 {
            0 => 4,
            1..16 => 3,
            _ => 2,
        };
        Self {
            footprint,
            columns,
            estimate,
            decimals,
        }
    }

    fn table(&self, page: Page) -> String {
        let rows = self.rows();
        if REST + rows[0].figures.len() * (FIGURE + GAP) <= page.width {
            return rows.iter().map(Row::wide).collect::<Vec<_>>().join("\n");
        }
        let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        let headings: Vec<&str> = cells[0].iter().map(String::as_str).collect();
        table(&headings, &cells[1..], page)
    }

    /// The headings, then a row for each component, the total, and the overhead of tensor parallelism.
    fn rows(&self) -> Vec<Row> {
        let all = &self.footprint.all;
        let mut headings: Vec<String> = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        if self.estimate.is_some() {
            headings.extend(ESTIMATE_HEADINGS.map(str::to_owned));
        }
        let mut rows = vec![Row::new("", headings, "share", "provenance")];
        for component in Component::ALL {
            let Some(part) = all.part(component) else {
                rows.extend(self.estimate_only_row(component));
                continue;
            };
            let title = part.component.title();
            let title = if part.within.is_some() {
                format!("  {title}")
            } else {
                title.to_owned()
            };
            let mut figures = self.device_cells(|device| device.part(component).map(|part| part.bytes));
            figures.extend(self.estimate_cells(component, Some(part.bytes)));
            let share = match part.within {
                None => self.share(part.bytes),
                Some(_) => String::new(),
            };
            rows.push(Row::new(&title, figures, &share, &part.provenance.to_string()));
        }
        let mut totals = self.device_cells(|device| Some(i64::try_from(device.total).unwrap_or(i64::MAX)));
        let expected = self.estimate.iter();
        totals.extend(expected.flat_map(|estimate| estimate_total(estimate, all.total, |bytes| self.gib(bytes))));
        rows.push(Row::new("physical", totals, "100.0 %", "measured"));
        if let Some(overhead) = &self.footprint.overhead {
            let mut figures = vec![String::new(); rows[0].figures.len()];
            figures[0] = self.gib(overhead.bytes);
            let provenance = overhead.provenance.to_string();
            rows.push(Row::new(
                overhead.title(),
                figures,
                &self.share(overhead.bytes),
                &provenance,
            ));
        }
        rows
    }

    /// The row of a component that only the estimate has.
    fn estimate_only_row(&self, component: Component) -> Option<Row> {
        let estimate = self.estimate.as_ref()?;
        has_estimate(estimate, component).then(|| {
            let mut figures = self.device_cells(|_| None);
            figures.extend(self.estimate_cells(component, None));
            Row::new(component.title(), figures, "", "")
        })
    }

    /// One cell per column of devices; a dash if unknown.
    fn device_cells(&self, bytes: impl Fn(&Breakdown) -> Option<i64>) -> Vec<String> {
        let figure = |(heading, devices): &(String, Vec<&Breakdown>)| {
            let bytes = devices.iter().filter_map(|device| bytes(device));
            let bytes = if heading == "lowest" { bytes.min() } else { bytes.max() };
            bytes.map_or_else(|| "-".to_owned(), |bytes| self.gib(bytes))
        };
        self.columns.iter().map(figure).collect()
    }

    /// The cells of the estimate; none without one.
    fn estimate_cells(&self, component: Component, bytes: Option<i64>) -> impl Iterator<Item = String> + use<> {
        let estimate = self.estimate.as_ref();
        let pair = estimate.map(|estimate| estimate_cells(estimate, component, bytes, |bytes| self.gib(bytes)));
        pair.into_iter().flatten()
    }

    fn gib(&self, bytes: i64) -> String {
        let gib = bytes as f64 / GIB;
        without_negative_zero(format!("{gib:.*}", self.decimals))
    }

    fn share(&self, bytes: i64) -> String {
        let share = 100.0 * bytes as f64 / self.footprint.all.total.max(1) as f64;
        format!("{} %", without_negative_zero(format!("{share:.1}")))
    }
}

/// A row of the table, or its headings.
struct Row {
    title: String,
    figures: Vec<String>,
    share: String,
    provenance: String,
}

impl Row {
    fn new(title: &str, figures: Vec<String>, share: &str, provenance: &str) -> Self {
        Self {
            title: title.to_owned(),
            figures,
            share: share.to_owned(),
            provenance: provenance.to_owned(),
        }
    }

    /// One aligned line, for pages wide enough.
    fn wide(&self) -> String {
        let figures: String = self
            .figures
            .iter()
            .map(|figure| format!("  {figure:>FIGURE$}"))
            .collect();
        let line = format!("  {:<20}{figures}  {:>7}  {}", self.title, self.share, self.provenance);
        line.trim_end().to_owned()
    }

    /// Cells for a table that wraps its columns.
    fn cells(&self) -> Vec<String> {
        let title = format!("{:<17}", self.title);
        let rest = [self.share.clone(), format!("{:<15}", self.provenance)];
        std::iter::once(title)
            .chain(self.figures.iter().cloned())
            .chain(rest)
            .collect()
    }
}

fn sources(footprint: &Footprint, page: Page) -> String {
    let row = |part: &Part| format!("{}: {}", part.component.title(), part.source);
    let explained = footprint
        .all
        .parts
        .iter()
        .filter(|part| part.component != Component::Unexplained)
        .map(row);
    let overhead = footprint
        .overhead
        .iter()
        .map(|overhead| format!("{}: {}", overhead.title(), overhead.source));
    let lines = explained.chain(overhead).map(|text| wrapped(&text, page.width));
    format!("where the figures come from\n{}", lines.collect::<Vec<_>>().join("\n"))
}

/// Maps column numbers to device ids, if there are several.
fn devices(footprint: &Footprint) -> Option<String> {
    let several = footprint.per_gpu.len() > 1;
    let name = |(index, device): (usize, &Breakdown)| {
        let id = device.device.as_deref().unwrap_or("not named");
        format!("  [{index}] {id}")
    };
    several.then(|| {
        footprint
            .per_gpu
            .iter()
            .enumerate()
            .map(name)
            .collect::<Vec<_>>()
            .join("\n")
    })
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

fn details(details: &Value, page: Page) -> Option<String> {
    let lines = detail_lines(details).into_iter().map(|line| wrapped(&line, page.width));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

const ESTIMATE_HEADINGS: [&str; 2] = ["estimate", "off by"];

/// The cells of a component of which `bytes` were measured, if any.
fn estimate_cells(
    estimate: &Breakdown,
    component: Component,
    bytes: Option<i64>,
    gib: impl Fn(i64) -> String,
) -> [String; 2] {
    let part = estimate.part(component).filter(|_| has_estimate(estimate, component));
    estimate_pair(part.map(|part| part.bytes), bytes, gib)
}

/// The cells of the total.
fn estimate_total(estimate: &Breakdown, bytes: u64, gib: impl Fn(i64) -> String) -> [String; 2] {
    let whole = |bytes| i64::try_from(bytes).unwrap_or(i64::MAX);
    estimate_pair(Some(whole(estimate.total)), Some(whole(bytes)), gib)
}

/// Whether the estimate covers the component. It never has an unexplained part.
fn has_estimate(estimate: &Breakdown, component: Component) -> bool {
    component != Component::Unexplained && estimate.part(component).is_some()
}

fn estimate_pair(expected: Option<i64>, found: Option<i64>, gib: impl Fn(i64) -> String) -> [String; 2] {
    let difference = found
        .zip(expected)
        .map(|(found, expected)| signed(gib(found - expected)));
    let none = || "-".to_owned();
    [expected.map_or_else(none, &gib), difference.unwrap_or_else(none)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{BaselineMemory, Provenance};

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
        let text = breakdown("vllm", &footprint(1), true, Page::default());
        let (head, rest) = text.split_once("where the figures come from").unwrap();
        assert_eq!(
            head,
            format!(
                "{SIMULATED}\n\nmemory of vllm, GiB\n\
                 \x20                            all    share  provenance\n\
                 \x20 weights                  10.50   33.9 %  engine-reported\n\
                 \x20 KV pool                  20.00   64.5 %  engine-reported\n\
                 \x20   KV used                 5.00           engine-reported\n\
                 \x20 unexplained               0.50    1.6 %  computed\n\
                 \x20 physical                 31.00  100.0 %  measured\n\n"
            )
        );
        assert!(rest.ends_with("\n\n  engine: vllm"), "{rest}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
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
        let text = breakdown("vllm", &footprint, true, Page::default());
        let (head, rest) = text.split_once("where the figures come from").unwrap();
        assert_eq!(
            head,
            format!(
                "{SIMULATED}\n\nmemory of vllm, GiB\n\
                 \x20                            all  estimate    off by    share  provenance\n\
                 \x20 weights                  10.50     10.00     +0.50   33.9 %  engine-reported\n\
                 \x20 KV pool                  20.00         -         -   64.5 %  engine-reported\n\
                 \x20   KV used                 5.00      6.00     -1.00           engine-reported\n\
                 \x20 activations                  -      1.00         -\n\
                 \x20 unexplained               0.50         -         -    1.6 %  computed\n\
                 \x20 physical                 31.00     17.00    +14.00  100.0 %  measured\n\n"
            )
        );
        assert!(rest.ends_with("estimate: by the architecture"), "{rest}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }

    #[test]
    fn each_device_has_a_column_while_there_is_space() {
        let text = breakdown("vllm", &footprint(2), false, Page::default());
        assert!(
            text.contains("  weights                  21.00     10.50     10.50   33.9 %  engine-reported"),
            "{text}"
        );
        assert!(text.contains("  beyond one copy"), "{text}");
        assert!(text.contains("  [1] GPU-1"), "{text}");
        let text = breakdown("vllm", &footprint(8), false, Page::default());
        assert!(text.contains("lowest   highest"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
