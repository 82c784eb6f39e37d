//! Memory by component as a table: GiB throughout, a column for each device, and below it where every figure comes from. Where an
//! estimate was kept, it stands beside what was found.

mod expected;

use serde_json::Value;

use super::table::{table, wrapped};
use super::{Page, SIMULATED};
use crate::memory::{Breakdown, Component, Footprint, Part};

/// Blanks between columns, and before the first.
const GAP: usize = 2;

/// A breakdown, named `name`, as people read it.
#[must_use]
pub fn breakdown(name: &str, footprint: &Footprint, simulated: bool, page: Page) -> String {
    let mut parts = Vec::new();
    if simulated {
        parts.push(SIMULATED.to_owned());
    }
    parts.push(format!(
        "memory of {name}, GiB\n{}",
        Figures::of(footprint, page).table(page)
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

/// The table before it is text: columns of figures, and what each row ends in.
struct Figures<'a> {
    footprint: &'a Footprint,
    columns: Vec<(String, Vec<&'a Breakdown>)>,
    /// What was expected of all devices together.
    estimate: Option<Breakdown>,
    decimals: usize,
}

/// The width of a figure, such as `-128.00`.
const FIGURE: usize = 8;
/// The width of a component, of a provenance, and of a share with their gaps.
const REST: usize = 22 + 17 + 9;

impl<'a> Figures<'a> {
    fn of(footprint: &'a Footprint, page: Page) -> Self {
        let devices = &footprint.per_gpu;
        let estimate = footprint.estimate();
        let mut columns = vec![("all".to_owned(), vec![&footprint.all])];
        if devices.len() > 1 {
            let others = 1 + if estimate.is_some() {
                expected::HEADINGS.len()
            } else {
                0
            };
            let room = page.width.saturating_sub(REST + others * (FIGURE + GAP)) / (FIGURE + GAP);
            if devices.len() <= room {
                let each = devices.iter().enumerate();
                columns.extend(each.map(|(index, device)| (format!("[{index}]"), vec![device])));
            } else {
                columns.push(("lowest".to_owned(), devices.iter().collect()));
                columns.push(("highest".to_owned(), devices.iter().collect()));
            }
        }
        // Small engines, such as a llama.cpp on the CPU, need more digits to tell their parts apart.
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
            return rows.iter().map(Line::wide).collect::<Vec<_>>().join("\n");
        }
        let cells: Vec<Vec<String>> = rows.iter().map(Line::cells).collect();
        let headings: Vec<&str> = cells[0].iter().map(String::as_str).collect();
        table(&headings, &cells[1..], page)
    }

    /// The headings, and a row for each component, for all that is there, and for what tensor parallel costs.
    fn rows(&self) -> Vec<Line> {
        let all = &self.footprint.all;
        let mut headings: Vec<String> = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        if self.estimate.is_some() {
            headings.extend(expected::HEADINGS.map(str::to_owned));
        }
        let mut rows = vec![Line::of("", headings, "share", "provenance")];
        for component in Component::ALL {
            let Some(part) = all.part(component) else {
                rows.extend(self.only_expected(component));
                continue;
            };
            let title = part.component.title();
            let title = if part.within.is_some() {
                format!("  {title}")
            } else {
                title.to_owned()
            };
            let mut figures = self.of_devices(|device| device.part(component).map(|part| part.bytes));
            figures.extend(self.beside(component, Some(part.bytes)));
            let share = match part.within {
                None => self.share(part.bytes),
                Some(_) => String::new(),
            };
            rows.push(Line::of(&title, figures, &share, &part.provenance.to_string()));
        }
        let mut totals = self.of_devices(|device| Some(i64::try_from(device.total).unwrap_or(i64::MAX)));
        let expected = self.estimate.iter();
        totals.extend(expected.flat_map(|estimate| expected::total(estimate, all.total, |bytes| self.gib(bytes))));
        rows.push(Line::of("physical", totals, "100.0 %", "measured"));
        if let Some(overhead) = &self.footprint.overhead {
            let mut figures = vec![String::new(); rows[0].figures.len()];
            figures[0] = self.gib(overhead.bytes);
            let provenance = overhead.provenance.to_string();
            rows.push(Line::of(
                overhead.title(),
                figures,
                &self.share(overhead.bytes),
                &provenance,
            ));
        }
        rows
    }

    /// The row of a component that only the estimate has.
    fn only_expected(&self, component: Component) -> Option<Line> {
        let estimate = self.estimate.as_ref()?;
        expected::has(estimate, component).then(|| {
            let mut figures = self.of_devices(|_| None);
            figures.extend(self.beside(component, None));
            Line::of(component.title(), figures, "", "")
        })
    }

    /// A figure of each column of devices; a dash where there is none.
    fn of_devices(&self, bytes: impl Fn(&Breakdown) -> Option<i64>) -> Vec<String> {
        let figure = |(heading, devices): &(String, Vec<&Breakdown>)| {
            let bytes = devices.iter().filter_map(|device| bytes(device));
            let bytes = if heading == "lowest" { bytes.min() } else { bytes.max() };
            bytes.map_or_else(|| "-".to_owned(), |bytes| self.gib(bytes))
        };
        self.columns.iter().map(figure).collect()
    }

    /// The columns of the estimate; none without one.
    fn beside(&self, component: Component, bytes: Option<i64>) -> impl Iterator<Item = String> + use<> {
        let estimate = self.estimate.as_ref();
        let pair = estimate.map(|estimate| expected::component(estimate, component, bytes, |bytes| self.gib(bytes)));
        pair.into_iter().flatten()
    }

    fn gib(&self, bytes: i64) -> String {
        let gib = bytes as f64 / f64::from(1 << 30);
        unsigned_zero(format!("{gib:.*}", self.decimals))
    }

    fn share(&self, bytes: i64) -> String {
        let share = 100.0 * bytes as f64 / self.footprint.all.total.max(1) as f64;
        format!("{} %", unsigned_zero(format!("{share:.1}")))
    }
}

/// What rounds to nothing has no sign.
fn unsigned_zero(text: String) -> String {
    match text.trim_start_matches(['-', '0', '.']) {
        "" => text.trim_start_matches('-').to_owned(),
        _ => text,
    }
}

/// A row of the table, or its headings.
struct Line {
    title: String,
    figures: Vec<String>,
    share: String,
    provenance: String,
}

impl Line {
    fn of(title: &str, figures: Vec<String>, share: &str, provenance: &str) -> Self {
        Self {
            title: title.to_owned(),
            figures,
            share: share.to_owned(),
            provenance: provenance.to_owned(),
        }
    }

    /// Beside each other, where the page has the room.
    fn wide(&self) -> String {
        let figures: String = self
            .figures
            .iter()
            .map(|figure| format!("  {figure:>FIGURE$}"))
            .collect();
        let line = format!("  {:<20}{figures}  {:>7}  {}", self.title, self.share, self.provenance);
        line.trim_end().to_owned()
    }

    /// For a table that puts columns below each other.
    fn cells(&self) -> Vec<String> {
        let title = format!("{:<17}", self.title);
        let rest = [self.share.clone(), format!("{:<15}", self.provenance)];
        std::iter::once(title)
            .chain(self.figures.iter().cloned())
            .chain(rest)
            .collect()
    }
}

/// Where every figure comes from.
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

/// Which column is which device, where there are several.
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

/// The details that are texts, or maps of them, which scripts write for people, each as `name: text`; figures are in the JSON.
pub(super) fn said(details: &Value) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(parts) => {
            let parts = parts
                .iter()
                .filter_map(|(name, value)| Some(format!("{} {}", plain(name), value.as_str()?)));
            Some(parts.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
        }
        _ => None,
    };
    let details = details.as_object().into_iter().flatten();
    let named = details.filter_map(|(name, value)| Some(format!("{}: {}", plain(name), text(value)?)));
    named.collect()
}

fn details(details: &Value, page: Page) -> Option<String> {
    let lines = said(details).into_iter().map(|line| wrapped(&line, page.width));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A key as people read it: `kv_cache` as `kv cache`.
fn plain(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Alone, Provenance};

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
        Footprint::of(
            (0..devices).map(device).collect(),
            Some(Alone::Weights(&copy)),
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
    fn what_was_expected_stands_beside_what_was_found() {
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
    fn several_devices_have_a_column_each_while_there_is_room() {
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
