//! A user asks several engines behind one address: a router that sends requests to each of them, with one metrics page.

use std::net::{Ipv4Addr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::sim::process::Served;
use crate::support::Profiler;

/// A router in front of simulated engines, which runs until it is dropped.
struct Routed {
    url: String,
    _engines: Vec<Served>,
    _runtime: Runtime,
}

struct Replicas {
    client: reqwest::Client,
    engines: Vec<String>,
    /// The engine of each request that generates text, in turn.
    turns: Vec<usize>,
    generated: AtomicUsize,
}

impl Routed {
    /// Engines with these shares of their GPU's memory, and which of them gets each request, in turn.
    fn start(shares: &[&str], turns: &[usize]) -> Self {
        let start = |share: &&str| {
            let profile = ["--profile", "llama-8b-24gb-vllm", "--time-scale", "0.05"];
            let mut engine = Served::start(&[&profile as &[&str], &["--gpu-memory-utilization", share]].concat());
            engine.until("Application startup complete");
            engine
        };
        let engines: Vec<Served> = shares.iter().map(start).collect();
        let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Arc::new(Replicas {
            client: profiler::http::build(profiler::http::direct()).unwrap(),
            engines: engines.iter().map(|engine| engine.url.clone()).collect(),
            turns: turns.to_vec(),
            generated: AtomicUsize::new(0),
        });
        let runtime = Runtime::new().unwrap();
        runtime.spawn(async move {
            let app = Router::new().fallback(pass_on).with_state(router);
            axum::serve(TcpListener::from_std(listener).unwrap(), app)
                .await
                .unwrap();
        });
        Self {
            url,
            _engines: engines,
            _runtime: runtime,
        }
    }

    fn run(&self, more: &[&str]) -> Profiler {
        Profiler::new()
            .args(["run"])
            .args(more)
            .args(["--json", "--url", &self.url])
    }
}

async fn pass_on(State(router): State<Arc<Replicas>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    if path == "/metrics" {
        return Response::new(Body::from(router.metrics().await));
    }
    let engine = if path.ends_with("completions") {
        router.turns[router.generated.fetch_add(1, Ordering::Relaxed) % router.turns.len()]
    } else {
        0
    };
    let (head, body) = request.into_parts();
    let url = format!("{}{path}", router.engines[engine]);
    let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
    let sent = router.client.request(head.method, url).headers(head.headers).body(body);
    let answer = sent.send().await.unwrap();
    let mut passed = Response::builder().status(answer.status());
    *passed.headers_mut().unwrap() = answer.headers().clone();
    passed.body(Body::from_stream(answer.bytes_stream())).unwrap()
}

impl Replicas {
    /// The pages of all engines as one, as data-parallel engines of vLLM show them.
    async fn metrics(&self) -> String {
        let mut page = String::new();
        for (number, engine) in self.engines.iter().enumerate() {
            let answer = self.client.get(format!("{engine}/metrics")).send().await.unwrap();
            let text = answer.text().await.unwrap();
            page += &text.replace("engine=\"0\"", &format!("engine=\"{number}\""));
        }
        page
    }
}

/// Each engine holds 8,352 tokens: seven requests of 1,064.
#[test]
fn concurrent_requests_share_the_caches_of_all() {
    let served = Routed::start(&["0.7", "0.7"], &[0, 1]);
    let run = served.run(&[
        "adaptive",
        "--set",
        "input=1000",
        "--set",
        "output=64",
        "--set",
        "concurrency=[1,64]",
    ]);
    let found = run.run().success().json();
    let answer = &found["result"]["answer"];
    let inequality = &answer["inequality"];
    assert_eq!(
        (&inequality["quantity"], &inequality["fits"]),
        (&"concurrency".into(), &14.into()),
        "{answer}"
    );
}

/// One holds 8,352 tokens and the other 6,416, whichever is asked first.
#[test]
fn one_request_is_bounded_by_the_smallest() {
    for turns in [[0, 1], [1, 0]] {
        let served = Routed::start(&["0.7", "0.69"], &turns);
        let found = served.run(&["adaptive"]).run().success().json();
        let answer = &found["result"]["answer"];
        let fits = answer["inequality"]["fits"].as_u64().unwrap();
        assert!((6416 - 64..=6416).contains(&fits), "{answer}");
    }
}

/// A larger engine serves all: what the smallest reports refuses the point only where reports count.
#[test]
fn a_report_refuses_nothing_where_reports_do_not_count() {
    let served = Routed::start(&["0.7", "0.69"], &[0]);
    for (use_report, verdict) in [("true", "refused"), ("false", "ok")] {
        let set = format!("search.use_report={use_report}");
        let point = ["--input", "7000", "--output", "64", "--concurrency", "1"];
        let run = served.run(&[&["adaptive", "--set", &set], &point[..]].concat()).run();
        assert_eq!(run.json()["result"]["points"][0]["verdict"], verdict, "{}", run.stderr);
    }
}

#[test]
fn engines_that_run_unequal_numbers_are_told_apart() {
    let served = Routed::start(&["0.7", "0.7"], &[0, 0, 0, 1]);
    let run = served.run(&[
        "throughput",
        "--set",
        "concurrency=16",
        "--set",
        "input=200",
        "--set",
        "output=64",
    ]);
    let found = run.run().success().json();
    let warnings = found["warnings"].to_string();
    assert!(warnings.contains("uneven_workers"), "{warnings}");
}
