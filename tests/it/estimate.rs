//! A user estimates memory with `profiler estimate` or the script function `estimate`, for models in folders and on a
//! hub.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::support::hub::{Answer, Answers, COMMIT, Server, TOKEN, error, file};
use super::support::{Outcome, Profiler, temp};

/// The text of a model configuration from the test data.
fn config(name: &str) -> String {
    let file = format!("tests/data/shapes/{name}.config.json");
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// The header of a safetensors file, without the weights.
fn safetensors(tensors: &[(&str, &str, u64)], pad: usize) -> Vec<u8> {
    let mut at = 0;
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), json!({"pad": " ".repeat(pad)}));
    for (name, dtype, bytes) in tensors {
        header.insert(
            (*name).into(),
            json!({"dtype": dtype, "shape": [bytes], "data_offsets": [at, at + bytes]}),
        );
        at += bytes;
    }
    let text = Value::Object(header).to_string();
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// A model folder with these files, and the temporary folder that keeps it alive.
fn folder(files: &[(&str, &[u8])]) -> (tempfile::TempDir, PathBuf) {
    let parent = temp();
    let folder = parent.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.join(name), bytes).unwrap();
    }
    (parent, folder)
}

fn estimate(folder: &Path, options: &[&str]) -> Outcome {
    Profiler::new().arg("estimate").arg(folder).args(options).run()
}

fn only(outcome: Outcome) -> Value {
    let document = outcome.success().json();
    assert_eq!(document["schema"], 1);
    document["estimates"][0].clone()
}

#[test]
fn models_stand_side_by_side_in_gib_and_in_bytes() {
    let (_keep, eight) = folder(&[("config.json", config("llama-8b-shape").as_bytes())]);
    let (_keep_too, one) = folder(&[("config.json", config("llama-1b-shape").as_bytes())]);
    let run = |json: &[&str]| {
        let models = Profiler::new().arg("estimate").arg(&eight).arg(&one);
        models
            .args(["--concurrency", "4", "--gpu-memory", "24GiB"])
            .args(json)
            .run()
    };
    let text = run(&[]).success();
    text.stdout("13.49 GiB")
        .stdout("CUDA context (assumed)")
        .stdout("32 layers keep 4096 bytes of each token");
    let document = run(&["--json"]).success().json();
    let first = &document["estimates"][0];
    assert_eq!(first["model"], eight.to_str().unwrap());
    assert_eq!(
        first["total"]["parts"][0],
        json!({
            "component": "weights",
            "bytes": 7_241_732_096_u64 * 2,
            "provenance": "computed",
            "source": "7241732096 parameters of bfloat16, from `config.json`",
        })
    );
    assert_eq!(first["fits"]["fits"], true);
    assert_eq!(document["estimates"][1]["kv_bytes_per_token"], 32_768);
}

#[test]
fn the_status_tells_whether_it_fits() {
    let (_keep, model) = folder(&[("config.json", config("llama-8b-shape").as_bytes())]);
    estimate(&model, &["--gpu-memory", "12GiB"]).code(1).stdout("no");
    estimate(&model, &["--gpu-memory", "12GiB", "--quantization", "awq"])
        .success()
        .stdout("yes");
    estimate(&model, &["--gpu-memory", "12"]).code(2).stderr("80GiB");
    estimate(&model, &["--gpu-memory", "80GB"]).success().stdout("yes");
    estimate(&model, &["--gpu-memory", "80XB"]).code(2).stderr("80GiB");
}

#[test]
fn headers_of_a_folders_files_decide() {
    let config = config("llama-biased-small");
    let index = json!({
        "metadata": {"total_size": 999},
        "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"},
    });
    let (first, second) = (
        safetensors(&[("a", "BF16", 700_000)], 0),
        safetensors(&[("b", "F32", 44)], 0),
    );
    let (_keep, whole) = folder(&[
        ("config.json", config.as_bytes()),
        ("model.safetensors.index.json", index.to_string().as_bytes()),
        ("model-00001-of-00002.safetensors", &first),
        ("model-00002-of-00002.safetensors", &second),
    ]);
    let found = only(estimate(&whole, &["--json"]));
    // From `config.json` alone it would be 478,704.
    assert_eq!(
        (&found["weight_bytes"], &found["parameters"]),
        (&json!(700_044), &json!(700_044))
    );
    let source = found["total"]["parts"][0]["source"].as_str().unwrap();
    assert!(
        source.contains("from the headers of the weights: bytes 700000 of BF16, 44 of F32"),
        "{source}"
    );
    let whole_numbers = only(estimate(&whole, &["--json", "--dtype", "float32"]));
    assert_eq!(whole_numbers["weight_bytes"], 700_044 * 4);

    std::fs::remove_file(whole.join("model-00002-of-00002.safetensors")).unwrap();
    let part = only(estimate(&whole, &["--json"]));
    assert_eq!(
        part["weight_bytes"], 999,
        "the index tells how many bytes there are in all"
    );
    assert!(part["notes"][0].as_str().unwrap().contains("1 of 2 weight files"));

    std::fs::write(whole.join("model-00002-of-00002.safetensors"), "nothing").unwrap();
    estimate(&whole, &[])
        .code(2)
        .stderr("model-00002-of-00002.safetensors")
        .stderr("first 8 bytes");
}

#[test]
fn the_size_of_a_gguf_file_is_used() {
    let config = config("llama-1b-shape");
    let (_keep, model) = folder(&[("config.json", config.as_bytes()), ("q4_k_m.gguf", &[0; 4096])]);
    assert_eq!(only(estimate(&model, &["--json"]))["weight_bytes"], 4096);
    std::fs::write(model.join("other.gguf"), "x").unwrap();
    let found = only(estimate(&model, &["--json"]));
    assert!(found["notes"][0].as_str().unwrap().contains("2 GGUF files"));
}

#[test]
fn what_cannot_be_told_says_what_would() {
    let (_keep, odd) = folder(&[("config.json", br#"{"model_type": "brand_new"}"#)]);
    estimate(&odd, &[])
        .code(2)
        .stderr("`brand_new` is not known")
        .stderr("safetensors");
    let (_keep, empty) = folder(&[]);
    estimate(&empty, &[]).code(3).stderr("has no `config.json`");
    estimate(Path::new("./nowhere"), &[]).code(3).stderr("`./nowhere`");
    let (_keep, model) = folder(&[("config.json", config("llama-8b-shape").as_bytes())]);
    estimate(&model, &["--tensor-parallel", "3"])
        .code(2)
        .stderr("32 attention heads cannot be shared by 3 ranks");
    estimate(&model, &["--quantization", "q4_k_m"])
        .code(2)
        .stderr("only its GGUF file tells");
    estimate(&model, &["--kv-cache-dtype", "fp6"]).code(2).stderr("`fp6`");
    estimate(&model, &["--concurrency", "0"])
        .code(2)
        .stderr("`concurrency` cannot be 0");
}

/// Runs `profiler estimate` against a hub with these answers, with further options.
async fn ask(answers: Answers, options: &'static [&'static str]) -> (Outcome, Server) {
    let server = Server::start(answers).await;
    let endpoint = format!("http://{}", server.address);
    let outcome = tokio::task::spawn_blocking(move || {
        let profiler = Profiler::new().env("HF_ENDPOINT", endpoint).env("HF_TOKEN", TOKEN);
        profiler.args(["estimate", "org/name"]).args(options).run()
    });
    (outcome.await.unwrap().nowhere(TOKEN), server)
}

#[tokio::test]
async fn of_the_hubs_weights_only_headers_are_read() {
    const PINNED: &str = "/org/name/resolve/0123456789abcdef0123456789abcdef01234567/model.safetensors";
    assert!(PINNED.contains(COMMIT));
    // The header is longer than the program's first range request.
    let mut weights = safetensors(&[("a", "F8_E4M3", 500_000), ("b", "F32", 4)], 300_000);
    let header = weights.len();
    weights.extend(vec![0; 4 << 20]);
    let answers = HashMap::from([
        (
            "/org/name/resolve/main/config.json",
            vec![file("aaaaaaaaaaaa", config("llama-biased-small"))],
        ),
        (PINNED, vec![file("bbbbbbbbbbbb", weights)]),
    ]);
    let (outcome, server) = ask(answers, &["--json"]).await;
    assert_eq!(only(outcome)["weight_bytes"], 500_004);
    assert!(server.sent() < header * 2 + 10_000, "{} of 4 MiB", server.sent());
}

#[tokio::test]
async fn a_model_that_the_hub_does_not_give_is_told_with_a_remedy() {
    let config = "/org/name/resolve/main/config.json";
    for (answer, message, remedy) in [
        (error(403, "GatedRepo"), "is gated", "accept the terms"),
        (error(404, "RepoNotFound"), "no model `org/name`", "check the name"),
        (
            error(404, "EntryNotFound"),
            "`org/name` has no `config.json`",
            "a folder with `config.json`",
        ),
    ] {
        let (outcome, _server) = ask(HashMap::from([(config, vec![answer])]), &[]).await;
        outcome.code(3).stderr(message).stderr(remedy);
    }
}

#[tokio::test]
async fn headers_that_cannot_be_had_are_noted() {
    let answers: HashMap<_, Vec<Answer>> = HashMap::from([
        (
            "/org/name/resolve/main/config.json",
            vec![file("aaaaaaaaaaaa", config("llama-biased-small"))],
        ),
        (
            "/org/name/resolve/0123456789abcdef0123456789abcdef01234567/model.safetensors",
            vec![error(403, "GatedRepo")],
        ),
    ]);
    let (outcome, _server) = ask(answers, &["--json"]).await;
    let found = only(outcome);
    assert_eq!(found["weight_bytes"], 478_704 * 2);
    assert!(found["notes"][0].as_str().unwrap().contains("is gated"));
}

#[test]
fn scripts_get_the_same_figures() {
    let script = "estimate(\"model\", #{ input: 1000, output: 24, concurrency: 3, kv_cache_dtype: \"fp8\", gpu_memory: 24 * 1024 * 1024 * 1024 })";
    let run = |script: &str| {
        let profiler = Profiler::new()
            .file("model/config.json", config("llama-1b-shape"))
            .file("s.rhai", script);
        profiler.args(["run", "s.rhai", "--json"]).run()
    };
    let found = run(script).success().json()["result"].clone();
    assert_eq!(found["kv_bytes_per_token"], 16_384);
    assert_eq!(found["total"]["parts"][1]["bytes"], 16_384 * 1024 * 3);
    assert_eq!(
        (found["fits"]["fits"].clone(), found["quantization"].clone()),
        (json!(true), Value::Null)
    );
    run("estimate(\"model\", #{ concurency: 3 })")
        .code(2)
        .stderr("`concurrency`");
    run("estimate(\"/etc\", #{})").code(3).stderr("--allow mount=");
}

#[test]
fn a_family_that_is_not_known_is_told_by_its_headers() {
    let header = json!({
        "model.embed_tokens.weight": {"dtype": "BF16", "shape": [100, 8], "data_offsets": [0, 1600]},
        "model.layers.0.attn.k_proj.weight": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [1600, 1664]},
        "model.layers.0.attn.v_proj.weight": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [1664, 1728]},
    })
    .to_string();
    let weights = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    let (_keep, model) = folder(&[
        ("config.json", br#"{"model_type": "brand_new", "dtype": "bfloat16"}"#),
        ("model.safetensors", &weights),
    ]);
    let found = only(estimate(&model, &["--json"]));
    assert_eq!(
        (&found["weight_bytes"], &found["kv_bytes_per_token"]),
        (&json!(1728), &json!(16))
    );
    assert!(found["notes"][0].as_str().unwrap().contains("`brand_new` is not known"));
    estimate(&model, &["--tensor-parallel", "2"])
        .code(2)
        .stderr("how ranks share its tensors");
}

/// Folders whose figures were once wrong or refused (`tests/data/shapes/folders`): bytes per token, GiB of weights, parameters.
#[test]
fn folders_of_many_kinds_are_right() {
    const GIB: f64 = 1_073_741_824.0;
    for (name, kv, weights, parameters) in [
        ("awq-unknown-family", 128, None, None),
        ("vision-tower-counted", 128, None, None),
        ("mtp-counted", 128, None, None),
        ("nemotron-h-headers", 128, None, None),
        ("qwen2.5-vl-flat", 57_344, None, None),
        ("gemma3-sparse-config", 507_904, None, None),
        ("infinity-in-config", 131_072, Some(14.96), None),
        ("zero-shared-experts", 253_952, None, Some(480.15e9)),
        ("hf-quant-config", 65_536, Some(5.61), None),
        ("modules-not-converted", 131_072, Some(9.71), None),
    ] {
        let folder = format!("{}/tests/data/shapes/folders/{name}", env!("CARGO_MANIFEST_DIR"));
        let found = only(estimate(Path::new(&folder), &["--json"]));
        assert_eq!(found["kv_bytes_per_token"], kv, "{name}");
        let near = |of: &str, unit: f64, wanted: Option<f64>| {
            let is = found[of].as_f64().unwrap() / unit;
            assert!(
                wanted.is_none_or(|wanted| (is / wanted - 1.0).abs() < 0.001),
                "{name}: {of} is {is}, not {wanted:?}"
            );
        };
        near("weight_bytes", GIB, weights);
        near("parameters", 1.0, parameters);
    }
}

#[test]
fn a_vision_tower_without_headers_is_named() {
    let folder = format!(
        "{}/tests/data/shapes/folders/qwen2.5-vl-flat",
        env!("CARGO_MANIFEST_DIR")
    );
    let found = only(estimate(Path::new(&folder), &["--json"]));
    assert!(
        found["notes"][0].as_str().unwrap().contains("`vision_config`"),
        "{}",
        found["notes"]
    );
}
