//! A user reads `profiler doc`: everything that scripts can call is documented, and every example runs.

use std::path::Path;
use std::sync::Arc;

use profiler::fault::Fault;
use profiler::run::Run;
use profiler::runtime::Permits;
use profiler::script::reference::{Example, FunctionDoc, FunctionKind, Needs, Reference};
use profiler::script::repl::Session;
use profiler::script::{Host, Settings, interpreter, on_thread};
use profiler::task::Tasks;
use tokio::runtime::Runtime;

use crate::support::{Profiler, temp};

/// The environment of the examples: native processes are allowed, two commands too, and a port where nothing listens.
fn host(runtime: &Runtime) -> Arc<Host> {
    Arc::new(Host::new(
        Tasks::new(runtime.handle().clone()),
        Arc::new(Run::ephemeral("doc")),
        Permits::parse(["process,port=1,command=echo,command=cat"]).unwrap(),
        Default::default(),
        Settings {
            max_memory: Some(u64::MAX),
            ..Settings::default()
        },
    ))
}

fn reference() -> Reference {
    let runtime = Runtime::new().unwrap();
    Reference::new(&interpreter(&host(&runtime), Path::new(".")))
}

#[test]
fn the_checked_in_reference_is_current() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let current = std::fs::read_to_string(page).unwrap() == reference().markdown();
    assert!(current, "write it anew: `cargo run -- doc > docs/reference.md`");
}

#[test]
fn every_function_has_a_summary_and_an_example() {
    let mut missing = Vec::new();
    for function in reference().functions() {
        let title = function.title();
        if function.summary.is_empty() {
            missing.push(format!("{title} has no doc comment"));
        }
        // Scripts do not call these by name; stdlib/engines/README.md and stdlib/clusters/README.md are their
        // contracts.
        let contract = ["std/engines/", "std/clusters/"]
            .iter()
            .any(|folder| title.starts_with(folder));
        let called = function.kind != FunctionKind::Operator && !contract;
        if called && function.examples.is_empty() {
            missing.push(format!("{title}({}) has no example", function.params_line()));
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_section_says_what_it_is_for() {
    let reference = reference();
    let silent: Vec<_> = reference
        .sections
        .iter()
        .filter(|section| !section.name.is_empty() && section.docs.is_empty())
        // Rhai's own types need no introduction.
        .filter(|section| !["string", "array", "map", "char"].contains(&section.name.as_str()))
        .map(|section| &section.name)
        .collect();
    assert!(silent.is_empty(), "without a comment: {silent:?}");
}

#[test]
fn types_are_script_words() {
    let foreign = ["<", "::", "&", "Box", "Dynamic", "ImmutableString", "i64", "FnPtr"];
    for function in reference().functions() {
        let kinds = function.params.iter().filter_map(|param| param.kind.as_deref());
        for kind in kinds.chain(function.returns.as_deref()).chain(function.on.as_deref()) {
            let found = foreign.iter().find(|word| kind.contains(**word));
            assert_eq!(found, None, "{}: `{kind}`", function.title());
        }
    }
}

#[test]
fn every_example_runs() {
    let reference = reference();
    let mut failed = Vec::new();
    for function in reference.functions() {
        for example in &function.examples {
            if let Err(error) = try_out(example) {
                failed.push(format!("{}\n{}\n{error}", function.title(), example.code));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Runs an example, or only compiles it if its requirements are missing.
fn try_out(example: &Example) -> Result<(), String> {
    let runtime = Runtime::new().unwrap();
    profiler::own_program::set(env!("CARGO_BIN_EXE_profiler"));
    let host = host(&runtime);
    let folder = temp();
    let done = on_thread(|| match example.needs {
        Some(Needs::Docker | Needs::Gpu) => {
            let compiled = interpreter(&host, folder.path()).compile(&example.code);
            compiled
                .map(drop)
                .map_err(|error| Fault::usage(error.to_string()).into())
        }
        None => Session::new(&host, folder.path()).run(&example.code).map(drop),
    });
    done.map_err(|diagnostic| diagnostic.render(false))
}

#[test]
fn the_whole_reference_is_markdown() {
    let outcome = Profiler::new().arg("doc").run().success();
    let sleep = "### `sleep(seconds: float)`\n\nWaits for a number of seconds.";
    outcome
        .stdout("# Script API\n")
        .stdout("## Global functions\n")
        .stdout(sleep)
        .stdout("#### Example\n\n```rhai\nsleep(0.01);\n```");
}

#[test]
fn one_name_is_shown_alone() {
    let outcome = Profiler::new().args(["doc", "sleep"]).run().success();
    assert!(outcome.stdout.starts_with("# `sleep(seconds: "), "{}", outcome.stdout);
    outcome.nowhere("# Script API");
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    Profiler::new()
        .args(["doc", "slep"])
        .run()
        .code(2)
        .stdout("")
        .stderr("nothing is called `slep`")
        .stderr("`sleep`?");
}

#[test]
fn a_method_is_found_by_the_value_that_scripts_call_it_on() {
    let shown = Profiler::new().args(["doc", "map.record"]).run().success();
    let _ = shown.stdout("`Boundary.record(");
}

#[test]
fn a_name_of_rhai_itself_is_pointed_to() {
    Profiler::new()
        .args(["doc", "to_upper"])
        .run()
        .code(2)
        .stderr("https://rhai.rs/book/");
}

#[test]
fn json_has_the_documented_shape() {
    let outcome = Profiler::new().args(["doc", "--format", "json"]).run().success();
    let document = outcome.json();
    assert_eq!(document["schema"], 1);
    let global = &document["sections"][0];
    assert_eq!(global["kind"], "global");
    let functions = global["functions"].as_array().unwrap();
    let sleep = functions.iter().find(|function| function["name"] == "sleep").unwrap();
    assert_eq!(sleep["kind"], "function");
    assert_eq!(sleep["params"][0]["name"], "seconds");
    assert_eq!(sleep["examples"][0]["needs"], serde_json::Value::Null);
    for key in ["module", "on", "signature", "returns", "settable", "summary", "docs"] {
        assert!(sleep.get(key).is_some(), "{key}");
    }
    let one = Profiler::new()
        .args(["doc", "sleep", "--format", "json"])
        .run()
        .success()
        .json();
    assert_eq!(one["sections"].as_array().unwrap().len(), 1);
}

#[test]
fn definitions_are_for_editors() {
    let outcome = Profiler::new().args(["doc", "--format", "definitions"]).run().success();
    let text = &outcome.stdout;
    assert!(text.starts_with("module static;\n"), "{text}");
    assert!(text.contains("/// Waits for a number of seconds."), "{text}");
    assert!(text.contains("\nfn sleep(seconds: float) -> ();\n"), "{text}");
    assert!(!text.contains("EvalAltResult"), "{text}");
    // The completions for editors must contain everything that scripts can call.
    let runtime = Runtime::new().unwrap();
    let registered = profiler::script::reference::functions(&interpreter(&host(&runtime), Path::new(".")));
    let plain = |name: &&String| {
        name.chars()
            .all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let names: Vec<&String> = registered.iter().map(|function| &function.name).filter(plain).collect();
    let missing: Vec<_> = names
        .iter()
        .filter(|name| !text.contains(&format!("{name}(")))
        .collect();
    assert!(names.len() > 100 && missing.is_empty(), "{missing:?}");
    Profiler::new()
        .args(["doc", "sleep", "--format", "definitions"])
        .run()
        .code(2);
    Profiler::new().args(["doc", "--format", "html"]).run().code(2);
}

/// Proves that the tests above would notice an undocumented function.
#[test]
fn an_undocumented_function_would_be_noticed() {
    let mut engine = rhai::Engine::new();
    engine.register_fn("secret", |count: i64| count);
    let found: Vec<FunctionDoc> = profiler::script::reference::functions(&engine);
    let secret = found.iter().find(|function| function.name == "secret").unwrap();
    assert!(secret.summary.is_empty() && secret.examples.is_empty());
}
