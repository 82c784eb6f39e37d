//! A user searches running servers that have limits of their own: a stated length, a request that kills them, a request
//! that they never answer.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::made_up::{MadeUp, Running, Seen};
use crate::support::{Outcome, Profiler, llamacpp, model, needs_llama_server, temp};

fn adaptive(server: &Running, sets: &[&str]) -> Profiler {
    let url = format!("url={}", server.url);
    let sets = [&["model=", url.as_str()], sets].concat();
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    Profiler::new().args(["run", "adaptive", "--json"]).args(sets)
}

fn answer(outcome: &Outcome) -> Value {
    outcome.json()["result"]["answer"].clone()
}

/// Whether the limit is stated in the model list or in a refusal, the search only probes both sides of it at the ends
/// of the range.
#[test]
fn a_limit_that_the_server_states_takes_a_handful_of_requests() {
    let stated = "input + output ≤ 6,000 tokens (the server's own limit, max_model_len; not memory); 6,001 is refused";
    let less = "input + output ≤ 5,998 tokens (the server's own limit, max_model_len; not memory); 5,999 is refused (the engine reports 6,000)";
    // Columns: stated in the model list, tokens that the server reserves, parameters, expected answer.
    for (in_models, keeps, sets, limit) in [
        (false, 0, &[][..], stated),
        (true, 0, &[], stated),
        (false, 2, &[], less),
        (true, 2, &[], less),
        (false, 0, &["input=[128,8192]", "output=[64,4096]"], stated),
        (true, 0, &["output=256"], stated),
        (false, 0, &["output=256", "input=[1024,65536]"], stated),
    ] {
        let server = MadeUp {
            limit: Some(6000),
            limit_in_models: in_models,
            keeps,
            ..MadeUp::default()
        }
        .start();
        let outcome = adaptive(&server, sets).run().success();
        let seen = server.completions();
        let asked: Vec<_> = seen
            .iter()
            .map(|seen| (seen.body["max_tokens"].clone(), seen.status))
            .collect();
        let case = format!(
            "page {in_models}, keeps {keeps}, {sets:?}: {asked:?}\n{}",
            outcome.stderr
        );
        assert_eq!(answer(&outcome)["limit"], limit, "{case}");
        assert!(seen.len() <= 8, "{} requests, {case}", seen.len());
        let sure = answer(&outcome)["sure"].to_string();
        assert!(sure.contains("checked on both sides"), "{sure} {case}");
    }
}

/// Covers token counts that differ between requests, and a limit that the server states only in its second refusal.
#[test]
fn a_limit_is_verified_where_counts_are_near_and_where_it_is_stated_late() {
    let text = MadeUp {
        token_ids: false,
        uneven: 4,
        ..MadeUp::default()
    };
    let chat = MadeUp {
        completions: false,
        further_tokens: 9,
        uneven: 8,
        ..MadeUp::default()
    };
    let long = (8000, 400, "prompt is longer than the context length");
    let late = MadeUp {
        refuses_beyond: Some(long),
        ..MadeUp::default()
    };
    for (made_up, most) in [(text, 12), (chat, 12), (late, 16)] {
        let server = MadeUp {
            limit: Some(6000),
            ..made_up
        }
        .start();
        let outcome = adaptive(&server, &[]).run().success();
        let limit = answer(&outcome)["limit"].to_string();
        assert!(
            limit.contains("input + output ≤ 6,000 tokens (the server's own limit, max_model_len; not memory)"),
            "{limit}"
        );
        let requests = server.completions().len();
        assert!(requests <= most, "{requests} requests\n{}", outcome.stderr);
    }
}

/// Its answers end before the next request is sent, so few requests overlap: that is not a concurrency limit.
#[test]
fn a_server_that_answers_in_milliseconds_is_not_taken_for_a_full_one() {
    let server = MadeUp::default().start();
    let outcome = adaptive(&server, &["input=100", "output=64", "concurrency=[1,64]"]).run();
    let outcome = outcome.success().nowhere("queued").nowhere("admits no more");
    let state = answer(&outcome)["state"].clone();
    assert!(state == "undecided" || state == "not_reached", "{}", answer(&outcome));
}

/// A real llama-server, with no flags from us and a model that we do not know.
#[test]
fn a_real_llama_server_is_asked_by_its_address_alone() {
    let Some(program) = needs_llama_server() else { return };
    let folder = temp();
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut server = Command::new(program)
        .args([
            "--ctx-size",
            "2048",
            "--parallel",
            "1",
            "--threads",
            "1",
            "--port",
            &port.to_string(),
            "--model",
        ])
        .arg(model::write(folder.path()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let address = format!("127.0.0.1:{port}");
    while !llamacpp::healthy(&address) {
        assert!(server.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(50));
    }
    let outcome = Profiler::new()
        .args(["run", "adaptive", "--json", "--url", &address])
        .run();
    server.kill().unwrap();
    server.wait().unwrap();
    let outcome = outcome.success().nowhere("SIMULATED");
    let limit = answer(&outcome)["limit"].to_string();
    assert!(
        limit.contains("the server's own limit, max_model_len; not memory"),
        "{limit}\n{}",
        outcome.stderr
    );
}

/// A refusal that no rule recognises is reported in the server's words, and not retried: the answer would not change.
#[test]
fn a_refusal_in_unknown_words_is_told() {
    for (status, most) in [(400, 10), (429, 40)] {
        let server = MadeUp {
            refuses_beyond: Some((3000, status, "not today")),
            ..MadeUp::default()
        }
        .start();
        let outcome = adaptive(&server, &["output=64"]).run().success();
        let outcome = outcome.stderr(&format!("`/v1/completions` answered with status {status}: not today"));
        let limit = answer(&outcome).to_string();
        assert!(limit.contains("not today"), "{limit}");
        let requests = server.completions().len();
        assert!(requests <= most, "{requests} requests\n{}", outcome.stderr);
    }
}

/// Resumes the run in `folder`.
fn resumed(server: &Running, folder: &Path, sets: &[&str]) -> Outcome {
    adaptive(server, sets)
        .args(["--resume", "out"])
        .current_dir(folder)
        .run()
}

fn asked(server: &Running) -> Vec<(u64, u64)> {
    let of = |seen: &Seen| {
        let input = seen.body["prompt"].as_array().map_or(0, Vec::len) as u64;
        (input, seen.body["max_tokens"].as_u64().unwrap())
    };
    // Each attempt at a run starts with a small request that finds out what the server accepts; it is left out here.
    server
        .completions()
        .iter()
        .map(of)
        .filter(|asked| *asked != (16, 4))
        .collect()
}

/// The smallest point is probed first, so that nothing else waits for the deadline.
#[test]
fn a_server_that_hangs_at_its_first_request_is_told_at_its_deadline() {
    let server = MadeUp {
        hangs_beyond: Some(100),
        ..MadeUp::default()
    }
    .start();
    let outcome = adaptive(&server, &["input=[128,8192]", "output=[64,4096]", "request_timeout=1"]).run();
    let _ = outcome
        .code(3)
        .stderr("the server did not finish its first request, input=128 output=64: unfinished after 1 s")
        .stderr("request_timeout=600");
}

#[test]
fn a_server_that_hangs_further_on_ends_the_search_and_what_was_measured_is_kept() {
    let made_up = MadeUp {
        hangs_beyond: Some(3000),
        ..MadeUp::default()
    };
    let server = made_up.clone().start();
    let sets = ["request_timeout=1", "output=64"];
    let outcome = adaptive(&server, &sets).args(["--out", "out"]).run().code(3);
    let outcome = outcome
        .stderr("the server did not answer input=8192 output=64 in time")
        .stderr("--set search.crash=fails")
        .stderr("--resume out");
    let shown = Profiler::new()
        .args(["show", "out"])
        .current_dir(outcome.folder())
        .run();
    let _ = shown
        .success()
        .stdout("input=8192 output=64 got no answer in time (unfinished after 1 s)");
}

/// After the server's death nothing more is sent. Once the server is back, the resumed run continues below that point
/// and probes nothing twice.
#[test]
fn a_server_that_dies_ends_the_search_which_goes_on_below_when_it_is_there_again() {
    let made_up = MadeUp {
        dies_beyond: Some(3000),
        ..MadeUp::default()
    };
    let server = made_up.clone().start();
    let port: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let sets = ["output=64"];
    let outcome = adaptive(&server, &sets).args(["--out", "out"]).run().code(3);
    let first = outcome
        .stderr("input=8192 output=64: error (died)")
        .stderr("the server died at input=8192 output=64")
        .stderr("--resume out");
    let mut all = asked(&server);
    drop(server);
    // The user may now decide how a crash counts.
    let counted = [&sets[..], &["search.crash=fails"]].concat();
    for _ in 0..20 {
        let server = made_up.clone().start_at(port);
        let outcome = resumed(&server, first.folder(), &counted);
        all.extend(asked(&server));
        if outcome.code != Some(3) {
            let limit = answer(&outcome.success())["limit"].to_string();
            assert!(limit.contains("beyond it the server died"), "{limit}");
            let deaths = all.iter().filter(|(input, output)| input + output > 3000).count();
            assert!(deaths > 2, "{all:?}");
            let once: BTreeSet<_> = all.iter().collect();
            assert_eq!(once.len(), all.len(), "{all:?}");
            return;
        }
    }
    panic!("no end: {all:?}");
}
