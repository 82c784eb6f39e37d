//! Attaching to a running server: a URL, or a container by name. Attached servers are never stopped; commands run
//! inside an attached container only with permission.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;
use serde_json::json;
use url::Url;

use super::docker::{self, ContainerClient};
use super::service::{Backend, Service};
use super::state::{Exit, State};
use super::{ExecOutput, Permits, ServerLog, StartContext, redact};
use crate::fault::{Fault, Result};

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

/// Attaches to a running server. A container's log is followed, starting with its newest 1000 lines. ||
/// # Errors
///
/// `not_allowed` for a remote address or a container that the user neither named nor allowed; `usage` for an invalid
/// URL, or a container that publishes several ports; `missing` for a container that does not exist or is not running.
pub async fn attach(target: &Target, context: &StartContext) -> Result<Arc<Service>> {
    let name = context.services.next_name(&context.prefix);
    let service = match target {
        Target::Url(text) => attach_url(text, &name, context)?,
        Target::Container(container, port) => attach_container(container, *port, &name, context).await?,
    };
    Ok(context.services.register(service))
}

fn attach_url(text: &str, name: &str, context: &StartContext) -> Result<Service> {
    // Text that does not parse may still contain a password, so it is not shown.
    let url = Url::parse(text).map_err(|error| {
        Fault::usage(format!("`url` is not a valid URL: {error}")).hint("write `http://127.0.0.1:8000`")
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::usage(format!(
            "`{}` is neither http nor https",
            redact::url(&url)
        )));
    }
    context.permits.check_url(&url)?;
    let logs = ServerLog::default();
    logs.end();
    let info = json!({"runtime": "attach", "url": redact::url(&url)});
    let attached = Attached {
        container: None,
        permits: context.permits.clone(),
    };
    let base = url.as_str().trim_end_matches('/').to_owned();
    Ok(Service::new(name, Some(base), logs, info, Backend::Attached(attached)))
}

async fn attach_container(container: &str, port: Option<u16>, name: &str, context: &StartContext) -> Result<Service> {
    docker::check_name(container)?;
    context.permits.check_attach(container)?;
    let client = docker::connect().await?;
    let inspected = client
        .inspect_container(container, None::<InspectContainerOptions>)
        .await
        .map_err(|error| docker::explain(&error))?;
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
    let logs = ServerLog::create(&context.run, name)?;
    docker::follow(&client, &id, "1000", logs.clone());
    let info = describe(container, &url, &inspected);
    let attached = Attached {
        container: Some((container.to_owned(), ContainerClient::new(client, id))),
        permits: context.permits.clone(),
    };
    Ok(Service::new(name, Some(url), logs, info, Backend::Attached(attached)))
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
        "model": docker::model(&command, &env, &mounts),
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

    pub(super) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        self.allowed_container()?.exec(command).await
    }

    pub(super) async fn copy_in(&self, from: &Path, to: &str) -> Result<()> {
        self.allowed_container()?.copy_in(from, to).await
    }

    pub(super) async fn copy_out(&self, from: &str, to: &Path) -> Result<()> {
        self.allowed_container()?.copy_out(from, to).await
    }

    pub(super) async fn pids(&self) -> Result<Vec<u32>> {
        match &self.container {
            Some((_, client)) => client.pids().await,
            None => Ok(Vec::new()),
        }
    }

    pub(super) async fn cgroup(&self) -> Result<Option<PathBuf>> {
        match &self.container {
            Some((_, client)) => client.cgroup().await,
            None => Ok(None),
        }
    }

    /// The container, if the user allows running commands in it.
    pub(super) fn allowed_container(&self) -> Result<&ContainerClient> {
        let (name, client) = self.container.as_ref().ok_or_else(|| {
            Fault::usage("`exec` and copying files need a container, not a URL")
                .hint("attach to the container by its name")
        })?;
        self.permits.check_exec(name)?;
        Ok(client)
    }
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
}
