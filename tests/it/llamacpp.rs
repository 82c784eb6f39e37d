//! A real engine, a real container, a real kill by the kernel.

use crate::support::llamacpp::{Start, image, start};
use crate::support::{Profiler, model, temp};

/// Holds a context of 1024 tokens (64 MiB of KV cache) and not one of 4096 (256 MiB).
const MEMORY: u64 = 160 << 20;

#[test]
fn the_kernel_kills_a_server_whose_context_is_too_large() {
    let Some(image) = image() else { return };
    let folder = temp();
    model::write(folder.path());
    assert_eq!(start(image, folder.path(), 1024, MEMORY), Start::Serves);
    assert_eq!(start(image, folder.path(), 4096, MEMORY), Start::KilledForMemory);
}

/// Runs a script of the user's, who allows the image and the model's folder, and gives its result.
fn scripted(image: &str, folder: &std::path::Path, body: &str) -> serde_json::Value {
    let outcome = Profiler::new()
        .file(
            "main.rhai",
            format!(
                "import \"std/engines\" as engines;
                 let engine = engines::launch(\"llamacpp\", #{{
                     image: \"{image}\", model: \"{}/tiny.gguf\", memory_limit: {MEMORY}, gpus: [0],
                 }});
                 {body}",
                folder.display()
            ),
        )
        .args(["run", "main.rhai", "--json"])
        .args(["--allow", &format!("image={image},mount={}", folder.display())])
        .run();
    outcome.success().json()["result"].take()
}

#[test]
fn a_probe_of_a_real_server_is_ok_or_the_kernels_kill() {
    let Some(image) = image() else { return };
    let folder = temp();
    model::write(folder.path());
    let answers = scripted(
        image,
        folder.path(),
        "[engine.probe(#{ input: 900, output: 16 }), engine.probe(#{ input: 4000, output: 16 }), engine.probe(#{ input: 300, output: 8, concurrency: 2 })]",
    );
    let [fits, fails, both] = [&answers[0], &answers[1], &answers[2]];
    assert_eq!(
        (&fits["verdict"], &fits["input"], &fits["output"]),
        (&"ok".into(), &900.into(), &16.into()),
        "{fits}"
    );
    assert_eq!(
        (&fails["verdict"], &fails["cause"]),
        (&"start_failed".into(), &"memory".into()),
        "{fails}"
    );
    assert_eq!(fails["evidence"]["oom_killed"], true, "{fails}");
    assert_eq!(both["verdict"], "ok", "{both}");
    assert!(fits["peak"].as_u64().unwrap() > 1 << 20, "{fits}");
}
