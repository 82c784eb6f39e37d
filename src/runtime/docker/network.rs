//! An isolated network for a container without network permission, which can reach neither other containers nor the
//! outside. The engine is then reached at the container's own address.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::net::{Ipv4Addr, TcpListener, UdpSocket};

use bollard::Docker;
use bollard::models::{Ipam, IpamConfig, NetworkCreateRequest};
use procfs::net::TcpState;

use super::container::remove_network;
use super::daemon::{self, DockerInfo};
use crate::fault::{Fault, Result};
use crate::run::Run;
use crate::warning::Warning;

/// From the range for network benchmarks (RFC 2544), which is not routed.
const FIRST: Ipv4Addr = Ipv4Addr::new(198, 19, 0, 0);
/// Networks of 8 addresses in a quarter of that range.
const NETWORKS: u32 = 4096;
/// The masks of a network, and of the whole range.
const MASK: u32 = u32::MAX << 3;
const RANGE_MASK: u32 = u32::MAX << 17;
/// Attempts with another network if one is taken.
const NETWORK_ATTEMPTS: usize = 8;

const WAY_OUT: &str = "`--allow net=HOST` gives it the usual network, with a way out";

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
    /// Creates the network of a container; `None` if the daemon's networks cannot be reached from this machine. Each
    /// `start` of a container gets another network.
    pub(super) async fn create(
        docker: &Docker,
        daemon: &DockerInfo,
        name: &str,
        labels: &HashMap<String, String>,
        start: usize,
        run: &Run,
    ) -> Result<Option<Self>> {
        if daemon.rootless {
            warn_unreachable(daemon, run)?;
            return Ok(None);
        }
        let routes = routes();
        let free = free(&routes);
        if free.is_empty() {
            return Err(none_is_free(&routes));
        }
        let hash = BuildHasherDefault::<DefaultHasher>::default();
        let mut attempt = 1;
        let first = loop {
            let number = hash.hash_one((name, start, attempt)) % free.len() as u64;
            let first = free[number as usize];
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
                return Err(fault.hint(WAY_OUT));
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

    /// Whether this machine sends what is for the container into the network's bridge.
    pub(super) fn is_reached(self) -> bool {
        // Connecting only looks up the route: the source is the bridge's address, or another interface's.
        let source = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
            socket.connect((self.address, 9))?;
            socket.local_addr()
        });
        source.is_ok_and(|source| source.ip() == self.gateway)
    }

    /// The fault of a network that is on this machine but not reached.
    pub(super) fn routed_elsewhere(self) -> Fault {
        let address = self.address;
        Fault::missing(
            format!(
                "this machine sends what is for the container's own network ({address}) elsewhere, as by a VPN's rule"
            ),
            format!("see `ip route get {address}` and `ip rule`, and leave {FIRST}/17 out; {WAY_OUT}"),
        )
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

/// A route of this machine: its first address, its mask, and its interface.
type Route = (u32, u32, String);

/// The routes that lead into the range. One that is wider, such as the default or half of a VPN's, is not about it, and
/// any network in the range is narrower.
fn routes() -> Vec<Route> {
    let all = procfs::net::route().unwrap_or_default().into_iter();
    let routes = all.map(|route| (route.destination.into(), route.mask.into(), route.iface));
    routes
        .filter(|(first, mask, _)| *mask >= RANGE_MASK && (first ^ u32::from(FIRST)) & RANGE_MASK == 0)
        .collect()
}

/// The first addresses of the networks without a route; if all have one, of those narrower than each of their routes,
/// because the kernel prefers the narrower.
fn free(routes: &[Route]) -> Vec<u32> {
    let outside = |narrowest: u32| -> Vec<u32> {
        let is_on = |first: u32, route: &Route| (first ^ route.0) & route.1 & MASK == 0;
        (0..NETWORKS)
            .map(|number| u32::from(FIRST) + 8 * number)
            .filter(|first| !routes.iter().any(|route| route.1 >= narrowest && is_on(*first, route)))
            .collect()
    };
    let free = outside(RANGE_MASK);
    if free.is_empty() { outside(MASK) } else { free }
}

fn none_is_free(routes: &[Route]) -> Fault {
    let shown = |(first, mask, interface): &Route| {
        format!("{}/{} by `{interface}`", Ipv4Addr::from(*first), mask.leading_ones())
    };
    let shown: Vec<String> = routes.iter().take(3).map(shown).collect();
    Fault::missing(
        format!(
            "no address range is free for the container's network: this machine has routes to all of {FIRST}/17 ({}, …)",
            shown.join(", ")
        ),
        format!("remove what is left of other programs' networks (`ip route`); {WAY_OUT}"),
    )
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

#[cfg(test)]
mod tests {
    use super::*;

    fn free_beside(routes: &[(&str, u32)]) -> Vec<u32> {
        let route = |(first, length): &(&str, u32)| {
            let first = first.parse::<Ipv4Addr>().unwrap().into();
            (first, u32::MAX << (32 - length), "eth0".to_owned())
        };
        free(&routes.iter().map(route).collect::<Vec<Route>>())
    }

    #[test]
    fn a_network_is_none_of_this_machines_and_narrower_where_all_are() {
        let first = |address: &str| u32::from(address.parse::<Ipv4Addr>().unwrap());
        assert_eq!(free_beside(&[("198.19.1.8", 29)]).len(), 4095);
        assert_eq!(free_beside(&[("198.19.1.9", 32)]).len(), 4095);
        assert_eq!(free_beside(&[("198.19.64.0", 18)]).len(), 2048);
        // A wide one and one of the same width: all but that one are narrower.
        let free = free_beside(&[("198.18.0.0", 15), ("198.19.0.0", 29)]);
        assert_eq!((free.len(), free[0]), (4095, first("198.19.0.8")));
        // Free networks come before narrower ones.
        assert_eq!(
            free_beside(&[("198.19.0.0", 18), ("198.19.64.0", 19), ("198.19.96.0", 20)]).len(),
            512
        );
    }
}
