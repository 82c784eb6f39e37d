//! Records as lines of JSON, one a request with all its moments: what a load leaves, so that any figure can be worked out again. Pure.
//!
//! Moments are seconds since the load's clock began, exact to the nanosecond; gaps are milliseconds. What did not happen is `null`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Counts;
use super::record::{Failure, FailureForm, Outcome, Record};
use crate::fault::{Fault, Result};

/// A record as it is written.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    /// Which of several loads of the same kind, from 1.
    repeat: u64,
    index: u64,
    warmup: bool,
    /// Tokens asked for.
    input: u64,
    output: u64,
    scheduled: f64,
    sent: f64,
    first_byte: Option<f64>,
    first_token: Option<f64>,
    last_token: Option<f64>,
    ended: f64,
    gaps_ms: Vec<f32>,
    events: u64,
    tokens_seen: Option<u64>,
    counted: Counted,
    finish: Option<String>,
    outcome: Ended,
    failure: Option<Failed>,
    /// There only where texts were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

/// The engine's own counts.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Counted {
    input: Option<u64>,
    output: Option<u64>,
}

#[derive(Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Ended {
    Completed,
    Failed,
    CutOff,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failed {
    /// `status_429`, `broken`, …
    form: String,
    message: String,
}

impl Record {
    /// One line of JSON, without its end. `repeat`: which of several loads of the same kind, from 1.
    ///
    /// # Errors
    ///
    /// `internal` where the record cannot be written.
    pub fn to_line(&self, repeat: u64) -> Result<String> {
        let (outcome, failure) = match &self.outcome {
            Outcome::Completed => (Ended::Completed, None),
            Outcome::CutOff => (Ended::CutOff, None),
            Outcome::Failed(failure) => {
                let failed = Failed {
                    form: failure.form.to_string(),
                    message: failure.message.clone(),
                };
                (Ended::Failed, Some(failed))
            }
        };
        let seconds = |moment: Option<Duration>| moment.map(|moment| moment.as_secs_f64());
        let line = Line {
            repeat,
            index: self.index,
            warmup: self.warmup,
            input: self.input,
            output: self.output,
            scheduled: self.scheduled.as_secs_f64(),
            sent: self.sent.as_secs_f64(),
            first_byte: seconds(self.first_byte),
            first_token: seconds(self.first_token),
            last_token: seconds(self.last_token),
            ended: self.ended.as_secs_f64(),
            gaps_ms: self.gaps_ms.clone(),
            events: self.events,
            tokens_seen: self.tokens_seen,
            counted: Counted {
                input: self.counts.input,
                output: self.counts.output,
            },
            finish: self.finish.clone(),
            outcome,
            failure,
            text: self.text.clone(),
        };
        serde_json::to_string(&line).map_err(|error| Fault::internal(format!("a request cannot be written: {error}")))
    }

    /// Reads a line that [`Record::to_line`] wrote: which repeat, and the record.
    ///
    /// # Errors
    ///
    /// `usage` where it is none.
    pub fn from_line(line: &str) -> Result<(u64, Self)> {
        let line: Line = serde_json::from_str(line).map_err(|error| broken(&error.to_string()))?;
        let moment = |seconds: f64| {
            Duration::try_from_secs_f64(seconds).map_err(|_| broken(&format!("`{seconds}` is no moment")))
        };
        let outcome = match (line.outcome, line.failure) {
            (Ended::Completed, None) => Outcome::Completed,
            (Ended::CutOff, None) => Outcome::CutOff,
            (Ended::Failed, Some(failed)) => Outcome::Failed(Failure {
                form: form_of(&failed.form).ok_or_else(|| broken(&format!("`{}` is no failure", failed.form)))?,
                message: failed.message,
            }),
            _ => return Err(broken("`outcome` and `failure` do not go together")),
        };
        let record = Self {
            index: line.index,
            warmup: line.warmup,
            input: line.input,
            output: line.output,
            scheduled: moment(line.scheduled)?,
            sent: moment(line.sent)?,
            first_byte: line.first_byte.map(moment).transpose()?,
            first_token: line.first_token.map(moment).transpose()?,
            last_token: line.last_token.map(moment).transpose()?,
            ended: moment(line.ended)?,
            gaps_ms: line.gaps_ms,
            events: line.events,
            tokens_seen: line.tokens_seen,
            counts: Counts {
                input: line.counted.input,
                output: line.counted.output,
            },
            text: line.text,
            finish: line.finish,
            outcome,
        };
        Ok((line.repeat, record))
    }
}

/// The form of that name.
fn form_of(name: &str) -> Option<FailureForm> {
    if let Some(status) = name.strip_prefix("status_") {
        return status.parse().ok().map(FailureForm::Status);
    }
    let forms = [
        FailureForm::InStream,
        FailureForm::Broken,
        FailureForm::Unreachable,
        FailureForm::Deadline,
        FailureForm::EndedEarly,
        FailureForm::Malformed,
    ];
    forms.into_iter().find(|form| form.to_string() == name)
}

fn broken(what: &str) -> Fault {
    Fault::usage(format!("a line is no request of a load: {what}"))
        .hint("give `loads/<n>.jsonl` of a run's folder, as it was written")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn moment() -> impl Strategy<Value = Duration> {
        // Up to a day, to the nanosecond.
        (0_u64..86_400_000_000_000).prop_map(Duration::from_nanos)
    }

    fn outcome() -> impl Strategy<Value = Outcome> {
        let form = prop_oneof![
            (100_u16..600).prop_map(FailureForm::Status),
            Just(FailureForm::InStream),
            Just(FailureForm::Broken),
            Just(FailureForm::Unreachable),
            Just(FailureForm::Deadline),
            Just(FailureForm::EndedEarly),
            Just(FailureForm::Malformed),
        ];
        prop_oneof![
            Just(Outcome::Completed),
            Just(Outcome::CutOff),
            (form, ".*").prop_map(|(form, message)| Outcome::Failed(Failure { form, message })),
        ]
    }

    fn record() -> impl Strategy<Value = Record> {
        let moments = (
            moment(),
            moment(),
            prop::option::of(moment()),
            prop::option::of(moment()),
            moment(),
        );
        let gaps = prop::collection::vec((0_u16..u16::MAX).prop_map(|sevenths| f32::from(sevenths) / 7.0), 0..5);
        let counts = (
            any::<u64>(),
            prop::option::of(any::<u64>()),
            prop::option::of(any::<u64>()),
        );
        let rest = (any::<bool>(), prop::option::of(".*"), outcome());
        (moments, gaps, counts, rest).prop_map(|(moments, gaps_ms, (index, input, output), (warmup, text, outcome))| {
            Record {
                index,
                warmup,
                input: index / 2,
                output: index / 3,
                scheduled: moments.0,
                sent: moments.1,
                first_byte: moments.2,
                first_token: moments.3,
                last_token: moments.2,
                ended: moments.4,
                events: gaps_ms.len() as u64,
                gaps_ms,
                tokens_seen: output,
                counts: Counts { input, output },
                finish: text.clone(),
                text,
                outcome,
            }
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_it_was(record in record(), repeat in 1_u64..9) {
            let line = record.to_line(repeat).unwrap();
            prop_assert!(!line.contains('\n'));
            prop_assert_eq!(Record::from_line(&line).unwrap(), (repeat, record));
        }
    }

    #[test]
    fn what_is_no_request_is_told() {
        for (line, word) in [("{}", "missing field"), ("", "EOF"), ("[1]", "no request")] {
            let fault = Record::from_line(line).unwrap_err();
            assert!(fault.message.contains(word), "{}", fault.message);
        }
    }
}
