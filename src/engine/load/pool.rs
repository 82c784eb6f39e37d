//! Combines several repeats of a load into one: their measured parts, one after the other.

use std::time::Duration;

use super::session::Repeat;
use crate::load::Record;
use crate::load::engine_side::Observations;
use crate::load::plan::EndReason;

/// Joins the measured parts on one clock, without the time between them. Drops the warm-up and samples outside the
/// measured parts.
pub(super) fn pool(repeats: Vec<Repeat>) -> Repeat {
    let mut whole = Repeat {
        pooled: true,
        from: Some(Duration::ZERO),
        ..Repeat::default()
    };
    for repeat in repeats {
        let from = repeat.from.unwrap_or(repeat.to);
        let first = whole.records.len() as u64;
        let begins = whole.to;
        let mut tokenized = repeat.tokenized;
        for record in repeat.records.into_iter().filter(|record| !record.warmup) {
            let index = whole.records.len() as u64;
            if let Some(tokens) = tokenized.remove(&record.index) {
                whole.tokenized.insert(index, tokens);
            }
            whole.records.push(Record {
                index,
                ..moved(record, |moment| moment.saturating_sub(from) + begins)
            });
        }
        let shift = begins.as_secs_f64() - from.as_secs_f64();
        add(
            &mut whole.seen,
            repeat.seen,
            (from.as_secs_f64(), repeat.to.as_secs_f64()),
            shift,
        );
        whole.to += repeat.to.saturating_sub(from);
        if first == 0 {
            whole.seed = repeat.seed;
        }
        // All repeats end the same way, unless the engine died in the last one.
        whole.end = repeat.end;
        whole.width = [whole.width, repeat.width].into_iter().flatten().reduce(f64::max);
        whole.died |= repeat.died;
    }
    if whole.died {
        whole.end = EndReason::Died;
    }
    whole
}

fn moved(record: Record, to: impl Fn(Duration) -> Duration) -> Record {
    Record {
        scheduled: to(record.scheduled),
        sent: to(record.sent),
        first_byte: record.first_byte.map(&to),
        first_token: record.first_token.map(&to),
        last_token: record.last_token.map(&to),
        ended: to(record.ended),
        ..record
    }
}

fn add(whole: &mut Observations, part: Observations, (from, to): (f64, f64), shift: f64) {
    let inside = |at: f64| at >= from && at <= to;
    let looks = part
        .samples
        .into_iter()
        .filter(|sample| inside(sample.at))
        .map(|mut sample| {
            sample.requested_at += shift;
            sample.at += shift;
            sample
        });
    whole.samples.extend(looks);
    let memory = part.memory.into_iter().filter(|used| inside(used.to)).map(|mut used| {
        used.from = used.from.max(from) + shift;
        used.to += shift;
        used
    });
    whole.memory.extend(memory);
    let power = part
        .power
        .into_iter()
        .filter(|sample| inside(sample.to))
        .map(|mut sample| {
            sample.from = sample.from.max(from) + shift;
            sample.to += shift;
            sample
        });
    whole.power.extend(power);
    whole.hz = part.hz;
    whole.source = part.source;
    whole.kv_tokens = part.kv_tokens;
    whole.kv_bytes = part.kv_bytes;
}
