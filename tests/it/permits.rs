//! A user runs a stranger's script, and whatever the script may not do is refused by name before Docker is contacted,
//! unless the user allowed it.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::runtime::daemon::{Daemon, message};
use crate::support::hub::{self, COMMIT};
use crate::support::{Outcome, Profiler, temp};

/// Runs one line of a script with `--allow image=x` and no Docker daemon. Refusals come before the daemon is contacted.
fn ask(allow: &str, line: &str) -> Outcome {
    let program = Profiler::new().file("ask.rhai", line).args(["run", "ask.rhai"]);
    let program = program.env("DOCKER_HOST", "unix:///no/daemon/here");
    program.args(["--allow", "image=x", "--allow", allow]).run()
}

const NO_DAEMON: &str = "Docker daemon";

#[test]
fn what_no_container_gets_is_refused_whatever_is_allowed() {
    for (option, name) in [
        ("privileged: true", "`privileged`"),
        (r#"network: "host""#, r#"`network: "host"`"#),
        (r#"pid: "host""#, r#"`pid: "host"`"#),
        (r#"ipc: "host""#, r#"`ipc: "host"`"#),
        (r#"devices: ["/dev/mem"]"#, r#"`devices: ["/dev/mem"]`"#),
        (r#"capabilities: ["SYS_ADMIN"]"#, r#"`capabilities: ["SYS_ADMIN"]`"#),
        (
            r#"security: ["seccomp=unconfined"]"#,
            r#"`security: ["seccomp=unconfined"]`"#,
        ),
        (r#"mounts: [#{ host: "/", container: "/host" }]"#, "never allowed"),
        (r#"mounts: [#{ host: "/run", container: "/host" }]"#, "never allowed"),
        (
            r#"mounts: [#{ host: "/var/run", container: "/host" }]"#,
            "never allowed",
        ),
        (r#"mounts: [#{ host: "/proc", container: "/host" }]"#, "never allowed"),
    ] {
        ask(
            "token,process,exec,code,mount=/,image=x,net=x",
            &format!(r#"docker::start(#{{ image: "x", {option} }})"#),
        )
        .stderr(name)
        .nowhere(NO_DAEMON);
    }
}

#[test]
fn mounts_need_the_users_word() {
    let folder = temp();
    let real = std::fs::canonicalize(folder.path()).unwrap();
    for writable in [false, true] {
        let line = format!(
            r#"docker::start(#{{ image: "x", mounts: [#{{ host: "{}", container: "/m", writable: {writable} }}] }})"#,
            real.display()
        );
        let word = format!("mount={}", real.display());
        ask("", &line).stderr(&format!("--allow {word}")).nowhere(NO_DAEMON);
        ask(&word, &line).stderr(NO_DAEMON);
    }
}

#[test]
fn native_processes_need_the_users_word() {
    let line = r#"process::start(#{ command: ["true"] }).wait().code"#;
    ask("", line).stderr("start native processes").stderr("--allow process");
    ask("process", line).stdout("0");
}

#[test]
fn code_that_comes_with_a_model_needs_the_users_word() {
    let line = r#"docker::start(#{ image: "x", args: ["--trust-remote-code"] })"#;
    ask("", line)
        .stderr("trust_remote_code")
        .stderr("--allow code")
        .nowhere(NO_DAEMON);
    ask("code", line).stderr(NO_DAEMON);
}

#[test]
fn a_word_that_is_none_is_wrong_usage() {
    ask("tokens", "1")
        .code(2)
        .stderr("does not know `tokens`")
        .stderr("`token`?");
}

#[test]
fn the_token_is_never_shown_nor_given_unasked() {
    let line = r#"let s = process::start(#{ command: ["sh", "-c", "echo token=$HF_TOKEN of ${#HF_TOKEN}"], token: true }); s.wait(); print(s.logs())"#;
    let with_token = |allow: &str| {
        let program = Profiler::new()
            .file("ask.rhai", line)
            .args(["run", "ask.rhai", "--allow", allow]);
        program.env("HF_TOKEN", "hf_secret").run()
    };
    with_token("process").stdout("token= of 0").nowhere("hf_secret");
    with_token("process,token")
        .stdout("token=*** of 9")
        .nowhere("hf_secret");
}

/// The vLLM adapter, plus one further launch option.
fn greedy(more: &str) -> String {
    format!(
        r#"import "std/engines/vllm" as vllm;
fn launch(options) {{ vllm::launch(options) + #{{ {more} }} }}
fn ready(engine) {{ vllm::ready(engine) }}
fn request(point) {{ vllm::request(point) }}
fn facts() {{ vllm::facts() }}
fn failures() {{ vllm::failures() }}
fn flags(limits) {{ vllm::flags(limits) }}
"#
    )
}

/// Probes an engine without a daemon; `./mine.rhai` is an adapter with the further option `more`.
fn probe(engine: &str, more: &str) -> Outcome {
    let script = format!(r#"import "std/engines" as engines; engines::{engine}.probe(#{{ input: 9, output: 9 }})"#);
    let program = Profiler::new().file("ask.rhai", script).file("mine.rhai", greedy(more));
    program
        .args(["run", "ask.rhai"])
        .env("DOCKER_HOST", "unix:///no/daemon/here")
        .run()
}

#[test]
fn what_an_engine_asks_for_is_refused_by_name_before_anything_starts() {
    let folder = temp();
    std::fs::write(folder.path().join("config.json"), "{}").unwrap();
    let outside = folder.path().canonicalize().unwrap().display().to_string();
    let model = format!(r#"launch("vllm", #{{ model: "{outside}" }})"#);
    for (engine, name) in [
        (
            r#"launch("vllm", #{ model: "m", trust_remote_code: true })"#,
            "`trust_remote_code`",
        ),
        (
            r#"launch("vllm", #{ model: "m", engine_args: ["--trust-remote-code"] })"#,
            "`trust_remote_code`",
        ),
        (
            r#"launch("tgi", #{ model: "m", env: #{ TRUST_REMOTE_CODE: "true" } })"#,
            "`trust_remote_code`",
        ),
        (
            r#"launch("vllm", #{ model: "m", runtime: "process" })"#,
            "start native processes",
        ),
        (
            r#"attach("openai", #{ url: "http://10.0.0.1:8000" })"#,
            "`10.0.0.1:8000`",
        ),
        (r#"attach("openai", #{ container: "db" })"#, "the container `db`"),
        (
            r#"launch("vllm", #{ model: "m", tokenizer: "/etc/hostname" })"#,
            "`/etc/hostname`",
        ),
        (&model, &format!("`{outside}`")),
    ] {
        let outcome = probe(engine, "").code(3).stderr(name).stderr("--allow");
        outcome.nowhere(NO_DAEMON);
    }
}

#[test]
fn what_an_adapter_asks_for_is_refused_by_name_before_anything_starts() {
    for (more, name) in [
        ("privileged: true", "`privileged`"),
        (r#"network: "host""#, r#"`network: "host"`"#),
        (r#"mounts: [#{ host: "/run", container: "/r" }]"#, "never allowed"),
        (
            r#"mounts: [#{ host: "/etc", container: "/e" }]"#,
            "entrypoint,mount=/etc",
        ),
        (r#"args: ["--trust-remote-code"]"#, "`trust_remote_code`"),
    ] {
        probe(r#"launch("./mine.rhai", #{ model: "m" })"#, more)
            .code(3)
            .stderr(name)
            .nowhere(NO_DAEMON);
    }
}

#[test]
fn an_adapter_leads_no_request_away_from_its_engine() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let asked = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = std::sync::Arc::clone(&asked);
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let elsewhere = format!("@{}/x", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(move || {
        seen.store(true, std::sync::atomic::Ordering::Relaxed);
        std::future::ready("{}")
    });
    runtime.spawn(axum::serve(listener, router).into_future());
    let sim = r#"import "std/engines/sim" as sim;
fn launch(options) { sim::launch(options) }
fn ready(engine) { sim::ready(engine) }
fn failures() { sim::failures() }
fn flags(limits) { sim::flags(limits) }
"#;
    let request = "fn request(point) { sim::request(point) }\n";
    let facts = "fn facts() { sim::facts() }\n";
    for adapter in [
        format!("fn request(point) {{ sim::request(point) + #{{ path: \"{elsewhere}\" }} }}\n{facts}"),
        format!("fn facts() {{ let f = sim::facts(); f.metrics.path = \"{elsewhere}\"; f }}\n{request}"),
        format!(
            "fn facts() {{ let f = sim::facts(); f.info = #{{ version: #{{ path: \"{elsewhere}\", pointer: \"/v\" }} }}; f }}\n{request}"
        ),
    ] {
        let script = r#"import "std/engines" as engines; engines::describe("./mine.rhai", #{ runtime: "sim" }).probe(#{ input: 9, output: 9 })"#;
        let program = Profiler::new()
            .file("ask.rhai", script)
            .file("mine.rhai", format!("{sim}{adapter}"));
        let outcome = program.args(["run", "ask.rhai"]).run();
        let _ = outcome
            .code(2)
            .stderr(&format!("the path `{elsewhere}` does not begin with `/`"));
        assert!(!asked.load(std::sync::atomic::Ordering::Relaxed));
    }
}

#[test]
fn no_parameter_of_a_strangers_script_is_the_users_word() {
    let script = r#"import "std/engines" as engines; let p = params(#{ url: param((), ""), container: param((), ""), model: param("m", "") });
        if p.url != () { engines::attach("openai", #{ url: p.url, start_timeout: 0.1 }).probe(#{ input: 9, output: 9 }) }
        else if p.container != () { engines::attach("openai", #{ container: p.container }).probe(#{ input: 9, output: 9 }) }
        else { engines::describe("vllm", #{ model: p.model }).probe(#{ input: 9, output: 9 }) }"#;
    let ask = |args: &[&str]| {
        let program = Profiler::new().file("ask.rhai", script).args(["run", "ask.rhai"]);
        program.args(args).env("DOCKER_HOST", "unix:///no/daemon/here").run()
    };
    let model = temp();
    std::fs::write(model.path().join("config.json"), "{}").unwrap();
    let folder = model.path().canonicalize().unwrap().display().to_string();
    // No connection succeeds: the address is reserved for documentation.
    for (set, word) in [
        ("url=http://192.0.2.1:9", "net=192.0.2.1:9"),
        ("container=db", "exec"),
        (&format!("model={folder}"), &format!("mount={folder}")),
    ] {
        let _ = ask(&["--set", set])
            .code(3)
            .stderr(&format!("--allow {word}"))
            .nowhere(NO_DAEMON);
        // The network may reject the connection or leave it unanswered; the permission is granted either way.
        let _ = ask(&["--set", set, "--allow", word]).code(3).nowhere("not allowed");
    }
}

#[test]
fn what_the_command_line_names_to_a_shipped_script_counts_as_allowed() {
    let model = temp();
    std::fs::write(model.path().join("config.json"), "{}").unwrap();
    let folder = model.path().canonicalize().unwrap().display().to_string();
    let ask = |args: &[&str]| {
        let program = Profiler::new().file("p.yaml", "url: http://192.0.2.1:9\n");
        let program = program.args(["run", "engine_info"]).args(args);
        program.env("DOCKER_HOST", "unix:///no/daemon/here").run()
    };
    let _ = ask(&["--set", "engine=openai", "--set", "container=db"]).stderr(NO_DAEMON);
    let launched = [
        "--set",
        "engine=vllm",
        "--set",
        "image=mine:1",
        "--set",
        &format!("model={folder}"),
    ];
    let _ = ask(&launched).stderr(NO_DAEMON);
    let _ = ask(&["--url", "http://192.0.2.1:9"]).code(3).nowhere("not allowed");
    // A parameter file may come from anybody.
    let _ = ask(&["--params", "p.yaml"]).code(3).stderr("--allow net=192.0.2.1:9");
}

/// A daemon that has every image but starts no container.
pub fn reluctant() -> Daemon {
    Daemon::new(|asked| match asked {
        "POST /containers/create" => (201, json!({"Id": "c0ffee", "Warnings": []})),
        "POST /containers/c0ffee/start" => message(500, "not today"),
        "DELETE /containers/c0ffee" => (204, Value::Null),
        image if image.starts_with("GET /images/") => (200, json!({"Id": "sha256:1"})),
        _ => message(404, "not found"),
    })
}

#[test]
fn the_token_is_for_launches_of_shipped_adapters_and_the_cache_for_allowed_images() {
    let cache = temp();
    let snapshot = cache.path().join("models--org--m/snapshots").join(COMMIT);
    std::fs::create_dir_all(&snapshot).unwrap();
    std::fs::create_dir(cache.path().join("models--org--m/refs")).unwrap();
    std::fs::write(cache.path().join("models--org--m/refs/main"), COMMIT).unwrap();
    for file in ["config.json", "model.safetensors"] {
        std::fs::write(snapshot.join(file), "{}").unwrap();
    }
    for (engine, allow, given) in [
        (r#""vllm", #{ model: "org/m" }"#, "", true),
        (r#""vllm", #{ model: "org/m", image: "mine:1" }"#, "image=mine", false),
        (
            r#""vllm", #{ model: "org/m", image: "mine:1" }"#,
            "image=mine,token",
            true,
        ),
        (r#""./mine.rhai", #{ model: "org/m" }"#, "image=vllm,entrypoint", false),
    ] {
        let daemon = reluctant();
        let script = format!(
            r#"import "std/engines" as engines; engines::describe({engine}).probe(#{{ input: 9, output: 9 }})"#
        );
        std::fs::create_dir_all(cache.path().join("models--org--other")).unwrap();
        let program = Profiler::new()
            .file("ask.rhai", script)
            .file("mine.rhai", greedy(""))
            .args(["run", "ask.rhai", "--allow", allow])
            .env("DOCKER_HOST", daemon.host())
            .env("HF_TOKEN", "hf_secret")
            .env("HF_HUB_CACHE", cache.path());
        let outcome = program.run().stderr("not today").nowhere("hf_secret");
        let created = daemon.asked("POST /containers/create");
        assert_eq!(created.len(), 1, "{engine}");
        let token = created[0]["Env"]
            .as_array()
            .unwrap()
            .iter()
            .any(|entry| entry == "HF_TOKEN=hf_secret");
        let mut mounts = created[0]["HostConfig"]["Mounts"].as_array().unwrap().clone();
        mounts.retain(|mount| mount["Type"] == "bind");
        assert!(mounts.iter().all(|mount| mount["ReadOnly"] == true), "{mounts:?}");
        assert!(
            mounts[0]["Source"].as_str().unwrap().ends_with("/models--org--m"),
            "no other model: {mounts:?}"
        );
        assert_eq!((token, mounts.len()), (given, 1), "{engine}");
        if !given {
            let _ = outcome.stderr("Hugging Face token");
        }
    }
}

#[test]
fn a_model_that_is_not_cached_is_kept_in_a_volume_of_its_own() {
    // A shared volume could be filled with another model of that name.
    for (engine, allow, volume) in [
        (r#""vllm", #{ model: "org/m" }"#, "", Some("profiler-models--org--m")),
        (
            r#""vllm", #{ model: "org/m", env: #{ HF_ENDPOINT: "http://other" } }"#,
            "",
            None,
        ),
        (r#""vllm", #{ model: "org/m", image: "mine:1" }"#, "image=mine", None),
        (
            r#""./mine.rhai", #{ model: "org/m" }"#,
            "image=vllm,entrypoint,net=huggingface.co",
            None,
        ),
    ] {
        let daemon = reluctant();
        let script = format!(
            r#"import "std/engines" as engines; engines::describe({engine}).probe(#{{ input: 9, output: 9 }})"#
        );
        // Fetching a tokenizer leaves a cache folder without weights, and a container cannot write to it.
        let cache = temp();
        std::fs::create_dir_all(cache.path().join("models--org--m/blobs")).unwrap();
        let program = Profiler::new()
            .file("ask.rhai", script)
            .file("mine.rhai", greedy(""))
            .args(["run", "ask.rhai", "--allow", allow])
            .env("DOCKER_HOST", daemon.host())
            .env("HF_ENDPOINT", "http://127.0.0.1:9")
            .env("HF_HUB_CACHE", cache.path());
        let _ = program.run().stderr("the model is not in this machine's model cache");
        let created = daemon.asked("POST /containers/create");
        let mounts = created[0]["HostConfig"]["Mounts"].as_array().unwrap();
        let named = mounts.iter().find(|mount| !mount["Source"].is_null());
        assert_eq!(named.map(|mount| mount["Source"].as_str().unwrap()), volume, "{engine}");
        assert!(
            named.is_none_or(|mount| mount["Target"] == "/root/.cache/huggingface/hub" && mount["Type"] == "volume")
        );
    }
}

#[tokio::test]
async fn a_model_is_downloaded_by_this_machine_and_read_by_the_container() {
    let hub = hub::Server::start(hub::model(b"weights")).await;
    let endpoint = format!("http://{}", hub.address);
    let cache = temp();
    let folder = cache.path().to_owned();
    let program = tokio::task::spawn_blocking(move || {
        let daemon = reluctant();
        let script = r#"import "std/engines" as engines; engines::describe("vllm", #{ model: "org/name" }).probe(#{ input: 9, output: 9 })"#;
        let _ = Profiler::new()
            .file("ask.rhai", script)
            .args(["run", "ask.rhai"])
            .env("DOCKER_HOST", daemon.host())
            .env("HF_ENDPOINT", &endpoint)
            .env("HF_HUB_CACHE", &folder)
            .run()
            .stderr("downloading org/name: 0.00 of 0.00 GiB")
            .nowhere("not in this machine's model cache");
        daemon.asked("POST /containers/create")
    });
    let created = program.await.unwrap();
    let mounts = created[0]["HostConfig"]["Mounts"].as_array().unwrap();
    assert_eq!(mounts.len(), 1, "{mounts:?}");
    assert_eq!(mounts[0]["Target"], "/root/.cache/huggingface/hub/models--org--name");
    assert_eq!(mounts[0]["ReadOnly"], true);
    let weights = cache
        .path()
        .join("models--org--name/snapshots")
        .join(COMMIT)
        .join("model.safetensors");
    assert_eq!(std::fs::read(weights).unwrap(), b"weights");
}

#[test]
fn the_daemons_own_socket_is_mounted_by_no_name() {
    let daemon = reluctant();
    let socket = daemon.host().strip_prefix("unix://").unwrap().to_owned();
    let folder = std::path::Path::new(&socket).parent().unwrap().to_owned();
    let links = temp();
    let (to_socket, to_folder) = (links.path().join("a"), links.path().join("b"));
    std::os::unix::fs::symlink(&socket, &to_socket).unwrap();
    std::os::unix::fs::symlink(&folder, &to_folder).unwrap();
    let parent = folder.parent().unwrap();
    for path in [std::path::Path::new(&socket), &folder, &to_socket, &to_folder, parent] {
        let mount = format!(
            r#"docker::start(#{{ image: "x", mounts: [#{{ host: "{}", container: "/m" }}] }})"#,
            path.display()
        );
        let outcome = daemon.run(&mount, &["--allow", "mount=/"]).code(3);
        let _ = outcome.stderr("is never allowed: it");
    }
    assert_eq!(daemon.asked("").len(), 0, "the daemon was asked");
}

#[test]
fn a_rehearsal_starts_nothing() {
    let started = temp();
    let file = started.path().join("started").display().to_string();
    for script in [
        format!(r#"process::start(#{{ command: ["touch", "{file}"] }})"#),
        r#"docker::start(#{ image: "engine:1" })"#.to_owned(),
        r#"import "std/engines" as engines; engines::describe("vllm", #{ model: "m" }).start()"#.to_owned(),
        r#"import "std/engines" as engines; engines::attach("openai", #{ url: "http://127.0.0.1:1" }).probe(#{ input: 9, output: 9 })"#.to_owned(),
    ] {
        let daemon = reluctant();
        let outcome = daemon.run(&script, &["--dry-run", "--allow", "process,port=1"]);
        let _ = outcome.success().stdout("dry run");
        assert_eq!(daemon.asked("").len(), 0, "{script}");
    }
    assert!(!started.path().join("started").exists());
    // The dry run refuses what the run would refuse.
    for line in [
        r#"process::start(#{ command: ["true"] })"#,
        r#"docker::start(#{ image: "x", privileged: true })"#,
    ] {
        let program = Profiler::new()
            .file("ask.rhai", line)
            .args(["run", "ask.rhai", "--dry-run"]);
        let _ = program.run().code(3);
    }
}

#[test]
fn a_script_reads_tokenizers_only_below_its_folder_or_where_the_user_allowed() {
    let outside = temp();
    let path = outside.path().canonicalize().unwrap();
    std::fs::write(path.join("tokenizer.json"), "{}").unwrap();
    let ask = |name: &str, allow: &str| {
        let script = format!(r#"prompt::tokens(9, #{{ tokenizer: "{name}" }})"#);
        let program = Profiler::new()
            .file("ask.rhai", script)
            .file("mine/tokenizer.json", "{}");
        std::os::unix::fs::symlink(&path, program.folder().join("link")).unwrap();
        program.args(["run", "ask.rhai", "--allow", allow]).run()
    };
    let shown = path.display().to_string();
    for name in [&shown, &format!("{shown}/tokenizer.json"), "link", "/etc/hostname"] {
        let _ = ask(name, "").code(3).stderr("--allow mount=");
    }
    // The file was read and is not a tokenizer.
    let _ = ask("mine", "").nowhere("not allowed").stderr("tokenizer");
    let _ = ask(&shown, &format!("mount={shown}"))
        .nowhere("not allowed")
        .stderr("tokenizer");
}

#[test]
fn a_saved_file_replaces_only_what_it_names() {
    let folder = temp();
    let real = std::fs::canonicalize(folder.path()).unwrap();
    let [target, name, other] = ["target", "name", "name.new"].map(|name| real.join(name));
    std::fs::write(&target, "old").unwrap();
    std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).unwrap();
    std::os::unix::fs::symlink(&target, &name).unwrap();
    std::fs::write(&other, "theirs").unwrap();
    let line = format!(r#"files::save("{}", "new")"#, name.display());
    let save = |allow: &str| {
        let program = Profiler::new().file("save.rhai", line.as_str());
        program.args(["run", "save.rhai"]).args(["--allow", allow]).run()
    };
    let _ = save("process").code(3).stderr("mount=");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "old");
    let _ = save(&format!("mount={}", real.display())).success();
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "new");
    assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert!(name.is_symlink());
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "theirs");
    assert_eq!(
        std::fs::read_dir(&real).unwrap().count(),
        3,
        "no temporary file is left"
    );
}
