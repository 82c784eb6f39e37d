//! Which of many starts are drawn: the first, the last, the fullest, and those that died. The table lists all.

use super::chart::highest;
use super::start::Start;

/// Maximum number of starts drawn.
const MAX_DRAWN: usize = 6;

/// Indices of the starts to draw, ascending.
pub(super) fn starts_to_draw(starts: &[Start]) -> Vec<usize> {
    if starts.len() <= MAX_DRAWN {
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
    // The latest deaths are nearest to the limit that was searched for.
    indices.extend((0..starts.len()).rev().filter(|&index| died(&starts[index])));
    let mut drawn = Vec::new();
    for index in indices {
        if drawn.len() < MAX_DRAWN && !drawn.contains(&index) {
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
    use crate::run::EngineSession;

    #[test]
    fn first_last_and_died_starts_are_drawn() {
        let failed = EngineSession {
            failure: json!({ "cause": "memory" }),
            ..EngineSession::default()
        };
        let start = |index: usize| Start {
            life: [3, 5, 20, 21, 22, 23].contains(&index).then_some(&failed),
            ..Start::default()
        };
        let many: Vec<Start> = (0..40).map(start).collect();
        assert_eq!(starts_to_draw(&many), [0, 20, 21, 22, 23, 39]);
        assert_eq!(starts_to_draw(&many[..3]), [0, 1, 2]);
        assert_eq!(starts_to_draw(&[]), Vec::<usize>::new());
    }
}
