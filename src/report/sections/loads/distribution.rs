//! Distributions of latencies: the share of requests that took at most a given time, by level. Times are read from the
//! request file of a load. In large files only every n-th request's token gaps are parsed, for speed. A truncated last
//! line is skipped.

use std::fs::File;
use std::io::{BufRead, BufReader};

use serde::Deserialize;

use crate::report::plot::{Axis, Colour, Entry, Layer, Panel, Plot, Scale, Sheet};
use crate::report::sections::format::ms;
use crate::run::read_line;
use crate::unit::Unit;

/// Maximum number of points of a curve, and of points at each end that are always drawn, because tails matter.
const MAX_POINTS: usize = 160;
const END_POINTS: usize = 12;

/// Approximate number of requests whose token gaps are read.
const ITL_SAMPLES: u64 = 2000;

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
    pub unreadable: usize,
}

/// A latency: its label, what its share is of, and its sorted times.
type Latency = (&'static str, &'static str, fn(&Requests) -> &[f32]);

const LATENCIES: [Latency; 3] = [
    ("time to first token (TTFT)", "of requests", |requests| &requests.ttft),
    ("inter-token latency (ITL)", "of tokens", |requests| &requests.itl),
    ("end-to-end latency (E2E)", "of requests", |requests| &requests.e2el),
];

/// The distributions of these named loads; none if no request completed.
pub(super) fn plot(loads: &[(String, Requests)], name: String) -> Option<Plot> {
    let panels = LATENCIES.iter().filter_map(|latency| panel(loads, latency));
    let mut caption = "Where a curve is at 50 %, half of the requests took at most that long.".to_owned();
    if loads.iter().any(|(_, requests)| requests.itl_every > 1) {
        caption += " In large loads, ITL is read for every n-th request only.";
    }
    let plot = Plot::new(name, "Latency distributions", panels)
        .with_words(alt_text(loads), caption)
        .with_sheet(sheet(loads));
    Some(plot).filter(|plot| !plot.panels.is_empty())
}

fn panel(loads: &[(String, Requests)], (label, share, times): &Latency) -> Option<Panel> {
    let curves = loads.iter().enumerate().filter_map(|(index, (name, requests))| {
        let times = times(requests);
        times.iter().any(|time| *time > 0.0).then(|| {
            Layer::line(name.clone(), curve(times), Colour::series(index))
                // Neighbouring curves lie close, so they differ in more than colour.
                .dashed(index % 2 == 1)
                .stepped(true)
        })
    });
    let layers: Vec<Layer> = curves.collect();
    let x = Axis::new(*label, Unit::Milliseconds).with_scale(Scale::Log);
    let y = Axis::new(*share, Unit::Percent).with_range((0.0, 100.0));
    (!layers.is_empty()).then(|| Panel::new(*label, x, y, layers))
}

/// The empirical distribution in per cent. Zero times (tokens that arrived together) count, but have no place on a
/// logarithmic axis.
fn curve(ascending: &[f32]) -> Vec<(f64, Option<f64>)> {
    let n = ascending.len();
    let step = n.div_ceil(MAX_POINTS).max(1);
    let kept = |index: &usize| *index < END_POINTS || index + END_POINTS >= n || index.is_multiple_of(step);
    let point = |index: usize| (f64::from(ascending[index]), Some(100.0 * (index + 1) as f64 / n as f64));
    (0..n).filter(kept).map(point).filter(|point| point.0 > 0.0).collect()
}

/// The empirical quantile: an order statistic of the measured requests, not an estimate.
fn quantile(ascending: &[f32], share: f64) -> Option<f64> {
    let place = (share * ascending.len() as f64).ceil() as usize;
    ascending.get(place.max(1) - 1).map(|time| f64::from(*time))
}

fn alt_text(loads: &[(String, Requests)]) -> String {
    let sentences = loads.iter().filter_map(|(name, requests)| {
        Some(format!(
            "{name}: of {} requests, median TTFT {}, slowest {}; median E2E latency {}.",
            requests.ttft.len(),
            ms(quantile(&requests.ttft, 0.5)?),
            ms(quantile(&requests.ttft, 1.0)?),
            ms(quantile(&requests.e2el, 0.5)?),
        ))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

fn sheet(loads: &[(String, Requests)]) -> Sheet {
    const SHARES: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];
    let rows = loads.iter().flat_map(|(name, requests)| {
        let known = LATENCIES.iter().filter(|(.., times)| !times(requests).is_empty());
        known.map(move |(label, _, times)| -> Vec<Entry> {
            let head: [Entry; 2] = [name.as_str().into(), format!("{label}, ms").into()];
            let quantiles = SHARES.map(|share| quantile(times(requests), share).into());
            head.into_iter().chain(quantiles).collect()
        })
    });
    Sheet::new(["load", "what", "fastest", "10 %", "50 %", "90 %", "slowest"], rows)
}

/// The fields of a line that are needed.
#[derive(Deserialize)]
struct RequestLine {
    warmup: bool,
    sent: f64,
    first_token: Option<f64>,
    last_token: Option<f64>,
    ended: f64,
    gaps_ms: Vec<f32>,
    outcome: Outcome,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Completed,
    Failed,
    CutOff,
}

pub(super) fn read(file: File) -> std::io::Result<Requests> {
    let bytes = file.metadata()?.len();
    parse(BufReader::with_capacity(1 << 18, file), bytes)
}

/// Parses lines; `bytes` is their total length.
fn parse(mut lines: impl BufRead, bytes: u64) -> std::io::Result<Requests> {
    let mut requests = Requests {
        itl_every: 1,
        ..Requests::default()
    };
    let mut text = Vec::new();
    let mut number: u64 = 0;
    while read_line(&mut lines, &mut text)? > 0 {
        if number == 0 {
            // Estimate the number of lines from the first.
            requests.itl_every = (bytes / text.len() as u64 / ITL_SAMPLES).max(1);
        }
        number += 1;
        if !number.is_multiple_of(requests.itl_every) {
            remove_gaps(&mut text);
        }
        match serde_json::from_slice::<RequestLine>(&text) {
            Ok(line) if !line.warmup => requests.add(line),
            Ok(_) => {}
            Err(_) => requests.unreadable += 1,
        }
        text.clear();
    }
    for times in [&mut requests.ttft, &mut requests.itl, &mut requests.e2el] {
        times.sort_unstable_by(f32::total_cmp);
    }
    requests.failed.sort_unstable_by(f64::total_cmp);
    Ok(requests)
}

impl Requests {
    fn add(&mut self, line: RequestLine) {
        match line.outcome {
            Outcome::Completed => {
                let since = |moment: Option<f64>| moment.map(|moment| ((moment - line.sent) * 1e3) as f32);
                self.ttft.extend(since(line.first_token));
                self.e2el.extend(since(line.last_token));
                self.itl.extend(line.gaps_ms);
            }
            Outcome::Failed => self.failed.push(line.ended),
            Outcome::CutOff => {}
        }
    }
}

/// Removes the gaps, which are most of a line. Inside a string the quotes of the key would be escaped.
fn remove_gaps(line: &mut Vec<u8>) {
    const KEY: &[u8] = b"\"gaps_ms\":[";
    let gaps = memchr::memmem::find(line, KEY).map(|at| at + KEY.len());
    let end = gaps.and_then(|gaps| Some(gaps + memchr::memchr(b']', &line[gaps..])?));
    if let Some((gaps, end)) = gaps.zip(end) {
        line.drain(gaps..end);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::load::{Counts, Failure, FailureForm, Outcome as Ended, Record};

    proptest! {
        /// A curve is monotonic and reaches 100 %, however few of its points are drawn.
        #[test]
        fn curve_reaches_all_requests(mut tenths in prop::collection::vec(1_u16..u16::MAX, 1..2000)) {
            tenths.sort_unstable();
            let times: Vec<f32> = tenths.into_iter().map(|tenths| f32::from(tenths) / 10.0).collect();
            let curve = curve(&times);
            prop_assert!(curve.len() <= MAX_POINTS + 2 * END_POINTS + 2);
            prop_assert!(curve.windows(2).all(|pair| pair[0].0 <= pair[1].0 && pair[0].1 < pair[1].1));
            prop_assert_eq!(curve.last().unwrap().1, Some(100.0));
        }
    }

    #[test]
    fn zero_times_count_but_are_not_drawn() {
        assert_eq!(curve(&[0.0, 0.0, 2.0, 4.0]), [(2.0, Some(75.0)), (4.0, Some(100.0))]);
        assert_eq!(curve(&[]), []);
        assert_eq!(
            (
                quantile(&[1.0, 2.0, 3.0], 0.5),
                quantile(&[1.0, 2.0, 3.0], 1.0),
                quantile(&[], 0.5)
            ),
            (Some(2.0), Some(3.0), None)
        );
    }

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
