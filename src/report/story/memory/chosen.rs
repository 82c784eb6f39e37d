//! Which of many starts are drawn: the first, the last, the fullest, and those that died; the others are rows of a table.

use super::picture::highest;
use super::start::Start;

/// Starts that are drawn at most.
const MOST: usize = 6;

/// The indices of those that are drawn, in their order.
pub(super) fn chosen(starts: &[Start]) -> Vec<usize> {
    if starts.len() <= MOST {
        return (0..starts.len()).collect();
    }
    let died = |start: &Start| start.failure().is_some() || start.deaths().next().is_some();
    let peak = |start: &Start| {
        let devices = 0..start.devices.len();
        devices.map(|device| highest(start.series.rows(), device)).max()
    };
    let fullest = (0..starts.len()).max_by_key(|&index| (peak(&starts[index]), std::cmp::Reverse(index)));
    let mut indices = vec![0, starts.len() - 1];
    indices.extend(fullest);
    // The last deaths are those nearest to the limit that was looked for.
    indices.extend((0..starts.len()).rev().filter(|&index| died(&starts[index])));
    let mut drawn = Vec::new();
    for index in indices {
        if drawn.len() < MOST && !drawn.contains(&index) {
            drawn.push(index);
        }
    }
    drawn.sort_unstable();
    drawn
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::run::Life;

    #[test]
    fn of_many_starts_the_ends_and_the_deaths_are_drawn() {
        let failed = Life {
            failure: json!({ "cause": "memory" }),
            ..Life::default()
        };
        let start = |index: usize| Start {
            life: [3, 5, 20, 21, 22, 23].contains(&index).then_some(&failed),
            ..Start::default()
        };
        let many: Vec<Start> = (0..40).map(start).collect();
        assert_eq!(chosen(&many), [0, 20, 21, 22, 23, 39]);
        assert_eq!(chosen(&many[..3]), [0, 1, 2]);
        assert_eq!(chosen(&[]), Vec::<usize>::new());
    }
}
