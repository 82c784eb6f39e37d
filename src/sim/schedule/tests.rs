//! Properties of the scheduler: blocks, conservation, order.

use proptest::prelude::*;

use super::{Event, KvAllocation, KvStore, Request, Scheduler};
use crate::sim::memory::BlockPool;
use crate::sim::profile::Profile;

const BLOCK: u64 = 16;

fn scheduler(blocks: u64, growth: KvAllocation, seqs: u64, step: u64) -> Scheduler {
    let timing = Profile::load("llama-8b-h200-vllm").unwrap().time;
    Scheduler::new(
        KvStore::Pool(BlockPool::new(blocks, BLOCK), growth),
        timing,
        true,
        seqs,
        step,
    )
}

fn growth() -> impl Strategy<Value = KvAllocation> {
    prop_oneof![
        Just(KvAllocation::Grow),
        Just(KvAllocation::Slice(32)),
        Just(KvAllocation::Slot(128))
    ]
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
        let mut scheduler = scheduler(blocks, growth, seqs, step);
        for (id, (input, output)) in (0..).zip(&lengths) {
            scheduler.submit(Request { id, rows: 1, input: *input, output: *output, cached: 0 });
        }
        let mut tokens = vec![0; lengths.len()];
        let mut done = vec![false; lengths.len()];
        let mut steps = 0;
        while let Some(step) = scheduler.step() {
            steps += 1;
            prop_assert!(steps < 100_000, "no end");
            prop_assert!(step.seconds > 0.0);
            prop_assert!(scheduler.store().usage().unwrap() <= 1.0);
            prop_assert!(scheduler.running() as u64 <= seqs);
            for (id, event) in step.events {
                let at = id as usize;
                prop_assert!(!done[at], "an event after the end");
                prop_assert!(!matches!(event, Event::Oom(_)), "a pool never fails a request");
                tokens[at] += 1;
                done[at] = event == Event::Last;
            }
            let counters = scheduler.counters();
            let present = scheduler.running() as u64 + scheduler.waiting() as u64;
            prop_assert_eq!(counters.submitted, counters.finished + counters.failed + counters.cancelled + present);
        }
        prop_assert!(done.iter().all(|done| *done));
        prop_assert_eq!(tokens, lengths.iter().map(|(_, output)| *output).collect::<Vec<_>>());
        prop_assert_eq!(scheduler.store().usage(), Some(0.0));
    }

    #[test]
    fn cancelled_requests_leave_nothing_behind(
        growth in growth(),
        count in 1_u64..20,
        after in 0_usize..50,
        gone in prop::collection::vec(0_u64..20, 0..20),
    ) {
        let mut scheduler = scheduler(16, growth, 4, 64);
        for id in 0..count {
            scheduler.submit(Request { id, rows: 1, input: 60, output: 20, cached: 0 });
        }
        for _ in 0..after {
            scheduler.step();
        }
        for id in gone {
            scheduler.cancel(id);
        }
        while scheduler.step().is_some() {}
        prop_assert_eq!(scheduler.store().usage(), Some(0.0));
        prop_assert_eq!(scheduler.counters().submitted, scheduler.counters().finished + scheduler.counters().cancelled);
    }
}

#[test]
fn a_small_pool_preempts_unless_it_reserves_at_admission() {
    let run = |growth| {
        let mut scheduler = scheduler(16, growth, 8, 512);
        for id in 0..3 {
            scheduler.submit(Request {
                id,
                rows: 1,
                input: 64,
                output: 60,
                cached: 0,
            });
        }
        let mut max_running = 0;
        while scheduler.step().is_some() {
            max_running = max_running.max(scheduler.running());
        }
        (scheduler.counters().preemptions > 0, max_running)
    };
    assert_eq!(run(KvAllocation::Grow), (true, 3));
    assert_eq!(run(KvAllocation::Slice(1024)), (false, 2));
}
