use super::*;

const REQUESTED: Limits = Limits {
    input: 600,
    output: 400,
    total: 1000,
    concurrency: 1,
};

fn cause(reported: EngineBounds) -> Option<&'static str> {
    reported.bound(&REQUESTED).map(|bound| bound.cause)
}

#[test]
fn the_lower_bound_is_the_one_that_holds() {
    let of = |kv_tokens, max_model_len| {
        cause(EngineBounds {
            kv_tokens,
            max_model_len,
            ..EngineBounds::default()
        })
    };
    assert_eq!(of(None, None), None);
    assert_eq!(of(Some(5000), Some(2000)), None);
    assert_eq!(of(Some(900), Some(2000)), Some("kv_cache"));
    assert_eq!(of(Some(1000), None), Some("kv_cache"), "one token is kept");
    assert_eq!(of(Some(5000), Some(900)), Some("length_limit"));
    assert_eq!(of(Some(900), Some(800)), Some("length_limit"));
    // A KV cache exactly as large as the configured length says nothing about memory.
    assert_eq!(of(Some(900), Some(900)), Some("length_limit"));
}

#[test]
fn a_length_that_the_engine_shrank_for_memory_is_memory() {
    let shrunk = EngineBounds {
        kv_tokens: Some(900),
        max_model_len: Some(900),
        fitted: Some(900),
        max_input: None,
    };
    assert_eq!(cause(shrunk), Some("kv_cache"));
}

#[test]
fn the_longest_input_bounds_inputs_and_what_becomes_input() {
    let of = |max_input| EngineBounds {
        max_input: Some(max_input),
        max_model_len: Some(4096),
        ..EngineBounds::default()
    };
    assert_eq!(cause(of(599)), Some("length_limit"));
    assert_eq!(cause(of(600)), None);
    assert_eq!(of(900).bound_of_output(&REQUESTED, 300), None);
    let bound = of(900).bound_of_output(&REQUESTED, 301).unwrap();
    assert_eq!(bound.cause, "length_limit");
}
