//! A user attaches to running engines, writes an adapter, and runs the shipped adapters against simulated engines.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use profiler::sim::{Sim, Spec};
use profiler::telemetry;
use serde_json::json;

use super::engine::value;
use super::script::bench::Bench;
use crate::support::Profiler;

#[test]
fn a_running_server_is_attached_to_and_left_running() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let spec: Spec =
        serde_json::from_value(json!({ "profile": "llama-8b-24gb-vllm", "options": { "max_model_len": 4096 } }))
            .unwrap();
    let (profile, options) = spec.resolve().unwrap();
    let handle = {
        let _inside = runtime.enter();
        Sim::start(
            profile,
            options,
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            Arc::new(|_| {}),
        )
        .unwrap()
    };
    let url = &handle.url;
    let answers = value(&format!(
        "let engine = engines::attach(\"vllm\", #{{ url: \"{url}\" }});
         let first = engine.probe(#{{ input: 300, output: 20 }});
         engine.stop();
         [first, engine.probe(#{{ input: 300, output: 20 }}), engine.info()]"
    ));
    assert_eq!(
        (&answers[0]["verdict"], &answers[1]["verdict"]),
        (&"ok".into(), &"ok".into()),
        "{answers}"
    );
    assert_eq!(
        (&answers[2]["version"], &answers[2]["simulated"]),
        (&"0.24.0+SIMULATED".into(), &true.into())
    );
    assert!(
        matches!(handle.state(), profiler::sim::ProcessState::Ready),
        "it was stopped"
    );
}

/// Starts a server that answers every request with `answer`; returns its URL and the text that it has received.
fn answering(answer: &'static str) -> (String, Arc<Mutex<String>>) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let seen: Arc<Mutex<String>> = Arc::default();
    let kept = Arc::clone(&seen);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let read = stream.read(&mut head).unwrap_or_default();
            kept.lock().unwrap().push_str(&String::from_utf8_lossy(&head[..read]));
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    (url, seen)
}

#[test]
fn an_api_key_goes_only_to_the_address_of_the_command_line() {
    const REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\nconnection: close\r\ncontent-length: 8\r\n\r\nwho-goes";
    let (named, seen) = answering(REFUSED);
    let outcome = Profiler::new()
        .args(["run", "adaptive", "--url", &named, "--set", "api_key_env=MINE"])
        .env("MINE", "a-key-of-this-test")
        .run();
    let _ = outcome
        .code(3)
        .stderr("status 401 at `/v1/models`: who-goes")
        .stderr("--api-key-env NAME")
        .nowhere("a-key-of-this-test");
    assert!(seen.lock().unwrap().contains("Bearer a-key-of-this-test"));

    let (chosen, seen) = answering(REFUSED);
    let script = format!("import \"std/engines\" as engines; engines::describe(\"auto\", #{{ url: \"{chosen}\" }})");
    let stranger = Profiler::new().file("s.rhai", script);
    let stranger = stranger.args(["run", "s.rhai", "--allow", "net=127.0.0.1"]);
    let _ = stranger.env("OPENAI_API_KEY", "a-key-of-this-test").run().code(3);
    let sent = seen.lock().unwrap().clone();
    assert!(
        sent.contains("/v1/models") && !sent.contains("a-key-of-this-test"),
        "{sent}"
    );
}

#[test]
fn nothing_to_attach_to_is_missing() {
    let script = "import \"std/engines\" as engines;
        let engine = engines::attach(\"vllm\", #{ url: \"http://127.0.0.1:1\", start_timeout: 0.1 });
        engine.probe(#{ input: 3, output: 2 })";
    let error = Bench::script(script).error();
    assert!(
        error.contains("nothing answers at `http://127.0.0.1:1/`: connection refused"),
        "{error}"
    );
    // Recognising the engine comes second: the refused connection is the error.
    let script = "import \"std/engines\" as engines; engines::describe(\"auto\", #{ url: \"http://127.0.0.1:1\" })";
    let error = Bench::script(script).error();
    assert!(
        error.contains("nothing answers at `http://127.0.0.1:1/`: connection refused"),
        "{error}"
    );
}

#[test]
fn an_adapter_of_ones_own_is_named_by_its_path() {
    let mine = "import \"std/engines/sim\" as sim;
        fn launch(options) { sim::launch(options) }
        fn ready(engine) { sim::ready(engine) }
        fn request(point) { sim::request(point) }
        fn facts() { sim::facts() }
        fn failures() { [#{ pattern: \"KV cache is needed\", verdict: \"refused\", cause: \"kv_cache\" }] }
        fn flags(limits) { [`--mine=${limits.total}`] }";
    let main = "import \"std/engines\" as engines;
        let engine = engines::describe(\"./mine.rhai\", #{ runtime: \"sim\" });
        let answer = engine.probe(#{ input: 100, output: 10 });
        [answer.verdict, engine.flags(), engine.info().engine]";
    let value = Bench::new(&[("main.rhai", main), ("mine.rhai", mine)]).value();
    assert_eq!(value, json!(["ok", ["--mine=110"], "mine"]));
}

#[test]
fn an_unknown_engine_or_option_names_the_nearest() {
    let error = |script: &str| Bench::script(&format!("import \"std/engines\" as engines;\n{script}")).error();
    let engine = error("engines::describe(\"vlm\", #{})");
    assert!(engine.contains("`vllm`"), "{engine}");
    let option = error("engines::describe(\"sim\", #{ modle: \"x\" })");
    assert!(option.contains("`modle`") && option.contains("`model`"), "{option}");
}

#[test]
fn what_the_user_named_is_never_replaced_by_a_simulation() {
    let status = |options: &[&str]| {
        let sets = options.iter().flat_map(|option| ["--set", option]);
        Profiler::new().args(["run", "adaptive"]).args(sets).run()
    };
    let _ = status(&["url=http://127.0.0.1:1"]).code(3).stderr("connection refused");
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("url=http://{}", server.local_addr().unwrap());
    let _ = status(&[&url]).code(3).stderr("accepts connections");
    let _ = status(&["engine=sim", "runtime=docker"])
        .code(2)
        .stderr("does not run in `docker`");
    let _ = status(&["engine=sim", "engine_args=[\"--x\"]"])
        .code(2)
        .stderr("cannot simulate `engine_args`");
    let _ = status(&["engine=openai"]).code(2).stderr("name its `url`");
    if telemetry::gpus().is_ok_and(|gpus| !gpus.is_empty()) {
        return;
    }
    let _ = status(&["runtime=docker"])
        .code(3)
        .stderr("runtime `docker` is not replaced by a simulation");
    let _ = status(&["image=mine"]).code(3).stderr("image `mine` is not replaced");
}

#[test]
fn the_adapter_of_llamacpp_speaks_its_own_protocol() {
    let answer = value(
        "let engine = engines::describe(\"llamacpp\", #{ runtime: \"sim\", sim: #{ time_scale: 0.0 } });
         engine.probe(#{ input: 200, output: 20 })",
    );
    assert_eq!(
        (&answer["verdict"], &answer["input"], &answer["output"]),
        (&"ok".into(), &200.into(), &20.into()),
        "{answer}"
    );
}

#[test]
fn a_load_tells_figures_that_its_sample_supports() {
    let load = value(
        "let engine = engines::describe(\"sim\", #{});
         engine.load(#{ concurrency: 4, requests: 200, input: 128, output: 16 })",
    );
    assert_eq!(
        (&load["issued"], &load["completed"], &load["failed"], &load["cut_off"]),
        (&200.into(), &200.into(), &0.into(), &0.into()),
        "{load}"
    );
    assert!(
        load["ttft_ms"]["median"].is_number() && load["ttft_ms"]["thin"]["p99_9"] == true,
        "{load}"
    );
    assert!(load["output_throughput"].as_f64().unwrap() > 0.0);
}
