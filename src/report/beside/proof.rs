//! How far what is proven of a boundary can be held against a limit. It is no sample: what fitted once fits, and what failed fails.
//!
//! Where a search looked less closely, a lower figure need be no loss; where something that fitted fails now, it is one. A run that did not come to its end has proven
//! only a part: its figures can still move, and a limit says something of them only where it would say the same of all that they could become.

use super::{Line, letter};
use crate::compare::{ComparisonInput, Direction};
use crate::report::beside::Beside;

/// More than any figure is, and yet a number that percentages leave one.
const ENDLESS: f64 = 1e300;

/// What is known of a figure of a boundary besides its value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Proof {
    /// Whether anything that fitted in the first fails in the other.
    fails: bool,
    /// The other way round.
    fits: bool,
    /// Of the first and of the other, where it can still move as the run did not come to its end.
    spans: [Option<[f64; 2]>; 2],
    /// The index of the other.
    subject: usize,
}

impl Proof {
    /// Of a figure of that subject; of what was measured nothing is said.
    pub(super) fn of(line: &Line, subject: usize, subjects: &[ComparisonInput], beside: &Beside) -> Self {
        if !line.proven {
            return Self::default();
        }
        let turned = |fits: bool| {
            beside
                .turned
                .iter()
                .any(|one| one.subject == subject && one.fits == fits)
        };
        let span = |index: usize| {
            subjects.get(index).filter(|one| one.unfinished.is_some())?;
            let (value, interval) = (line.values[index]?, line.intervals[index]);
            // What is counted grows, and what fits does: along an axis that is easier above it is a smaller value.
            Some(
                if line.better == Some(Direction::Less) && !line.name.starts_with("newly ") {
                    [interval.map_or(-ENDLESS, |[low, _]| low), value]
                } else {
                    [value, interval.map_or(ENDLESS, |[_, high]| high)]
                },
            )
        };
        Self {
            fails: turned(false),
            fits: turned(true),
            spans: [span(0), span(subject)],
            subject,
        }
    }

    /// Whether points that turned show a loss, or else a gain.
    pub(super) fn shows(self, loss: bool) -> bool {
        if loss { self.fails } else { self.fits }
    }

    /// Who did not come to its end, if any of the two.
    pub(super) fn unfinished(self) -> Option<String> {
        let [first, other] = self.spans;
        let who = match (first.is_some(), other.is_some()) {
            (false, false) => return None,
            (true, false) => letter(0),
            (false, true) => letter(self.subject),
            (true, true) => format!("{} and {}", letter(0), letter(self.subject)),
        };
        Some(format!(
            "{who} did not come to {} end",
            if who.contains("and") { "their" } else { "its" }
        ))
    }

    /// Whether all that the two could still become lies on the same side of the limit.
    pub(super) fn settles(self, before: Option<f64>, after: f64, beyond: impl Fn(Option<f64>, f64) -> bool) -> bool {
        let befores = match self.spans[0] {
            Some(span) => span.map(Some).to_vec(),
            None => vec![before],
        };
        let afters = self.spans[1].map_or_else(|| vec![after], |span| span.to_vec());
        let mut sides = befores
            .iter()
            .flat_map(|before| afters.iter().map(|after| beyond(*before, *after)));
        let first = sides.next();
        sides.all(|side| Some(side) == first)
    }
}
