//! Bars: one row for each level of a sweep, one panel of bars for each figure, and what happens at a level beside its row.

use serde_json::Value;

use super::cells::{Style, width};
use super::given::Mark;
use crate::report::Page;

/// Columns of a bar at most, and at least.
const LONGEST: usize = 28;
const SHORTEST: usize = 6;
/// Blanks between panels.
const GAP: usize = 2;

/// What is drawn as bars.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Bars {
    /// What the levels are: `concurrency`.
    pub(super) along: String,
    /// The levels, from above.
    pub(super) at: Vec<Value>,
    /// The figures.
    pub(super) panels: Vec<Panel>,
    /// What is told of levels.
    pub(super) marks: Vec<Mark>,
}

/// One figure at every level.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Panel {
    /// Its name, with the unit.
    pub(super) name: String,
    /// Its values, from 0 up; nothing where a level has none.
    pub(super) values: Vec<Option<f64>>,
}

impl Bars {
    /// The text, no wider than the page unless the page is too narrow for the shortest bars.
    pub(super) fn draw(&self, page: Page) -> String {
        let style = Style::of(self.at.iter());
        let levels: Vec<String> = self.at.iter().map(|level| style.text(level)).collect();
        let left = levels.iter().map(|text| width(text)).max().unwrap_or(0);
        let left = left.max(width(&self.along));
        let panels: Vec<Drawn> = self.panels.iter().map(Drawn::of).collect();
        let told: Vec<String> = self.at.iter().map(|level| self.told(level, page)).collect();
        let aside = told.iter().map(|text| width(text)).max().unwrap_or(0);
        let fixed = 2 + left + panels.iter().map(|panel| GAP + panel.figures + 1).sum::<usize>();
        let each = |rest: usize| page.width.saturating_sub(fixed + rest) / panels.len().max(1);
        // Where there is no room for words beside the rows, they stand below.
        let beside = each(aside) >= SHORTEST;
        let long = each(if beside { aside } else { 0 }).clamp(SHORTEST, LONGEST);
        let mut head = format!("  {:>left$}", self.along);
        for panel in &panels {
            let room = long + 1 + panel.figures;
            head.push_str(&format!("  {:<room$}", clipped(panel.name, room)));
        }
        let mut lines = vec![head.trim_end().to_owned()];
        for (row, level) in levels.iter().enumerate() {
            let mut line = format!("  {level:>left$}");
            for panel in &panels {
                line.push_str(&format!("  {}", panel.row(row, long, page)));
            }
            if beside {
                line.push_str(&told[row]);
            }
            lines.push(line.trim_end().to_owned());
        }
        if !beside {
            let told = levels.iter().zip(&told).filter(|(_, text)| !text.is_empty());
            lines
                .extend(told.map(|(level, text)| format!("  at {level}:{}", text.trim_start_matches([' ', '◄', '<']))));
        }
        let elsewhere = (self.marks.iter()).filter(|mark| !self.at.iter().any(|level| same(&mark.at, level)));
        lines.extend(elsewhere.map(|mark| format!("  at {}: {}", style.text(&mark.at), mark.text)));
        lines.join("\n")
    }

    /// What is told of a level, with what leads the eye from its row.
    fn told(&self, level: &Value, page: Page) -> String {
        let marks: Vec<&str> = self
            .marks
            .iter()
            .filter(|mark| same(&mark.at, level))
            .map(|mark| mark.text.as_str())
            .collect();
        if marks.is_empty() {
            return String::new();
        }
        format!("  {} {}", page.pick("◄", "<"), marks.join(", "))
    }
}

/// A panel with its figures as text.
struct Drawn<'a> {
    name: &'a str,
    values: &'a [Option<f64>],
    texts: Vec<String>,
    /// The width of the widest figure.
    figures: usize,
    highest: f64,
}

impl<'a> Drawn<'a> {
    fn of(panel: &'a Panel) -> Self {
        let values: Vec<Value> = panel.values.iter().map(|value| Value::from(*value)).collect();
        let style = Style::of(values.iter());
        let texts: Vec<String> = values.iter().map(|value| style.text(value)).collect();
        Self {
            name: &panel.name,
            values: &panel.values,
            figures: texts.iter().map(|text| width(text)).max().unwrap_or(1),
            texts,
            highest: panel.values.iter().flatten().copied().fold(0.0, f64::max),
        }
    }

    /// The bar of one row, and its figure to the right of it.
    fn row(&self, row: usize, long: usize, page: Page) -> String {
        let value = self.values.get(row).copied().flatten().unwrap_or(0.0);
        let share = if self.highest > 0.0 { value / self.highest } else { 0.0 };
        let text = self.texts.get(row).map_or("-", String::as_str);
        let bar = bar(share, long, page);
        let blanks = " ".repeat(long.saturating_sub(width(&bar)));
        format!("{bar}{blanks} {text:>figures$}", figures = self.figures)
    }
}

/// A bar of a share of the length; what is there at all is at least a sliver.
fn bar(share: f64, long: usize, page: Page) -> String {
    const PARTS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * 8.0 * long as f64).round() as usize;
    let eighths = if share > 0.0 { eighths.max(1) } else { 0 };
    if page.unicode {
        format!("{}{}", "█".repeat(eighths / 8), PARTS[eighths % 8])
    } else {
        "#".repeat(eighths.div_ceil(8))
    }
}

/// Whether two levels are one: 64 is 64.0.
pub(super) fn same(one: &Value, other: &Value) -> bool {
    one == other || one.as_f64().is_some_and(|value| other.as_f64() == Some(value))
}

/// A name in so many columns.
fn clipped(name: &str, room: usize) -> String {
    name.chars().take(room).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Bars, Panel};
    use crate::report::Page;

    fn bars() -> Bars {
        let panel = |name: &str, values: Vec<Option<f64>>| Panel {
            name: name.into(),
            values,
        };
        Bars {
            along: "concurrency".into(),
            at: vec![json!(1), json!(64), json!(256)],
            panels: vec![
                panel("output tokens/s", vec![Some(60.0), Some(1200.0), Some(1200.0)]),
                panel("p95 TTFT, ms", vec![Some(50.5), None, Some(4000.0)]),
            ],
            marks: serde_json::from_value(json!([
                { "at": 64.0, "text": "knee" },
                { "at": 64, "text": "preemption from here" },
            ]))
            .unwrap(),
        }
    }

    #[test]
    fn a_bar_is_as_long_as_its_figure_says() {
        let text = bars().draw(Page {
            width: 100,
            unicode: true,
            colour: false,
        });
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("  concurrency  output tokens/s"), "{text}");
        assert!(lines[1].contains("  60.0"), "{text}");
        assert!(lines[2].contains("1200.0"), "{text}");
        assert!(lines[2].ends_with(" -  ◄ knee, preemption from here"), "{text}");
        let full = |line: &str| line.matches('█').count();
        assert!(full(lines[2]) > 10 && full(lines[3]) == 2 * full(lines[2]), "{text}");
        assert!(full(lines[1]) <= 1, "{text}");
    }

    #[test]
    fn it_fits_the_page_in_ascii_too() {
        for width in [60, 80, 200] {
            let text = bars().draw(Page {
                width,
                ..Page::default()
            });
            assert!(text.is_ascii() && text.contains("####"), "{text}");
            assert!(text.lines().all(|line| line.len() <= width), "{width}:\n{text}");
            assert!(text.contains("knee, preemption from here"), "{text}");
        }
    }

    #[test]
    fn a_sweep_without_a_level_is_a_heading() {
        let empty = Bars {
            at: Vec::new(),
            marks: Vec::new(),
            panels: Vec::new(),
            ..bars()
        };
        assert_eq!(empty.draw(Page::default()), "  concurrency");
    }
}
