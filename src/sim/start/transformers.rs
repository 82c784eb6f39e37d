//! The start of `transformers serve`: weights, then uvicorn. Nothing is taken beforehand, so little can go wrong.

use super::line::{Head, Line};
use super::{End, Plan, Serving, Stage, failed};
use crate::sim::memory::{DynamicMemory, mib};
use crate::sim::profile::Dynamic;
use crate::sim::schedule::{Batch, Store};
use crate::sim::setup::{Length, Setup};

/// The start of `transformers serve`.
pub(super) fn plan(setup: &Setup, profile: &Dynamic, url: &str) -> Plan {
    let memory = DynamicMemory::new(profile, setup.limit);
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
    let end = match memory.starts() {
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
            // It checks no length unless somebody limits it here.
            let longest = match setup.length {
                Length::Tokens(tokens) if setup.length_given => tokens,
                Length::Auto | Length::Tokens(_) => u64::MAX,
            };
            End::Serve(Box::new(Serving {
                used: memory.used(),
                batch: Batch::new(
                    Store::Dynamic(Box::new(memory)),
                    *time,
                    setup.eager,
                    setup.max_seqs,
                    setup.step_tokens,
                ),
                max_total: longest,
                max_input: longest,
                kv_tokens: None,
                blocks: None,
                unloadable: None,
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
            failed()
        }
    };
    Plan {
        total,
        baseline,
        listens_early: false,
        stages,
        end,
    }
}

fn line(text: impl Into<String>) -> Line {
    Line::new(Head::Bare, text)
}
