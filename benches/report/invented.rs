//! Writes the run folder of a long search on eight GPUs, with invented answers.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

/// KV cache of the invented engine, in tokens.
const BUDGET: i64 = 45_000;

/// Memory of each invented GPU, in bytes.
const TOTAL: u64 = 150_754_820_096;

const GPUS: usize = 8;

/// Writes manifest, journal and series.
pub fn write(run: &Path, points: usize, seconds: u64) {
    fs::create_dir_all(run.join("memory")).unwrap();
    let mut random = ChaCha8Rng::seed_from_u64(6);
    fs::write(run.join("manifest.json"), manifest().to_string()).unwrap();
    fs::write(run.join("script.rhai"), "//! Invented.\n").unwrap();
    journal(run, points, &mut random);
    series(run, seconds, &mut random);
}

fn device(index: usize) -> String {
    format!("GPU-00000000-0000-0000-0000-{index:012}")
}

fn manifest() -> Value {
    let gpus: Vec<Value> = (0..GPUS)
        .map(|index| json!({ "index": index, "uuid": device(index), "name": "invented", "total": TOTAL }))
        .collect();
    json!({
        "schema": 2,
        "profiler": env!("CARGO_PKG_VERSION"),
        "run": "2026-01-01T000000Z-invented-000000",
        "status": "done",
        "started": "2026-01-01T00:00:00.000Z",
        "ended": "2026-01-01T01:00:00.000Z",
        "script": { "name": "invented", "path": "invented.rhai", "sha256": "0".repeat(64) },
        "modules": {},
        "set": { "model": "meta-llama/Llama-3.1-8B-Instruct" },
        "parameters": { "model": "meta-llama/Llama-3.1-8B-Instruct", "engine": "vllm" },
        "seed": 1,
        "permissions": [],
        "simulated": true,
        "engines": [],
        "gpus": gpus,
        "driver": null,
        "host": "invented",
    })
}

fn journal(run: &Path, points: usize, random: &mut ChaCha8Rng) {
    let mut file = BufWriter::new(File::create(run.join("journal.jsonl")).unwrap());
    let mut note = |event: Value| writeln!(file, "{event}").unwrap();
    let axes = json!({ "axes": { "input": [1, 32768], "output": [1, 32768] }, "options": {} });
    note(json!({ "event": "boundary", "index": 0, "axes": axes, "time": "2026-01-01T00:00:00.000Z" }));
    for _ in 0..points {
        let point =
            json!({ "input": random.random_range(1..=32_768_i64), "output": random.random_range(1..=32_768_i64) });
        let needed = point["input"].as_i64().unwrap() + point["output"].as_i64().unwrap();
        let fits = needed <= BUDGET;
        let (verdict, cause, moves) = if fits {
            ("ok", Value::Null, "fits")
        } else {
            ("oom", json!("cuda"), "fails")
        };
        let line = format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {}.00 MiB. GPU 0 has a total capacity of 139.80 GiB",
            needed / 100
        );
        let answer = json!({
            "point": point, "verdict": verdict, "cause": cause, "moves": moves,
            "evidence": { "message": (!fits).then_some(&line), "log": if fits { vec![] } else { vec![&line] }, "limits": point, "issued": 1, "attempts": 1 },
            "input": point["input"], "output": point["output"],
            "ttft_ms": fits.then(|| random.random_range(20.0..400.0)), "tpot_ms": fits.then(|| random.random_range(5.0..9.0)),
            "e2el_ms": fits.then(|| random.random_range(1e3..1e5)), "peak": TOTAL - u64::try_from((BUDGET - needed).max(0)).unwrap() * 131_072,
            "seconds": random.random_range(1.0..60.0), "started": !fits,
        });
        let event = json!({
            "event": "point", "boundary": 0, "point": point, "verdict": verdict, "cause": cause, "moves": moves, "answer": answer,
            "time": "2026-01-01T00:30:00.000Z",
        });
        note(event);
    }
    note(json!({ "event": "end", "status": "done", "value": null, "time": "2026-01-01T01:00:00.000Z" }));
}

/// All samples differ, so none are merged. This gives the largest file that such a run can leave.
fn series(run: &Path, seconds: u64, random: &mut ChaCha8Rng) {
    let mut file = BufWriter::new(File::create(run.join("memory/engine-1.csv")).unwrap());
    write!(file, "from_s,to_s,phase,samples,total").unwrap();
    for index in 0..GPUS {
        write!(file, ",{}", device(index)).unwrap();
    }
    writeln!(file).unwrap();
    let mut used = [TOTAL / 2; GPUS];
    for look in 0..seconds * 100 {
        let phase = match look {
            0 => "baseline",
            1..3000 => "loading",
            3000..3500 => "ready",
            _ => "probing",
        };
        for used in &mut used {
            *used = used
                .saturating_add_signed(random.random_range(-(1_i64 << 26)..1 << 26))
                .min(TOTAL);
        }
        let at = format!("{}.{:02}0000", look / 100, look % 100);
        write!(file, "{at},{at},{phase},1,{}", used.iter().sum::<u64>()).unwrap();
        for used in used {
            write!(file, ",{used}").unwrap();
        }
        writeln!(file).unwrap();
    }
}
