//! The requests of a load, read from the file that has each with all its moments: as quickly as a report needs them, so that of large loads the gaps between
//! events are read of every n-th request only. A file that ends within a line, as a killed run's does, is read up to there.

use std::fs::File;
use std::io::{BufRead, BufReader};

use serde::Deserialize;

use crate::run::read_line;

/// Requests whose gaps are read, about.
const GAPPED: u64 = 2000;

/// A line, as far as it is needed.
#[derive(Deserialize)]
struct Line {
    warmup: bool,
    sent: f64,
    first_token: Option<f64>,
    last_token: Option<f64>,
    ended: f64,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Completed,
    Failed,
    CutOff,
}

#[derive(Deserialize)]
struct Gaps {
    gaps_ms: Vec<f32>,
}

/// What the requests of a load took. Those of the warm-up are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// Of completed requests: times to the first token, gaps between events, whole times; milliseconds, ascending.
    pub ttft: Vec<f32>,
    pub itl: Vec<f32>,
    pub e2el: Vec<f32>,
    /// The gaps are those of every n-th request.
    pub every: u64,
    /// When requests failed, in seconds since the load's clock began.
    pub failed: Vec<f64>,
    /// Lines that are no request.
    pub torn: u64,
}

/// Reads a file of requests.
///
/// # Errors
///
/// Where it cannot be read.
pub(super) fn read(file: File) -> std::io::Result<Requests> {
    let bytes = file.metadata()?.len();
    of(BufReader::with_capacity(1 << 18, file), bytes)
}

/// Reads lines; `bytes` is how long they are together.
fn of(mut lines: impl BufRead, bytes: u64) -> std::io::Result<Requests> {
    let mut found = Requests {
        every: 1,
        ..Requests::default()
    };
    let (mut text, mut short) = (Vec::new(), Vec::new());
    let mut number: u64 = 0;
    loop {
        text.clear();
        if read_line(&mut lines, &mut text)? == 0 {
            break;
        }
        if number == 0 {
            // The first line stands for the others.
            found.every = (bytes / text.len() as u64 / GAPPED).max(1);
        }
        number += 1;
        shorten(&text, &mut short);
        let Ok(line) = serde_json::from_slice::<Line>(&short) else {
            found.torn += 1;
            continue;
        };
        if line.warmup {
            continue;
        }
        match line.outcome {
            Outcome::Completed => {}
            Outcome::Failed => {
                found.failed.push(line.ended);
                continue;
            }
            Outcome::CutOff => continue,
        }
        let since = |moment: Option<f64>| moment.map(|moment| ((moment - line.sent) * 1e3) as f32);
        found.ttft.extend(since(line.first_token));
        found.e2el.extend(since(line.last_token));
        if number.is_multiple_of(found.every)
            && let Ok(gaps) = serde_json::from_slice::<Gaps>(&text)
        {
            found.itl.extend(gaps.gaps_ms);
        }
    }
    for times in [&mut found.ttft, &mut found.itl, &mut found.e2el] {
        times.sort_unstable_by(f32::total_cmp);
    }
    found.failed.sort_unstable_by(f64::total_cmp);
    Ok(found)
}

/// A line without its gaps, which are most of it. Within a text the quotes of the key would be escaped.
fn shorten(text: &[u8], short: &mut Vec<u8>) {
    const KEY: &[u8] = b"\"gaps_ms\":[";
    short.clear();
    let gaps = memchr::memmem::find(text, KEY).map(|at| at + KEY.len());
    let end = gaps.and_then(|gaps| Some(gaps + memchr::memchr(b']', &text[gaps..])?));
    match gaps.zip(end) {
        Some((gaps, end)) => {
            short.extend_from_slice(&text[..gaps]);
            short.extend_from_slice(&text[end..]);
        }
        None => short.extend_from_slice(text),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::{Counts, Failure, FailureForm, Outcome as Ended, Record};

    fn line(index: u64, warmup: bool, outcome: Ended) -> String {
        let at = Duration::from_millis;
        let record = Record {
            index,
            warmup,
            input: 8,
            output: 3,
            scheduled: at(0),
            sent: at(10),
            first_byte: Some(at(20)),
            first_token: Some(at(30 + index)),
            last_token: Some(at(60)),
            ended: at(61),
            gaps_ms: vec![12.5, 17.5],
            events: 3,
            tokens_seen: None,
            counts: Counts {
                input: Some(8),
                output: Some(3),
            },
            text: Some("\"gaps_ms\":[1]\n".into()),
            finish: None,
            outcome,
        };
        record.to_line(1).unwrap() + "\n"
    }

    #[test]
    fn what_a_load_wrote_is_read_but_for_its_warm_up_and_the_torn_end() {
        let failed = Ended::Failed(Failure {
            form: FailureForm::Broken,
            message: "reset".into(),
        });
        let ended = [
            (0, true, Ended::Completed),
            (2, false, Ended::Completed),
            (1, false, Ended::Completed),
            (3, false, failed),
            (4, false, Ended::CutOff),
        ];
        let mut text: String = ended
            .map(|(index, warmup, outcome)| line(index, warmup, outcome))
            .concat();
        text += "{\"repeat\":1,\"ind";
        let found = of(text.as_bytes(), text.len() as u64).unwrap();
        assert_eq!((found.ttft, found.e2el), (vec![21.0, 22.0], vec![50.0, 50.0]));
        assert_eq!((found.itl, found.every), (vec![12.5, 12.5, 17.5, 17.5], 1));
        assert_eq!((found.failed, found.torn), (vec![0.061], 1));
    }

    #[test]
    fn of_many_requests_some_tell_the_gaps() {
        let text: String = (0..5 * GAPPED)
            .map(|index| line(index, false, Ended::Completed))
            .collect();
        let found = of(text.as_bytes(), text.len() as u64).unwrap();
        assert_eq!(found.ttft.len() as u64, 5 * GAPPED);
        assert!(
            found.every > 2 && found.itl.len() as u64 == 2 * (5 * GAPPED / found.every),
            "{}",
            found.every
        );
    }
}
