//! A comparison as a pull request comment in GitHub Flavored Markdown, within GitHub's size limit.
//!
//! The verdict is the heading, followed by warnings. Long lists are folded. Foreign text is escaped.

use super::tables::{changed_points, differences, thresholds};
use super::text::{completeness_warnings, simulated};
use super::thresholds::{Evaluation, Verdict};
use super::{Comparison, comparison_findings, label, property};
use crate::compare::ComparisonInput;
use crate::report::plot::{Entry, Sheet};

/// Maximum size in bytes: a GitHub comment holds 65,536 characters.
const MOST: usize = 64_000;

/// Beyond this many bytes, only folded rows are added.
const FOLDED: usize = 40_000;

/// Maximum bytes of warnings.
const WARNINGS: usize = 16_000;

/// Rows of a table before the rest is folded; lists have half as many.
const ROWS: usize = 40;

/// Maximum characters of one text.
const LONGEST: usize = 400;

/// Setup properties that are always listed.
const SETUP: [&str; 7] = [
    "model",
    "engine",
    "GPU",
    "runtime",
    "image",
    "simulated profile",
    "script",
];

/// Formats the comparison. No trailing newline.
#[must_use]
pub fn comparison_markdown(inputs: &[ComparisonInput], comparison: &Comparison, evaluation: &Evaluation) -> String {
    let findings = comparison_findings(comparison, inputs.len());
    let headline = match evaluation.has_thresholds {
        true => threshold_headline(inputs, evaluation),
        false => escape(&findings.join("; ")),
    };
    let mut page = Text(format!("## profiler compare: {headline}\n"));
    for line in warnings(inputs, comparison) {
        if page.0.len() < WARNINGS {
            page.add(&format!("\n> {line}\n"));
        }
    }
    for text in findings
        .iter()
        .filter(|_| evaluation.has_thresholds)
        .chain(&comparison.advice)
    {
        page.add(&format!("\n{}\n", escape(text)));
    }
    page.add(&setup_table(inputs));
    if evaluation.has_thresholds {
        page.table("### Thresholds", "", &thresholds(evaluation, inputs.len()));
    }
    for (fits, title) in [
        (false, "### Fitted before, and fail now"),
        (true, "### Failed before, and fit now"),
    ] {
        page.list(title, &changed_points(comparison, fits, inputs.len()));
    }
    for sheet in differences(comparison) {
        let name = &sheet.title;
        let heading = if evaluation.has_thresholds {
            String::new()
        } else {
            format!("### {}", escape(name))
        };
        page.table(&heading, &escape(name), &sheet);
    }
    let others: Vec<String> = comparison
        .differences
        .iter()
        .filter(|difference| !difference.first)
        .map(|difference| {
            format!(
                "{}: {}, {} in {}",
                difference.name,
                difference.before,
                difference.after,
                label(difference.subject)
            )
        })
        .collect();
    page.folded("setup differences", &others);
    page.folded("notes", &comparison.notes);
    page.0.trim_end().to_owned()
}

/// The result of the thresholds.
fn threshold_headline(inputs: &[ComparisonInput], evaluation: &Evaluation) -> String {
    let count = |verdict| {
        evaluation
            .with_verdict(verdict)
            .filter(|one| one.threshold.is_some())
            .count()
    };
    let (exceeded, missing) = (count(Verdict::Exceeded), count(Verdict::NotCompared));
    let plural = |count: usize| if count == 1 { "threshold" } else { "thresholds" };
    let missing = match missing {
        0 => String::new(),
        missing => format!(", {missing} not compared"),
    };
    let unclear = match count(Verdict::NotComparable) {
        0 => String::new(),
        unclear => format!(", {unclear} not comparable"),
    };
    let unfinished = inputs.iter().enumerate();
    let unfinished = unfinished.filter(|(_, input)| input.unfinished.is_some());
    let unfinished: String = unfinished
        .map(|(index, _)| format!("; \\[{}\\] did not come to its end", index + 1))
        .collect();
    let verdict = match exceeded {
        0 => format!("no threshold exceeded{missing}"),
        exceeded => format!("{exceeded} {} exceeded{missing}", plural(exceeded)),
    };
    format!("{verdict}{unclear}{unfinished}")
}

/// Everything a reader must know before believing the numbers.
fn warnings(inputs: &[ComparisonInput], comparison: &Comparison) -> Vec<String> {
    let mut warnings: Vec<String> = simulated(inputs).iter().map(|text| bold(text)).collect();
    warnings.extend(completeness_warnings(inputs).iter().map(|text| bold(text)));
    let differences = comparison.differences.iter().filter(|difference| difference.first);
    warnings.extend(differences.map(|difference| bold(&difference.sentence())));
    for (index, input) in inputs.iter().enumerate() {
        for case in &input.cases {
            let found = case.implausible.iter();
            warnings.extend(found.map(|found| {
                bold(&format!(
                    "implausible in {} ({}): {}: {}",
                    label(index),
                    case.name,
                    found.name,
                    found.text
                ))
            }));
        }
        warnings.extend(
            input
                .notes
                .iter()
                .map(|note| format!("{} {}", label(index), escape(note))),
        );
    }
    let more = warnings.len().saturating_sub(ROWS);
    warnings.truncate(ROWS);
    if more > 0 {
        warnings.push(format!("and {more} more with `--json`"));
    }
    warnings
}

/// Table of the setup of each input.
fn setup_table(inputs: &[ComparisonInput]) -> String {
    let mut lines = vec![format!(
        "| what was run | {} |",
        (0..inputs.len()).map(label).collect::<Vec<_>>().join(" | ")
    )];
    lines.push(format!("| --- |{}", " --- |".repeat(inputs.len())));
    let mut line = |name: &str, values: Vec<Option<&str>>| {
        if values.iter().any(Option::is_some) {
            let values = values
                .into_iter()
                .map(|value| value.map_or_else(|| "-".to_owned(), escape));
            lines.push(format!("| {name} | {} |", values.collect::<Vec<_>>().join(" | ")));
        }
    };
    line(
        "source",
        inputs.iter().map(|input| Some(input.title.as_str())).collect(),
    );
    line("type", inputs.iter().map(|input| Some(input.holds)).collect());
    for name in SETUP {
        line(name, inputs.iter().map(|input| property(input, name)).collect());
    }
    format!("\n{}\n", lines.join("\n"))
}

/// Markdown text that stops growing at `MOST` bytes.
struct Text(String);

impl Text {
    fn add(&mut self, text: &str) {
        if self.0.len() + text.len() < MOST {
            self.0.push_str(text);
        }
    }

    /// A table. Rows beyond the limit are folded; without a heading, all rows are folded under `summary`.
    fn table(&mut self, heading: &str, summary: &str, sheet: &Sheet) {
        let lines: Vec<String> = sheet.rows.iter().map(|row| row_line(row)).collect();
        let heads: Vec<Entry> = sheet.columns.iter().map(|name| name.as_str().into()).collect();
        let head = format!("{}|{}\n", row_line(&heads), " --- |".repeat(heads.len()));
        let shown = if heading.is_empty() { 0 } else { lines.len().min(ROWS) };
        if shown > 0 {
            self.add(&format!("\n{heading}\n\n{head}"));
            let mut left = shown;
            for line in &lines[..shown] {
                if self.0.len() + line.len() > FOLDED {
                    break;
                }
                self.0.push_str(line);
                left -= 1;
            }
            if left > 0 {
                self.add(&format!("\nand {left} more with `--json`\n"));
            }
        }
        let summary = if shown > 0 { "more of them" } else { summary };
        self.fold(summary, &head, &lines[shown..]);
    }

    fn list(&mut self, heading: &str, texts: &[String]) {
        if texts.is_empty() {
            return;
        }
        let items: Vec<String> = texts.iter().map(|text| format!("- {}\n", escape(text))).collect();
        let shown = items.len().min(ROWS / 2);
        self.add(&format!("\n{heading}\n\n{}", items[..shown].concat()));
        self.fold("more of them", "", &items[shown..]);
    }

    /// A list that is folded as a whole.
    fn folded(&mut self, summary: &str, texts: &[String]) {
        let items: Vec<String> = texts.iter().map(|text| format!("- {}\n", escape(text))).collect();
        self.fold(summary, "", &items);
    }

    fn fold(&mut self, summary: &str, head: &str, lines: &[String]) {
        const END: &str = "\n</details>\n";
        // Space for the line that counts the omitted rows.
        const SPARE: usize = 200;
        let begin = format!(
            "\n<details>\n<summary>{} ({})</summary>\n\n{head}",
            summary,
            lines.len()
        );
        let space = MOST.saturating_sub(END.len() + SPARE);
        if lines.is_empty() || self.0.len() + begin.len() + lines[0].len() > space {
            return;
        }
        self.0.push_str(&begin);
        let mut left = lines.len();
        for line in lines {
            if self.0.len() + line.len() > space {
                break;
            }
            self.0.push_str(line);
            left -= 1;
        }
        if left > 0 {
            self.0.push_str(&format!("\nand {left} more with `--json`\n"));
        }
        self.0.push_str(END);
    }
}

fn row_line(row: &[Entry]) -> String {
    let cells = row.iter().map(|entry| match entry {
        Entry::Text(text) => escape(text),
        Entry::Number(number) => number.to_string(),
        Entry::None => "-".to_owned(),
    });
    format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
}

fn bold(text: &str) -> String {
    format!("**{}**", escape(text))
}

/// Escapes foreign text: no markup, one line, no mentions, limited length.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut letters = text.chars().take(LONGEST).peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // Later in the line it is harmless.
            '>' if escaped.is_empty() => escaped.push_str("&gt;"),
            // Neither a mention of a user nor a reference to an issue.
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            '|' | '\\' | '*' | '`' | '[' | ']' | '~' | '$' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            // Harmless within a word.
            '_' if !(before.is_alphanumeric() && letters.peek().is_some_and(|next| next.is_alphanumeric())) => {
                escaped.push_str("\\_")
            }
            letter if letter.is_whitespace() || letter.is_control() => {
                if before != ' ' {
                    escaped.push(' ');
                }
                before = ' ';
                continue;
            }
            letter => escaped.push(letter),
        }
        before = letter;
    }
    if text.chars().count() > LONGEST {
        escaped.push('…');
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{Direction, Unit};
    use crate::report::comparison::{ComparedMetric, Finding, Section};

    #[test]
    fn a_comment_is_never_longer_than_it_may_be() {
        let finding = |index: usize, verdict, threshold: Option<String>| Finding {
            subject: 1,
            case: format!("a case <of> many | words {index} {}", "x".repeat(300)),
            name: "p99_ttft_ms".to_owned(),
            unit: Unit::Milliseconds,
            better: Some(Direction::Less),
            before: Some(1.0),
            after: Some(2.0),
            difference: Some(1.0),
            percent: Some(100.0),
            intervals: [None, None],
            limit: threshold.is_some().then_some(1.0),
            at_most: Some(true),
            threshold,
            verdict,
            why: None,
        };
        let note = "a note & <its> words, ".repeat(100);
        let input = ComparisonInput {
            title: "a".to_owned(),
            notes: vec![note.clone(); 500],
            ..ComparisonInput::default()
        };
        let line = |index: usize| ComparedMetric {
            name: format!("metric_{index}"),
            unit: Unit::Milliseconds,
            better: Some(Direction::Less),
            values: vec![Some(1.0), Some(2.0)],
            percents: vec![Some(0.0), Some(100.0)],
            intervals: vec![None, None],
            proven: false,
            verdicts: vec![Verdict::Same, Verdict::Worse],
        };
        for (ruled, plain) in [(0, 5000), (5000, 5000), (30, 5000), (3000, 0)] {
            let comparison = Comparison {
                notes: vec![note.clone(); 500],
                sections: vec![Section {
                    names: vec![Some("a case".to_owned()); 2],
                    lines: (0..plain).map(line).collect(),
                }],
                ..Comparison::default()
            };
            let findings =
                (0..ruled).map(|index| finding(index, Verdict::Exceeded, Some("p99_ttft_ms<=+5%".to_owned())));
            let evaluation = Evaluation {
                has_thresholds: ruled > 0,
                findings: findings.collect(),
            };
            let text = comparison_markdown(&[input.clone(), input.clone()], &comparison, &evaluation);
            assert!(text.len() < 65_000, "{}", text.len());
            assert!(text.len() > 30_000, "there is room for more: {}", text.len());
            assert_eq!(text.matches("<details>").count(), text.matches("</details>").count());
            assert!(text.contains("more with `--json`"));
        }
    }

    #[test]
    fn texts_of_others_are_no_markup() {
        assert_eq!(escape("p99_ttft_ms"), "p99_ttft_ms");
        assert_eq!(
            escape("a|b <b>&\n@me #1 [x](y) _z_"),
            "a\\|b &lt;b>&amp; &#64;me &#35;1 \\[x\\](y) \\_z\\_"
        );
        assert_eq!(escape(&"x".repeat(1000)).chars().count(), 401);
    }
}
