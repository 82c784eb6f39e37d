//! A user attaches to servers that still load, limit the rate, refuse a key, live below a path or compress: the program
//! waits for what passes, and reports the rest as the error.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::Value;

use crate::support::made_up::MadeUp;
use crate::support::scripted::{Asked, Scripted, answer, healthy};
use crate::support::{Outcome, Profiler};

/// Runs `adaptive` against this URL.
fn probe(url: &str, args: &[&str]) -> Profiler {
    Profiler::new()
        .args(["run", "adaptive", "--json", "--url", url])
        .args(["--set", "input=32", "--set", "output=4", "--set", "concurrency=1"])
        .args(args)
}

fn error(outcome: &Outcome) -> String {
    let error = outcome.stderr.lines().find(|line| line.starts_with("error"));
    error
        .unwrap_or_else(|| panic!("no error in\n{}", outcome.stderr))
        .to_owned()
}

/// This key of each probe's evidence in the result.
fn evidence(outcome: &Outcome, key: &str) -> Vec<Value> {
    let points = outcome.json()["result"]["points"].clone();
    let points = points
        .as_array()
        .unwrap_or_else(|| panic!("{}", outcome.stdout))
        .clone();
    points.into_iter().map(|point| point["evidence"][key].clone()).collect()
}

#[test]
fn a_rate_limit_is_waited_for_as_the_server_asks_and_counted() {
    let soon = || {
        let date = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(1);
        jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&date)
            .unwrap()
    };
    for retry_after in [(|| "1".to_owned()) as fn() -> String, soon] {
        let rejected = AtomicBool::new(false);
        let server = Scripted::start(move |asked: &Asked| {
            if asked.body["max_tokens"] != 8 || rejected.swap(true, Ordering::Relaxed) {
                return healthy(asked);
            }
            let head = format!("retry-after: {}\r\n", retry_after());
            answer(429, &head, r#"{"error":"slow down"}"#)
        });
        let outcome = probe(&server.url, &["--set", "output=8"])
            .run()
            .success()
            .stderr("waiting");
        assert_eq!(evidence(&outcome, "rejected"), [1], "{}", outcome.stdout);
        assert_eq!(server.asked(|asked| asked.body["max_tokens"] == 8).len(), 2);
        let warnings = outcome.json()["warnings"].clone();
        let counts = warnings
            .as_array()
            .unwrap()
            .iter()
            .filter(|warning| warning["code"] == "rate_limited");
        assert!(counts.map(|warning| &warning["value"]).eq([1.0].iter()), "{warnings}");
    }
}

/// A request is not sent again before the server's `retry-after`, and a `retry-after` beyond `--wait` is not waited
/// for.
#[test]
fn a_rate_limit_that_lasts_is_the_error() {
    let server = Scripted::start(|asked: &Asked| match asked.generates() {
        true => answer(429, "retry-after: 3600\r\n", r#"{"error":"slow down"}"#),
        false => healthy(asked),
    });
    let outcome = probe(&server.url, &["--wait", "2s"]).run().code(3).stderr("--wait");
    assert!(error(&outcome).contains("429 rate limit"), "{}", outcome.stderr);
    assert_eq!(server.asked(Asked::generates).len(), 1);
}

#[test]
fn a_rate_limit_under_load_is_the_error() {
    // The small request that finds out what the server accepts still succeeds.
    let server = Scripted::start(
        |asked: &Asked| match asked.generates() && asked.body["max_tokens"] != 4 {
            true => answer(429, "", r#"{"error":"slow down"}"#),
            false => healthy(asked),
        },
    );
    let outcome = Profiler::new()
        .args(["run", "throughput", "--url", &server.url, "--set", "concurrency=[2]"])
        .args(["--set", "input=20", "--set", "output=8", "--set", "min_requests=6"])
        .run()
        .code(3)
        .nowhere("log in the run's folder")
        .nowhere("called from");
    assert!(error(&outcome).contains("429 rate limit"), "{}", outcome.stderr);
}

#[test]
fn a_server_that_still_loads_is_waited_for() {
    for engine in ["auto", "openai"] {
        let server = Scripted::start(|asked: &Asked| match asked.before {
            0..3 => answer(503, "", r#"{"error":{"message":"Loading model"}}"#),
            _ => healthy(asked),
        });
        let outcome = probe(&server.url, &["--set", &format!("engine={engine}")]).run();
        let _ = outcome.success().stderr("waiting").stderr("Loading model");
    }
    // The model list may be available before the model is.
    let generated = AtomicUsize::new(0);
    let server = Scripted::start(move |asked: &Asked| {
        if asked.generates() && generated.fetch_add(1, Ordering::Relaxed) < 2 {
            answer(503, "", r#"{"error":{"message":"Loading model"}}"#)
        } else {
            healthy(asked)
        }
    });
    let _ = probe(&server.url, &["--set", "engine=openai"])
        .run()
        .success()
        .stderr("waiting");
}

#[test]
fn how_long_is_waited_is_the_users_choice() {
    for engine in ["auto", "openai"] {
        let server = Scripted::start(|_: &Asked| answer(503, "", "Loading model"));
        let outcome = probe(&server.url, &["--set", &format!("engine={engine}"), "--wait", "0s"]).run();
        let outcome = outcome.code(3).stderr("--wait 10m").nowhere("waiting up to");
        assert!(error(&outcome).contains("503"), "{}", outcome.stderr);
    }
    let _ = probe("http://127.0.0.1:1", &["--wait", "soon"]).run().code(2);
}

/// Some engines listen only after they have loaded their model.
#[test]
fn a_server_that_does_not_listen_yet_is_waited_for_where_the_user_asks_for_it() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (mut child, _folder) = probe(&format!("http://127.0.0.1:{port}"), &["--wait", "5m"]).spawn();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(lines.any(|line| line.contains("waiting")), "it says that it waits");
    let _server = MadeUp::default().start_at(port);
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
}

#[test]
fn a_key_that_the_server_refuses_is_not_asked_for_again() {
    let server = MadeUp {
        key: Some("sk-made-up-1"),
        ..MadeUp::default()
    }
    .start();
    for engine in ["auto", "openai", "vllm"] {
        let engine = format!("engine={engine}");
        let wrong = probe(&server.url, &["--set", &engine])
            .env("OPENAI_API_KEY", "sk-another-2")
            .run();
        let wrong = wrong.code(3).stderr("`OPENAI_API_KEY`").nowhere("set OPENAI_API_KEY");
        assert!(error(&wrong).contains("401 wrong key"), "{}", wrong.stderr);
        let none = probe(&server.url, &["--set", &engine])
            .run()
            .code(3)
            .stderr("set OPENAI_API_KEY");
        assert!(error(&none).contains("401 no key"), "{}", none.stderr);
        let url = server.url.replace("http://", "http://me:wrong-password-3@");
        let user = probe(&url, &["--set", &engine]).run().code(3).nowhere("OPENAI_API_KEY");
        assert!(
            error(&user).contains("401 wrong user name or password"),
            "{}",
            user.stderr
        );
        for outcome in [&wrong, &none, &user] {
            assert!(!outcome.folder().join("runs").exists(), "{engine}: nothing to keep");
        }
    }
}

#[test]
fn a_path_that_leads_nowhere_is_told_apart_from_a_model_that_is_not_there() {
    let server = Scripted::start(|asked: &Asked| match asked.path.strip_prefix("/llm") {
        Some(path) => healthy(&Asked {
            path: path.to_owned(),
            ..asked.clone()
        }),
        None => answer(404, "", r#"{"detail":"Not Found"}"#),
    });
    for engine in ["auto", "openai", "vllm"] {
        let engine = format!("engine={engine}");
        let lost = probe(&server.url, &["--set", &engine]).run().code(3);
        let _ = lost.stderr("404").stderr("/PREFIX").nowhere("name the model");
    }
    let _ = probe(&format!("{}/llm", server.url), &[]).run().success();
}

#[test]
fn a_server_that_compresses_without_being_asked_is_told_to_stop() {
    let compress = |asked: &Asked, all: bool| match all || asked.generates() {
        true => answer(200, "content-encoding: gzip\r\n", "\u{1f}"),
        false => healthy(asked),
    };
    for all in [true, false] {
        let server = Scripted::start(move |asked: &Asked| compress(asked, all));
        let outcome = probe(&server.url, &[])
            .run()
            .code(3)
            .stderr("gzip")
            .stderr("not compress");
        let _ = outcome.nowhere("name the model");
    }
}
