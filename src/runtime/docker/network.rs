//! The network of one container that is to reach nothing: no way out and no other container. The engine is asked at the container's own address.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::net::{Ipv4Addr, TcpListener};

use bollard::Docker;
use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};
use procfs::net::TcpState;

use super::daemon;
use crate::fault::Result;
use crate::run::Run;
use crate::warning::Warning;

/// Taken from the range for benchmarks of networks (RFC 2544), which is routed nowhere.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// Networks of 8 addresses in the lower half of that range.
const NETWORKS: u64 = 4096;
/// Attempts with another network if one is taken.
const ATTEMPTS: usize = 8;

/// Creates the network and returns the container's address in it. None where networks of the daemon cannot be reached
/// from here.
pub(super) async fn create(
    docker: &Docker,
    name: &str,
    labels: HashMap<String, String>,
    run: &Run,
) -> Result<Option<Ipv4Addr>> {
    let mut attempt = 1;
    let first = loop {
        let number = RandomState::new().hash_one(attempt) % NETWORKS;
        let first = u32::from(FIRST) + 8 * number as u32;
        match docker.create_network(request(name, labels.clone(), first)).await {
            Ok(_) => break first,
            Err(error) if attempt < ATTEMPTS && error.to_string().contains("overlaps") => attempt += 1,
            Err(error) => {
                let fault = daemon::explain(&error).while_doing("cannot give the container a network of its own");
                return Err(fault.hint("`--allow net=HOST` gives it the usual network, with a way out"));
            }
        }
    };
    let gateway = Ipv4Addr::from(first + 1);
    if TcpListener::bind((gateway, 0)).is_err() {
        remove(docker, name).await?;
        let message = "this Docker runs in a network of its own, as rootless Docker and Docker Desktop do: containers are not kept from the network";
        run.warn(Warning::new("container_network", message))?;
        return Ok(None);
    }
    let ports = open_ports(gateway);
    if !ports.is_empty() {
        let message = format!(
            "Docker cannot keep the container from what listens on every address of this machine (ports {}): let that listen on 127.0.0.1, or block {FIRST}/17 in the firewall",
            ports.join(", ")
        );
        run.warn(Warning::new("container_network", message))?;
    }
    Ok(Some(Ipv4Addr::from(first + 2)))
}

fn request(name: &str, labels: HashMap<String, String>, first: u32) -> NetworkCreateRequest {
    let address = |number: u32| Ipv4Addr::from(first + number).to_string();
    let config = IpamConfig {
        subnet: Some(format!("{}/29", address(0))),
        gateway: Some(address(1)),
        // Nobody: before version 27 an internal network has a default route too, which leads to all addresses of this machine.
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

/// Removes a network if there is one.
pub(super) async fn remove(docker: &Docker, name: &str) -> Result<()> {
    match docker.remove_network(name).await {
        Ok(()) => Ok(()),
        Err(error) if daemon::status(&error) == Some(404) => Ok(()),
        Err(error) => Err(daemon::explain(&error)),
    }
}

/// Ports on which something of this machine answers a container.
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
