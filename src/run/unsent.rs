//! Answers of older versions for points that were not sent. They called such a point failed or refused, and said only in the
//! message that the engine's own estimate ruled it out.

use serde_json::Value;

use super::Event;
use super::journal::Entry;
use crate::boundary::{Moves, Verdict};

/// Separated the engine's words from the estimate: `…; the engine itself says that 8352 tokens would fit, and 8384 do not`.
const NOTE: &str = "; the engine itself says that ";

/// A journal's entry as this version would have written it.
pub(super) fn classified(mut entry: Entry) -> Entry {
    match &mut entry.event {
        Event::Done { kind, answer, .. } if kind == "probe" => {
            let _ = classify(answer);
        }
        Event::Point {
            verdict, moves, answer, ..
        } => {
            let unsent = classify(answer);
            if unsent {
                (*verdict, *moves) = (Verdict::NotSent, Moves::Bounds);
            }
        }
        _ => {}
    }
    entry
}

/// Gives an answer its verdict by its evidence, and returns whether it was for a point that was not sent.
fn classify(answer: &mut Value) -> bool {
    if !matches!(answer["verdict"].as_str(), Some("start_failed" | "refused")) || answer["evidence"]["issued"] != 0 {
        return false;
    }
    let message = answer["evidence"]["message"].as_str().unwrap_or_default();
    let Some((said, note)) = message.split_once(NOTE) else {
        return false;
    };
    let Some(reported) = note.split(' ').next().and_then(|tokens| tokens.parse::<u64>().ok()) else {
        return false;
    };
    let said = said.to_owned();
    answer["evidence"]["message"] = said.into();
    answer["evidence"]["reported"] = reported.into();
    answer["verdict"] = Verdict::NotSent.name().into();
    answer["moves"] = Moves::Bounds.name().into();
    true
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_an_estimate_ruled_out_was_not_sent() {
        let answer = |verdict: &str, issued: u64, message: &str| json!({ "verdict": verdict, "cause": "memory", "moves": "fails", "evidence": { "issued": issued, "message": message } });
        let note = "ValueError: too long; the engine itself says that 8352 tokens would fit, and 8384 do not";
        for (verdict, issued, message, unsent) in [
            ("start_failed", 0, note, true),
            ("refused", 0, note, true),
            ("start_failed", 0, "ValueError: too long", false),
            ("refused", 1, note, false),
            ("oom", 0, note, false),
        ] {
            let (before, mut after) = (answer(verdict, issued, message), answer(verdict, issued, message));
            assert_eq!(classify(&mut after), unsent, "{before}");
            if !unsent {
                assert_eq!(after, before);
                continue;
            }
            assert_eq!(
                (&after["verdict"], &after["moves"]),
                (&json!("not_sent"), &json!("bounds"))
            );
            let evidence = (&after["evidence"]["message"], &after["evidence"]["reported"]);
            assert_eq!(evidence, (&json!("ValueError: too long"), &json!(8352)));
        }
    }
}
