//! A user writes an engine adapter in Rhai, and the program loads and calls it.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use profiler::boundary::{Cause, Point};
use profiler::engine::{Adapter, Limits, Protocol, Readiness};
use profiler::fault::Fault;
use profiler::prompt::PromptForm;
use profiler::script;
use serde_json::json;

use super::bench::Bench;

const MINE: &str = r#"//! Mine.
import "parts" as parts;
const PORT = 8000;
fn launch(options) {
    #{ image: parts::image(), args: ["--model", options.model], port: global::PORT }
}
fn ready(engine) {
    let health = engine.get("/health");
    engine.options.model == "tiny" && health.status == 200 && health.body == "fine" && engine.post("/echo", #{ a: 1 }).body == `{"a":1}`
}
fn request(point) {
    #{ protocol: "openai_completions", path: "/v1/completions", prompt: "tokens", body: #{ max_tokens: point.output } }
}
fn facts() { #{ log: #{ kv_tokens: ["(\\d+) tokens"] } } }
fn failures() { [#{ pattern: "out of memory", verdict: "oom", cause: "cuda" }] }
fn flags(limits) { ["--max-model-len", `${limits.total}`] }
"#;

fn bench(adapter: &str) -> Bench {
    Bench::new(&[
        ("main.rhai", ""),
        ("engines/mine.rhai", adapter),
        ("engines/parts.rhai", "fn image() { \"mine:1\" }"),
    ])
}

fn load(bench: &Bench) -> Result<Arc<dyn Adapter>, Fault> {
    script::adapter(&bench.host(), "./engines/mine.rhai")
}

#[test]
fn every_function_gives_its_shape() {
    let bench = bench(MINE);
    let adapter = load(&bench).unwrap();
    assert_eq!((adapter.name(), adapter.shipped()), ("mine", false));
    let launch = adapter.launch(&json!({ "model": "tiny" })).unwrap();
    assert_eq!(launch.image.as_deref(), Some("mine:1"));
    assert_eq!(
        (launch.args, launch.port),
        (vec!["--model".to_owned(), "tiny".to_owned()], 8000)
    );
    let forms = adapter
        .request(&Point::default().with("input", 3).with("output", 5), None)
        .unwrap();
    let [form] = forms.as_slice() else { panic!("{forms:?}") };
    assert_eq!(
        (form.protocol, form.prompt),
        (Protocol::OpenaiCompletions, PromptForm::Tokens)
    );
    assert_eq!(form.body, json!({ "max_tokens": 5 }));
    assert_eq!(adapter.facts().unwrap().log["kv_tokens"][0].as_str(), "(\\d+) tokens");
    assert_eq!(adapter.failures().unwrap()[0].cause, Some(Cause::Cuda));
    let limits = Limits {
        input: 1,
        output: 2,
        total: 3,
        concurrency: 4,
    };
    assert_eq!(adapter.flags(&limits, true).unwrap(), ["--max-model-len", "3"]);
}

#[test]
fn ready_asks_the_engine_and_no_answer_is_no_fault() {
    let bench = bench(MINE);
    let host = bench.host();
    let adapter = script::adapter(&host, "./engines/mine.rhai").unwrap();
    let ready = |url: &str| adapter.ready(url, &json!({ "model": "tiny" }), None).unwrap();
    assert_eq!(ready("http://127.0.0.1:1"), Readiness::NotYet);
    let app = Router::new()
        .route("/health", get(|| async { "fine" }))
        .route("/echo", post(|body: String| async { body }));
    let listener = host.tasks.finish(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    host.tasks
        .runtime()
        .spawn(async move { axum::serve(listener, app).await });
    assert_eq!(ready(&format!("http://{address}/")), Readiness::Ready);
}

#[test]
fn a_wrong_shape_names_adapter_function_and_path() {
    let bench = bench(&MINE.replace("image: parts::image()", "imag: parts::image()"));
    let fault = load(&bench).unwrap().launch(&json!({ "model": "tiny" })).unwrap_err();
    assert_eq!(fault.message, "adapter `mine`: result of `launch`: unknown key `imag`");
    assert!(fault.hint.is_some_and(|hint| hint.contains("`image`")));

    let bench = self::bench(&MINE.replace("port: global::PORT", "port: \"x\""));
    let fault = load(&bench).unwrap().launch(&json!({ "model": "tiny" })).unwrap_err();
    assert_eq!(
        fault.message,
        "adapter `mine`: result of `launch`: key `port` must be an int, but is the string \"x\""
    );
}

#[test]
fn an_error_inside_an_adapter_names_the_line() {
    let bench = bench(&MINE.replace("options.model", "options.modle"));
    let fault = load(&bench).unwrap().launch(&json!({ "model": "tiny" })).unwrap_err();
    assert!(
        fault
            .message
            .starts_with("adapter `mine`: the map has no key `modle` ("),
        "{fault}"
    );
    assert!(fault.message.ends_with("engines/mine.rhai:5:57)"), "{fault}");
}

#[test]
fn an_adapter_that_lacks_a_function_is_refused() {
    let fault = load(&bench(&MINE.replace("fn flags(limits)", "fn flags(limits, b)")))
        .err()
        .unwrap();
    assert!(
        fault
            .message
            .contains("exports `flags` with 2 parameters, not `flags(limits)`"),
        "{fault}"
    );
    let fault = load(&bench(&MINE.replace("fn facts()", "fn fact()"))).err().unwrap();
    assert!(fault.message.contains("does not export `facts()`"), "{fault}");
}

#[test]
fn an_adapter_outside_the_scripts_folder_is_refused() {
    let bench = bench(MINE);
    let fault = script::adapter(&bench.host(), "../mine.rhai").err().unwrap();
    assert!(fault.message.contains("../mine"), "{fault}");
}
