//! Properties of the scheduler: blocks, conservation, order.

use proptest::prelude::*;

use super::{Batch, Event, Growth, Request, Store};
use crate::sim::memory::Blocks;
use crate::sim::profile::Profile;

const BLOCK: u64 = 16;

fn batch(blocks: u64, growth: Growth, seqs: u64, step: u64) -> Batch {
    let timing = Profile::load("llama-8b-h200-vllm").unwrap().time;
    Batch::new(
        Store::Pool(Blocks::new(blocks, BLOCK), growth),
        timing,
        true,
        seqs,
        step,
    )
}

fn growth() -> impl Strategy<Value = Growth> {
    prop_oneof![Just(Growth::Grow), Just(Growth::Slice(32)), Just(Growth::Slot(128))]
}

proptest! {
    #[test]
    fn every_request_gets_every_token_and_every_block_comes_back(
        growth in growth(),
        lengths in prop::collection::vec((1_u64..100, 1_u64..28), 1..30),
        blocks in 8_u64..40,
        seqs in 1_u64..10,
        step in 1_u64..300,
    ) {
        let mut batch = batch(blocks, growth, seqs, step);
        for (id, (input, output)) in (0..).zip(&lengths) {
            batch.submit(Request { id, rows: 1, input: *input, output: *output, cached: 0 });
        }
        let mut tokens = vec![0; lengths.len()];
        let mut done = vec![false; lengths.len()];
        let mut steps = 0;
        while let Some(step) = batch.step() {
            steps += 1;
            prop_assert!(steps < 100_000, "no end");
            prop_assert!(step.seconds > 0.0);
            prop_assert!(batch.store().usage().unwrap() <= 1.0);
            prop_assert!(batch.running() as u64 <= seqs);
            for (id, event) in step.events {
                let at = id as usize;
                prop_assert!(!done[at], "an event after the end");
                prop_assert!(!matches!(event, Event::Oom(_)), "a pool never fails a request");
                tokens[at] += 1;
                done[at] = event == Event::Last;
            }
            let counters = batch.counters();
            let here = batch.running() as u64 + batch.waiting() as u64;
            prop_assert_eq!(counters.submitted, counters.finished + counters.failed + counters.cancelled + here);
        }
        prop_assert!(done.iter().all(|done| *done));
        prop_assert_eq!(tokens, lengths.iter().map(|(_, output)| *output).collect::<Vec<_>>());
        prop_assert_eq!(batch.store().usage(), Some(0.0));
    }

    #[test]
    fn cancelled_requests_leave_nothing_behind(
        growth in growth(),
        count in 1_u64..20,
        after in 0_usize..50,
        gone in prop::collection::vec(0_u64..20, 0..20),
    ) {
        let mut batch = batch(16, growth, 4, 64);
        for id in 0..count {
            batch.submit(Request { id, rows: 1, input: 60, output: 20, cached: 0 });
        }
        for _ in 0..after {
            batch.step();
        }
        for id in gone {
            batch.cancel(id);
        }
        while batch.step().is_some() {}
        prop_assert_eq!(batch.store().usage(), Some(0.0));
        prop_assert_eq!(batch.counters().submitted, batch.counters().finished + batch.counters().cancelled);
    }
}

#[test]
fn a_pool_that_is_too_small_for_all_preempts_and_one_that_reserves_queues() {
    let run = |growth| {
        let mut batch = batch(16, growth, 8, 512);
        for id in 0..3 {
            batch.submit(Request {
                id,
                rows: 1,
                input: 64,
                output: 60,
                cached: 0,
            });
        }
        let mut most = 0;
        while batch.step().is_some() {
            most = most.max(batch.running());
        }
        (batch.counters().preemptions > 0, most)
    };
    assert_eq!(run(Growth::Grow), (true, 3));
    assert_eq!(run(Growth::Slice(1024)), (false, 2));
}
