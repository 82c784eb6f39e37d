//! `llama-8b-h200-vllm` while serving: the 48 streams of the measurement `small`, in model time.

use super::off;
use crate::sim::options::Options;
use crate::sim::profile::Profile;
use crate::sim::schedule::Request;
use crate::sim::setup::Setup;
use crate::sim::start::{StartOutcome, plan};

#[test]
fn forty_eight_streams_take_as_long_preempt_and_fill_the_cache_as_measured() {
    let options = Options {
        max_model_len: Some(8192),
        gpu_memory_utilization: Some(0.16),
        enforce_eager: Some(true),
        ..Options::default()
    };
    let setup = Setup::new(Profile::load("llama-8b-h200-vllm").unwrap(), &options).unwrap();
    let StartOutcome::Serve(serving) = plan(&setup, "").unwrap().end else {
        panic!("does not start")
    };
    let mut scheduler = serving.scheduler;
    for id in 0..48 {
        scheduler.submit(Request {
            id,
            rows: 1,
            input: 6000,
            output: 512,
            cached: 0,
        });
    }
    let mut fullest: f64 = 0.0;
    while scheduler.step().is_some() {
        fullest = fullest.max(scheduler.store().usage().unwrap());
    }
    let counters = scheduler.counters();
    assert_eq!((counters.prompt_tokens, counters.generated_tokens), (288_000, 24_576));
    assert!((3..=7).contains(&counters.preemptions), "measured 5: {counters:?}");
    assert!(
        fullest > 0.97,
        "97 % was seen at the moments that were logged: {fullest}"
    );
    assert!(off(counters.steps as f64, 2574.0) < 0.01, "{counters:?}");
    assert!(off(counters.seconds, 34.3) < 0.01, "{counters:?}");
}
