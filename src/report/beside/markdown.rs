//! A comparison as a comment on a pull request: GitHub Flavored Markdown that reads well raw too, and is never longer than a comment may be.
//!
//! The verdict is the heading, and what must be known to believe it comes next; the long tail is folded. What texts of others hold never becomes markup.

use super::judge::{Finding, Judged, Verdict};
use super::text::{doubts, limit, simulated, turned, value, weight};
use super::unlike::told;
use super::{Beside, letter};
use crate::compare::ComparisonInput;
use crate::report::figure::{figure, relative};

/// Bytes that the whole may have: a comment on GitHub holds 65,536 characters.
const MOST: usize = 64_000;

/// Bytes from which on nothing but what folds is left out.
const FOLDED: usize = 40_000;

/// Bytes that warnings may fill.
const WARNINGS: usize = 16_000;

/// Rows that a table shows before it is folded, and texts of a list.
const ROWS: usize = 40;

/// Characters of one text.
const LONGEST: usize = 400;

/// What is told of how each was made, before what differs.
const TOLD: [&str; 7] = [
    "model",
    "engine",
    "GPU",
    "runtime",
    "image",
    "simulated profile",
    "script",
];

/// The comparison as Markdown, without a line end after the last line.
#[must_use]
pub fn markdown(subjects: &[ComparisonInput], beside: &Beside, judged: &Judged) -> String {
    let mut page = Text(format!("## profiler compare: {}\n", headline(subjects, judged)));
    for line in warnings(subjects, beside) {
        if page.0.len() < WARNINGS {
            page.add(&format!("\n> {line}\n"));
        }
    }
    page.add(&made(subjects));
    if judged.asked {
        let mut findings: Vec<&Finding> = judged.findings.iter().filter(|one| one.threshold.is_some()).collect();
        findings.sort_by_key(|finding| weight(finding.verdict));
        page.rows("### Thresholds", "", &head(subjects, true), &findings, |one| {
            row(subjects, one, true)
        });
    }
    for advice in &beside.advice {
        page.add(&format!("\n{}\n", escape(advice)));
    }
    for (fits, title) in [
        (false, "### Fitted before, and fail now"),
        (true, "### Failed before, and fit now"),
    ] {
        let points: Vec<String> = beside
            .turned
            .iter()
            .filter(|one| one.fits == fits)
            .map(|one| turned(one, subjects.len()))
            .collect();
        page.list(title, &points);
    }
    if !judged.asked {
        let mut findings: Vec<&Finding> = judged.findings.iter().collect();
        findings.sort_by_key(|finding| weight(finding.verdict));
        page.rows("### Figures", "", &head(subjects, false), &findings, |one| {
            row(subjects, one, false)
        });
    } else {
        let rest: Vec<&Finding> = judged.findings.iter().filter(|one| one.threshold.is_none()).collect();
        page.rows(
            "",
            "figures without a threshold",
            &head(subjects, false),
            &rest,
            |one| row(subjects, one, false),
        );
    }
    let others: Vec<String> = beside
        .unlike
        .iter()
        .filter(|unlike| !unlike.first)
        .map(|unlike| {
            format!(
                "{}: {}, and {} in {}",
                unlike.name,
                unlike.before,
                unlike.after,
                letter(unlike.subject)
            )
        })
        .collect();
    page.folded("made differently", &others);
    page.folded("notes", &beside.notes);
    page.0.trim_end().to_owned()
}

/// The verdict in words.
fn headline(subjects: &[ComparisonInput], judged: &Judged) -> String {
    let count = |verdict| judged.of(verdict).filter(|one| one.threshold.is_some()).count();
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
    let unfinished = subjects.iter().enumerate();
    let unfinished = unfinished.filter(|(_, subject)| subject.unfinished.is_some());
    let unfinished: String = unfinished
        .map(|(index, _)| format!("; \\[{}\\] did not come to its end", index + 1))
        .collect();
    let verdict = match exceeded {
        _ if !judged.asked => "no threshold was set".to_owned(),
        0 => format!("no threshold exceeded{missing}"),
        exceeded => format!("{exceeded} {} exceeded{missing}", plural(exceeded)),
    };
    format!("{verdict}{unclear}{unfinished}")
}

/// What must be known before any figure is believed.
fn warnings(subjects: &[ComparisonInput], beside: &Beside) -> Vec<String> {
    let mut warnings: Vec<String> = simulated(subjects).iter().map(|text| bold(text)).collect();
    warnings.extend(doubts(subjects).iter().map(|text| bold(text)));
    let unlike = beside.unlike.iter().filter(|unlike| unlike.first);
    warnings.extend(unlike.map(|unlike| bold(&unlike.sentence())));
    for (index, subject) in subjects.iter().enumerate() {
        for case in &subject.cases {
            let found = case.implausible.iter();
            warnings.extend(found.map(|found| {
                bold(&format!(
                    "implausible in {} ({}): {}: {}",
                    letter(index),
                    case.name,
                    found.name,
                    found.text
                ))
            }));
        }
        warnings.extend(
            subject
                .notes
                .iter()
                .map(|note| format!("{} {}", letter(index), escape(note))),
        );
    }
    let more = warnings.len().saturating_sub(ROWS);
    warnings.truncate(ROWS);
    if more > 0 {
        warnings.push(format!("and {more} more with `--json`"));
    }
    warnings
}

/// What each was made with.
fn made(subjects: &[ComparisonInput]) -> String {
    let mut lines = vec![format!(
        "| what was run | {} |",
        (0..subjects.len()).map(letter).collect::<Vec<_>>().join(" | ")
    )];
    lines.push(format!("| --- |{}", " --- |".repeat(subjects.len())));
    let mut line = |name: &str, values: Vec<Option<&str>>| {
        if values.iter().any(Option::is_some) {
            let values = values
                .into_iter()
                .map(|value| value.map_or_else(|| "-".to_owned(), escape));
            lines.push(format!("| {name} | {} |", values.collect::<Vec<_>>().join(" | ")));
        }
    };
    line(
        "from",
        subjects.iter().map(|subject| Some(subject.title.as_str())).collect(),
    );
    line(
        "what it is",
        subjects.iter().map(|subject| Some(subject.holds)).collect(),
    );
    for name in TOLD {
        line(name, subjects.iter().map(|subject| told(subject, name)).collect());
    }
    format!("\n{}\n", lines.join("\n"))
}

fn head(subjects: &[ComparisonInput], asked: bool) -> Vec<&'static str> {
    let mut head = vec!["figure", "of"];
    if subjects.len() > 2 {
        head.push("in");
    }
    head.extend(["before", "after", "difference"]);
    if asked {
        head.extend(["threshold", "allowed"]);
    }
    head.push("verdict");
    head
}

fn row(subjects: &[ComparisonInput], one: &Finding, asked: bool) -> Vec<String> {
    let mut row = vec![escape(&one.name), escape(&one.case)];
    if subjects.len() > 2 {
        row.push(letter(one.subject));
    }
    row.extend([value(one.before, one.unit), value(one.after, one.unit), difference(one)]);
    if asked {
        row.push(escape(one.threshold.as_deref().unwrap_or_default()));
        row.push(if one.limit.is_some() {
            limit(one)
        } else {
            "-".to_owned()
        });
    }
    let verdict = escape(&one.said());
    row.push(match one.verdict {
        Verdict::Exceeded | Verdict::NotCompared | Verdict::NotComparable => format!("**{verdict}**"),
        _ => verdict,
    });
    row
}

/// `+12.31 ms (+5.9 %)`.
fn difference(one: &Finding) -> String {
    let Some(difference) = one.difference else {
        return "-".to_owned();
    };
    let sign = if difference > 0.0 { "+" } else { "" };
    let apart = relative(one.percent);
    let apart = if apart.is_empty() { apart } else { format!(" ({apart})") };
    format!("{sign}{}{apart}", figure(difference, one.unit))
}

/// Markdown that grows as long as there is room.
struct Text(String);

impl Text {
    /// What must be there.
    fn add(&mut self, text: &str) {
        if self.0.len() + text.len() < MOST {
            self.0.push_str(text);
        }
    }

    /// A table; beyond some rows folded, and below a summary from the first where there is no heading.
    fn rows<T>(&mut self, heading: &str, summary: &str, head: &[&str], all: &[T], row: impl Fn(&T) -> Vec<String>) {
        if all.is_empty() {
            return;
        }
        let lines = |rows: &[T]| {
            rows.iter()
                .map(|one| format!("| {} |\n", row(one).join(" | ")))
                .collect::<Vec<_>>()
        };
        let head = format!("| {} |\n|{}\n", head.join(" | "), " --- |".repeat(head.len()));
        let shown = if heading.is_empty() { 0 } else { all.len().min(ROWS) };
        if shown > 0 {
            self.add(&format!("\n{heading}\n\n{head}"));
            let mut left = shown;
            for line in lines(&all[..shown]) {
                if self.0.len() + line.len() > FOLDED {
                    break;
                }
                self.0.push_str(&line);
                left -= 1;
            }
            if left > 0 {
                self.add(&format!("\nand {left} more with `--json`\n"));
            }
        }
        let summary = if shown > 0 { "more of them" } else { summary };
        self.fold(summary, &head, &lines(&all[shown..]));
    }

    /// A list; beyond some entries folded.
    fn list(&mut self, heading: &str, texts: &[String]) {
        if texts.is_empty() {
            return;
        }
        let items: Vec<String> = texts.iter().map(|text| format!("- {}\n", escape(text))).collect();
        let shown = items.len().min(ROWS / 2);
        self.add(&format!("\n{heading}\n\n{}", items[..shown].concat()));
        self.fold("more of them", "", &items[shown..]);
    }

    /// A list that is folded whole.
    fn folded(&mut self, summary: &str, texts: &[String]) {
        let items: Vec<String> = texts.iter().map(|text| format!("- {}\n", escape(text))).collect();
        self.fold(summary, "", &items);
    }

    fn fold(&mut self, summary: &str, head: &str, lines: &[String]) {
        const END: &str = "\n</details>\n";
        // Room for the words that say what is left out.
        const SPARE: usize = 200;
        let begin = format!(
            "\n<details>\n<summary>{} ({})</summary>\n\n{head}",
            summary,
            lines.len()
        );
        let room = MOST.saturating_sub(END.len() + SPARE);
        if lines.is_empty() || self.0.len() + begin.len() + lines[0].len() > room {
            return;
        }
        self.0.push_str(&begin);
        let mut left = lines.len();
        for line in lines {
            if self.0.len() + line.len() > room {
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

fn bold(text: &str) -> String {
    format!("**{}**", escape(text))
}

/// A text of somebody else: never markup, never a second line, never a mention, never endless.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut letters = text.chars().take(LONGEST).peekable();
    let mut before = ' ';
    while let Some(letter) = letters.next() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            // Elsewhere than at the beginning it closes nothing, as nothing is opened.
            '>' if escaped.is_empty() => escaped.push_str("&gt;"),
            // Nobody is to be called, and no other issue named.
            '@' => escaped.push_str("&#64;"),
            '#' => escaped.push_str("&#35;"),
            '|' | '\\' | '*' | '`' | '[' | ']' | '~' | '$' => {
                escaped.push('\\');
                escaped.push(letter);
            }
            // Within a word it means nothing.
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
        let subject = ComparisonInput {
            title: "a".to_owned(),
            notes: vec![note.clone(); 500],
            ..ComparisonInput::default()
        };
        let beside = Beside {
            notes: vec![note; 500],
            ..Beside::default()
        };
        for (ruled, plain) in [(0, 5000), (5000, 5000), (30, 5000), (3000, 0)] {
            let ruled = (0..ruled).map(|index| finding(index, Verdict::Exceeded, Some("p99_ttft_ms<=+5%".to_owned())));
            let plain = (0..plain).map(|index| finding(index, Verdict::Worse, None));
            let judged = Judged {
                asked: ruled.len() > 0,
                findings: ruled.chain(plain).collect(),
            };
            let text = markdown(&[subject.clone(), subject.clone()], &beside, &judged);
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
