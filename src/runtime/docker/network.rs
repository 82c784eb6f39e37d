//! An isolated network for a container without network permission, which can reach neither other containers nor the
//! outside. The engine is then reached at the container's own address.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use bollard::Docker;
use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};
use procfs::net::TcpState;

use super::container::remove_network;
use super::daemon::{self, DockerInfo};
use crate::fault::Result;
use crate::run::Run;
use crate::warning::Warning;

/// From the range for network benchmarks (RFC 2544), which is not routed.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// Networks of 8 addresses in the lower half of that range.
const NETWORKS: u64 = 4096;
/// Attempts with another network if one is taken.
const NETWORK_ATTEMPTS: usize = 8;

/// Texts with which daemons say that a subnet is taken.
const TAKEN: [&str; 3] = ["overlaps", "already used", "already being used"];

/// An isolated network.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnNetwork {
    /// The container's address in it.
    pub(super) address: Ipv4Addr,
    gateway: Ipv4Addr,
}

impl OwnNetwork {
    /// Creates the network of a container; `None` if the daemon's networks cannot be reached from this machine.
    pub(super) async fn create(
        docker: &Docker,
        daemon: &DockerInfo,
        name: &str,
        labels: &HashMap<String, String>,
        run: &Run,
    ) -> Result<Option<Self>> {
        if daemon.rootless {
            warn_unreachable(daemon, run)?;
            return Ok(None);
        }
        let mut attempt = 1;
        let first = loop {
            let number = RandomState::new().hash_one(attempt) % NETWORKS;
            let first = u32::from(FIRST) + 8 * number as u32;
            let error = match docker
                .create_network(network_request(name, labels.clone(), first))
                .await
            {
                Ok(_) => break first,
                Err(error) => error,
            };
            let text = error.to_string();
            if attempt == NETWORK_ATTEMPTS || !TAKEN.iter().any(|sign| text.contains(sign)) {
                let fault = daemon::explain(error).while_doing("cannot give the container a network of its own");
                return Err(fault.hint("`--allow net=HOST` gives it the usual network, with a way out"));
            }
            attempt += 1;
        };
        let own = Self {
            address: Ipv4Addr::from(first + 2),
            gateway: Ipv4Addr::from(first + 1),
        };
        // Podman makes the bridge when a container starts.
        if !daemon.podman && !own.is_here() {
            remove_network(docker, name).await?;
            warn_unreachable(daemon, run)?;
            return Ok(None);
        }
        own.warn_of_services(daemon, run)?;
        Ok(Some(own))
    }

    /// Whether the network's bridge is on this machine, so that its addresses can be reached.
    pub(super) fn is_here(self) -> bool {
        TcpListener::bind((self.gateway, 0)).is_ok()
    }

    fn warn_of_services(self, daemon: &DockerInfo, run: &Run) -> Result<()> {
        let ports = open_ports(self.gateway);
        if !ports.is_empty() {
            let message = format!(
                "{} cannot keep the container from what listens on every address of this machine (ports {}): let that listen on 127.0.0.1, or block {FIRST}/17 in the firewall",
                daemon.name(),
                ports.join(", ")
            );
            run.warn(Warning::new("container_network", message))?;
        }
        if daemon.podman {
            let message = "podman's own name server answers the container, so it can look up names of other machines, though it reaches none of them";
            run.warn(Warning::new("container_names", message))?;
        }
        Ok(())
    }
}

/// Warns that a container gets the usual network, because its own could not be reached.
pub(super) fn warn_unreachable(daemon: &DockerInfo, run: &Run) -> Result<()> {
    let message = format!(
        "this {} runs in a network of its own, as it does without root's rights or in a virtual machine: containers are not kept from the network",
        daemon.name()
    );
    run.warn(Warning::new("container_network", message))
}

fn network_request(name: &str, labels: HashMap<String, String>, first: u32) -> NetworkCreateRequest {
    let address = |number: u32| Ipv4Addr::from(first + number).to_string();
    let config = IpamConfig {
        subnet: Some(format!("{}/29", address(0))),
        gateway: Some(address(1)),
        // An address that nobody has: before version 27, internal networks also have a default route, which leads to
        // all addresses of this machine.
        auxiliary_addresses: Some([("DefaultGatewayIPv4".to_owned(), address(6))].into()),
        ..IpamConfig::default()
    };
    NetworkCreateRequest {
        name: name.to_owned(),
        driver: Some("bridge".to_owned()),
        internal: Some(true),
        ipam: Some(Ipam {
            config: Some(vec![config]),
            ..Ipam::default()
        }),
        labels: Some(labels),
        ..NetworkCreateRequest::default()
    }
}

/// Ports of this machine on which a container would get an answer.
fn open_ports(gateway: Ipv4Addr) -> Vec<String> {
    let tables = [procfs::net::tcp(), procfs::net::tcp6()];
    let listening = tables.into_iter().flatten().flatten();
    let mut ports: Vec<u16> = listening
        .filter(|entry| entry.state == TcpState::Listen)
        .map(|entry| entry.local_address)
        .filter(|address| address.ip().is_unspecified() || address.ip() == gateway)
        .map(|address| address.port())
        .collect();
    ports.sort_unstable();
    ports.dedup();
    ports.iter().map(u16::to_string).collect()
}
