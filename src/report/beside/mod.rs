//! Runs, and files of other tools, side by side: what the first has in common with the others, relative to the first.
//!
//! `limits` says what boundaries come to and which points turned, `unlike` in what the subjects were made differently. `rule` is a threshold as the user writes it, `judge`
//! holds the thresholds against the figures, `proof` says how far what is proven of a boundary can be; `text` and `markdown` are what people read.

mod judge;
mod limits;
mod markdown;
mod proof;
mod rule;
mod text;
mod turned;
mod unlike;

use std::collections::BTreeSet;

use serde::Serialize;

use crate::compare::{Case, ComparisonInput, Direction, Unit};
use crate::fault::Result;

pub use judge::{Finding, Judged, Thresholds, Verdict};
pub use markdown::markdown;
pub use rule::Rule;
pub use text::{beside, doubts};
pub use turned::Turned;
pub use unlike::Unlike;

use super::figure::relative;

/// How much was looked at rather than what was found: no threshold is on these, nor on standard deviations.
const EFFORT: [&str; 5] = ["points", "runs", "samples", "timeline_samples", "sampled_for"];

/// What several subjects have in common.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Beside {
    /// The boundary, and each case of the first subject that others have too.
    pub sections: Vec<Section>,
    /// What has no counterpart.
    pub notes: Vec<String>,
    /// Figures that the first has and another lacks, or the other way round.
    pub alone: Vec<Alone>,
    /// What they were made with differently, the first against each other.
    pub unlike: Vec<Unlike>,
    /// Points that fitted in the first and fail in another, and the other way round: at most a few hundred of each kind.
    pub turned: Vec<Turned>,
    /// What has become of the point that the first recommends, in sentences.
    pub advice: Vec<String>,
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
    /// Which way it is better; none where nobody said.
    pub better: Option<Direction>,
    /// Its value, by subject.
    pub values: Vec<Option<f64>>,
    /// The value less that of the first, relative to the first, in hundredths.
    pub percents: Vec<Option<f64>>,
    /// Where each value lies: with 95 % confidence, or, of a limit, from what is proven to fit to what is proven to fail.
    pub intervals: Vec<Option<[f64; 2]>>,
    /// Whether it is what a boundary has proven, not something measured.
    pub proven: bool,
}

/// A figure that only one of two has.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alone {
    /// The other subject's index; the first is 0.
    pub subject: usize,
    /// The case or boundary.
    pub case: String,
    /// The figure.
    pub name: String,
    /// Its unit.
    pub unit: Unit,
    /// Its value in the first.
    pub before: Option<f64>,
    /// Its value in the other.
    pub after: Option<f64>,
}

/// A figure by its name.
#[derive(Clone, Debug, PartialEq)]
struct Named {
    name: String,
    unit: Unit,
    value: f64,
    interval: Option<[f64; 2]>,
    better: Option<Direction>,
    proven: bool,
}

impl Named {
    fn new(name: impl Into<String>, unit: Unit, value: f64) -> Self {
        let name = name.into();
        Self {
            better: Direction::of(&name, unit),
            name,
            unit,
            value,
            interval: None,
            proven: false,
        }
    }
}

impl Section {
    /// What it is called.
    #[must_use]
    pub fn name(&self) -> &str {
        self.names.iter().flatten().next().map_or("", String::as_str)
    }
}

impl Beside {
    /// Sets subjects side by side.
    pub fn of(subjects: &[ComparisonInput]) -> Result<Self> {
        let limits = limits::limits(subjects)?;
        let mut beside = Self {
            notes: limits.notes,
            unlike: unlike::unlike(subjects),
            turned: limits.turned,
            advice: limits.advice,
            ..Self::default()
        };
        beside.add(limits.names, &limits.figures);
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
            }
            let figures: Vec<Vec<Named>> = partners.iter().map(|case| case.map_or_else(Vec::new, named)).collect();
            beside.add(
                partners.iter().map(|case| case.map(|case| case.name.clone())).collect(),
                &figures,
            );
        }
        for (index, (other, met)) in others.iter().zip(&met).enumerate() {
            let alone = other.cases.iter().enumerate().filter(|(index, _)| !met.contains(index));
            for (_, case) in alone {
                beside.notes.push(format!("only {} has {}", other.title, case.name));
                beside.alone.extend(named(case).into_iter().map(|one| Alone {
                    subject: index + 1,
                    case: case.name.clone(),
                    name: one.name,
                    unit: one.unit,
                    before: None,
                    after: Some(one.value),
                }));
            }
        }
        Ok(beside)
    }

    /// The figures among those that are `chosen` which are further from the first than so many hundredths, as text. What the first has as zero has no scale: it counts
    /// where another has something.
    #[must_use]
    pub fn beyond(&self, percent: f64, chosen: impl Fn(&str) -> bool) -> Vec<String> {
        let mut found = Vec::new();
        for section in &self.sections {
            let found_out = |line: &&Line| !EFFORT.contains(&line.name.as_str()) && !line.name.starts_with("std_");
            for line in section.lines.iter().filter(found_out).filter(|line| chosen(&line.name)) {
                for (value, apart) in line.values.iter().zip(&line.percents).skip(1) {
                    let zero = line.values[0] == Some(0.0) && value.is_some_and(|value| value != 0.0);
                    if apart.is_some_and(|apart| apart.abs() > percent) || zero {
                        found.push(
                            format!("{} of {} {}", line.name, section.name(), relative(*apart))
                                .trim_end()
                                .to_owned(),
                        );
                    }
                }
            }
        }
        found
    }

    fn add(&mut self, names: Vec<Option<String>>, figures: &[Vec<Named>]) {
        let case = names.iter().flatten().next().cloned().unwrap_or_default();
        let mut lines: Vec<Line> = Vec::new();
        for one in figures.iter().flatten() {
            if lines.iter().any(|line| line.name == one.name) {
                continue;
            }
            let same: Vec<Option<&Named>> = figures
                .iter()
                .map(|figures| {
                    figures
                        .iter()
                        .find(|other| other.name == one.name && other.unit == one.unit)
                })
                .collect();
            let values: Vec<Option<f64>> = same.iter().map(|one| one.map(|one| one.value)).collect();
            let lacking = values.iter().enumerate().skip(1);
            let lacking = lacking.filter(|(_, value)| value.is_some() != values[0].is_some());
            self.alone.extend(lacking.map(|(subject, value)| Alone {
                subject,
                case: case.clone(),
                name: one.name.clone(),
                unit: one.unit,
                before: values[0],
                after: *value,
            }));
            if values.iter().flatten().count() < 2 {
                continue;
            }
            let apart = |value: &Option<f64>| {
                let (value, first) = (value.as_ref()?, values[0].filter(|first| *first != 0.0)?);
                Some(100.0 * (value - first) / first.abs())
            };
            lines.push(Line {
                name: one.name.clone(),
                unit: one.unit,
                better: one.better,
                proven: one.proven,
                percents: values.iter().map(apart).collect(),
                intervals: same.iter().map(|one| one.and_then(|one| one.interval)).collect(),
                values,
            });
        }
        if !lines.is_empty() {
            self.sections.push(Section { names, lines });
        }
    }
}

/// The components of a case, then its figures.
fn named(case: &Case) -> Vec<Named> {
    let mut named = Vec::new();
    if let Some(breakdown) = &case.breakdown {
        let bytes = |name: &str, bytes: i64| Named::new(name, Unit::Bytes, bytes as f64);
        let parts = breakdown.parts.iter();
        named.extend(parts.map(|part| bytes(part.component.name(), part.bytes)));
        named.push(bytes("physical", i64::try_from(breakdown.total).unwrap_or(i64::MAX)));
    }
    named.extend(case.figures.iter().map(|one| Named {
        interval: one.interval,
        ..Named::new(&one.name, one.unit, one.value)
    }));
    named
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

/// How a subject is called in tables: `[1]`.
fn letter(index: usize) -> String {
    format!("[{}]", index + 1)
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
