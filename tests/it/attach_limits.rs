//! A user searches running servers that have limits of their own: a stated length, a request that kills them, a request
//! that they never answer.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::attached::{attached, table};
use crate::support::made_up::{Cut, MadeUp, Running, Seen, made_up};
use crate::support::{Outcome, Profiler, eventually, llamacpp, model, needs_llama_server, temp};

/// The limit that the answer names.
fn limit(outcome: &Outcome) -> String {
    outcome.json()["result"]["answer"]["limit"].to_string()
}

/// Fails unless a search of this server, whose limit is 6,000 tokens, takes at most so many requests and names `parts`
/// as the limit, which is the server's own.
fn stated(server: MadeUp, command: &str, requests: usize, parts: &[&str]) {
    let server = MadeUp {
        limit: Some(6000),
        ..server
    };
    let server = server.start();
    let outcome = attached(&server.url, command).arg("--json").run().success();
    let (limit, asked) = (limit(&outcome), server.completions().len());
    for part in [parts, &["input + output", "max_model_len"]].concat() {
        assert!(limit.contains(part), "{part}: {limit}");
    }
    assert!(asked <= requests, "{asked} requests\n{}", outcome.stderr);
}

const BOTH: &str = "run adaptive --input 128..8192 --output 64..4096";

table! { stated:
    in_a_refusal: made_up! {}, "run adaptive", 8, &["6,000", "6,001 is refused"];
    in_the_model_list: made_up! { limit_in_models: true }, "run adaptive", 8, &["6,000", "6,001 is refused"];
    in_a_refusal_of_two_axes: made_up! {}, BOTH, 8, &["6,000", "6,001 is refused"];
    in_the_model_list_for_one_axis: made_up! { limit_in_models: true }, "run adaptive --output 256", 8, &["6,000", "6,001 is refused"];
    in_a_refusal_of_one_axis: made_up! {}, "run adaptive --output 256 --input 1024..65536", 8, &["6,000", "6,001 is refused"];
    in_a_refusal_with_two_tokens_reserved: made_up! { keeps: 2 }, "run adaptive", 8, &["5,998", "5,999 is refused", "6,000"];
    in_the_model_list_with_two_tokens_reserved: made_up! { keeps: 2, limit_in_models: true }, "run adaptive", 8,
        &["5,998", "5,999 is refused", "6,000"];
    by_a_server_that_counts_unevenly: made_up! { token_ids: false, uneven: 4 }, "run adaptive", 12, &["6,000"];
    by_a_server_of_chat: made_up! { completions: false, further_tokens: 9, uneven: 8 }, "run adaptive", 12, &["6,000"];
    in_the_second_refusal: made_up! { refuses_beyond: Some((8000, 400, "prompt is longer than the context length")) },
        "run adaptive", 16, &["6,000"];
}

/// Its answers end before the next request is sent, so few requests overlap: that is not a concurrency limit.
#[test]
fn a_server_that_answers_in_milliseconds_is_not_taken_for_a_full_one() {
    let server = MadeUp::default().start();
    let outcome = attached(
        &server.url,
        "run adaptive --json --input 100 --output 64 --concurrency 1..64",
    )
    .run();
    let outcome = outcome.sees(0, &["!queued", "!admits"]);
    let state = outcome.json()["result"]["answer"]["state"].clone();
    assert!(state == "undecided" || state == "not_reached", "{state}");
}

/// A real llama-server, with no flags from us and a model that we do not know.
#[test]
fn a_real_llama_server_is_asked_by_its_address_alone() {
    let Some(program) = needs_llama_server() else { return };
    let folder = temp();
    let model = model::write(folder.path());
    let start = || {
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let server = Command::new(&program)
            .args("--ctx-size 2048 --parallel 1 --threads 1 --port".split(' '))
            .args([address.rsplit(':').next().unwrap(), "--model"])
            .arg(&model)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        (server.unwrap(), address)
    };
    let (mut server, mut address) = start();
    let mut starts = 1;
    eventually("it serves", || {
        // Another test may have taken the port.
        if server.try_wait().unwrap().is_some() {
            assert!(starts < 5, "it ended by itself");
            starts += 1;
            (server, address) = start();
        }
        llamacpp::healthy(&address)
    });
    let outcome = attached(&address, "run adaptive --json").run();
    server.kill().unwrap();
    server.wait().unwrap();
    let outcome = outcome.sees(0, &["!SIMULATED"]);
    assert!(limit(&outcome).contains("max_model_len"), "{}", outcome.stdout);
}

/// Too many requests are no limit of a size, in whichever words.
#[test]
fn a_refusal_for_a_rate_is_no_limit() {
    for (status, words) in [
        (429, "not today"),
        (413, "Limit 6000 tokens per minute (TPM), Requested 8256"),
    ] {
        let server = made_up! { refuses_beyond: Some((3000, status, words)) }.start();
        let outcome = attached(&server.url, "run adaptive --json --output 64").run();
        let outcome = outcome.sees(0, &[&status.to_string()]).stderr(words);
        let answer = &outcome.json()["result"]["answer"];
        assert_eq!(answer["state"], "undecided", "{answer}");
        let asked = server.completions().len();
        assert!(asked <= 40, "{asked} requests\n{}", outcome.stderr);
    }
}

/// Fails unless a search of this server, which has a limit of 3,000 tokens and does not state it, finds it.
fn unstated(server: MadeUp, command: &str, quantity: &str, parts: &[&str]) {
    let server = server.start();
    let outcome = attached(&server.url, command).arg("--json").run().success();
    let answer = outcome.json()["result"]["answer"].clone();
    let limit = &answer["inequality"];
    assert_eq!(limit["quantity"], quantity, "{answer}");
    let fits = limit["fits"].as_u64().unwrap();
    assert!((2900..=3000).contains(&fits), "{answer}");
    let said = format!("{answer}{}", outcome.stderr);
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}

table! { unstated:
    a_refusal_in_unknown_words: made_up! { refuses_beyond: Some((3000, 400, "not today")) }, "run adaptive --output 64",
        "total", &["“not today”", "why is not known"];
    a_refusal_of_two_axes: made_up! { refuses_beyond: Some((3000, 422, "not today")) }, BOTH, "total", &["not today"];
    a_refusal_with_its_number: made_up! { refuses_beyond: Some((3000, 413, "a budget of 3,000 is all there is")) }, BOTH,
        "total", &["3,000"];
    prompts_cut_to_a_total: made_up! { token_ids: false, cuts: Some(Cut::Total(3000)) }, BOTH, "total", &["3,000", "cuts prompts"];
    prompts_cut_to_an_input: made_up! { token_ids: false, cuts: Some(Cut::Input(3000)) }, BOTH, "input", &["cuts prompts"];
    nothing_beyond_a_context: made_up! { empty_beyond: Some(3000) }, BOTH, "total", &["why is not known"];
}

/// Fails unless the limit of a server whose model list names vLLM is found: 960 tokens.
fn named_vllm(server: MadeUp) {
    let server = MadeUp {
        lists: vec![json!({ "id": "m", "object": "model", "owned_by": "vllm", "max_model_len": 960 })],
        limit: Some(960),
        ..server
    };
    let server = server.start();
    let outcome = attached(&server.url, "run adaptive --json --output 64").run().success();
    let limit = limit(&outcome);
    assert!(limit.contains("960"), "{limit}");
}

table! { named_vllm:
    behind_a_proxy_that_passes_only_v1_on: made_up! {};
    a_router_that_takes_only_chat: made_up! { completions: false, health: true };
    a_router_that_takes_only_text: made_up! { token_ids: false, chat: false };
    a_router_that_knows_no_fields_of_vllm: made_up! { unknown_fields: &["ignore_eos", "min_tokens"] };
}

/// Fails unless the command leaves a run that can be resumed, ends with exit status 3 and says `parts`, and so does
/// `profiler show`.
fn hangs(beyond: u64, command: &str, parts: &[&str]) {
    let server = made_up! { hangs_beyond: Some(beyond) }.start();
    let outcome = attached(&server.url, command)
        .args(["--request-timeout", "1", "--out", "out"])
        .run();
    let outcome = outcome.sees(3, parts);
    let shown = Profiler::new()
        .args(["show", "out"])
        .current_dir(outcome.folder())
        .run();
    let _ = shown.sees(0, &["1 s"]);
}

table! { hangs:
    /// The smallest point is probed first, so that nothing else waits for the deadline.
    at_the_first_request: 100, BOTH, &["input=128 output=64", "1 s", "--request-timeout 600"];
    further_on: 3000, "run adaptive --output 64", &["input=8192 output=64", "--search.crash fails", "--resume out"];
}

fn asked(server: &Running) -> Vec<(u64, u64)> {
    let lengths = |seen: &Seen| {
        let input = seen.body["prompt"].as_array().map_or(0, Vec::len) as u64;
        (input, seen.body["max_tokens"].as_u64().unwrap())
    };
    // Each attempt at a run starts with a small request that finds out what the server accepts; it is left out here.
    let all = server.completions();
    all.iter().map(lengths).filter(|asked| *asked != (16, 4)).collect()
}

/// After the server's death nothing more is sent. Once the server is back, the resumed run continues below that point
/// and probes nothing twice.
#[test]
fn a_server_that_dies_ends_the_search_which_goes_on_below_when_it_is_there_again() {
    let made_up = made_up! { dies_beyond: Some(3000) };
    let server = made_up.clone().start();
    let port: u16 = server.url.rsplit(':').next().unwrap().parse().unwrap();
    let first = attached(&server.url, "run adaptive --json --output 64 --out out").run();
    let first = first.sees(3, &["died", "input=8192 output=64", "--resume out"]);
    let mut all = asked(&server);
    drop(server);
    for _ in 0..20 {
        let server = made_up.clone().start_at(port);
        // The user may now decide how a crash counts.
        let command = "run adaptive --json --output 64 --search.crash fails --resume out";
        let outcome = attached(&server.url, command).current_dir(first.folder()).run();
        all.extend(asked(&server));
        if outcome.code != Some(3) {
            let limit = limit(&outcome.success());
            assert!(limit.contains("died"), "{limit}");
            let deaths = all.iter().filter(|(input, output)| input + output > 3000).count();
            assert!(deaths > 2, "{all:?}");
            let once: BTreeSet<_> = all.iter().collect();
            assert_eq!(once.len(), all.len(), "{all:?}");
            return;
        }
    }
    panic!("no end: {all:?}");
}
