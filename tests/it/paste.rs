//! A user pastes what `tune` found into a shell, Docker, Compose or Kubernetes: each word arrives as it was.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Profiler, temp};

/// Flags as people have them, some with what a shell or YAML reads as its own.
const FLAGS: [&str; 3] = [
    "--max-num-seqs=64",
    r#"--speculative-config={"method": "ngram"}"#,
    "--chat-template=it's; $(HOME) $x $$y\n  * #\n",
];

fn pasted(engine: &str) -> Value {
    let flags = json!(FLAGS);
    let script = format!(
        "import \"std/tune/recipe\" as recipe;\nlet of = #{{ engine: \"{engine}\", model: \"a/b\", image: (), gpus: 2, env: #{{ A: \"b $c\" }}, flags: {flags} }};\n\
         let texts = recipe::written(of, #{{}});\n\
         #{{ texts: texts, read: recipe::read(texts.recipe, \"a/b\"), command: recipe::read(#{{ c: texts.command }}, \"a/b\")}}",
    );
    let program = Profiler::new().file("paste.rhai", script);
    program.args(["run", "paste.rhai", "--json"]).run().success().json()["result"].clone()
}

#[test]
fn a_shell_gives_the_engine_the_words_as_they_were() {
    let found = pasted("vllm");
    for read in [&found["read"], &found["command"]] {
        assert_eq!(
            (&read["words"], &read["env"]),
            (&json!(FLAGS), &json!({ "A": "b $c" })),
            "{found}"
        );
    }
    // A program of that name writes its words, and the variable that it got.
    let folder = temp();
    for name in ["docker", "vllm"] {
        let program = folder.path().join(name);
        fs::write(&program, "#!/bin/sh\nprintf '%s\\0' \"$A\" \"$@\"\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let words = |text: &str| {
        let ran = Command::new("sh")
            .args(["-c", text])
            .env("PATH", &path)
            .output()
            .unwrap();
        let printed = String::from_utf8(ran.stdout).unwrap();
        printed.split_terminator('\0').map(str::to_owned).collect::<Vec<_>>()
    };
    let command = words(found["texts"]["command"].as_str().unwrap());
    assert_eq!(command, [&["b $c", "serve", "a/b"], &FLAGS[..]].concat());
    let docker = words(found["texts"]["docker"].as_str().unwrap());
    assert!(docker.contains(&"A=b $c".to_owned()), "{docker:?}");
    let serve = docker.iter().position(|word| word == "serve").unwrap();
    assert_eq!(docker[serve + 2..serve + 5], FLAGS);
}

#[test]
fn compose_and_a_deployment_are_yaml_with_the_same_words() {
    for (engine, first) in [("vllm", "serve"), ("sglang", "-m")] {
        let found = pasted(engine);
        let yaml = |name: &str| -> Value { yaml_serde::from_str(found["texts"][name].as_str().unwrap()).unwrap() };
        let compose = &yaml("compose")["services"]["engine"];
        let deployment = yaml("kubernetes");
        assert_eq!(
            (&deployment["apiVersion"], &deployment["kind"]),
            (&json!("apps/v1"), &json!("Deployment"))
        );
        let spec = &deployment["spec"];
        assert_eq!(spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]);
        let container = &spec["template"]["spec"]["containers"][0];
        // Both read `$$` as `$`.
        let escaped = FLAGS[2].replace('$', "$$");
        for words in [&compose["command"], &container["args"]] {
            let words: Vec<&str> = words
                .as_array()
                .unwrap()
                .iter()
                .map(|word| word.as_str().unwrap())
                .collect();
            assert_eq!(words[0], first, "{engine}");
            assert!(words.contains(&FLAGS[0]) && words.contains(&FLAGS[1]), "{words:?}");
            assert!(words.contains(&escaped.as_str()), "{words:?}");
        }
        assert_eq!(container["env"][0], json!({ "name": "A", "value": "b $$c" }));
        assert_eq!(container["resources"]["limits"]["nvidia.com/gpu"], 2);
        assert_eq!(compose["environment"], json!(["HF_TOKEN", "A=b $$c"]));
    }
}
