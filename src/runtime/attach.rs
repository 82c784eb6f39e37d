//! Attaching to a running server: a URL, or a container by name, with the model that it serves. Attached servers are
//! never stopped; programs run inside an attached container only with permission.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use bollard::Docker;
use bollard::models::{ContainerInspectResponse, PortBinding};
use bollard::query_parameters::InspectContainerOptions;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use url::Url;

use super::address::{API_KEY, server_url};
use super::docker::Container;
use super::state::Started;
use super::{Permits, ServerLog, docker};
use crate::fault::{Fault, Result};
use crate::http::{self, ApiKey, lookup};
use crate::run::{Run, add_secrets, add_secrets_of, hide_url, hide_variables, hide_words};
use crate::tls;

/// Maximum time to connect to a server.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);

/// The server to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Base URL of the server.
    Url(String),
    /// A container's name or id, and the port inside it; required if it publishes several.
    Container(String, Option<u16>),
}

/// An attached server.
pub(super) struct Attached {
    /// `None` for a server attached by URL.
    pub(super) container: Option<Arc<Container>>,
    pub(super) permits: Box<Permits>,
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
        format!("nothing answers at `{}`: {why}", hide_url(&url)),
        if permits.is_of_container(&url) {
            "see whether its engine serves there, and wait for it with `--wait 10m`; where the container only sleeps, have an engine started in it: `--engine vllm --runtime process --allow exec`"
        } else {
            "start the server, or give the address where it runs: `--url http://HOST:PORT`"
        },
    ))
}

/// Attaches to a URL.
pub(super) fn attach_url(text: &str, permits: &Permits) -> Result<Started<Attached>> {
    let url = permitted_url(text, permits)?;
    let logs = ServerLog::default();
    logs.end();
    let info = json!({"runtime": "attach", "url": hide_url(&url)});
    Ok(Started {
        backend: Attached {
            container: None,
            permits: Box::new(permits.clone()),
        },
        base_url: Some(url.as_str().trim_end_matches('/').to_owned()),
        logs,
        info,
    })
}

/// The API key for a server: the value of the environment variable that the user named, else of `OPENAI_API_KEY`.
/// `None` if there is none, or if the script chose the address or the container.
///
/// # Errors
///
/// `missing` if the named variable is not set; `not_allowed` if the script chose it or the address.
pub fn api_key(target: &Target, variable: Option<&str>, permits: &Permits) -> Result<Option<ApiKey>> {
    let name = variable.unwrap_or(API_KEY);
    // The default variable may be missing.
    let unless_usual = |fault: Fault| variable.map_or(Ok(None), |_| Err(fault));
    let given = match target {
        Target::Url(text) => permits.gives_key(&permitted_url(text, permits)?, name),
        Target::Container(container, _) => permits.gives_container_key(container, name),
    };
    if !given {
        return unless_usual(Fault::not_allowed(
            format!("the key in `{name}` is only for a server that the command line names"),
            format!("write `--url URL --api-key-env {name}`, or allow it with `--allow token`"),
        ));
    }
    let Some(value) = std::env::var(name).ok().filter(|value| !value.trim().is_empty()) else {
        return unless_usual(Fault::missing(
            format!("the environment variable `{name}` is not set"),
            format!("set it to the server's API key: `export {name}=…`"),
        ));
    };
    add_secrets([value.trim().to_owned()]);
    ApiKey::new(value.trim(), name)
        .map(Some)
        .ok_or_else(|| Fault::usage(format!("the value of `{name}` cannot be sent as an API key")))
}

/// Parses the address of a server, and checks that the script may connect to it.
fn permitted_url(text: &str, permits: &Permits) -> Result<Url> {
    let url = server_url(text)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::usage(format!("`{}` is neither http nor https", hide_url(&url))));
    }
    tls::check_insecure(&url, http::is_loopback(&url))?;
    permits.check_url(&url)?;
    Ok(url)
}

/// The URL of a container that the script may attach to. Allows connecting to it from now on.
///
/// # Errors
///
/// Those of attaching to it.
pub async fn container_url(container: &str, port: Option<u16>, permits: &Permits) -> Result<String> {
    let (_, _, url) = find_container(container, port, permits).await?;
    permits.open_container(&url);
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
    let (client, inspected, url) = find_container(container, port, permits).await?;
    let id = inspected.id.clone().unwrap_or_default();
    let logs = ServerLog::create(run, name)?;
    let info = describe(container, &url, &inspected);
    let container = Container::attached(client, id, container, run).started_at(started_at(&inspected));
    let container = Arc::new(container);
    container.follow(Some(1000), logs.clone());
    Ok(Started {
        backend: Attached {
            container: Some(container),
            permits: Box::new(permits.clone()),
        },
        base_url: Some(url),
        logs,
        info,
    })
}

/// The container that an engine with this port is started in.
///
/// # Errors
///
/// As for attaching to it; `usage` if something serves there already.
pub(super) async fn find_place<'a>(container: &'a str, port: u16, permits: &Permits) -> Result<docker::Place<'a>> {
    let (docker, inspected, url) = find_container(container, Some(port), permits).await?;
    if serves(url.trim_start_matches("http://")).await {
        return Err(Fault::usage(format!(
            "something serves already at port {port} of the container `{container}`"
        ))
        .hint("attach to it: leave out `runtime`; or choose another port: `--port 8001`"));
    }
    permits.open_container(&url);
    Ok(docker::Place {
        id: inspected.id.clone().unwrap_or_default(),
        started_at: started_at(&inspected),
        name: container,
        docker,
        url,
    })
}

/// Whether something serves at an address. A connection does not show it: at a published port, Docker accepts each and
/// closes it if nothing listens in the container.
async fn serves(address: &str) -> bool {
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await;
    let Ok(Ok(mut stream)) = connected else {
        return false;
    };
    let mut byte = [0_u8; 1];
    let answer = async {
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
        stream.read(&mut byte).await
    };
    // A busy server may be slow to answer.
    !matches!(tokio::time::timeout(CONNECT_TIMEOUT, answer).await, Ok(Ok(0) | Err(_)))
}

fn started_at(inspected: &ContainerInspectResponse) -> Option<String> {
    inspected.state.as_ref()?.started_at.clone()
}

/// A running container that the script may attach to, and its address.
async fn find_container(
    container: &str,
    port: Option<u16>,
    permits: &Permits,
) -> Result<(Docker, ContainerInspectResponse, String)> {
    docker::check_container(container)?;
    permits.check_attach(container)?;
    let client = docker::connect().await?;
    let inspected = client
        .inspect_container(container, None::<InspectContainerOptions>)
        .await
        .map_err(docker::explain)?;
    if inspected.state.as_ref().and_then(|state| state.running) != Some(true) {
        return Err(Fault::missing(
            format!("the container `{container}` is not running"),
            format!("start it with `docker start {container}`"),
        ));
    }
    if inspected.state.as_ref().and_then(|state| state.paused) == Some(true) {
        return Err(Fault::missing(
            format!("the container `{container}` is paused"),
            format!("resume it with `docker unpause {container}`"),
        ));
    }
    add_secrets_of(&json!({ "env": variables(&inspected), "command": command_of(&inspected) }));
    let url = address(&inspected, port).map_err(|fault| fault.while_doing(format!("the container `{container}`")))?;
    Ok((client, inspected, url))
}

/// The published port on this machine, else the container's own network address.
fn address(inspected: &ContainerInspectResponse, requested: Option<u16>) -> Result<String> {
    let settings = inspected.network_settings.clone().unwrap_or_default();
    let inside = |key: &str| key.strip_suffix("/tcp").and_then(|port| port.parse::<u16>().ok());
    let published: Vec<(u16, SocketAddr)> = settings
        .ports
        .unwrap_or_default()
        .iter()
        .filter_map(|(key, bindings)| {
            let host = bindings.as_ref()?.iter().find_map(published_address)?;
            Some((inside(key)?, host))
        })
        .filter(|(port, _)| requested.is_none_or(|requested| requested == *port))
        .collect();
    match published.as_slice() {
        [(_, host)] => return Ok(format!("http://{host}")),
        [] => {}
        several => {
            let mut ports: Vec<u16> = several.iter().map(|(port, _)| *port).collect();
            ports.sort_unstable();
            return Err(Fault::usage(format!("it publishes several ports: {ports:?}")).hint(CHOOSE_PORT));
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
    let named = || option_value(&command_of(inspected), "--port").and_then(|port| port.parse().ok());
    let port = match (requested.or_else(named), exposed.as_slice()) {
        (Some(port), _) | (None, &[port]) => port,
        (None, []) => {
            return Err(Fault::missing(
                "no port of it is known: it publishes and exposes none, and its command line has no `--port`",
                "say which one its engine listens on, `--port 8000`, or publish it: `docker run --publish 127.0.0.1:8000:8000 …`",
            ));
        }
        (None, ports) => {
            return Err(Fault::usage(format!("it publishes no port and exposes {ports:?}")).hint(CHOOSE_PORT));
        }
    };
    let networks = settings.networks.unwrap_or_default();
    let ip = networks
        .values()
        .find_map(|network| network.ip_address.as_ref()?.parse::<IpAddr>().ok());
    match ip {
        Some(ip) => Ok(format!("http://{}", SocketAddr::new(ip, port))),
        // With host networking, the server listens on this machine.
        None if networks.contains_key("host") => Ok(format!("http://127.0.0.1:{port}")),
        None => Err(Fault::missing(
            "it has no IP address: no network reaches it",
            "publish its port: `docker run --publish 127.0.0.1:8000:8000 …`",
        )),
    }
}

/// The hint if a container has several ports.
const CHOOSE_PORT: &str = "choose one: `--port 8000`";

/// The address on this machine where a port is published.
fn published_address(binding: &PortBinding) -> Option<SocketAddr> {
    let port = binding.host_port.as_ref()?.parse().ok()?;
    // A daemon may report an empty address for all interfaces.
    let ip = match binding.host_ip.as_deref().filter(|ip| !ip.is_empty()) {
        Some(ip) => ip.parse().ok()?,
        None => IpAddr::from(Ipv4Addr::UNSPECIFIED),
    };
    let here = Some(IpAddr::from(Ipv4Addr::LOCALHOST)).filter(|_| ip.is_unspecified());
    Some(SocketAddr::new(here.unwrap_or(ip), port))
}

/// Image, command line, environment (without secrets) and model, for the manifest.
fn describe(name: &str, url: &str, inspected: &ContainerInspectResponse) -> serde_json::Value {
    let config = inspected.config.clone().unwrap_or_default();
    let env = config.env.unwrap_or_default();
    let command = command_of(inspected);
    json!({
        "runtime": "attach",
        "container": name,
        "id": inspected.id,
        "url": url,
        "image": config.image,
        "digest": inspected.image,
        "command": hide_words(&command),
        "env": hide_variables(variables(inspected)),
        "model": model_name(&command, &env).map(|name| json!({ "name": name })),
    })
}

/// The environment of a container.
fn variables(inspected: &ContainerInspectResponse) -> BTreeMap<&str, &str> {
    let env = inspected.config.as_ref().and_then(|config| config.env.as_ref());
    env.into_iter()
        .flatten()
        .filter_map(|entry| entry.split_once('='))
        .collect()
}

/// Program and arguments of a container.
fn command_of(inspected: &ContainerInspectResponse) -> Vec<String> {
    let words = inspected.path.iter().chain(inspected.args.iter().flatten());
    words.cloned().collect()
}

/// The value of an option on a command line: `--port 80` or `--port=80`.
fn option_value<'a>(command: &'a [String], option: &str) -> Option<&'a str> {
    let mut words = command.iter().enumerate();
    words.find_map(|(at, word)| match word.split_once('=') {
        Some((name, value)) if name == option => Some(value),
        _ if word == option => command.get(at + 1).map(String::as_str),
        _ => None,
    })
}

/// Options that name the model, for all engines. Long options come first: in `python -m`, `-m` names a module.
const OPTIONS: &str = "--model --model-path --model-id --model_path --hf-repo -m";
/// Commands followed by the model.
const COMMANDS: [&str; 2] = ["serve", "trtllm-serve"];
/// Variables that name the model.
const VARIABLES: &str = "MODEL_ID MODEL_PATH MODEL LLAMA_ARG_MODEL LLAMA_ARG_HF_REPO";

/// The model named in a command line or environment (`NAME=value`): a hub id, or a path inside the container.
fn model_name<'a>(command: &'a [String], env: &'a [String]) -> Option<&'a str> {
    let positional = || {
        let is_command = |word: &String| COMMANDS.contains(&word.rsplit('/').next().unwrap_or(word));
        let mut after = command.iter().skip_while(|word| !is_command(word)).skip(1);
        after.find(|word| !word.starts_with('-')).map(String::as_str)
    };
    let variable = |name: &str| env.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('='));
    let named = OPTIONS
        .split(' ')
        .find_map(|option| option_value(command, option))
        .or_else(positional);
    named
        .filter(|name| !name.is_empty())
        .or_else(|| VARIABLES.split(' ').find_map(variable))
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
    fn a_port_is_asked_where_it_is_published() {
        for (ip, url) in [
            ("", "http://127.0.0.1:7"),
            ("::", "http://127.0.0.1:7"),
            ("192.0.2.1", "http://192.0.2.1:7"),
            ("::1", "http://[::1]:7"),
        ] {
            let text =
                format!(r#"{{"NetworkSettings": {{"Ports": {{"80/tcp": [{{"HostIp": "{ip}", "HostPort": "7"}}]}}}}}}"#);
            assert_eq!(address(&inspected(&text), None).unwrap(), url);
        }
    }

    #[test]
    fn a_port_that_nothing_publishes_is_that_of_the_command_line() {
        let networks = r#""NetworkSettings": {"Networks": {"bridge": {"IPAddress": "172.17.0.2"}}}"#;
        let served = |args: &str| {
            address(
                &inspected(&format!(r#"{{"Path": "vllm", "Args": {args}, {networks}}}"#)),
                None,
            )
        };
        assert_eq!(
            served(r#"["serve", "m", "--port=80"]"#).unwrap(),
            "http://172.17.0.2:80"
        );
        assert_eq!(
            served(r#"["serve", "m", "--port", "81"]"#).unwrap(),
            "http://172.17.0.2:81"
        );
        let fault = served(r#"["serve", "m"]"#).unwrap_err();
        assert!(fault.hint.unwrap().contains("--port 8000"), "{}", fault.message);
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
            assert_eq!(model_name(&command(line), &[env.to_owned()]), Some(name), "{line}");
        }
        assert_eq!(model_name(&command("nginx -g daemon"), &[]), None);
    }
}
