//! Where the programs run: in a network of their own, so that several runs at once, and whatever else
//! there is on this machine, do not get in each other's way.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

use uroce_testbed::error::Result;
use uroce_testbed::netns::{NetNs, has_listener};
use uroce_testbed::process::{self, command};

/// Name of the network interface for programs that look for one.
const INTERFACE: &str = "roce0";
/// Its other end.
const PEER: &str = "roce1";
/// The only address of that interface.
const ON_INTERFACE: &str = "10.47.91.3";
/// The only address of its other end.
const ON_PEER: &str = "10.47.91.4";
/// Large enough for every path MTU.
const MTU: u32 = 9000;

/// A place to run programs in.
#[derive(Debug)]
pub struct Stage {
    /// `None` without root; then the addresses are this process's own.
    network: Option<NetNs>,
    /// Address of the server.
    pub server: String,
    /// Address of the client.
    pub client: String,
    /// Address of programs that need one only; that of a network interface, if this is root.
    pub alone: String,
    /// The address of the other end, for programs of which two look for an interface.
    pub beside: String,
}

impl Stage {
    /// Makes the network, or finds addresses that no other run has.
    ///
    /// # Errors
    /// `ip` failed.
    pub fn set_up() -> Result<Stage> {
        if !process::is_root() {
            let [server, client, alone] = [1, 2, 3].map(|last| address(std::process::id(), last));
            let beside = client.clone();
            return Ok(Stage { network: None, server, client, alone, beside });
        }
        let network = NetNs::create("programs")?;
        // It is up when both ends are.
        network.ip(&format!("link add {INTERFACE} mtu {MTU} type veth peer name {PEER}"))?;
        network.ip(&format!("link set {PEER} mtu {MTU} up"))?;
        network.ip(&format!("address add {ON_INTERFACE}/24 dev {INTERFACE}"))?;
        network.ip(&format!("address add {ON_PEER}/24 dev {PEER}"))?;
        network.ip(&format!("link set {INTERFACE} up"))?;
        let [server, client] = ["127.47.91.1", "127.47.91.2"].map(str::to_owned);
        let [alone, beside] = [ON_INTERFACE, ON_PEER].map(str::to_owned);
        Ok(Stage { network: Some(network), server, client, alone, beside })
    }

    /// True if `alone` is the address of a network interface, which has no other.
    pub fn has_interface(&self) -> bool {
        self.network.is_some()
    }

    /// A command that runs here with all privileges that this process has.
    pub fn command_as_root(&self, words: &[&str]) -> Command {
        match &self.network {
            Some(network) => network.command(words),
            None => command(words),
        }
    }

    /// A command that runs here as a user without privileges.
    pub fn command(&self, words: &[&str]) -> Command {
        match &self.network {
            Some(network) => network.command_as_nobody(&[], words),
            None => command(words),
        }
    }
}

/// One of four loopback addresses that belong to a process: they differ as long as process ids differ
/// in their last 20 bits.
fn address(process: u32, last: u8) -> String {
    let bits = (process & 0xf_ffff) << 2 | u32::from(last & 3);
    // The upper half of 127.0.0.0/8 has 22 free bits when two more say that it is ours.
    Ipv4Addr::from(0x7f80_0000 | bits).to_string()
}

/// Whether a program listens on this TCP port in the network of the process. To connect and see would
/// confuse the server.
pub fn is_listening(process: u32, port: u16) -> bool {
    ["tcp", "tcp6"].into_iter().any(|name| has_listener(&table(process, name), port))
}

fn table(process: u32, name: &str) -> String {
    let path = format!("/proc/{process}/net/{name}");
    fs::read_to_string(Path::new(&path)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_listener_is_seen() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        assert!(is_listening(std::process::id(), port));
        drop(listener);
        assert!(!is_listening(std::process::id(), port));
    }

    #[test]
    fn each_process_has_addresses_of_its_own() {
        let mut all: Vec<_> =
            [7, 8, 4_194_303].into_iter().flat_map(|p| [1, 2, 3].map(|n| address(p, n))).collect();
        assert!(all.iter().all(|one| one.starts_with("127.")));
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 9);
        assert_eq!(address(7, 1), "127.128.0.29");
    }
}
