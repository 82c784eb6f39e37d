//! The expected answers of the probes in flight. With several engines, a point waits if its answer mostly follows from
//! theirs: near a limit that runs along one axis, the middles of all its lines ask for the same thing.

use super::version_space::HypothesisSet;
use super::{Boundary, Point};
use crate::error::Result;

/// A point is probed if the answers in flight leave at least this share of the hypotheses' disagreement about it.
const LEFT: f64 = 0.5;

/// Below this share of disagreeing hypotheses, a point is probed as a proof and does not wait.
const DISAGREE: f64 = 0.1;

impl Boundary {
    /// True if the answers in flight are expected to settle most of what the hypotheses disagree about a point: it is
    /// better chosen once they are there.
    pub(super) fn waits(&self, point: &Point) -> Result<bool> {
        if self.asked.is_empty() {
            return Ok(false);
        }
        let Some(hypotheses) = self.hypotheses()? else {
            return Ok(false);
        };
        let (_, cell) = self.lattice.cells(point)?;
        let votes = hypotheses.votes(&cell);
        let share = hypotheses.share(votes);
        if !(DISAGREE..=1.0 - DISAGREE).contains(&share) {
            return Ok(false);
        }
        let all = HypothesisSet::MAX >> (HypothesisSet::BITS - hypotheses.count());
        let mut groups = vec![all];
        for asked in &self.asked {
            let answers = hypotheses.votes(asked);
            groups = groups
                .iter()
                .flat_map(|group| [group & answers, group & !answers])
                .collect();
            groups.retain(|group| *group != 0);
        }
        // The variance of the votes, within the hypotheses that each outcome leaves.
        let within = |group: HypothesisSet| {
            let (admit, count) = (f64::from((group & votes).count_ones()), f64::from(group.count_ones()));
            admit - admit * admit / count
        };
        let left: f64 = groups.into_iter().map(within).sum();
        Ok(left < LEFT * within(all))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Answer, Options, Verdict};
    use super::*;

    #[test]
    fn a_point_waits_for_an_answer_that_will_mostly_settle_it() {
        // A limit along the input alone agrees with these answers, and so do slopes.
        let axes = json!({ "input": [128, 131072], "output": [16, 2048] });
        let mut map = Boundary::new(&axes, Options::default()).unwrap();
        let point = |input: i64, output: i64| Point::default().with("input", input).with("output", output);
        for (at, verdict) in [(point(60000, 2048), Verdict::Ok), (point(90000, 16), Verdict::Oom)] {
            map.record(&at, &Answer::from(verdict)).unwrap();
        }
        let beside = point(75000, 1000);
        assert!(!map.waits(&beside).unwrap(), "nothing is in flight");
        map.ask(&point(75500, 900)).unwrap();
        assert!(map.waits(&beside).unwrap());
        // Its answer says little of these, and nothing of one on which all agree.
        for at in [point(67000, 1500), point(84000, 100), point(60500, 1900)] {
            assert!(!map.waits(&at).unwrap(), "{at}");
        }
    }
}
