//! Runs the parser that `PROFILER_FUZZ_TARGET` names on what libFuzzer makes up.
#![no_main]

#[path = "../../tests/it/script/bench.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod bench;
#[path = "../../tests/it/fuzz/targets.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod targets;

mod logs {
    use profiler::engine::Rules;

    /// Those of a shipped adapter.
    pub fn rules(name: &str) -> Rules {
        let adapter = profiler::script::adapter(&crate::bench::Bench::script("").host(), name).expect("it ships");
        Rules::from_adapter(adapter.as_ref()).expect("they can be used")
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
