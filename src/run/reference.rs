//! Points refer to their probes: what the journal leaves out of a point's line, and how it is read back.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Event;
use super::answer::{ID, Operation, id};

/// The most answers that wait to be recorded: one for each engine of a search, with room for scripts that record late.
/// An older answer is written in full when it is recorded.
const MOST_WAITING: usize = 256;

/// Answers of probes that no point has referred to yet. The line of a point holds only what the script changed in the
/// answer of its probe.
///
/// Writing and reading see the same events in the same order, so both find the same answers here.
#[derive(Debug, Default)]
pub(super) struct Waiting(BTreeMap<u64, Map<String, Value>>);

impl Waiting {
    /// Adds the next event of the journal. Points must be complete.
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::Done { id, operation, .. } if matches!(operation, Operation::Probe(_)) => {
                if let Value::Object(answer) = operation.for_script(*id) {
                    self.0.insert(*id, answer);
                }
                if self.0.len() > MOST_WAITING {
                    self.0.pop_first();
                }
            }
            Event::Point { answer, .. } => {
                if let Some(id) = id(answer) {
                    self.0.remove(&id);
                }
            }
            _ => {}
        }
    }

    /// A point's answer without the entries that equal its probe's. Null stands for a key that the script removed.
    pub(super) fn shortened(&self, answer: &Value) -> Option<Value> {
        let probed = self.0.get(&id(answer)?)?;
        let recorded = answer.as_object()?;
        let is_new = |(key, value): &(&String, &Value)| *key == ID || probed.get(*key) != Some(*value);
        let changed = recorded
            .iter()
            .filter(is_new)
            .map(|(key, value)| (key.clone(), value.clone()));
        let removed = probed.keys().filter(|key| !recorded.contains_key(*key));
        let removed = removed.map(|key| (key.clone(), Value::Null));
        Some(changed.chain(removed).collect())
    }

    /// The opposite of [`Self::shortened`].
    pub(super) fn complete(&self, answer: &mut Value) {
        let probed = id(answer).and_then(|id| self.0.get(&id));
        if let (Some(probed), Value::Object(given)) = (probed, answer) {
            for (key, value) in probed {
                given.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn probed(id: u64) -> Event {
        Event::Done {
            id,
            args: json!({ "point": { "input": id } }),
            operation: Operation::Probe(Box::default()),
        }
    }

    #[test]
    fn a_point_refers_to_its_probe_and_is_read_as_it_was_recorded() {
        let mut waiting = Waiting::default();
        (1..=3).for_each(|id| waiting.add(&probed(id)));
        let Event::Done { operation, .. } = probed(2) else {
            unreachable!()
        };
        let answer = operation.for_script(2);
        let mut changed = answer.clone();
        changed["verdict"] = "refused".into();
        changed["spent"] = json!({ "probes": 2 });
        let mut removed = answer.clone();
        removed.as_object_mut().unwrap().remove("gpus");
        let mut with_null = removed.clone();
        with_null["gpus"] = Value::Null;
        for (recorded, line, read) in [
            (&answer, json!({ "id": 2 }), &answer),
            (
                &changed,
                json!({ "id": 2, "verdict": "refused", "spent": { "probes": 2 } }),
                &changed,
            ),
            (&removed, json!({ "id": 2, "gpus": null }), &with_null),
        ] {
            let mut shortened = waiting.shortened(recorded).unwrap();
            assert_eq!(shortened, line);
            waiting.complete(&mut shortened);
            assert_eq!(shortened, *read);
        }
        for own in [
            json!("ok"),
            json!({ "verdict": "ok" }),
            json!({ "verdict": "ok", "id": 9 }),
        ] {
            assert_eq!(waiting.shortened(&own), None, "{own}");
        }
    }

    #[test]
    fn answers_that_wait_too_long_are_written_in_full() {
        let mut waiting = Waiting::default();
        (0..=MOST_WAITING as u64).for_each(|id| waiting.add(&probed(id)));
        assert_eq!(waiting.shortened(&json!({ "id": 0, "verdict": "ok" })), None);
        assert!(waiting.shortened(&json!({ "id": 1, "verdict": "ok" })).is_some());
    }
}
