//! What a stranger's script asks for is refused by name, before Docker is even looked for, unless the user allowed it.

use crate::support::{Outcome, Profiler, temp};

/// Runs one line of a script where no daemon is: what is refused is refused before that matters.
fn ask(allow: &str, line: &str) -> Outcome {
    let program = Profiler::new().file("ask.rhai", line).args(["run", "ask.rhai"]);
    let program = program.env("DOCKER_HOST", "unix:///no/daemon/here");
    if allow.is_empty() {
        program
    } else {
        program.args(["--allow", allow])
    }
    .run()
}

const NO_DAEMON: &str = "there is no Docker daemon";

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
    ask("", line)
        .stderr("native processes are not allowed")
        .stderr("--allow process");
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
fn files_are_copied_in_only_from_where_the_user_allowed() {
    let folder = temp();
    let line = format!(
        r#"process::start(#{{ command: ["sleep", "9"] }}).copy_in("{}", "/tmp")"#,
        folder.path().display()
    );
    ask("process", &line).stderr("reading").stderr("--allow mount=");
}

#[test]
fn a_word_that_is_none_is_wrong_usage() {
    ask("tokens", "1")
        .code(2)
        .stderr("does not know `tokens`")
        .stderr("did you mean `token`?");
}

#[test]
fn the_token_is_never_shown_nor_given_unasked() {
    let line = r#"let s = process::start(#{ command: ["sh", "-c", "echo token=$HF_TOKEN"], token: true }); s.wait(); print(s.logs())"#;
    let with_token = |allow: &str| {
        let program = Profiler::new()
            .file("ask.rhai", line)
            .args(["run", "ask.rhai", "--allow", allow]);
        program.env("HF_TOKEN", "hf_secret").run()
    };
    with_token("process").stdout("token=").nowhere("hf_secret");
    with_token("process,token").stdout("token=hf_secret");
}
