//! Other clients on the same server: their command lines, and how their results are read.
//!
//! `FOLDER/bin` holds links to the installed clients: `vllm-rs` (the file `vllm/vllm-rs` of the PyPI wheel vllm
//! 0.33.0), `llmnop` (crates.io 0.12.0), `aiperf` (PyPI 0.13.0), `guidellm` (PyPI 0.8.1). `FOLDER/tokenizer` is a
//! folder with a `tokenizer.json` for them. All are optional.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use serde_json::{Value, json};

use crate::{TOKENS, WAVES, clock};

pub const ALL: [&str; 4] = ["vllm-rs", "llmnop", "aiperf", "guidellm"];

/// Tokens per prompt.
const INPUT: u64 = 64;

pub fn absent(folder: &str, peer: &str) -> bool {
    !Path::new(folder).join("bin").join(peer).exists()
}

/// Runs a peer through the `cost` command of this binary, which measures it apart from earlier children, and reads its
/// results.
pub fn run(folder: &str, peer: &str, url: &str, streams: u64) -> Value {
    let folder = Path::new(folder);
    let left = tempfile::tempdir().unwrap();
    let program = folder.join("bin").join(peer);
    let tokenizer = folder.join("tokenizer");
    let line = line(
        peer,
        url,
        streams,
        tokenizer.to_str().unwrap(),
        left.path().to_str().unwrap(),
    );
    let output = crate::own(&["cost", program.to_str().unwrap()])
        .args(line)
        .output()
        .unwrap();
    let mut said: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let (ttft, itl) = read(peer, left.path());
    said["ttft_ms"] = json!(ttft);
    said["itl_ms"] = json!(itl);
    said
}

/// Runs a command and prints its cost: user time, system time, and peak memory of its largest process.
pub fn cost(command: &[&str]) {
    let status = Command::new(command[0])
        .args(&command[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    let (user, system) = clock::cpu(UsageWho::RUSAGE_CHILDREN);
    let rss = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    println!(
        "{}",
        json!({ "success": status.success(), "user": user.as_secs_f64(), "system": system.as_secs_f64(), "rss_kib": rss })
    );
}

fn line(peer: &str, url: &str, streams: u64, tokenizer: &str, left: &str) -> Vec<String> {
    let requests = streams * WAVES;
    let text = match peer {
        "vllm-rs" => format!(
            "bench serve --backend openai-chat --base-url {url} --endpoint /v1/chat/completions --model mock --tokenizer {tokenizer} \
             --dataset-name random --random-input-len {INPUT} --random-output-len {TOKENS} --num-prompts {requests} \
             --max-concurrency {streams} --disable-tqdm --save-result --save-detailed --result-dir {left} --result-filename result.json"
        ),
        "llmnop" => format!(
            "--url {url}/v1 --model mock --tokenizer {tokenizer}/tokenizer.json --input-tokens {INPUT} --output-cap {TOKENS} \
             --requests {requests} --concurrency {streams} --format none --results-dir {left}"
        ),
        "aiperf" => format!(
            "profile --model mock --url {url} --endpoint-type chat --streaming --tokenizer {tokenizer} --prompt-input-tokens-mean {INPUT} \
             --prompt-output-tokens-mean {TOKENS} --request-count {requests} --concurrency {streams} --ui none --export-level records \
             --output-artifact-dir {left}"
        ),
        "guidellm" => format!(
            "run --backend kind=openai_http,target={url} --profile kind=concurrent,streams={streams} \
             --constraint kind=max_requests,count={requests} --data kind=synthetic_text,prompt_tokens={INPUT},output_tokens={TOKENS} \
             --tokenizer kind=huggingface_auto,model={tokenizer} --output kind=json,path={left}/result.json --disable-console"
        ),
        _ => String::new(),
    };
    text.split_whitespace().map(str::to_owned).collect()
}

/// TTFT of each request and all gaps between tokens, in milliseconds. llmnop and GuideLLM do not record gaps.
fn read(peer: &str, left: &Path) -> (Vec<f64>, Vec<f64>) {
    match peer {
        "vllm-rs" => {
            let result = document(&left.join("result.json"));
            let seconds = |list: &Value| {
                list.as_array()
                    .map(|list| list.iter().filter_map(Value::as_f64).map(|time| time * 1e3).collect())
            };
            let gaps = result["itls"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(seconds)
                .collect::<Vec<Vec<f64>>>()
                .concat();
            (seconds(&result["ttfts"]).unwrap_or_default(), gaps)
        }
        "llmnop" => {
            let folder = fs::read_dir(left).unwrap().next().map(|entry| entry.unwrap().path());
            let lines = folder
                .map(|folder| lines(&folder.join("requests.jsonl")))
                .unwrap_or_default();
            (
                lines
                    .iter()
                    .filter_map(|line| line["metrics"]["ttft_ms"].as_f64())
                    .collect(),
                Vec::new(),
            )
        }
        "aiperf" => {
            let lines = lines(&left.join("profile_export.jsonl"));
            let metric = |line: &Value, name: &str| line["metrics"][name]["value"].clone();
            let gaps = lines.iter().flat_map(|line| {
                metric(line, "inter_chunk_latency")
                    .as_array()
                    .cloned()
                    .unwrap_or_default()
            });
            let gaps = gaps.filter_map(|gap| gap.as_f64()).collect();
            (
                lines
                    .iter()
                    .filter_map(|line| metric(line, "time_to_first_token").as_f64())
                    .collect(),
                gaps,
            )
        }
        _ => {
            let result = document(&left.join("result.json"));
            let requests = result["benchmarks"][0]["requests"]["successful"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            (
                requests
                    .iter()
                    .filter_map(|request| request["time_to_first_token_ms"].as_f64())
                    .collect(),
                Vec::new(),
            )
        }
    }
}

fn document(path: &Path) -> Value {
    fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}
