use super::*;
use crate::load::{Counts, StreamEnd, Timing};

const REQUESTED: Limits = Limits {
    input: 10,
    output: 5,
    total: 15,
    concurrency: 1,
};

/// Verdict and cause of a response with these counts and this finish reason.
fn judged(input: u64, output: u64, finish: &str, reported: EngineBounds) -> Option<(Verdict, String)> {
    let answer = StreamResponse {
        end: StreamEnd::Complete,
        finish: Some(finish.into()),
        counts: Counts {
            input: Some(input),
            output: Some(output),
        },
        tokens_seen: None,
        error: None,
        timing: Timing::start(),
    };
    let judgement = check_counts(&answer, &REQUESTED, 1, &reported)?;
    Some((judgement.verdict, judgement.cause.unwrap_or_default()))
}

fn is(verdict: Verdict, cause: &str) -> Option<(Verdict, String)> {
    Some((verdict, cause.to_owned()))
}

#[test]
fn clipping_is_explained_by_the_bound_that_the_engine_reports() {
    let pool = EngineBounds {
        kv_tokens: Some(14),
        max_model_len: Some(100),
        ..EngineBounds::default()
    };
    let context = EngineBounds {
        kv_tokens: Some(100),
        max_model_len: Some(14),
        ..EngineBounds::default()
    };
    assert_eq!(judged(10, 3, "length", pool), is(Verdict::Refused, "kv_cache"));
    assert_eq!(judged(10, 3, "length", context), is(Verdict::Refused, "length_limit"));
    assert_eq!(
        judged(10, 3, "length", EngineBounds::default()),
        is(Verdict::ShortOutput, "clipped")
    );
    assert_eq!(
        judged(10, 4, "length", EngineBounds::default()),
        None,
        "within the tolerance"
    );
}

#[test]
fn the_end_of_text_is_no_clipping_whatever_the_bounds() {
    let pool = EngineBounds {
        kv_tokens: Some(14),
        ..EngineBounds::default()
    };
    assert_eq!(judged(10, 3, "stop", pool), is(Verdict::ShortOutput, "end_of_text"));
}

#[test]
fn a_prompt_that_was_cut_is_refused_and_any_other_count_is_an_error() {
    let context = EngineBounds {
        max_model_len: Some(12),
        ..EngineBounds::default()
    };
    assert_eq!(judged(7, 5, "length", context), is(Verdict::Refused, "length_limit"));
    assert_eq!(judged(11, 5, "length", context), is(Verdict::Error, "input_count"));
    assert_eq!(
        judged(7, 5, "length", EngineBounds::default()),
        is(Verdict::Error, "input_count")
    );
}
