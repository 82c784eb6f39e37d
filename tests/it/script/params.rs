//! A user declares parameters with `params`, sets them with `--set`, and lists them without running the script.

use profiler::script::{Main, describe_params};
use serde_json::json;

use super::bench::Bench;

const SCRIPT: &str = "//! Finds.
let p = params(#{
    engine: param(\"auto\", \"engine adapter\"),
    search: param(#{}, \"options\"),
    ratio: param(0.9, \"share\"),
});
[p.engine, p.search, p.ratio]";

#[test]
fn defaults_and_what_the_user_set() {
    assert_eq!(Bench::script(SCRIPT).value(), json!(["auto", {}, 0.9]));
    let set = json!({ "engine": "sim", "search": { "max_probes": 4 }, "ratio": 1 });
    assert_eq!(
        Bench::script(SCRIPT).set(set).value(),
        json!(["sim", { "max_probes": 4 }, 1.0])
    );
}

#[test]
fn an_unknown_parameter_is_wrong_usage() {
    let diagnostic = Bench::script(SCRIPT).set(json!({ "engin": "sim" })).run().unwrap_err();
    assert_eq!(diagnostic.fault.kind.exit_code(), 2);
    let error = diagnostic.render(false);
    assert!(error.contains("unknown parameter `engin`"), "{error}");
    assert!(error.contains("`engine`?"), "{error}");
    assert!(error.contains("2 | let p = params(#{"), "{error}");
}

#[test]
fn parameters_of_a_script_that_declares_none_are_wrong_usage() {
    let bench = Bench::script("print(1); 2").set(json!({ "engine": "sim" }));
    let host = bench.host();
    let lines = super::bench::printed(&host);
    let diagnostic = bench.run_in(&host).unwrap_err();
    assert_eq!(diagnostic.fault.kind.exit_code(), 2);
    assert!(diagnostic.fault.message.contains("takes no parameters"));
    assert!(lines.lock().unwrap().is_empty(), "it ran before it was refused");
}

#[test]
fn what_a_script_declares_is_told_without_running_it() {
    let bench = Bench::new(&[
        (
            "main.rhai",
            &format!("import \"m\" as m;\n{SCRIPT};\ndocker::start(#{{}})"),
        ),
        ("m.rhai", "fn f() { gpu::list() }"),
    ]);
    let host = bench.host();
    let declared = describe_params(&host, &Main::open(&bench.path("main.rhai")).unwrap()).unwrap();
    let names: Vec<_> = declared
        .iter()
        .map(|param| (param.name.as_str(), param.meaning.as_str()))
        .collect();
    assert_eq!(
        names,
        [("engine", "engine adapter"), ("ratio", "share"), ("search", "options")]
    );
    assert_eq!(declared[1].default, json!(0.9));
}

#[test]
fn a_script_without_parameters_has_an_empty_list() {
    let bench = Bench::script("let x = 1; x");
    let declared = describe_params(&bench.host(), &Main::open(&bench.path("main.rhai")).unwrap());
    assert!(declared.unwrap().is_empty());
}

#[test]
fn help_needs_no_parameters_and_says_why_it_lists_none() {
    let help = |script: &str| {
        let program = crate::support::Profiler::new().file("s.rhai", script);
        program
            .args(["run", "s.rhai", "--help"])
            .run()
            .success()
            .stdout("Finds.")
    };
    let _ = help("//! Finds.\nrecord(\"x\", 1);").stdout("It takes no parameters");
    let _ = help("//! Finds.\nrecord(\"x\", 1);\nparams(#{});").stdout("before it calls `params` (s.rhai:2:1)");
}

#[test]
fn nothing_happens_before_the_parameters_are_told() {
    let bench = Bench::script("record(\"x\", 1);\nparams(#{});");
    let diagnostic = describe_params(&bench.host(), &Main::open(&bench.path("main.rhai")).unwrap()).unwrap_err();
    let error = bench.shown(&diagnostic);
    assert!(error.contains("cannot list the parameters"), "{error}");
    assert!(error.contains("--> main.rhai:1:1"), "{error}");
}

#[test]
fn a_parameter_that_is_no_param_is_explained() {
    let error = Bench::script("params(#{ engine: \"auto\" })").error();
    assert!(
        error.contains("parameter `engine` is a string, not a `param(…)`"),
        "{error}"
    );
}

#[test]
fn a_script_that_requires_a_newer_program_is_refused() {
    let error = Bench::script("//! Finds.\n//! requires: profiler >= 99.1\nprint(1);").error();
    assert!(error.contains("requires profiler 99.1 or newer"), "{error}");
    assert!(error.contains("--> main.rhai:2:1"), "{error}");
    assert!(Bench::script("//! requires: profiler >= 0.1\n1").run().is_ok());
}
