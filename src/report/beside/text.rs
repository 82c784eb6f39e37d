//! Subjects side by side on a terminal: what they were made with differently first, then the figures, then the thresholds.

use console::Style;

use super::judge::{Finding, Judged, Verdict};
use super::{Beside, Line, Turned, letter};
use crate::compare::{ComparisonInput, Unit};
use crate::report::figure::{figure, relative};
use crate::report::subject::{gate, heading, lines};
use crate::report::table::table;
use crate::report::{Page, SIMULATED};

/// Points that turned, and differences of what was run, that are listed; the rest is in the JSON.
const LISTED: usize = 12;

/// Side by side, as people read it. No line end after the last line.
pub fn beside(subjects: &[ComparisonInput], beside: &Beside, judged: &Judged, page: Page) -> String {
    let mut parts = Vec::new();
    parts.extend(simulated(subjects));
    parts.extend(
        doubts(subjects)
            .into_iter()
            .map(|text| page.paint(&text, Style::new().magenta().bold())),
    );
    let (first, others): (Vec<_>, Vec<_>) = beside.unlike.iter().partition(|unlike| unlike.first);
    if !first.is_empty() {
        let sentences: Vec<String> = first.iter().map(|unlike| unlike.sentence()).collect();
        // As of warnings: yellow cannot be read on white.
        let title = page.paint("what is compared is not the same", Style::new().magenta().bold());
        parts.push(format!(
            "{title}\n{}",
            lines(sentences.iter().map(String::as_str), page)
        ));
    }
    for subject in subjects {
        parts.extend(subject.cases.iter().filter_map(|case| gate(case, true, page)));
    }
    let numbered = subjects.iter().enumerate();
    parts.extend(numbered.map(|(index, subject)| format!("{} {}", letter(index), heading(subject))));
    if !others.is_empty() {
        let told = others.iter().map(|unlike| {
            let (before, after) = (&unlike.before, &unlike.after);
            format!("{}: {before}, and {after} in {}", unlike.name, letter(unlike.subject))
        });
        parts.push(listed("made differently", &told.collect::<Vec<_>>(), page));
    }
    if !beside.advice.is_empty() {
        parts.push(beside.advice.join("\n"));
    }
    for (fits, title) in [
        (false, "fitted before, and fail now"),
        (true, "failed before, and fit now"),
    ] {
        let turned = beside.turned.iter().filter(|turned| turned.fits == fits);
        let turned: Vec<String> = turned.map(|one| self::turned(one, subjects.len())).collect();
        if !turned.is_empty() {
            parts.push(listed(title, &turned, page));
        }
    }
    for section in &beside.sections {
        let mut headings = vec![section.name().to_owned()];
        for index in 0..subjects.len() {
            headings.push(letter(index));
            if index > 0 {
                headings.push("of [1]".to_owned());
            }
        }
        let rows: Vec<Vec<String>> = section.lines.iter().map(row).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        parts.push(table(&headings, &rows, page));
    }
    if beside.sections.is_empty() {
        parts.push("nothing that one of them has is in another".to_owned());
    }
    let notes: Vec<String> = subjects
        .iter()
        .enumerate()
        .flat_map(|(index, subject)| {
            subject
                .notes
                .iter()
                .map(move |note| format!("{} {note}", letter(index)))
        })
        .chain(beside.notes.iter().cloned())
        .collect();
    if !notes.is_empty() {
        parts.push(format!("notes\n{}", lines(notes.iter().map(String::as_str), page)));
    }
    if judged.asked {
        parts.push(thresholds(subjects, judged, page));
    }
    parts.join("\n\n")
}

/// Which runs have less than they would have, or nothing.
#[must_use]
pub fn doubts(subjects: &[ComparisonInput]) -> Vec<String> {
    let numbered = subjects.iter().enumerate();
    let doubts = numbered.filter_map(|(index, subject)| match (&subject.unfinished, subject.empty()) {
        (_, true) => Some(format!(
            "{} has nothing to compare: nothing was measured",
            letter(index)
        )),
        (Some(_), _) => Some(format!(
            "{} did not come to its end: what it has proven is a lower bound, and what it measured may be a part",
            letter(index)
        )),
        _ => None,
    });
    doubts.collect()
}

/// What must be said of simulated subjects, if there are any.
pub(super) fn simulated(subjects: &[ComparisonInput]) -> Option<String> {
    let said: Vec<String> = (0..subjects.len())
        .filter(|index| subjects[*index].simulated)
        .map(letter)
        .collect();
    // What has no figure was neither simulated nor measured.
    let measured = subjects.iter().any(|subject| !subject.simulated && !subject.empty());
    match said.len() {
        0 => None,
        _ if !measured => Some(SIMULATED.to_owned()),
        _ => Some(format!(
            "{SIMULATED}: this is so of {} alone, so that its figures and those of the others say nothing of each other",
            said.join(", ")
        )),
    }
}

/// Every threshold with what it came to, those exceeded first.
fn thresholds(subjects: &[ComparisonInput], judged: &Judged, page: Page) -> String {
    let mut findings: Vec<&Finding> = judged.findings.iter().filter(|one| one.threshold.is_some()).collect();
    findings.sort_by_key(|finding| weight(finding.verdict));
    let several = subjects.len() > 2;
    let rows: Vec<Vec<String>> = findings
        .iter()
        .map(|one| {
            let subject = if several {
                format!(" in {}", letter(one.subject))
            } else {
                String::new()
            };
            vec![
                format!("{} of {}{subject}", one.name, one.case),
                value(one.before, one.unit),
                value(one.after, one.unit),
                relative(one.percent),
                limit(one),
                one.said(),
            ]
        })
        .collect();
    let count = |verdict| judged.of(verdict).filter(|one| one.threshold.is_some()).count();
    let exceeded = count(Verdict::Exceeded);
    let verdict = format!(
        "thresholds: {exceeded} exceeded, {} within, {} with no difference seen, {} not compared{}",
        count(Verdict::Within),
        count(Verdict::NoDifferenceSeen),
        count(Verdict::NotCompared),
        match count(Verdict::NotComparable) {
            0 => String::new(),
            several => format!(", {several} not comparable"),
        }
    );
    let rows = table(
        &["", "[1]", if several { "now" } else { "[2]" }, "of [1]", "allowed", ""],
        &rows,
        page,
    );
    format!("{rows}\n\n{verdict}")
}

/// The order in which verdicts are told.
pub(super) fn weight(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::Exceeded => 0,
        Verdict::NotCompared => 1,
        Verdict::NotComparable => 2,
        Verdict::Worse => 3,
        Verdict::NoDifferenceSeen => 4,
        Verdict::Within => 5,
        Verdict::Better => 6,
        Verdict::Other => 7,
        Verdict::Same => 8,
    }
}

/// What a threshold allows: `at most 210.00 ms`; as it was written where that cannot be told.
pub(super) fn limit(finding: &Finding) -> String {
    match (finding.limit, finding.at_most, &finding.threshold) {
        (Some(limit), Some(true), _) => format!("at most {}", figure(limit, finding.unit)),
        (Some(limit), Some(false), _) => format!("at least {}", figure(limit, finding.unit)),
        (_, _, Some(text)) => text.clone(),
        _ => String::new(),
    }
}

pub(super) fn value(value: Option<f64>, unit: Unit) -> String {
    value.map_or_else(|| "-".to_owned(), |value| figure(value, unit))
}

/// `input=4000 output=512: ok, now oom (cuda) at input=3900 output=500`.
pub(super) fn turned(turned: &Turned, subjects: usize) -> String {
    let at = turned.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
    let subject = if subjects > 2 {
        format!(" in {}", letter(turned.subject))
    } else {
        String::new()
    };
    format!("{}: {}, now {}{at}{subject}", turned.point, turned.before, turned.after)
}

fn listed(title: &str, texts: &[String], page: Page) -> String {
    let mut shown = lines(texts.iter().take(LISTED).map(String::as_str), page);
    if texts.len() > LISTED {
        shown.push_str(&format!("\n  and {} more with --json", texts.len() - LISTED));
    }
    format!("{title}\n{shown}")
}

fn row(line: &Line) -> Vec<String> {
    let mut row = vec![line.name.clone()];
    for (index, (value, apart)) in line.values.iter().zip(&line.percents).enumerate() {
        row.push(self::value(*value, line.unit));
        if index > 0 {
            row.push(relative(*apart));
        }
    }
    row
}
