//! A user runs a hostile script, which is stopped with a clear error, and the host survives.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use super::bench::{Bench, printed};

/// The environment variable that holds the child's script.
const SCRIPT: &str = "PROFILER_TEST_SCRIPT";

/// Runs a script in its own process, because memory is counted per process. The script must be stopped for `because`,
/// and the process must report it without ever holding 1 GiB.
#[track_caller]
fn stopped(script: &str, because: &str) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["script::limits::body_of_a_child", "--exact", "--nocapture"])
        .env(SCRIPT, script)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stderr).into_owned();
    assert!(child.status.success(), "the host died: {}\n{said}", child.status);
    assert!(said.contains(because), "{said}");
}

/// The child process of the tests below. Without a script it does nothing.
#[test]
fn body_of_a_child() {
    let Ok(script) = std::env::var(SCRIPT) else { return };
    eprintln!(
        "{}",
        Bench::script(&script).bounded().max_operations(100_000_000).error()
    );
    let most = most_held();
    assert!(most < 1 << 30, "the host held {} MiB", most >> 20);
}

/// Peak resident memory of this process, in bytes.
fn most_held() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

#[test]
fn an_endless_loop() {
    let error = Bench::script("loop { }").max_operations(100_000).error();
    assert!(
        error.contains("ran 100000 operations without calling a primitive"),
        "{error}"
    );
}

#[test]
fn operations_are_counted_between_primitives_and_not_in_all() {
    let script = "for i in 0..50 { let n = 0; while n < 100 { n += 1; } sleep(0); } 7";
    assert_eq!(Bench::script(script).max_operations(5_000).value(), json!(7));
}

#[test]
fn an_endless_loop_cannot_be_caught() {
    let error = Bench::script("loop { try { loop { } } catch { } }")
        .max_operations(100_000)
        .error();
    assert!(error.contains("operations"), "{error}");
}

#[test]
fn deep_recursion() {
    stopped("fn f(n) { f(n + 1) } f(0)", "deeper than 64 levels");
}

#[test]
fn recursion_through_a_native_callback() {
    stopped("fn f(n) { [n].map(|x| f(x + 1)) } f(0)", "deeper than 64 levels");
}

#[test]
fn a_string_that_doubles() {
    stopped("let s = \"x\"; loop { s += s; }", "too much data");
}

#[test]
fn an_array_that_doubles() {
    stopped("let a = [1]; loop { a += a; }", "too much data");
}

#[test]
fn many_strings_each_within_bounds() {
    stopped(
        "let kept = []; let s = \"x\"; s.pad(16_000_000, 'x'); let m = #{}; let i = 0; \
         fn grow(s, n) { if n == 0 { return 0; } let t = s + \"y\"; grow(t, n - 1) } grow(s, 60)",
        "too much memory",
    );
}

#[test]
fn a_replacement_that_explodes() {
    stopped(
        "let s = \"a\"; s.pad(10_000_000, 'a'); let t = s + \"\"; s.replace(\"a\", t);",
        "longer than 64 MiB",
    );
}

#[test]
fn a_split_that_explodes() {
    stopped(
        "let s = \"a\"; s.pad(4_000_000, 'a'); s.split(\"\")",
        "1,000,000 pieces",
    );
}

#[test]
fn padding_with_maps() {
    stopped("let a = []; a.pad(1_900_000, #{ a: 1 });", "more than 64 MiB");
}

#[test]
fn json_that_grows() {
    stopped(
        "let s = \"{},\"; while s.len() < 10_000_000 { s += s; } parse_json(`[${s}{}]`)",
        "longer than 2 MiB",
    );
}

#[test]
fn maps_that_double_in_memory() {
    stopped(
        "let a = [#{ x: 1 }]; for i in 0..17 { a += a; } let keep = [a]; loop { keep += [a]; }",
        "too much",
    );
}

#[test]
fn closures_that_hold_closures() {
    stopped("let f = || 0; loop { let g = f; f = || g.call(); }", "too much memory");
}

#[test]
fn changing_a_constant_map_is_an_ordinary_error() {
    let error = Bench::script("const M = #{ a: 1 }; M.a = 2;").error();
    assert!(error.contains("main.rhai:1:"), "{error}");
    let error = Bench::script("const M = #{ a: 1 }; M.a += 2;").error();
    assert!(error.contains("main.rhai:1:"), "{error}");
}

#[test]
fn eval_is_off() {
    let error = Bench::script("eval(\"1\")").error();
    assert!(error.contains("`eval` is disabled"), "{error}");
}

#[test]
fn a_result_of_20_000_points_passes() {
    // Built in parts, because the interpreter recounts an array whenever it grows.
    let script = "let points = []; for part in 0..200 { let some = []; for i in 0..100 { some.push(#{ \
                  point: #{ input: i, output: part }, verdict: \"ok\", moves: \"fits\", \
                  evidence: #{ log: [\"a line\", \"another\"] } }); } points += some; } points";
    let value = Bench::script(script).value();
    assert_eq!(value.as_array().unwrap().len(), 20_000);
}

#[test]
fn an_interruption_ends_a_sleep_inside_try() {
    let bench = Bench::script("try { print(\"asleep\"); sleep(60); } catch { print(\"caught\"); } print(\"went on\")");
    let host = bench.host();
    let lines = printed(&host);
    let tasks = host.tasks.clone();
    host.run.listen(Box::new(move |_| tasks.interrupt()));
    let began = Instant::now();
    let diagnostic = bench.run_in(&host).unwrap_err();
    assert_eq!(diagnostic.fault.kind.exit_code(), 130);
    assert!(began.elapsed() < Duration::from_secs(2));
    assert_eq!(*lines.lock().unwrap(), ["asleep"]);
}

#[test]
fn an_interruption_ends_a_busy_loop() {
    let bench = Bench::script("print(\"busy\"); loop { }");
    let host = bench.host();
    let tasks = host.tasks.clone();
    host.run.listen(Box::new(move |_| tasks.interrupt()));
    let diagnostic = bench.run_in(&host).unwrap_err();
    assert_eq!(diagnostic.fault.kind.exit_code(), 130);
}

#[test]
fn a_long_line_is_cut() {
    let bench = Bench::script("let s = \"é\"; s.pad(1_000_000, 'é'); print(s)");
    let host = bench.host();
    let lines = printed(&host);
    bench.run_in(&host).unwrap();
    let line = lines.lock().unwrap().join("\n");
    assert!(line.len() < 70_000 && line.ends_with("(2000000 bytes in all)"));
}

#[test]
fn program_text_that_never_ends_or_nests() {
    let error = Bench::script(&"let x = 1;".repeat(30_000)).error();
    assert!(error.contains("256.0 KiB"), "{error}");
    for text in ["+1", "[0]", ".abs()", "&&true", "??()"] {
        let error = Bench::script(&format!("let x = 1; x{}", text.repeat(20_000))).error();
        assert!(error.contains("nests too deeply"), "{error}");
    }
}

#[test]
fn a_file_that_is_no_text() {
    let bench = Bench::script("");
    std::fs::write(bench.path("main.rhai"), b"\xff\xfe").unwrap();
    let diagnostic = bench.run().unwrap_err();
    assert_eq!(diagnostic.fault.kind.exit_code(), 2);
    assert!(diagnostic.fault.message.contains("is not UTF-8 text"));
}
