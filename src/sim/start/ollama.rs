//! Start of Ollama (wording of 0.30 and later): the server is up at once, and a child llama-server loads the model.
//! If that fails, the server keeps running and reports the error to requests.

use super::llamacpp::{self, slots};
use super::log_line::{LinePrefix, LogLine};
use super::{ServingEngine, Stage, StartOutcome, StartPlan};
use crate::sim::memory::FixedPlan;
use crate::sim::profile::Fixed;
use crate::sim::setup::Setup;

pub(super) fn plan(setup: &Setup, profile: &Fixed, url: &str) -> StartPlan {
    let context = llamacpp::context(setup);
    let slot = context / setup.max_seqs;
    let memory = FixedPlan::new(profile, context, setup.memory_limit);
    let mut stages = vec![Stage {
        seconds: 0.0,
        used: memory.reserved,
        lines: vec![
            line(
                "INFO",
                format!("msg=\"Listening on {url} (version {})\"", setup.version()),
            ),
            line(
                "INFO",
                format!(
                    "msg=\"inference compute\" id=GPU-0 library=CUDA compute=9.0 name=CUDA0 total=\"{:.1} GiB\" available=\"{:.1} GiB\"",
                    gib(memory.total),
                    gib(memory.free)
                ),
            ),
            line(
                "INFO",
                format!(
                    "msg=\"starting llama-server\" cmd=\"llama-server --model {} -c {context} -np {}\"",
                    setup.model, setup.max_seqs
                ),
            ),
        ],
    }];
    let load_error = match llamacpp::load(setup, profile, &memory, context, &mut stages) {
        Ok(()) => {
            stages.push(Stage {
                seconds: setup.profile.time.warm_up_seconds,
                used: memory.used(3),
                lines: vec![
                    llamacpp::initializing(setup.max_seqs, slot),
                    line(
                        "INFO",
                        format!(
                            "msg=\"llama-server started in {:.2} seconds\"",
                            setup.profile.time.load_seconds
                        ),
                    ),
                ],
            });
            None
        }
        Err(mut lines) => {
            let last = lines.first().map(|line| line.text.clone()).unwrap_or_default();
            let why = format!("llama-server process has terminated: exit status 1: {last}");
            lines.push(line(
                "INFO",
                format!("msg=\"Load failed\" model={} error=\"{why}\"", setup.model),
            ));
            stages.push(Stage {
                seconds: 0.0,
                used: memory.reserved,
                lines,
            });
            Some(why)
        }
    };
    StartPlan {
        total: memory.total,
        baseline: memory.reserved,
        listens_early: true,
        stages,
        end: StartOutcome::Serve(Box::new(ServingEngine {
            load_error,
            ..slots(setup, &memory, context)
        })),
    }
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / 1_073_741_824.0
}

fn line(level: &'static str, text: String) -> LogLine {
    LogLine::new(LinePrefix::Slog { level }, text)
}
