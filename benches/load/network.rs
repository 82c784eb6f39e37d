//! A network of the bench's own: the firewall of a machine with containers looks at every packet, and would be measured with the clients.

use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};

/// Moves this process, and what it starts, to an empty network with a loopback, where it may. In words, what is measured then.
pub fn own() -> &'static str {
    let ip = |arguments: &[&str]| {
        let status = Command::new("ip").args(arguments).stdout(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !ip(&["-Version"]) || unshare(CloneFlags::CLONE_NEWNET).is_err() {
        return "the machine's own loopback, with its firewall";
    }
    assert!(ip(&["link", "set", "lo", "up"]), "a network without a loopback");
    "the loopback of an empty network"
}
