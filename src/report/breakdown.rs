//! Memory by component as a table: GiB throughout, a column for each device, and below it where every figure comes from.

use serde_json::Value;

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
        Figures::of(footprint, page).table()
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
    decimals: usize,
}

/// The width of a figure, such as `-128.00`.
const FIGURE: usize = 8;
/// The width of a component, of a provenance, and of a share with their gaps.
const REST: usize = 22 + 17 + 9;

impl<'a> Figures<'a> {
    fn of(footprint: &'a Footprint, page: Page) -> Self {
        let devices = &footprint.per_gpu;
        let mut columns = vec![("all".to_owned(), vec![&footprint.all])];
        if devices.len() > 1 {
            let room = page.width.saturating_sub(REST + FIGURE + GAP) / (FIGURE + GAP);
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
            decimals,
        }
    }

    fn table(&self) -> String {
        let headings = self.columns.iter().map(|(heading, _)| heading.clone()).collect();
        let mut lines = vec![line("", headings, "share", "provenance")];
        for part in &self.footprint.all.parts {
            let title = part.component.title();
            let title = if part.within.is_some() {
                format!("  {title}")
            } else {
                title.to_owned()
            };
            let figures = self.columns.iter().map(|(heading, devices)| {
                let bytes = devices.iter().filter_map(|device| device.part(part.component));
                let bytes = bytes.map(|part| part.bytes);
                let bytes = if heading == "lowest" { bytes.min() } else { bytes.max() };
                bytes.map_or_else(|| "-".to_owned(), |bytes| self.gib(bytes))
            });
            let share = match part.within {
                None => self.share(part.bytes),
                Some(_) => String::new(),
            };
            lines.push(line(&title, figures.collect(), &share, &part.provenance.to_string()));
        }
        let totals = self.columns.iter().map(|(heading, devices)| {
            let totals = devices.iter().map(|device| device.total);
            let total = if heading == "lowest" {
                totals.min()
            } else {
                totals.max()
            };
            self.gib(i64::try_from(total.unwrap_or_default()).unwrap_or(i64::MAX))
        });
        lines.push(line("physical", totals.collect(), "100.0 %", "measured"));
        if let Some(overhead) = &self.footprint.overhead {
            let figures = vec![self.gib(overhead.bytes)];
            let width = (self.columns.len() - 1) * (FIGURE + GAP);
            let row = line(overhead.title(), figures, &self.share(overhead.bytes), "");
            let provenance = overhead.provenance.to_string();
            lines.push(format!("{}{:width$}  {provenance}", row.trim_end(), ""));
        }
        lines.join("\n")
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn gib(&self, bytes: i64) -> String {
        let gib = bytes as f64 / f64::from(1 << 30);
        unsigned_zero(format!("{gib:.*}", self.decimals))
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
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

fn line(title: &str, figures: Vec<String>, share: &str, provenance: &str) -> String {
    let figures: String = figures.iter().map(|figure| format!("  {figure:>FIGURE$}")).collect();
    let line = format!("  {title:<20}{figures}  {share:>7}  {provenance}");
    line.trim_end().to_owned()
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

/// The details that are texts, or maps of them, which scripts write for people; figures are in the JSON.
fn details(details: &Value, page: Page) -> Option<String> {
    let details = details.as_object()?;
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
    let lines = details
        .iter()
        .filter_map(|(name, value)| Some(wrapped(&format!("{}: {}", plain(name), text(value)?), page.width)));
    let lines: Vec<String> = lines.collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// A key as people read it: `kv_cache` as `kv cache`.
fn plain(name: &str) -> String {
    name.replace('_', " ")
}

/// A text within a width, indented, and further so from its second line on. A word that is too long has a line of its own.
fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("    {word}")),
            None => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n")
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
