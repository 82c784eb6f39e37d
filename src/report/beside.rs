//! Runs, and files of other tools, side by side: what the first has in common with the others, relative to the first.

use std::collections::BTreeSet;

use serde::Serialize;

use super::figure::{figure, relative};
use super::subject::{gate, heading, lines};
use super::table::table;
use super::{Page, SIMULATED, advise};
use crate::boundary::{Boundary, Point};
use crate::fault::Result;
use crate::run::{Case, Subject, Unit};

/// How much was looked at rather than what was found: no threshold is on these, nor on standard deviations.
const EFFORT: [&str; 5] = ["points", "runs", "samples", "timeline_samples", "sampled_for"];

/// What several subjects have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Beside {
    /// The boundary, and each case of the first subject that others have too.
    pub sections: Vec<Section>,
    /// What has no counterpart.
    pub notes: Vec<String>,
}

/// One thing that several have.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Section {
    /// What each subject calls it; none where one has no such thing.
    pub names: Vec<Option<String>>,
    /// The figures that at least two have.
    pub lines: Vec<Line>,
}

/// One figure of several subjects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Its value, by subject.
    pub values: Vec<Option<f64>>,
    /// The value less that of the first, relative to the first, in hundredths.
    pub percents: Vec<Option<f64>>,
}

impl Beside {
    /// Sets subjects side by side.
    pub fn of(subjects: &[Subject]) -> Result<Self> {
        let mut beside = Self::default();
        let boundaries: Vec<Option<Boundary>> = subjects
            .iter()
            .map(|subject| {
                let drawn = subject.boundary.as_ref().filter(|found| !found.points.is_empty());
                drawn.map(crate::run::FoundBoundary::rebuild).transpose()
            })
            .collect::<Result<_>>()?;
        let figures: Vec<Named> = boundaries
            .iter()
            .map(|boundary| boundary.as_ref().map_or_else(|| Ok(Vec::new()), limits))
            .collect::<Result<_>>()?;
        let names = boundaries
            .iter()
            .map(|boundary| boundary.as_ref().map(|_| "boundary".to_owned()));
        beside.add(names.collect(), &figures);
        let Some((first, others)) = subjects.split_first() else {
            return Ok(beside);
        };
        let mut met: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); others.len()];
        for case in &first.cases {
            let mut partners = vec![Some(case)];
            for (other, met) in others.iter().zip(&mut met) {
                let index = partner(case, &first.cases, &other.cases);
                met.extend(index);
                partners.push(index.map(|index| &other.cases[index]));
            }
            if partners.iter().flatten().count() == 1 {
                beside.notes.push(format!("only {} has {}", first.title, case.name));
                continue;
            }
            let figures: Vec<Named> = partners.iter().map(|case| case.map_or_else(Vec::new, named)).collect();
            beside.add(
                partners.iter().map(|case| case.map(|case| case.name.clone())).collect(),
                &figures,
            );
        }
        for (other, met) in others.iter().zip(&met) {
            let alone = other.cases.iter().enumerate().filter(|(index, _)| !met.contains(index));
            beside
                .notes
                .extend(alone.map(|(_, case)| format!("only {} has {}", other.title, case.name)));
        }
        Ok(beside)
    }

    /// The figures among those that are `chosen` which are further from the first than so many hundredths, as text. What the first has as zero has no scale: it counts
    /// where another has something.
    #[must_use]
    pub fn beyond(&self, percent: f64, chosen: impl Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for section in &self.sections {
            let name = section.names.iter().flatten().next().map_or("", String::as_str);
            let found_out = |line: &&Line| !EFFORT.contains(&line.name.as_str()) && !line.name.starts_with("std_");
            for line in section.lines.iter().filter(found_out).filter(|line| chosen(&line.name)) {
                for (value, apart) in line.values.iter().zip(&line.percents).skip(1) {
                    let zero = line.values[0] == Some(0.0) && value.is_some_and(|value| value != 0.0);
                    if apart.is_some_and(|apart| apart.abs() > percent) || zero {
                        found.push(
                            format!("{} of {name} {}", line.name, relative(*apart))
                                .trim_end()
                                .to_owned(),
                        );
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, names: Vec<Option<String>>, figures: &[Named]) {
        let mut lines: Vec<Line> = Vec::new();
        for (name, unit, _) in figures.iter().flatten() {
            if lines.iter().any(|line| line.name == *name) {
                continue;
            }
            let value = |figures: &Named| {
                let same = figures.iter().find(|(other, same, _)| other == name && same == unit);
                same.map(|(_, _, value)| *value)
            };
            let values: Vec<Option<f64>> = figures.iter().map(value).collect();
            if values.iter().flatten().count() < 2 {
                continue;
            }
            let apart = |value: &Option<f64>| {
                let (value, first) = (value.as_ref()?, values[0].filter(|first| *first != 0.0)?);
                Some(100.0 * (value - first) / first.abs())
            };
            lines.push(Line {
                name: name.clone(),
                unit: *unit,
                percents: values.iter().map(apart).collect(),
                values,
            });
        }
        if !lines.is_empty() {
            self.sections.push(Section { names, lines });
        }
    }
}

/// Figures by name, in order.
type Named = Vec<(String, Unit, f64)>;

/// The components of a case, then its figures.
fn named(case: &Case) -> Named {
    let mut named = Named::new();
    if let Some(breakdown) = &case.breakdown {
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let bytes = |bytes: i64| bytes as f64;
        let parts = breakdown.parts.iter();
        named.extend(parts.map(|part| (part.component.name().to_owned(), Unit::Bytes, bytes(part.bytes))));
        let total = i64::try_from(breakdown.total).unwrap_or(i64::MAX);
        named.push(("physical".to_owned(), Unit::Bytes, bytes(total)));
    }
    named.extend(case.figures.iter().map(|one| (one.name.clone(), one.unit, one.value)));
    named
}

/// What a boundary comes to, in figures.
fn limits(boundary: &Boundary) -> Result<Named> {
    let mut named = Named::new();
    #[expect(clippy::cast_precision_loss, reason = "a number of points")]
    named.push(("points".to_owned(), Unit::Count, boundary.records().len() as f64));
    let total = |point: &Point| Some(point.int("input")?.saturating_add(point.int("output")?));
    if let Some(largest) = boundary.frontier()?.iter().filter_map(total).max() {
        #[expect(clippy::cast_precision_loss, reason = "lengths are far below 2^53")]
        named.push((
            "largest input + output that fits".to_owned(),
            Unit::Tokens,
            largest as f64,
        ));
    }
    if let Some(advice) = advise(boundary)? {
        for (what, point) in [("safe", advice.safe), ("recommended", advice.recommended)] {
            for (axis, value) in &point.0 {
                let unit = if matches!(axis.as_str(), "input" | "output") {
                    Unit::Tokens
                } else {
                    Unit::Count
                };
                named.push((format!("{what} {axis}"), unit, value.as_f64()));
            }
        }
    }
    Ok(named)
}

/// The case of another subject that is compared with this one: of the same name; of coordinates that agree as far as both tell them,
/// if there is one such; or the only one beside the only one.
pub fn partner(case: &Case, own: &[Case], others: &[Case]) -> Option<usize> {
    if let Some(same) = others.iter().position(|other| other.name == case.name) {
        return Some(same);
    }
    let coordinates = |case: &Case| -> BTreeSet<String> { case.name.split_whitespace().map(str::to_owned).collect() };
    let mine = coordinates(case);
    let agree = |other: &Case| {
        let other = coordinates(other);
        (mine.is_subset(&other) || other.is_subset(&mine)) && mine.iter().all(|part| part.contains('='))
    };
    let mut agreeing = (0..others.len()).filter(|index| agree(&others[*index]));
    match (agreeing.next(), agreeing.next()) {
        (Some(one), None) => Some(one),
        _ => (own.len() == 1 && others.len() == 1).then_some(0),
    }
}

/// Side by side, as people read it. No line end after the last line.
pub fn beside(subjects: &[Subject], beside: &Beside, page: Page) -> String {
    let mut parts = Vec::new();
    if subjects.iter().any(|subject| subject.simulated) {
        parts.push(SIMULATED.to_owned());
    }
    for subject in subjects {
        parts.extend(subject.cases.iter().filter_map(|case| gate(case, true, page)));
    }
    let letter = |index: usize| format!("[{}]", index + 1);
    let numbered = subjects.iter().enumerate();
    parts.extend(numbered.map(|(index, subject)| format!("{} {}", letter(index), heading(subject))));
    for section in &beside.sections {
        let mut headings = vec![section.names.iter().flatten().next().cloned().unwrap_or_default()];
        for index in 0..subjects.len() {
            headings.push(letter(index));
            if index > 0 {
                headings.push("of [1]".to_owned());
            }
        }
        let rows: Vec<Vec<String>> = section.lines.iter().map(row).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        parts.push(table(&headings, &rows));
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
    parts.join("\n\n")
}

fn row(line: &Line) -> Vec<String> {
    let mut row = vec![line.name.clone()];
    for (index, (value, apart)) in line.values.iter().zip(&line.percents).enumerate() {
        row.push(value.map_or_else(|| "-".to_owned(), |value| figure(value, line.unit)));
        if index > 0 {
            row.push(relative(*apart));
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_meet_by_what_both_tell() {
        let cases = |names: &[&str]| -> Vec<Case> { names.iter().map(|name| Case::named(*name)).collect() };
        let ours = cases(&["concurrency=4 input=512 output=64", "concurrency=8 input=512 output=64"]);
        let theirs = cases(&["concurrency=8", "concurrency=16"]);
        assert_eq!(partner(&ours[0], &ours, &theirs), None);
        assert_eq!(partner(&ours[1], &ours, &theirs), Some(0));
        assert_eq!(
            partner(&ours[0], &ours[..1], &theirs[..1]),
            Some(0),
            "the only one beside the only one"
        );
        let twice = cases(&["concurrency=4 dtype=a", "concurrency=4 dtype=b"]);
        let one = cases(&["concurrency=4", "x"]);
        assert_eq!(partner(&one[0], &one, &twice), None, "either could be meant");
    }
}
