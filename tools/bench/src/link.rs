//! Two network namespaces joined by a veth pair: the wire of the measurements.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::AsFd;
use std::process::Command;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::netns::NetNs;
use uroce_testbed::packages;
use uroce_testbed::process::{command, run, stdout_of};

use crate::placement::two_processors;

/// Address of the end where clients run.
pub const NEAR: &str = "10.78.0.1";
/// Address of the end where servers run.
pub const FAR: &str = "10.78.0.2";
/// Name of the network interface of each end.
pub const DEVICE: &str = "veth0";

/// An end of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkEnd {
    /// Where clients run: [`NEAR`].
    Near,
    /// Where servers run: [`FAR`].
    Far,
}

impl LinkEnd {
    /// The opposite one.
    pub fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }

    /// Its address.
    pub fn ipv4(self) -> Ipv4Addr {
        Ipv4Addr::new(10, 78, 0, if self == Self::Near { 1 } else { 2 })
    }

    /// The same.
    pub fn address(self) -> IpAddr {
        self.ipv4().into()
    }
}

/// The wire with its two ends; removed on drop, ctrl-c and panic.
#[derive(Debug)]
pub struct Link {
    near: NetNs,
    far: NetNs,
    /// Each end keeps to a processor of its own.
    apart: bool,
}

impl Link {
    /// A wire that carries IP packets of up to `mtu` bytes, with the kernel's offloads as they are by default.
    ///
    /// # Errors
    /// Not root, or the kernel has no veth.
    pub fn create(mtu: u32) -> Result<Self> {
        let (near, far) = (NetNs::create("bench")?, NetNs::create("bench")?);
        let link = Self { near, far, apart: false };
        run(command(["ip", "link", "add", DEVICE, "mtu"]).arg(mtu.to_string()).args([
            "netns",
            link.near.name(),
            "type",
            "veth",
            "peer",
            "name",
            DEVICE,
            "mtu",
            &mtu.to_string(),
            "netns",
            link.far.name(),
        ]))?;
        for (end, address) in [(&link.near, NEAR), (&link.far, FAR)] {
            end.ip(&format!("addr add {address}/24 dev {DEVICE}"))?;
            end.ip(&format!("link set {DEVICE} up"))?;
        }
        Ok(link)
    }

    /// Programs of each end keep to a processor of their own from now on: two ends that spin on the
    /// same one would wait for the scheduler, not for each other.
    pub fn keep_apart(self) -> Self {
        Self { apart: true, ..self }
    }

    fn namespace(&self, end: LinkEnd) -> &NetNs {
        match end {
            LinkEnd::Near => &self.near,
            LinkEnd::Far => &self.far,
        }
    }

    /// Moves this thread into the network namespace of an end, for good.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enter(&self, end: LinkEnd) -> Result<()> {
        let path = format!("/run/netns/{}", self.namespace(end).name());
        let file = File::open(&path).context(|| format!("no namespace {path}"))?;
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .context(|| format!("cannot enter {path}"))
    }

    /// Hardware address of the interface of an end.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn hardware_address(&self, end: LinkEnd) -> Result<[u8; 6]> {
        let file = format!("/sys/class/net/{DEVICE}/address");
        let text = stdout_of(&mut self.namespace(end).command(&["cat", &file]))?;
        let bytes = text.trim().split(':').map(|two| u8::from_str_radix(two, 16).ok());
        let bytes: Option<Vec<u8>> = bytes.collect();
        let found = bytes.and_then(|bytes| bytes.try_into().ok());
        found.ok_or_else(|| Error::new(format!("{file} has no hardware address: {text}")))
    }

    /// A command at the client's end.
    pub fn near(&self, words: &[String]) -> Command {
        self.near.command(&self.kept(0, words))
    }

    /// A command at the server's end.
    pub fn far(&self, words: &[String]) -> Command {
        self.far.command(&self.kept(1, words))
    }

    /// `words` behind what keeps them on the processor of an end.
    fn kept(&self, end: usize, words: &[String]) -> Vec<String> {
        let mut all = Vec::new();
        if let Some(processors) = two_processors().filter(|_| self.apart) {
            all.extend(["taskset".to_owned(), "-c".to_owned(), processors[end].to_string()]);
        }
        all.extend_from_slice(words);
        all
    }

    /// True when a server waits for TCP connections at `port`.
    pub fn serves(&self, port: u16) -> bool {
        self.far.listens(port)
    }

    /// TCP leaves as packets of one segment each, so that what is lost is one packet.
    ///
    /// # Errors
    /// ethtool is missing, or the kernel refuses.
    pub fn send_single_packets(&self) -> Result<()> {
        packages::ensure(&["ethtool"])?;
        let words = ["ethtool", "-K", DEVICE, "tso", "off", "gso", "off"];
        [&self.near, &self.far].into_iter().try_for_each(|end| run(&mut end.command(&words)))
    }

    /// What arrives at the server's end is dropped at random: `share` of all that the kernel handles
    /// as one packet.
    ///
    /// # Errors
    /// The kernel has no classifier with classic BPF programs.
    pub fn lose(&self, share: f64) -> Result<()> {
        // Without one there is an error, and nothing to remove.
        let _ = self.far.tc(&["qdisc", "del", "dev", DEVICE, "clsact"]);
        self.far.tc(&["qdisc", "add", "dev", DEVICE, "clsact"])?;
        if share == 0.0 {
            return Ok(());
        }
        let program = dropper(share);
        self.far.tc(&[
            "filter",
            "add",
            "dev",
            DEVICE,
            "ingress",
            "bpf",
            "bytecode",
            &program,
            "direct-action",
        ])
    }
}

/// A classic BPF program for `tc`: loads a random word and returns TC_ACT_SHOT (2) for `share` of
/// all of them, else TC_ACT_UNSPEC.
fn dropper(share: f64) -> String {
    // The extension SKF_AD_RANDOM at SKF_AD_OFF; see the kernel's networking/filter document.
    const RANDOM: u32 = (-0x1000_i32 + 56) as u32;
    let limit = (share * f64::from(u32::MAX)) as u32;
    let load = format!("32 0 0 {RANDOM}");
    let jump_if_greater = format!("37 0 1 {limit}");
    format!("4,{load},{jump_if_greater},6 0 0 {},6 0 0 2", u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_is_a_hundredth_of_all_words() {
        assert_eq!(dropper(0.01), "4,32 0 0 4294963256,37 0 1 42949672,6 0 0 4294967295,6 0 0 2");
    }
}
