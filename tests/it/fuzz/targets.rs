//! A user opens foreign bytes: each parser is a function that must return, whatever the bytes are. `cargo fuzz` uses
//! these functions too (`fuzz/`).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use profiler::boundary::Point;
use profiler::compare::import;
use profiler::engine::{
    Adapter, Facts, FailureRule, Limits, Protocol, Readiness, RequestForm, Rules, check_adapter, decoder,
};
use profiler::fault::{Fault, Result};
use profiler::http::ApiKey;
use profiler::load::read_response;
use profiler::memory::{EstimateRequest, Headers, ModelFiles, estimate};
use profiler::prompt::{Files, PromptSpec, Prompts, Tokenizer};
use profiler::run::RecordedRun;
use profiler::runtime::Launch;
use profiler::telemetry;
use serde_json::{Value, json};
use tempfile::TempDir;

/// A parser, with its seeds (the endings of files below `tests/data`) and its examples.
pub struct Target {
    pub name: &'static str,
    pub seeds: &'static [&'static str],
    pub examples: &'static [&'static str],
    pub parse: fn(&[u8]),
}

pub const TARGETS: [Target; 11] = [
    Target {
        name: "response",
        seeds: &[],
        examples: &[
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n2e\r\ndata: {\"choices\":[{\"text\":\"a\",\"index\":0}]}\n\n\r\ne\r\ndata: [DONE]\n\n\r\n0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\ndata: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\n",
            "HTTP/1.1 200 OK\r\n\r\n{\"response\":\"a\",\"done\":false}\n{\"done\":true,\"eval_count\":4,\"prompt_eval_count\":3,\"done_reason\":\"length\"}\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 400 Bad Request\r\ncontent-length: 51\r\n\r\n{\"error\":{\"message\":\"maximum context length is 60\"}}",
            "HTTP/1.1 200 OK\r\n\r\ndata: {\"token\":{\"id\":1,\"text\":\"a\"},\"generated_text\":null,\"details\":null}\n\nevent: error\ndata: {\"error\":\"CUDA out of memory\"}\n\n",
            "HTTP/1.1 200 OK\r\n\r\ndata: {\"content\":\"a\",\"tokens\":[5],\"stop\":true,\"tokens_predicted\":4,\"tokens_evaluated\":3,\"stop_type\":\"limit\"}\n\n",
        ],
        parse: response,
    },
    Target {
        name: "metrics",
        seeds: &[".metrics.txt"],
        examples: &[],
        parse: metrics,
    },
    Target {
        name: "journal",
        seeds: &["journal.jsonl"],
        examples: &[],
        parse: |bytes| run("journal.jsonl", bytes),
    },
    Target {
        name: "manifest",
        seeds: &["manifest.json"],
        examples: &[],
        parse: |bytes| run("manifest.json", bytes),
    },
    Target {
        name: "series",
        seeds: &["engine-1.csv", ".activity.csv", ".processes.csv"],
        examples: &[],
        parse: series,
    },
    Target {
        name: "foreign",
        seeds: &["foreign/.json", "foreign/.csv"],
        examples: &[],
        parse: foreign,
    },
    Target {
        name: "tokenizer",
        seeds: &["/tokenizer.json"],
        examples: &[
            r#"{"version":"1.0","added_tokens":[{"id":0,"content":"<s>","special":true,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false}],"normalizer":{"type":"Lowercase"},"pre_tokenizer":{"type":"Whitespace"},"decoder":{"type":"ByteLevel","add_prefix_space":true,"trim_offsets":true,"use_regex":true},"model":{"type":"WordLevel","vocab":{"<s>":0,"a":1,"b":2},"unk_token":"a"}}"#,
            r#"{"version":"1.0","truncation":{"direction":"Right","max_length":8,"strategy":"LongestFirst","stride":2},"padding":{"strategy":{"Fixed":9},"direction":"Left","pad_to_multiple_of":4,"pad_id":0,"pad_type_id":0,"pad_token":"<pad>"},"added_tokens":[],"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"\u2581"},{"type":"Replace","pattern":{"Regex":" +"},"content":"\u2581"},{"type":"NFKC"}]},"pre_tokenizer":{"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":true},"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"A","type_id":0}},{"Sequence":{"id":"B","type_id":1}}],"special_tokens":{"<s>":{"id":"<s>","ids":[1],"tokens":["<s>"]}}},"decoder":{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["<s>",-1.5],["\u2581hello",-2.0],["\u2581a",-3.0],["b",-3.5],["<0x61>",-9.0]],"byte_fallback":true}}"#,
            r###"{"version":"1.0","added_tokens":[{"id":2,"content":"[SEP]","single_word":true,"lstrip":true,"rstrip":true,"normalized":true,"special":false}],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,"strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"(?i:'s|'t)|\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)"},"behavior":"Isolated","invert":false},{"type":"Digits","individual_digits":true},{"type":"BertPreTokenizer"}]},"post_processor":{"type":"BertProcessing","sep":["[SEP]",2],"cls":["a",1]},"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,"vocab":{"[UNK]":0,"a":1,"[SEP]":2,"hello":3,"##b":4}}}"###,
        ],
        parse: tokenizer,
    },
    Target {
        name: "config",
        seeds: &[".config.json"],
        examples: &[],
        parse: config,
    },
    Target {
        name: "safetensors",
        seeds: &[],
        examples: &[
            "\u{52}\0\0\0\0\0\0\0{\"lm_head.weight\":{\"dtype\":\"BF16\",\"shape\":[32000,4096],\"data_offsets\":[0,262144000]}}",
        ],
        parse: safetensors,
    },
    Target {
        name: "log",
        seeds: &[".log"],
        examples: &[],
        parse: log,
    },
    Target {
        name: "pattern",
        seeds: &[],
        examples: &[r"KV cache size: (?<tokens>[\d,]+) tokens", r"^(?:a|b)*c{2,5}\s+(\w+)$"],
        parse: pattern,
    },
];

fn response(bytes: &[u8]) {
    for protocol in [
        Protocol::OpenaiCompletions,
        Protocol::Tgi,
        Protocol::Llamacpp,
        Protocol::Ollama,
    ] {
        let _ = read_response(decoder(protocol), bytes);
    }
}

/// The rules of the shipped adapters.
static RULES: LazyLock<[Rules; 7]> = LazyLock::new(|| {
    [
        "vllm",
        "sglang",
        "tgi",
        "llamacpp",
        "tensorrt_llm",
        "ollama",
        "transformers",
    ]
    .map(crate::logs::rules)
});

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn metrics(bytes: &[u8]) {
    for rules in &*RULES {
        let _ = rules.read_metrics(&text(bytes));
    }
}

fn log(bytes: &[u8]) {
    let lines: Vec<String> = text(bytes).lines().take(50).map(str::to_owned).collect();
    // One adapter per input, because their rules are slow.
    let rules = &RULES[bytes.len() % RULES.len()];
    let _ = (rules.read_start(&lines, 1), rules.read_request(&lines, &lines, None));
}

/// A folder in memory, if the system has one: a disk is slower than most parsers.
pub fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    match memory.is_dir() {
        true => memory.to_owned(),
        false => std::env::temp_dir(),
    }
}

/// Reads a run folder in which one file is replaced by `bytes`.
fn run(name: &str, bytes: &[u8]) {
    let folder = file(name, bytes);
    if name == "journal.jsonl" {
        let manifest = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/data/runs/vllm-longest/manifest.json"
        );
        fs::copy(manifest, folder.path().join("manifest.json")).unwrap();
    }
    if let Ok(run) = RecordedRun::read(folder.path()) {
        for boundary in &run.boundaries {
            let _ = boundary.rebuild();
        }
        let _ = run.everything();
    }
}

fn file(name: &str, bytes: &[u8]) -> TempDir {
    let folder = tempfile::tempdir_in(memory()).unwrap();
    fs::write(folder.path().join(name), bytes).unwrap();
    folder
}

fn series(bytes: &[u8]) {
    let _ = telemetry::read_series(bytes);
    let _ = telemetry::read_activity(bytes);
}

fn foreign(bytes: &[u8]) {
    let folder = file("file", bytes);
    let _ = import::read(&folder.path().join("file"));
}

fn tokenizer(bytes: &[u8]) {
    let files = Files {
        tokenizer: bytes.to_vec(),
        ..Files::default()
    };
    let Ok(tokenizer) = Tokenizer::new(&files) else {
        return;
    };
    let _ = tokenizer.ids("hello a b", true);
    if let Ok(prompts) = Prompts::new(tokenizer, 1) {
        let _ = (prompts.make(&PromptSpec::ids(8)), prompts.make(&PromptSpec::text(8)));
    }
}

fn config(bytes: &[u8]) {
    let Ok(config) = serde_json::from_slice(bytes) else {
        return;
    };
    let files = ModelFiles {
        config,
        ..ModelFiles::default()
    };
    let _ = estimate(
        &files,
        &EstimateRequest {
            input: 1000,
            output: 100,
            ..EstimateRequest::default()
        },
    );
}

fn safetensors(bytes: &[u8]) {
    let mut headers = Headers::default();
    if headers.add(bytes).is_ok() {
        let _ = (
            headers.bytes(),
            headers.parameters(4),
            headers.float(),
            headers.has_integer_weights(),
        );
    }
}

/// An adapter whose rules all use one pattern.
struct OnePattern(String);

impl Adapter for OnePattern {
    fn name(&self) -> &str {
        "one_pattern"
    }
    fn shipped(&self) -> bool {
        false
    }
    fn launch(&self, _: &Value) -> Result<Launch> {
        Err(Fault::usage("not launched"))
    }
    fn ready(&self, _: &str, _: &Value, _: Option<&ApiKey>) -> Result<Readiness> {
        Ok(Readiness::Ready)
    }
    fn request(&self, _: &Point, _: Option<&Limits>) -> Result<Vec<RequestForm>> {
        Ok(Vec::new())
    }
    fn facts(&self) -> Result<Facts> {
        let fact = json!({ "kv_gib": [self.0] });
        let facts = json!({ "log": fact, "gauges": fact, "rank": [self.0] });
        serde_json::from_value(facts).map_err(|error| Fault::usage(error.to_string()))
    }
    fn failures(&self) -> Result<Vec<FailureRule>> {
        let rule = json!({ "pattern": self.0, "verdict": "oom", "cause": "memory", "unless": self.0 });
        let rule = serde_json::from_value(rule).map_err(|error| Fault::usage(error.to_string()))?;
        Ok(vec![rule])
    }
    fn flags(&self, _: &Limits, _: bool) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
    fn settings(&self, _: &Value) -> Result<Vec<String>> {
        Ok(Vec::new())
    }
}

fn pattern(bytes: &[u8]) {
    let adapter = OnePattern(text(bytes));
    let lines = ["KV cache size: 91,033 tokens", "aabcc  word", "\u{202e}12 GiB"].map(str::to_owned);
    let _ = check_adapter(&adapter);
    if let Ok(rules) = Rules::from_adapter(&adapter) {
        let _ = (rules.read_start(&lines, 1), rules.read_metrics(&lines.join("\n")));
    }
}

impl Target {
    /// The examples, and the files below `tests/data` that end with one of the seeds; the seed `foreign/.json` means
    /// the JSON files below `foreign`.
    pub fn corpus(&self) -> Vec<Vec<u8>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
        let mut found: Vec<Vec<u8>> = self.examples.iter().map(|text| text.as_bytes().to_vec()).collect();
        for path in files(&root) {
            let name = path.to_string_lossy();
            let is_seed = |seed: &&str| match seed.rsplit_once('/') {
                Some((folder, end)) => name.contains(&format!("/{folder}")) && name.ends_with(end),
                None => name.ends_with(*seed),
            };
            if self.seeds.iter().any(is_seed) {
                // The beginning is representative, and is parsed faster.
                let mut bytes = fs::read(&path).unwrap();
                bytes.truncate(64 << 10);
                found.push(bytes);
            }
        }
        found
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found.sort();
    found
}
