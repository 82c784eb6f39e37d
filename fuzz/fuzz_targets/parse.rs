//! Runs the parser that `PROFILER_FUZZ_TARGET` names on what libFuzzer makes up.
#![no_main]

#[path = "../../tests/it/script/bench.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod bench;
#[path = "../../tests/it/fuzz/targets.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod targets;

mod logs {
    use std::sync::Arc;

    /// A shipped adapter.
    pub fn adapter(name: &str) -> Arc<dyn profiler::engine::Adapter> {
        profiler::script::adapter(&crate::bench::Bench::script("").host(), name).expect("it ships")
    }
}

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;

static PARSE: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("PROFILER_FUZZ_TARGET").expect("PROFILER_FUZZ_TARGET names a target");
    let mut targets = targets::TARGETS.iter();
    targets.find(|target| target.name == name).expect("there is no such target").parse
});

fuzz_target!(|bytes: &[u8]| PARSE(bytes));
