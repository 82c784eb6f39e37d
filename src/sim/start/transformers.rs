//! Start of `transformers serve`: weights, then uvicorn. No KV cache is allocated, so only the weights can fail to
//! fit.

use super::log_line::{LinePrefix, LogLine};
use super::{ServingEngine, Stage, StartOutcome, StartPlan, exit_with_error};
use crate::sim::memory::{DynamicMemory, mib};
use crate::sim::profile::Dynamic;
use crate::sim::schedule::{KvStore, Scheduler};
use crate::sim::setup::{Length, Setup};

pub(super) fn plan(setup: &Setup, profile: &Dynamic, url: &str) -> StartPlan {
    let memory = DynamicMemory::new(profile, setup.memory_limit);
    let total = memory.total();
    let time = &setup.profile.time;
    let baseline = mib(profile.reserved_mib);
    let mut stages = vec![Stage {
        seconds: time.boot_seconds,
        used: baseline + profile.context_bytes,
        lines: vec![
            line(format!(
                "engine, profile {}: version {}",
                setup.profile.name,
                setup.version()
            )),
            line(format!("[transformers] Loading {}", setup.model)),
        ],
    }];
    let end = match memory.check_start() {
        Ok(()) => {
            stages.push(Stage {
                seconds: time.load_seconds + time.warm_up_seconds,
                used: memory.used(),
                lines: vec![
                    line("Loading weights: 100%"),
                    line("INFO:     Application startup complete."),
                    line(format!("INFO:     Uvicorn running on {url} (Press CTRL+C to quit)")),
                ],
            });
            // No length is checked unless a limit is given here.
            let longest = match setup.length {
                Length::Tokens(tokens) if setup.length_given => tokens,
                Length::Auto | Length::Tokens(_) => u64::MAX,
            };
            StartOutcome::Serve(Box::new(ServingEngine {
                used: memory.used(),
                scheduler: Scheduler::new(
                    KvStore::Dynamic(Box::new(memory)),
                    *time,
                    setup.eager,
                    setup.max_seqs,
                    setup.step_tokens,
                ),
                max_total: longest,
                max_input: longest,
                kv_tokens: None,
                blocks: None,
                load_error: None,
                sizes: None,
            }))
        }
        Err(oom) => {
            stages.push(Stage {
                seconds: time.load_seconds,
                used: baseline + profile.context_bytes,
                lines: vec![
                    line("Traceback (most recent call last):"),
                    line(format!("torch.OutOfMemoryError: {oom}")),
                ],
            });
            exit_with_error()
        }
    };
    StartPlan {
        total,
        baseline,
        listens_early: false,
        stages,
        end,
    }
}

fn line(text: impl Into<String>) -> LogLine {
    LogLine::new(LinePrefix::Bare, text)
}
