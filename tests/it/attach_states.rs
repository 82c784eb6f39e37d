//! A user attaches to servers that still load, limit the rate, refuse a key, live below a path or compress: the program
//! waits for what passes, and reports the rest as the error.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::attached::{LOAD, POINT, attached, table};
use crate::support::made_up::{MadeUp, made_up};
use crate::support::scripted::{Asked, Scripted, answer, healthy};

/// Runs the command once with each of these engines, each time against a new server.
fn check(script: fn(&Asked) -> String, engines: &str, command: &str, code: i32, parts: &[&str]) {
    for engine in engines.split(' ') {
        let server = Scripted::start(script);
        let outcome = attached(&server.url, command).args(["--engine", engine]).run();
        let _ = outcome.sees(code, parts).nowhere("called from");
    }
}

const ALL: &str = "auto openai vllm";

table! { check:
    a_server_that_loads: |asked| loading(asked, asked.before < 3), "auto openai", POINT, 0, &["waiting", "Loading model"];
    a_server_that_lists_its_model_before_it_loaded:
        |asked| loading(asked, asked.generates() && asked.before < 8), "openai", POINT, 0, &["waiting"];
    a_server_that_loads_and_no_patience: |asked| loading(asked, true), "auto openai", "run adaptive --wait 0s", 3,
        &["503", "--wait 10m", "!waiting up to"];
    a_wait_that_is_no_time: healthy, "auto", "run adaptive --wait soon", 2, &["--wait"];
    /// The small request that finds out what the server accepts still succeeds.
    a_rate_limit_under_load: |asked| limited(asked, asked.generates() && asked.body["max_tokens"] != 4), "auto", LOAD, 3,
        &["429", "slow down", "!log in the run's folder"];
    a_path_that_leads_nowhere: |_| answer(404, "", r#"{"detail":"Not Found"}"#), ALL, POINT, 3,
        &["404", "/PREFIX", "!name the model"];
    a_server_that_always_compresses: compressed, "auto", POINT, 3, &["gzip", "!name the model"];
    a_server_that_compresses_what_it_generates: |asked| if asked.generates() { compressed(asked) } else { healthy(asked) },
        "auto", POINT, 3, &["gzip", "!name the model"];
}

fn loading(asked: &Asked, still: bool) -> String {
    let busy = || answer(503, "", r#"{"error":{"message":"Loading model"}}"#);
    if still { busy() } else { healthy(asked) }
}

fn limited(asked: &Asked, limit: bool) -> String {
    let limited = || answer(429, "", r#"{"error":"slow down"}"#);
    if limit { limited() } else { healthy(asked) }
}

fn compressed(_: &Asked) -> String {
    answer(200, "content-encoding: gzip\r\n", "\u{1f}")
}

/// Probes a server that needs a key, at an address with this user, and with this key in the environment.
fn key(user: &str, key: Option<&str>, parts: &[&str]) {
    let server = made_up! { key: Some("sk-made-up-1") }.start();
    for engine in ALL.split(' ') {
        let url = server.url.replace("http://", &format!("http://{user}"));
        let program = attached(&url, POINT).args(["--engine", engine]);
        let outcome = match key {
            Some(key) => program.env("OPENAI_API_KEY", key),
            None => program,
        };
        let outcome = outcome.run().sees(3, parts);
        assert!(!outcome.folder().join("runs").exists(), "{engine}: nothing to keep");
    }
    assert!(server.all().iter().all(|seen| seen.status == 401));
}

table! { key:
    no_key: "", None, &["401", "set OPENAI_API_KEY"];
    another_key: "", Some("sk-another-2"), &["401", "`OPENAI_API_KEY`", "!set OPENAI_API_KEY", "!sk-another-2"];
    another_password: "me:wrong-password-3@", None, &["401", "password", "!OPENAI_API_KEY", "!wrong-password-3"];
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
        let command = "run adaptive --json --input 32 --output 8 --concurrency 1";
        let outcome = attached(&server.url, command).run();
        let outcome = outcome.sees(0, &["waiting", "/result/points/0/evidence/rejected=1"]);
        // The rejected request, its repeat, and the answer that alone decides, asked again.
        assert_eq!(server.asked(|asked| asked.body["max_tokens"] == 8).len(), 3);
        let warnings = outcome.json()["warnings"].clone();
        let mut counts = warnings.as_array().unwrap().iter();
        assert!(counts.any(|warning| warning["code"] == "rate_limited" && warning["value"] == 1.0));
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
    let outcome = attached(&server.url, POINT).args(["--wait", "2s"]).run();
    let _ = outcome.sees(3, &["429", "slow down", "--wait"]);
    assert_eq!(server.asked(Asked::generates).len(), 1);
}

/// Some engines listen only after they have loaded their model.
#[test]
fn a_server_that_does_not_listen_yet_is_waited_for_where_the_user_asks_for_it() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let waits = attached(&format!("http://127.0.0.1:{port}"), POINT).args(["--wait", "5m"]);
    let (mut child, _folder) = waits.spawn();
    let mut lines = BufReader::new(child.stderr.take().unwrap())
        .lines()
        .map_while(Result::ok);
    assert!(lines.any(|line| line.contains("waiting")), "it says that it waits");
    let _server = MadeUp::default().start_at(port);
    let rest: Vec<String> = lines.collect();
    assert!(child.wait().unwrap().success(), "{rest:?}");
}

#[test]
fn a_server_below_a_path() {
    let server = Scripted::start(|asked: &Asked| match asked.path.strip_prefix("/llm") {
        Some(path) => healthy(&Asked {
            path: path.to_owned(),
            ..asked.clone()
        }),
        None => answer(404, "", r#"{"detail":"Not Found"}"#),
    });
    let _ = attached(&format!("{}/llm", server.url), POINT).run().success();
}
