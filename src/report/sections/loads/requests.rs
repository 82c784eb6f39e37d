//! Reads the request file of a load. In large files only every n-th request's token gaps are parsed, for speed. A
//! truncated last line is skipped.

use std::fs::File;
use std::io::{BufRead, BufReader};

use serde::Deserialize;

use crate::run::read_line;

/// Approximate number of requests whose token gaps are read.
const ITL_SAMPLES: u64 = 2000;

/// The fields of a line that are needed.
#[derive(Deserialize)]
struct RequestLine {
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

/// Times of a load's requests without the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Requests {
    /// Of completed requests: TTFT, token gaps, E2E latency; milliseconds, ascending.
    pub ttft: Vec<f32>,
    pub itl: Vec<f32>,
    pub e2el: Vec<f32>,
    /// Token gaps are from every n-th request.
    pub itl_every: u64,
    /// When requests failed, in seconds of the load's clock.
    pub failed: Vec<f64>,
    /// Number of lines that could not be parsed.
    pub unreadable: u64,
}

pub(super) fn read(file: File) -> std::io::Result<Requests> {
    let bytes = file.metadata()?.len();
    parse(BufReader::with_capacity(1 << 18, file), bytes)
}

/// Parses lines; `bytes` is their total length.
fn parse(mut lines: impl BufRead, bytes: u64) -> std::io::Result<Requests> {
    let mut found = Requests {
        itl_every: 1,
        ..Requests::default()
    };
    let (mut text, mut stripped) = (Vec::new(), Vec::new());
    let mut number: u64 = 0;
    loop {
        text.clear();
        if read_line(&mut lines, &mut text)? == 0 {
            break;
        }
        if number == 0 {
            // Estimate the number of lines from the first.
            found.itl_every = (bytes / text.len() as u64 / ITL_SAMPLES).max(1);
        }
        number += 1;
        strip_gaps(&text, &mut stripped);
        let Ok(line) = serde_json::from_slice::<RequestLine>(&stripped) else {
            found.unreadable += 1;
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
        if number.is_multiple_of(found.itl_every)
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

/// Removes the gaps, which are most of a line. Inside a string the quotes of the key would be escaped.
fn strip_gaps(text: &[u8], stripped: &mut Vec<u8>) {
    const KEY: &[u8] = b"\"gaps_ms\":[";
    stripped.clear();
    let gaps = memchr::memmem::find(text, KEY).map(|at| at + KEY.len());
    let end = gaps.and_then(|gaps| Some(gaps + memchr::memchr(b']', &text[gaps..])?));
    match gaps.zip(end) {
        Some((gaps, end)) => {
            stripped.extend_from_slice(&text[..gaps]);
            stripped.extend_from_slice(&text[end..]);
        }
        None => stripped.extend_from_slice(text),
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
            itl_ms: vec![12.5, 17.5],
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
    fn request_file_is_read_without_warmup_and_truncated_line() {
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
        let found = parse(text.as_bytes(), text.len() as u64).unwrap();
        assert_eq!((found.ttft, found.e2el), (vec![21.0, 22.0], vec![50.0, 50.0]));
        assert_eq!((found.itl, found.itl_every), (vec![12.5, 12.5, 17.5, 17.5], 1));
        assert_eq!((found.failed, found.unreadable), (vec![0.061], 1));
    }

    #[test]
    fn gaps_are_read_for_some_of_many_requests() {
        let text: String = (0..5 * ITL_SAMPLES)
            .map(|index| line(index, false, Ended::Completed))
            .collect();
        let found = parse(text.as_bytes(), text.len() as u64).unwrap();
        assert_eq!(found.ttft.len() as u64, 5 * ITL_SAMPLES);
        assert!(
            found.itl_every > 2 && found.itl.len() as u64 == 2 * (5 * ITL_SAMPLES / found.itl_every),
            "{}",
            found.itl_every
        );
    }
}
