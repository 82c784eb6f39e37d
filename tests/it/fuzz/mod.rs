//! A user opens damaged or hostile files: here parsers read files that were changed at random, and none may panic. Each
//! target runs for `PROFILER_TEST_FUZZ_SECONDS` (1; `.ci/run` gives 10). An input that makes one panic, overflow its
//! stack or hang is left in `/dev/shm`; `PROFILER_TEST_FUZZ_INPUT=FILE` runs it again.

pub mod targets;

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use self::targets::{TARGETS, Target, memory};

/// Tokens that number parsers stumble over, and delimiters and nesting.
const TOKENS: [&str; 20] = [
    "-1",
    "0",
    "1e999",
    "18446744073709551615",
    "9223372036854775808",
    "NaN",
    "Infinity",
    "null",
    "\"\"",
    "[]",
    "{}",
    "[[[[[[[[",
    "\n",
    "\r\n\r\n",
    "\0",
    "\u{feff}",
    "\u{202e}",
    ",",
    "\"",
    "%s",
];

/// A number from the environment.
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn changed(corpus: &[Vec<u8>], random: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = corpus.choose(random).cloned().unwrap_or_default();
    for _ in 0..random.random_range(1..8) {
        let from = random.random_range(0..=bytes.len());
        let to = (from + random.random_range(0..64)).min(bytes.len());
        match random.random_range(0..7) {
            0 if from < bytes.len() => bytes[from] ^= 1 << random.random_range(0..8),
            1 if from < bytes.len() => bytes[from] = random.random(),
            2 => drop(bytes.drain(from..to)),
            3 => {
                let token = TOKENS.choose(random).unwrap_or(&"");
                drop(bytes.splice(from..to.min(from + 4), token.bytes()));
            }
            4 => {
                let part = bytes[from..to].repeat(random.random_range(2..20));
                drop(bytes.splice(from..from, part));
            }
            5 => {
                let other = corpus.choose(random).map_or(&[][..], Vec::as_slice);
                let start = random.random_range(0..=other.len());
                let end = (start + random.random_range(0..256)).min(other.len());
                drop(bytes.splice(from..to, other[start..end].iter().copied()));
            }
            _ => bytes.truncate(from.max(1)),
        }
    }
    bytes
}

/// Runs on a stack several times as large as that of the main thread, because a debug build needs more.
fn fuzz(name: &'static str) {
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(64 << 20);
    if let Err(panic) = thread.spawn(move || fuzz_here(name)).unwrap().join() {
        resume_unwind(panic);
    }
}

fn fuzz_here(name: &str) {
    let target: &Target = TARGETS.iter().find(|target| target.name == name).unwrap();
    let corpus = target.corpus();
    assert!(!corpus.is_empty(), "{name} has no examples");
    corpus.iter().for_each(|bytes| (target.parse)(bytes));
    run(name, &corpus, target.parse);
}

/// Parses changed examples until the time is over.
fn run(name: &str, corpus: &[Vec<u8>], parse: impl Fn(&[u8])) {
    if let Some(input) = std::env::var_os("PROFILER_TEST_FUZZ_INPUT") {
        parse(&fs::read(input).unwrap());
        return;
    }
    let seed = setting("PROFILER_TEST_SEED").unwrap_or_else(|| RandomState::new().hash_one(name) >> 32);
    let end = Instant::now() + Duration::from_secs(setting("PROFILER_TEST_FUZZ_SECONDS").unwrap_or(1));
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let path = memory().join(format!("profiler-fuzz-{name}-{seed}"));
    let mut inputs = 0;
    while Instant::now() < end {
        let bytes = changed(corpus, &mut random);
        // Written before parsing, so that it remains however this process ends.
        fs::write(&path, &bytes).unwrap();
        if catch_unwind(AssertUnwindSafe(|| parse(&bytes))).is_err() {
            panic!("{name} panics at PROFILER_TEST_FUZZ_INPUT={}", path.display());
        }
        inputs += 1;
    }
    let _ = fs::remove_file(&path);
    eprintln!("{name}: {inputs} inputs, seed {seed}");
}

/// The program renders chat templates in a child process, which memory and time limits may end; the child never panics.
#[test]
fn template() {
    let examples = [
        "{% for message in messages %}<|im_start|>{{ message['role'] + '\n' + message['content'] | trim }}<|im_end|>\n{% endfor %}\
         {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "{{ bos_token }}{% set ns = namespace(s='') %}{% for m in messages[0:1] %}{% set ns.s = ns.s ~ m.content %}{% endfor %}\
         {{ ns.s.strip().replace('a', 'b') }}{{ raise_exception('no') if false }}",
        "{{ (['a'] | batch(2, 'x') | list) ~ messages[-1]['content'] ~ strftime_now('%Y') }}",
    ];
    let corpus = examples.map(|text| text.as_bytes().to_vec());
    run("template", &corpus, |bytes| {
        let task = json!({ "template": String::from_utf8_lossy(bytes), "config": { "bos_token": "<s>" } });
        let mut child = Command::new(env!("CARGO_BIN_EXE_profiler"));
        child.arg("render-chat-template").stdin(Stdio::piped());
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The child reads everything, unless a limit ended it.
        let _ = child.stdin.take().unwrap().write_all(task.to_string().as_bytes());
        assert_ne!(child.wait().unwrap().code(), Some(101), "a panic");
    });
}

macro_rules! fuzz {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            fuzz(stringify!($name));
        })*

        #[test]
        fn every_target_is_run() {
            assert_eq!(TARGETS.map(|target| target.name), [$(stringify!($name)),*]);
        }
    };
}

fuzz!(response metrics journal manifest series foreign tokenizer config safetensors log pattern);
