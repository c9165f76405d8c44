//! Which datapath a device is opened on.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;
use uroce_datapath::LoopbackFabric;
use uroce_xdp::XdpMode;

/// How packets travel.
///
/// As text (`--datapath`, [`FromStr`]) it is one of [`DatapathChoice::NAMES`].
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum DatapathChoice {
    /// The service that holds the port of the address if one does ([`Served`](Self::Served)); otherwise UDP sockets: the
    /// datapath that works for every user, beside other processes and behind the host's firewall.
    /// The others are used when they are named; `Device::datapath_choice_note` says why.
    #[default]
    Auto,
    /// Ordinary UDP sockets; no privilege needed.
    Udp,
    /// The same sockets by io_uring; needs Linux 6.0 and no privilege.
    Uring,
    /// AF_PACKET sockets, past the kernel's UDP and the host's firewall; needs CAP_NET_RAW.
    Packet,
    /// AF_XDP: the shortest way for small packets. Needs root or capabilities, and the XDP hook of the
    /// interface.
    Xdp(XdpMode),
    /// The service that holds the address's port for processes of all users (`uroce serve`, docs/serve.md); needs no
    /// privilege.
    Served,
    /// A switch inside this process; the address need not exist on the machine.
    Loopback(LoopbackFabric),
}

impl DatapathChoice {
    /// Every name that [`FromStr`] takes.
    pub const NAMES: &[&str] = &[
        "auto",
        "udp",
        "uring",
        "packet",
        "xdp",
        "xdp-zero-copy",
        "xdp-native",
        "xdp-generic",
        "served",
        "loopback",
    ];

    /// Its name, one of [`DatapathChoice::NAMES`].
    pub fn name(&self) -> &'static str {
        match self {
            DatapathChoice::Auto => "auto",
            DatapathChoice::Udp => "udp",
            DatapathChoice::Uring => "uring",
            DatapathChoice::Packet => "packet",
            DatapathChoice::Xdp(XdpMode::ZeroCopy) => "xdp-zero-copy",
            DatapathChoice::Xdp(XdpMode::Native) => "xdp-native",
            DatapathChoice::Xdp(XdpMode::Generic) => "xdp-generic",
            DatapathChoice::Xdp(_) => "xdp",
            DatapathChoice::Served => "served",
            DatapathChoice::Loopback(_) => "loopback",
        }
    }
}

impl fmt::Display for DatapathChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no datapath has.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("there is no datapath {0:?}: choose one of {names}", names = DatapathChoice::NAMES.join(", "))]
pub struct UnknownDatapath(String);

impl FromStr for DatapathChoice {
    type Err = UnknownDatapath;

    /// `loopback` makes a new switch; clones of the value share it.
    fn from_str(name: &str) -> Result<Self, UnknownDatapath> {
        match name {
            "auto" => Ok(DatapathChoice::Auto),
            "udp" => Ok(DatapathChoice::Udp),
            "uring" => Ok(DatapathChoice::Uring),
            "packet" => Ok(DatapathChoice::Packet),
            "xdp" => Ok(DatapathChoice::Xdp(XdpMode::Auto)),
            "xdp-zero-copy" => Ok(DatapathChoice::Xdp(XdpMode::ZeroCopy)),
            "xdp-native" => Ok(DatapathChoice::Xdp(XdpMode::Native)),
            "xdp-generic" => Ok(DatapathChoice::Xdp(XdpMode::Generic)),
            "served" => Ok(DatapathChoice::Served),
            "loopback" => Ok(DatapathChoice::Loopback(LoopbackFabric::new())),
            other => Err(UnknownDatapath(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_it_is_shown() {
        for name in DatapathChoice::NAMES {
            let choice: DatapathChoice = name.parse().expect("a listed name");
            assert_eq!(choice.to_string(), *name);
        }
        assert_eq!(DatapathChoice::default().name(), "auto");
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = "dpdk".parse::<DatapathChoice>().expect_err("no such datapath");
        assert_eq!(
            error.to_string(),
            r#"there is no datapath "dpdk": choose one of auto, udp, uring, packet, xdp, xdp-zero-copy, xdp-native, xdp-generic, served, loopback"#
        );
    }
}
