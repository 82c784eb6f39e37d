//! A user runs scripts and opens files that once broke the program (`tests/data/attacks`), and every attack fails.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::support::{Outcome, Profiler, needs_host_name};

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/data/attacks", name]
        .iter()
        .collect()
}

/// Everything that a terminal would obey: escape sequences and other control characters, of one byte or two.
fn commands(text: &str) -> String {
    let obeyed = |letter: &char| letter.is_control() && *letter != '\n' && *letter != '\t';
    text.chars().filter(obeyed).collect()
}

#[test]
fn no_control_sequence_of_a_script_reaches_the_terminal_or_the_page() {
    for name in ["print", "warn", "show", "fault", "axis", "table", "progress"] {
        let outcome = Profiler::new()
            .args(["run", "--out", "run"])
            .arg(script(&format!("ansi_{name}.rhai")))
            .run();
        assert!(
            outcome.stdout.contains("RED") || outcome.stderr.contains("RED"),
            "{name}: {}{}",
            outcome.stdout,
            outcome.stderr
        );
        for text in [&outcome.stdout, &outcome.stderr] {
            assert_eq!(commands(text), "", "{name}: {text:?}");
        }
        for view in [
            &["show", "run"][..],
            &["show", "--markdown", "run"],
            &["report", "run", "--html", "page.html"],
        ] {
            let again = Profiler::new().current_dir(outcome.folder()).args(view).run();
            assert_eq!(commands(&again.stdout), "", "{name}, {view:?}: {:?}", again.stdout);
        }
        let page = std::fs::read_to_string(outcome.folder().join("page.html"));
        assert!(page.is_ok() || name == "fault", "{name}");
        assert_eq!(commands(&page.unwrap_or_default()), "", "{name}");
    }
    for name in ["help", "param"] {
        let file = script(&format!("ansi_{name}.rhai"));
        let help = Profiler::new().arg("run").arg(file).arg("--help").run().success();
        assert_eq!(commands(&help.stdout), "", "{name}: {:?}", help.stdout);
    }
}

/// Where colours are wanted, only colour sequences pass.
#[test]
fn colours_are_all_that_a_script_can_send_to_a_terminal() {
    let colours = regex::Regex::new("\u{1b}\\[[0-9;]*m").unwrap();
    for name in ["print", "show", "axis", "fault"] {
        let outcome = Profiler::new()
            .args(["--color", "always", "run"])
            .arg(script(&format!("ansi_{name}.rhai")))
            .run();
        for text in [&outcome.stdout, &outcome.stderr] {
            assert_eq!(commands(&colours.replace_all(text, "")), "", "{name}: {text:?}");
        }
    }
}

/// The text of all files below a folder.
fn everything(folder: &std::path::Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        text += &match path.is_dir() {
            true => everything(&path),
            false => String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned(),
        };
    }
    text
}

#[test]
fn no_secret_of_the_environment_stays_in_a_run_folder() {
    let secrets = [
        ("HF_TOKEN", "hf_TEST99"),
        ("MY_PASSWD", "hunter2hunter2"),
        ("GITHUB_PAT", "ghp_abcdefgh12345"),
        ("MY_PASSWORD", "pa\"ss\\word-long"),
        ("DATABASE_URL", "postgres://u:dbpassw0rd@h/db"),
    ];
    for (name, permits) in [
        ("sec_proc_log", "process,token"),
        ("sec_otherenv", "process"),
        ("sec_quote", "process"),
    ] {
        let mut program = Profiler::new();
        for (name, value) in secrets {
            program = program.env(name, value);
        }
        let outcome = program
            .args(["run", "--allow", permits, "--out", "run"])
            .arg(script(&format!("{name}.rhai")))
            .run()
            .success();
        // The script is kept unchanged, because its hash identifies it.
        std::fs::remove_file(outcome.folder().join("run/script.rhai")).unwrap();
        let kept = everything(&outcome.folder().join("run"));
        for text in [&kept, &outcome.stdout, &outcome.stderr] {
            for secret in ["hf_TEST99", "hunter2", "ghp_", "word-long", "dbpassw0rd"] {
                assert!(!text.contains(secret), "{name}: {secret}");
            }
        }
        assert!(kept.contains("***"), "{name}: something was hidden");
    }
}

/// Numbers, common words and pieces of the format are not treated as secrets, whichever variable holds them.
#[test]
fn hiding_secrets_destroys_no_journal() {
    for (name, value, script_name) in [
        ("MAX_TOKENS", "12345678", "sec_digits"),
        ("MY_PASSWORD", "12345678", "sec_digits"),
        ("MY_PASSWORD", "boundary", "sec_word"),
        ("MY_PASSWORD", r#","cause":null,"#, "sec_word"),
    ] {
        let outcome = Profiler::new()
            .env(name, value)
            .args(["run", "--out", "run"])
            .arg(script(&format!("{script_name}.rhai")))
            .run()
            .success();
        let shown = Profiler::new()
            .current_dir(outcome.folder())
            .env(name, value)
            .args(["show", "run"])
            .run()
            .success();
        let _ = shown.stdout("why not more").nowhere("***");
        let journal = std::fs::read_to_string(outcome.folder().join("run/journal.jsonl")).unwrap();
        for line in journal.lines() {
            assert!(
                serde_json::from_str::<serde_json::Value>(line).is_ok(),
                "{value}: {line}"
            );
        }
    }
}

#[test]
fn what_could_send_the_token_elsewhere_costs_it() {
    for name in [
        "NCCL_NET_PLUGIN",
        "VLLM_LOGGING_CONFIG_PATH",
        "CUDA_INJECTION64_PATH",
        "CC",
    ] {
        let outcome = Profiler::new()
            .env("HF_TOKEN", "hf_TEST")
            .args(["run"])
            .arg(script(&format!("env_{name}.rhai")))
            .run()
            .success();
        let _ = outcome.stdout(&format!("Hugging Face token is not given: the script sets `{name}`"));
    }
    // The environment in the container's creation request does not contain the token either.
    let daemon = crate::permits::reluctant();
    let outcome = Profiler::new()
        .env("HF_TOKEN", "hf_TEST")
        .env("DOCKER_HOST", daemon.host())
        .args(["run"])
        .arg(script("token_to_script_controlled_env.rhai"))
        .run();
    let made = daemon.asked("POST /containers/create");
    assert_eq!(made.len(), 1, "{}", outcome.stderr);
    let made = made[0].to_string();
    assert!(made.contains("NCCL_NET_PLUGIN") && !made.contains("hf_TEST"), "{made}");
}

/// Runs a script that attacks a service on loopback; returns the requests that the service received, and the outcome.
/// `allowed` permits the script to reach it.
fn victim(allowed: bool) -> (String, Outcome) {
    let mut victim = Command::new("python3")
        .arg(script("victim.py"))
        .arg("0")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(victim.stdout.take().unwrap());
    let mut port = String::new();
    printed.read_line(&mut port).unwrap();
    let port = port.trim();
    let read = |name: &str| std::fs::read_to_string(script(name)).unwrap();
    let outcome = Profiler::new()
        .file("evil_adapter.rhai", read("evil_adapter.rhai"))
        .file("s.rhai", read("ssrf_loopback_post.rhai").replace("19999", port))
        .args(["run", "s.rhai"])
        .args(allowed.then(|| format!("--allow=port={port}")))
        .run();
    victim.kill().unwrap();
    victim.wait().unwrap();
    let mut requests = String::new();
    printed.read_to_string(&mut requests).unwrap();
    assert!(
        allowed || outcome.stderr.contains(&format!("--allow port={port}")),
        "{}",
        outcome.stderr
    );
    (requests, outcome)
}

#[test]
fn no_service_on_loopback_is_reached_unasked() {
    let (requests, outcome) = victim(false);
    assert_eq!(requests, "");
    let _ = outcome.code(3).nowhere("GET ->");
    let (requests, outcome) = victim(true);
    let _ = outcome.stdout("GET -> 200").stdout("POST -> 200");
    assert!(requests.contains("POST /api/jobs/"), "{requests}");
}

/// The owner of a name that `net=` allows could point it at this machine.
#[test]
fn no_name_leads_a_script_to_this_machine() {
    let Some(name) = needs_host_name() else { return };
    let script = format!(
        r#"import "std/engines" as engines;
        print(server::page("http://{name}:1", "/", "").body);
        server::check_url("http://{name}:1")"#
    );
    let program = Profiler::new().file("s.rhai", script);
    let outcome = program
        .args(["run", "s.rhai", "--allow", &format!("net={name}")])
        .run()
        .code(3);
    let _ = outcome
        .stdout("leads to this machine, which `net=` does not allow")
        .stderr("leads to this machine, which `net=` does not allow");
}

#[test]
fn no_image_and_no_entry_point_is_a_scripts_own_choice() {
    for name in ["any_image", "mem_none", "hostconfig", "nc_host", "trust3"] {
        let daemon = crate::permits::reluctant();
        let run = |allow: &str| {
            Profiler::new()
                .env("DOCKER_HOST", daemon.host())
                // Parameters of a stranger's script grant nothing, whatever their names.
                .args(["run", "--set", "image=busybox:1", "--allow", allow])
                .arg(script(&format!("docker_{name}.rhai")))
                .run()
        };
        let code = if name == "trust3" { "code," } else { "" };
        let _ = run("")
            .code(3)
            .stderr(&format!("--allow {code}image=busybox:1,entrypoint"));
        let _ = run("image=busybox")
            .code(3)
            .stderr(&format!("--allow {code}entrypoint"));
        assert!(daemon.asked("POST").is_empty(), "{name}");
        let _ = run("code,image=busybox,entrypoint").stderr("not today");
    }
    // The suggested `--allow` may be pasted: it must grant no more than it shows.
    let script = r#"docker::start(#{ image: "busybox,process\n--allow exec" })"#;
    let outcome = Profiler::new().file("s.rhai", script).args(["run", "s.rhai"]).run();
    let _ = outcome
        .code(3)
        .stderr("--allow 'image=busybox\\,process\u{fffd}--allow exec'");
}

/// Replaces everything that is read or written in a run folder by links.
#[test]
fn a_run_folder_of_links_leads_nowhere() {
    let run = Profiler::new()
        .args(["run", "adaptive", "--set", "engine=sim", "--seed", "7", "--out", "base"])
        .args(["--set", "sim.time_scale=0.001"])
        .run()
        .success();
    let tried = std::process::Command::new("python3")
        .arg(script("run_folder_links.py"))
        .arg(env!("CARGO_BIN_EXE_profiler"))
        .args(["base", "scratch"])
        .current_dir(run.folder())
        .env("HOME", run.folder())
        .env("XDG_STATE_HOME", run.folder().join("state"))
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&tried.stdout);
    assert!(tried.status.success() && stdout.contains("held"), "{stdout}");
}
