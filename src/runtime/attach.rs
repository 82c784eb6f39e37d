//! A server that runs already: a URL, or a container by its name. It is never stopped, and never entered without the user's word.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bollard::models::ContainerInspectResponse;
use bollard::query_parameters::InspectContainerOptions;
use serde_json::json;
use url::Url;

use super::docker::{self, Inside};
use super::service::{Body, Service};
use super::state::{Exit, State};
use super::{ExecOutput, LogBook, Permits, StartContext, redact};
use crate::fault::{Fault, Result};

/// What to attach to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Where it listens.
    Url(String),
    /// A container's name or id, and the port inside it where it publishes several.
    Container(String, Option<u16>),
}

/// A server that runs already.
#[derive(Debug)]
pub(super) struct Attached {
    container: Option<(String, Inside)>,
    permits: Permits,
}

/// Attaches to what runs already. A container's log is followed, its newest 1000 lines first.
///
/// # Errors
///
/// `not_allowed` for an address that is not this machine's, or a container, that the user neither named nor allowed; `usage` for what
/// is no URL, or a container that publishes several ports; `missing` for a container that is not there or does not run.
pub async fn attach(target: &Target, context: &StartContext) -> Result<Arc<Service>> {
    let name = context.services.next_name(&context.prefix);
    let service = match target {
        Target::Url(text) => to_url(text, &name, context)?,
        Target::Container(container, port) => to_container(container, *port, &name, context).await?,
    };
    Ok(context.services.enter(service))
}

fn to_url(text: &str, name: &str, context: &StartContext) -> Result<Service> {
    // What does not parse may still hold a password: it is not shown.
    let url = Url::parse(text)
        .map_err(|error| Fault::usage(format!("`url` is no URL: {error}")).hint("write `http://127.0.0.1:8000`"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(Fault::usage(format!(
            "`{}` is neither http nor https",
            redact::url(&url)
        )));
    }
    context.permits.check_url(&url)?;
    let logs = LogBook::default();
    logs.end();
    let info = json!({"runtime": "attach", "url": redact::url(&url)});
    let attached = Attached {
        container: None,
        permits: context.permits.clone(),
    };
    let base = url.as_str().trim_end_matches('/').to_owned();
    Ok(Service::new(name, Some(base), logs, info, Body::Attached(attached)))
}

async fn to_container(container: &str, port: Option<u16>, name: &str, context: &StartContext) -> Result<Service> {
    docker::check_name(container)?;
    context.permits.check_attach(container)?;
    let client = docker::connect().await?;
    let found = client
        .inspect_container(container, None::<InspectContainerOptions>)
        .await
        .map_err(|error| docker::explain(&error))?;
    let id = found.id.clone().unwrap_or_default();
    if !found.state.as_ref().and_then(|state| state.running).unwrap_or(false) {
        return Err(Fault::missing(
            format!("the container `{container}` does not run"),
            format!("start it with `docker start {container}`"),
        ));
    }
    let url = address(&found, port).map_err(|fault| fault.while_doing(format!("the container `{container}`")))?;
    let logs = LogBook::of(&context.run, name)?;
    docker::follow(&client, &id, "1000", logs.clone());
    let info = describe(container, &url, &found);
    let attached = Attached {
        container: Some((container.to_owned(), Inside::new(client, id))),
        permits: context.permits.clone(),
    };
    Ok(Service::new(name, Some(url), logs, info, Body::Attached(attached)))
}

/// A published port on this machine, else the container's own address in its network.
fn address(found: &ContainerInspectResponse, wanted: Option<u16>) -> Result<String> {
    let settings = found.network_settings.clone().unwrap_or_default();
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
        .filter(|(port, _)| wanted.is_none_or(|wanted| wanted == *port))
        .collect();
    match published.as_slice() {
        [(_, host)] => return Ok(format!("http://127.0.0.1:{host}")),
        [] => {}
        several => {
            let mut ports: Vec<u16> = several.iter().map(|(port, _)| *port).collect();
            ports.sort_unstable();
            return Err(Fault::usage(format!("it publishes several ports: {ports:?}")).hint("name the one with `port`"));
        }
    }
    let exposed = found
        .config
        .iter()
        .filter_map(|config| config.exposed_ports.as_ref())
        .flatten()
        .filter_map(|key| inside(key));
    let mut exposed: Vec<u16> = exposed.collect();
    exposed.sort_unstable();
    let port = match (wanted, exposed.as_slice()) {
        (Some(port), _) | (None, &[port]) => port,
        (None, ports) => {
            return Err(
                Fault::usage(format!("it publishes no port, and exposes {ports:?}")).hint("name the one with `port`")
            );
        }
    };
    let networks = settings.networks.unwrap_or_default();
    let ip = networks
        .values()
        .find_map(|network| network.ip_address.clone().filter(|ip| !ip.is_empty()));
    match ip {
        Some(ip) => Ok(format!("http://{ip}:{port}")),
        // In the host's network it listens on this machine itself.
        None if networks.contains_key("host") => Ok(format!("http://127.0.0.1:{port}")),
        None => Err(Fault::missing(
            "it has no address",
            "publish its port: `docker run --publish 127.0.0.1:8000:8000 …`",
        )),
    }
}

/// Image, launch line, environment (without secrets), model.
fn describe(name: &str, url: &str, found: &ContainerInspectResponse) -> serde_json::Value {
    let config = found.config.clone().unwrap_or_default();
    let env = config.env.unwrap_or_default();
    let words: Vec<String> = found.path.iter().chain(found.args.iter().flatten()).cloned().collect();
    let mounts: Vec<(String, String)> = found
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
        "id": found.id,
        "url": url,
        "image": config.image,
        "digest": found.image,
        "command": redact::words(&words),
        "env": shown,
        "model": docker::model(&words, &env, &mounts),
    })
}

impl Attached {
    pub(super) async fn state(&self) -> Result<State> {
        match &self.container {
            Some((_, inside)) => inside.state().await,
            None => Ok(State::Running),
        }
    }

    pub(super) async fn wait(&self) -> Result<Exit> {
        let Some((_, inside)) = &self.container else {
            return std::future::pending().await;
        };
        loop {
            if let State::Exited(exit) = inside.state().await? {
                return Ok(exit);
            }
            inside.wait().await;
        }
    }

    pub(super) async fn exec(&self, command: &[String]) -> Result<ExecOutput> {
        self.entered()?.exec(command).await
    }

    pub(super) async fn copy_in(&self, from: &Path, to: &str) -> Result<()> {
        self.entered()?.copy_in(from, to).await
    }

    pub(super) async fn copy_out(&self, from: &str, to: &Path) -> Result<()> {
        self.entered()?.copy_out(from, to).await
    }

    pub(super) async fn pids(&self) -> Result<Vec<u32>> {
        match &self.container {
            Some((_, inside)) => inside.pids().await,
            None => Ok(Vec::new()),
        }
    }

    pub(super) async fn cgroup(&self) -> Result<Option<PathBuf>> {
        match &self.container {
            Some((_, inside)) => inside.cgroup().await,
            None => Ok(None),
        }
    }

    /// The container, if the user allows going inside.
    pub(super) fn entered(&self) -> Result<&Inside> {
        let (name, inside) = self.container.as_ref().ok_or_else(|| {
            Fault::usage("a URL has no inside to reach into").hint("attach to the container by its name")
        })?;
        self.permits.check_exec(name)?;
        Ok(inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> ContainerInspectResponse {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_published_port_comes_before_the_containers_address() {
        let published = found(
            r#"{"NetworkSettings": {"Ports": {"8000/tcp": [{"HostIp": "0.0.0.0", "HostPort": "49153"}], "9000/tcp": null}}}"#,
        );
        assert_eq!(address(&published, None).unwrap(), "http://127.0.0.1:49153");
        let hidden = found(
            r#"{"Config": {"ExposedPorts": {"8000/tcp": {}}}, "NetworkSettings": {"Networks": {"bridge": {"IPAddress": "172.17.0.2"}}}}"#,
        );
        assert_eq!(address(&hidden, None).unwrap(), "http://172.17.0.2:8000");
    }

    #[test]
    fn which_of_several_ports_must_be_said() {
        let two =
            found(r#"{"NetworkSettings": {"Ports": {"80/tcp": [{"HostPort": "1"}], "81/tcp": [{"HostPort": "2"}]}}}"#);
        assert!(address(&two, None).unwrap_err().message.contains("[80, 81]"));
        assert_eq!(address(&two, Some(81)).unwrap(), "http://127.0.0.1:2");
    }

    #[test]
    fn what_is_described_holds_no_secret() {
        let text = describe(
            "tgi",
            "http://127.0.0.1:1",
            &found(r#"{"Path": "server", "Args": ["--api-key", "sk-1", "--model", "m"], "Config": {"Env": ["HF_TOKEN=hf_1", "A=b"]}}"#),
        )
        .to_string();
        assert!(
            !text.contains("sk-1") && !text.contains("hf_1") && text.contains(r#""A":"b""#),
            "{text}"
        );
    }
}
