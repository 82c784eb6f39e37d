//! Attaching to a running server: a URL, or a container by name, with the model that it serves. Attached servers are
//! never stopped; programs run inside an attached container only with permission.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;
use serde::Serialize;
use serde_json::json;
use tokio::net::TcpStream;
use url::Url;

use super::docker::ContainerClient;
use super::launch::Started;
use super::{Exit, Permits, ServerLog, State, docker, redact};
use crate::fault::{Fault, Result};
use crate::http::{ApiKey, lookup};
use crate::run::{Run, add_secrets};

/// Maximum time to connect to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// The environment variable that holds the API key of a server, unless the user names another one.
pub(super) const API_KEY: &str = "OPENAI_API_KEY";

/// What people copy behind the address of a server.
const ROUTES: [&str; 4] = ["/chat/completions", "/completions", "/models", "/v1"];

/// What to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Base URL of the server.
    Url(String),
    /// A container's name or id, and the port inside it; required if it publishes several.
    Container(String, Option<u16>),
}

#[derive(Debug)]
pub(super) struct Attached {
    container: Option<(String, ContainerClient)>,
    permits: Permits,
}

/// Checks that a server accepts connections at a URL.
///
/// # Errors
///
/// `missing` if none does; `usage` and `not_allowed` as for attaching.
pub async fn check_reachable(text: &str, permits: &Permits) -> Result<()> {
    let url = permitted_url(text, permits)?;
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default());
    let connect = async {
        let found = lookup(host.to_owned(), port.unwrap_or(80)).await?;
        TcpStream::connect(found.as_slice()).await
    };
    let why = match tokio::time::timeout(CONNECT_TIMEOUT, connect).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) if error.kind() == ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
    };
    Err(Fault::missing(
        format!("nothing answers at `{}`: {why}", redact::url(&url)),
        "start the server, or give the address where it runs: `--url http://HOST:PORT`",
    ))
}

/// Attaches to a URL.
pub(super) fn attach_url(text: &str, permits: &Permits) -> Result<Started<Attached>> {
    let url = permitted_url(text, permits)?;
    let logs = ServerLog::default();
    logs.end();
    let info = json!({"runtime": "attach", "url": redact::url(&url)});
    Ok(Started {
        backend: Attached {
            container: None,
            permits: permits.clone(),
        },
        base_url: Some(url.as_str().trim_end_matches('/').to_owned()),
        logs,
        info,
    })
}

/// The address of a server as people write it: with or without `http://`, and with or without `/v1`, which is dropped.
///
/// # Errors
///
/// `usage` if it is no address.
pub fn server_url(text: &str) -> Result<Url> {
    let whole = if text.contains("://") {
        text.to_owned()
    } else {
        format!("http://{text}")
    };
    // Text that does not parse may still contain a password, so it is not shown.
    let mut url = Url::parse(&whole).map_err(|error| {
        Fault::usage(format!("`url` is not a valid URL: {error}")).hint("write `http://127.0.0.1:8000`")
    })?;
    let mut path = url.path().trim_end_matches('/').to_owned();
    for route in ROUTES {
        path = path.strip_suffix(route).unwrap_or(&path).to_owned();
    }
    url.set_path(&path);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// The API key for a server: the value of the environment variable that the user named, else of `OPENAI_API_KEY`. `None`
/// if there is none, or if the script chose the address.
///
/// # Errors
///
/// `missing` if the named variable is not set, `not_allowed` if the script chose it or the address.
pub fn api_key(text: &str, variable: Option<&str>, permits: &Permits) -> Result<Option<ApiKey>> {
    let url = permitted_url(text, permits)?;
    let name = variable.unwrap_or(API_KEY);
    if !permits.gives_key(&url, name) {
        return match variable {
            None => Ok(None),
            Some(_) => Err(Fault::not_allowed(
                format!("the key in `{name}` is only for a server that the command line names"),
                format!("write `--url URL --set api_key_env={name}`, or allow it with `--allow token`"),
            )),
        };
    }
    let Some(value) = std::env::var(name).ok().filter(|value| !value.trim().is_empty()) else {
        return match variable {
            None => Ok(None),
            Some(_) => Err(Fault::missing(
                format!("the environment variable `{name}` is not set"),
                format!("set it to the server's API key: `export {name}=…`"),
            )),
        };
    };
    add_secrets([value.trim().to_owned()]);
    ApiKey::new(value.trim())
        .map(Some)
        .ok_or_else(|| Fault::usage(format!("the value of `{name}` cannot be sent as an API key")))
}

/// Parses the address of a server that the script may reach.
fn permitted_url(text: &str, permits: &Permits) -> Result<Url> {
    let url = server_url(text)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::usage(format!(
            "`{}` is neither http nor https",
            redact::url(&url)
        )));
    }
    permits.check_url(&url)?;
    Ok(url)
}

/// Attaches to a container. Its log is followed, starting with its newest 1000 lines.
pub(super) async fn attach_container(
    container: &str,
    port: Option<u16>,
    name: &str,
    run: &Arc<Run>,
    permits: &Permits,
) -> Result<Started<Attached>> {
    docker::check_container(container)?;
    permits.check_attach(container)?;
    let client = docker::connect().await?;
    let inspected = client
        .inspect_container(container, None::<InspectContainerOptions>)
        .await
        .map_err(docker::explain)?;
    let id = inspected.id.clone().unwrap_or_default();
    if !inspected
        .state
        .as_ref()
        .and_then(|state| state.running)
        .unwrap_or(false)
    {
        return Err(Fault::missing(
            format!("the container `{container}` is not running"),
            format!("start it with `docker start {container}`"),
        ));
    }
    let url = address(&inspected, port).map_err(|fault| fault.while_doing(format!("the container `{container}`")))?;
    let logs = ServerLog::create(run, name)?;
    docker::follow(&client, &id, "1000", logs.clone());
    let info = describe(container, &url, &inspected);
    Ok(Started {
        backend: Attached {
            container: Some((container.to_owned(), ContainerClient::new(client, id))),
            permits: permits.clone(),
        },
        base_url: Some(url),
        logs,
        info,
    })
}

/// Published port on this machine, else the container's own network address.
fn address(inspected: &ContainerInspectResponse, requested: Option<u16>) -> Result<String> {
    let settings = inspected.network_settings.clone().unwrap_or_default();
    let inside = |key: &str| key.strip_suffix("/tcp").and_then(|port| port.parse::<u16>().ok());
    let published: Vec<(u16, String)> = settings
        .ports
        .unwrap_or_default()
        .iter()
        .filter_map(|(key, bindings)| {
            let host = bindings
                .as_ref()?
                .iter()
                .find_map(|binding| binding.host_port.clone())?;
            Some((inside(key)?, host))
        })
        .filter(|(port, _)| requested.is_none_or(|requested| requested == *port))
        .collect();
    match published.as_slice() {
        [(_, host)] => return Ok(format!("http://127.0.0.1:{host}")),
        [] => {}
        several => {
            let mut ports: Vec<u16> = several.iter().map(|(port, _)| *port).collect();
            ports.sort_unstable();
            return Err(Fault::usage(format!("it publishes several ports: {ports:?}")).hint("choose one with `port`"));
        }
    }
    let exposed = inspected
        .config
        .iter()
        .filter_map(|config| config.exposed_ports.as_ref())
        .flatten()
        .filter_map(|key| inside(key));
    let mut exposed: Vec<u16> = exposed.collect();
    exposed.sort_unstable();
    let port = match (requested, exposed.as_slice()) {
        (Some(port), _) | (None, &[port]) => port,
        (None, ports) => {
            return Err(
                Fault::usage(format!("it publishes no port and exposes {ports:?}")).hint("choose one with `port`")
            );
        }
    };
    let networks = settings.networks.unwrap_or_default();
    let ip = networks
        .values()
        .find_map(|network| network.ip_address.clone().filter(|ip| !ip.is_empty()));
    match ip {
        Some(ip) => Ok(format!("http://{ip}:{port}")),
        // With host networking it listens on this machine.
        None if networks.contains_key("host") => Ok(format!("http://127.0.0.1:{port}")),
        None => Err(Fault::missing(
            "it has no IP address",
            "publish its port: `docker run --publish 127.0.0.1:8000:8000 …`",
        )),
    }
}

/// Image, command line, environment (without secrets) and model, for the manifest.
fn describe(name: &str, url: &str, inspected: &ContainerInspectResponse) -> serde_json::Value {
    let config = inspected.config.clone().unwrap_or_default();
    let env = config.env.unwrap_or_default();
    let command: Vec<String> = inspected
        .path
        .iter()
        .chain(inspected.args.iter().flatten())
        .cloned()
        .collect();
    let mounts: Vec<(String, String)> = inspected
        .mounts
        .iter()
        .flatten()
        .filter_map(|mount| Some((mount.source.clone()?, mount.destination.clone()?)))
        .collect();
    let shown: std::collections::BTreeMap<&str, &str> = env
        .iter()
        .filter_map(|entry| entry.split_once('='))
        .map(|(key, value)| (key, redact::env(key, value)))
        .collect();
    json!({
        "runtime": "attach",
        "container": name,
        "id": inspected.id,
        "url": url,
        "image": config.image,
        "digest": inspected.image,
        "command": redact::command_line(&command),
        "env": shown,
        "model": find_model(&command, &env, &mounts),
    })
}

impl Attached {
    pub(super) async fn state(&self) -> Result<State> {
        match &self.container {
            Some((_, client)) => client.state().await,
            None => Ok(State::Running),
        }
    }

    pub(super) async fn wait(&self) -> Result<Exit> {
        let Some((_, client)) = &self.container else {
            return std::future::pending().await;
        };
        loop {
            if let State::Exited(exit) = client.state().await? {
                return Ok(exit);
            }
            client.wait().await;
        }
    }

    /// The container that it was attached to, if any.
    pub(super) fn container(&self) -> Option<&ContainerClient> {
        self.container.as_ref().map(|(_, client)| client)
    }

    /// The container, if the user allows running programs in it.
    pub(super) fn allowed_container(&self) -> Result<&ContainerClient> {
        let (name, client) = self.container.as_ref().ok_or_else(|| {
            Fault::usage("a probe inside the engine needs a container, not a URL")
                .hint("attach to the container by its name")
        })?;
        self.permits.check_exec(name)?;
        Ok(client)
    }
}

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
struct Model {
    /// As in the command line: a hub id, or a path inside the container.
    name: String,
    /// Paths inside the container where it may be stored, most likely first.
    paths: Vec<String>,
    /// The corresponding path on the host, if it is mounted.
    host_path: Option<String>,
}

/// `env` has `NAME=value` entries; `mounts` are (host, container) paths.
fn find_model(command: &[String], env: &[String], mounts: &[(String, String)]) -> Option<Model> {
    let variable = |name: &str| env.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    let name = model_name(command, env)?.to_owned();
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

/// The model that a command line or its environment names.
fn model_name<'a>(command: &'a [String], env: &'a [String]) -> Option<&'a str> {
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
    let variable = |name: &str| env.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    let named = option.or_else(positional).filter(|name| !name.is_empty());
    named.or_else(|| VARIABLES.iter().find_map(|name| variable(name)))
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

    fn inspected(text: &str) -> ContainerInspectResponse {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_published_port_comes_before_the_containers_address() {
        let published = inspected(
            r#"{"NetworkSettings": {"Ports": {"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "49153"}], "9000/tcp": null}}}"#,
        );
        assert_eq!(address(&published, None).unwrap(), "http://127.0.0.1:49153");
        let hidden = inspected(
            r#"{"Config": {"ExposedPorts": {"8000/tcp": {}}}, "NetworkSettings": {"Networks": {"bridge": {"IPAddress": "172.17.0.2"}}}}"#,
        );
        assert_eq!(address(&hidden, None).unwrap(), "http://172.17.0.2:8000");
    }

    #[test]
    fn several_ports_require_a_choice() {
        let two = inspected(
            r#"{"NetworkSettings": {"Ports": {"80/tcp": [{"HostPort": "1"}], "81/tcp": [{"HostPort": "2"}]}}}"#,
        );
        assert!(address(&two, None).unwrap_err().message.contains("[80, 81]"));
        assert_eq!(address(&two, Some(81)).unwrap(), "http://127.0.0.1:2");
    }

    #[test]
    fn the_description_has_no_secrets() {
        let text = describe(
            "tgi",
            "http://127.0.0.1:1",
            &inspected(r#"{"Path": "server", "Args": ["--api-key", "sk-1", "--model", "m"], "Config": {"Env": ["HF_TOKEN=hf_1", "A=b"]}}"#),
        )
        .to_string();
        assert!(
            !text.contains("sk-1") && !text.contains("hf_1") && text.contains(r#""A":"b""#),
            "{text}"
        );
    }

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
            let found = find_model(&command(line), &[env.to_owned()], &[]).unwrap();
            assert_eq!(found.name, name, "{line}");
        }
        assert_eq!(find_model(&command("nginx -g daemon"), &[], &[]), None);
    }

    #[test]
    fn a_mounted_path_is_mapped_to_the_host() {
        let found = find_model(
            &command("--model /models/a/b.gguf"),
            &[],
            &mounted("/srv/models/", "/models"),
        )
        .unwrap();
        assert_eq!(found.host_path.as_deref(), Some("/srv/models/a/b.gguf"));
        let outside = find_model(&command("--model /models2/b"), &[], &mounted("/srv", "/models")).unwrap();
        assert_eq!(outside.host_path, None);
    }

    #[test]
    fn an_id_is_looked_for_in_the_cache() {
        let env = ["HF_HOME=/cache".to_owned()];
        let found = find_model(&command("--model org/m"), &env, &mounted("/home/me/hub", "/cache/hub")).unwrap();
        assert_eq!(found.paths[0], "/cache/hub/models--org--m");
        assert_eq!(found.host_path.as_deref(), Some("/home/me/hub/models--org--m"));
    }
}
