//! Which model a container serves, and where it lies: from its command line, its environment and its mounts. Pure.

use serde::Serialize;

/// Options that name the model, over all engines.
const OPTIONS: [&str; 6] = [
    "--model",
    "--model-path",
    "--model-id",
    "--model_path",
    "--hf-repo",
    "-m",
];
/// Commands whose next word is the model.
const COMMANDS: [&str; 2] = ["serve", "trtllm-serve"];
/// Variables that name the model.
const VARIABLES: [&str; 5] = [
    "MODEL_ID",
    "MODEL_PATH",
    "MODEL",
    "LLAMA_ARG_MODEL",
    "LLAMA_ARG_HF_REPO",
];
/// Where images keep their hub cache when no variable says so.
const CACHES: [&str; 3] = ["/root/.cache/huggingface/hub", "/data", "/root/.ollama/models"];

/// A model as a container serves it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(in crate::runtime) struct Model {
    /// As the command line names it: an id, or a path inside the container.
    pub(in crate::runtime) name: String,
    /// The places inside the container where it may lie, likeliest first.
    pub(in crate::runtime) paths: Vec<String>,
    /// The same place on the host, where a mount shows it.
    pub(in crate::runtime) host_path: Option<String>,
}

/// Finds the model. `env`: `NAME=value`; `mounts`: (host, container).
pub(in crate::runtime) fn model(words: &[String], env: &[String], mounts: &[(String, String)]) -> Option<Model> {
    let variable = |name: &str| env.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    let name = named(words)
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

fn named(words: &[String]) -> Option<&str> {
    // Long options first: `python -m` names a module, not a model.
    let option = OPTIONS.iter().find_map(|&option| {
        words
            .iter()
            .enumerate()
            .find_map(|(at, word)| match word.split_once('=') {
                Some((name, value)) if name == option => Some(value),
                _ if word == option => words.get(at + 1).map(String::as_str),
                _ => None,
            })
    });
    let positional = || {
        let at = words
            .iter()
            .position(|word| COMMANDS.contains(&word.rsplit('/').next().unwrap_or(word)))?;
        words[at + 1..]
            .iter()
            .find(|word| !word.starts_with('-'))
            .map(String::as_str)
    };
    option.or_else(positional).filter(|name| !name.is_empty())
}

/// The deepest mount that holds the path.
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

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn mounted(host: &str, inside: &str) -> Vec<(String, String)> {
        vec![(host.to_owned(), inside.to_owned())]
    }

    #[test]
    fn every_engine_names_its_model_somewhere() {
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
            let found = model(&words(line), &[env.to_owned()], &[]).unwrap();
            assert_eq!(found.name, name, "{line}");
        }
        assert_eq!(model(&words("nginx -g daemon"), &[], &[]), None);
    }

    #[test]
    fn a_path_is_found_on_the_host_through_its_mount() {
        let found = model(
            &words("--model /models/a/b.gguf"),
            &[],
            &mounted("/srv/models/", "/models"),
        )
        .unwrap();
        assert_eq!(found.host_path.as_deref(), Some("/srv/models/a/b.gguf"));
        let beside = model(&words("--model /models2/b"), &[], &mounted("/srv", "/models")).unwrap();
        assert_eq!(beside.host_path, None);
    }

    #[test]
    fn an_id_is_looked_for_in_the_cache() {
        let env = ["HF_HOME=/cache".to_owned()];
        let found = model(&words("--model org/m"), &env, &mounted("/home/me/hub", "/cache/hub")).unwrap();
        assert_eq!(found.paths[0], "/cache/hub/models--org--m");
        assert_eq!(found.host_path.as_deref(), Some("/home/me/hub/models--org--m"));
    }
}
