//! Finds the model that a container serves, and its path, from command line, environment and mounts. Pure.

use serde::Serialize;

/// Options that name the model, for all engines.
const OPTIONS: [&str; 6] = [
    "--model",
    "--model-path",
    "--model-id",
    "--model_path",
    "--hf-repo",
    "-m",
];
/// Commands followed by the model.
const COMMANDS: [&str; 2] = ["serve", "trtllm-serve"];
/// Variables that name the model.
const VARIABLES: [&str; 5] = [
    "MODEL_ID",
    "MODEL_PATH",
    "MODEL",
    "LLAMA_ARG_MODEL",
    "LLAMA_ARG_HF_REPO",
];
/// Hub cache folders that images use by default.
const CACHES: [&str; 3] = ["/root/.cache/huggingface/hub", "/data", "/root/.ollama/models"];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::runtime) struct Model {
    /// As in the command line: a hub id, or a path inside the container.
    pub(in crate::runtime) name: String,
    /// Paths inside the container where it may be stored, most likely first.
    pub(in crate::runtime) paths: Vec<String>,
    /// The corresponding path on the host, if it is mounted.
    pub(in crate::runtime) host_path: Option<String>,
}

/// `env` has `NAME=value` entries; `mounts` are (host, container) paths.
pub(in crate::runtime) fn model(command: &[String], env: &[String], mounts: &[(String, String)]) -> Option<Model> {
    let variable = |name: &str| env.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    let name = model_name(command)
        .or_else(|| VARIABLES.iter().find_map(|name| variable(name)))?
        .to_owned();
    let paths = if name.starts_with('/') {
        vec![name.clone()]
    } else {
        let folder = format!("models--{}", name.split(':').next().unwrap_or(&name).replace('/', "--"));
        let home = variable("HF_HOME").map(|home| format!("{home}/hub"));
        let set = ["HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"]
            .iter()
            .find_map(|name| variable(name).map(str::to_owned));
        set.or(home)
            .into_iter()
            .chain(CACHES.map(str::to_owned))
            .map(|cache| format!("{}/{folder}", cache.trim_end_matches('/')))
            .collect()
    };
    let host_path = paths.iter().find_map(|path| on_host(path, mounts));
    Some(Model { name, paths, host_path })
}

fn model_name(command: &[String]) -> Option<&str> {
    // Long options first: in `python -m`, `-m` names a module.
    let option = OPTIONS.iter().find_map(|&option| {
        command
            .iter()
            .enumerate()
            .find_map(|(at, word)| match word.split_once('=') {
                Some((name, value)) if name == option => Some(value),
                _ if word == option => command.get(at + 1).map(String::as_str),
                _ => None,
            })
    });
    let positional = || {
        let at = command
            .iter()
            .position(|word| COMMANDS.contains(&word.rsplit('/').next().unwrap_or(word)))?;
        command[at + 1..]
            .iter()
            .find(|word| !word.starts_with('-'))
            .map(String::as_str)
    };
    option.or_else(positional).filter(|name| !name.is_empty())
}

/// Uses the deepest mount that contains the path.
fn on_host(path: &str, mounts: &[(String, String)]) -> Option<String> {
    mounts
        .iter()
        .filter_map(|(host, inside)| {
            let rest = path.strip_prefix(inside.trim_end_matches('/'))?;
            (rest.is_empty() || rest.starts_with('/'))
                .then(|| (inside.len(), format!("{}{rest}", host.trim_end_matches('/'))))
        })
        .max()
        .map(|(_, found)| found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn mounted(host: &str, inside: &str) -> Vec<(String, String)> {
        vec![(host.to_owned(), inside.to_owned())]
    }

    #[test]
    fn the_model_of_every_engine_is_found() {
        for (line, env, name) in [
            (
                "vllm serve meta-llama/Llama-3.1-8B --port 80",
                "",
                "meta-llama/Llama-3.1-8B",
            ),
            ("python -m sglang.launch_server --model-path /models/x", "", "/models/x"),
            ("text-generation-launcher --model-id=org/m", "", "org/m"),
            ("text-generation-launcher", "MODEL_ID=org/m", "org/m"),
            (
                "/app/llama-server -c 512 --model /models/tiny.gguf",
                "",
                "/models/tiny.gguf",
            ),
        ] {
            let found = model(&command(line), &[env.to_owned()], &[]).unwrap();
            assert_eq!(found.name, name, "{line}");
        }
        assert_eq!(model(&command("nginx -g daemon"), &[], &[]), None);
    }

    #[test]
    fn a_mounted_path_is_mapped_to_the_host() {
        let found = model(
            &command("--model /models/a/b.gguf"),
            &[],
            &mounted("/srv/models/", "/models"),
        )
        .unwrap();
        assert_eq!(found.host_path.as_deref(), Some("/srv/models/a/b.gguf"));
        let outside = model(&command("--model /models2/b"), &[], &mounted("/srv", "/models")).unwrap();
        assert_eq!(outside.host_path, None);
    }

    #[test]
    fn an_id_is_looked_for_in_the_cache() {
        let env = ["HF_HOME=/cache".to_owned()];
        let found = model(&command("--model org/m"), &env, &mounted("/home/me/hub", "/cache/hub")).unwrap();
        assert_eq!(found.paths[0], "/cache/hub/models--org--m");
        assert_eq!(found.host_path.as_deref(), Some("/home/me/hub/models--org--m"));
    }
}
