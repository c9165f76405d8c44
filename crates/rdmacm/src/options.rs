//! What a program can set for an id.

use std::net::IpAddr;

/// Whether IPv6 sockets take IPv4 as well, unless they say.
const BINDV6ONLY: &str = "/proc/sys/net/ipv6/bindv6only";

/// What a program has set for an id.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) tos: u8,
    pub(crate) reuse: bool,
    pub(crate) only_family: Option<bool>,
    /// ACK timeout (code).
    pub(crate) ack_timeout: Option<u8>,
    /// Lifetime of packets (code) on the path that the program gave.
    pub(crate) packet_lifetime: Option<u8>,
}

impl Options {
    /// Traffic class of the packets of a connection.
    pub(crate) fn traffic_class(&self) -> u8 {
        self.tos
    }

    /// An id that is bound to this address, if it stands for any, takes calls of its own family only.
    pub(crate) fn only_family(&self, address: IpAddr) -> bool {
        address.is_ipv4() || self.only_family.unwrap_or_else(system_only_family)
    }
}

fn system_only_family() -> bool {
    std::fs::read_to_string(BINDV6ONLY).is_ok_and(|text| text.trim() == "1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_ipv4_takes_no_requests_of_ipv6() {
        let v4 = IpAddr::from([0, 0, 0, 0]);
        let v6 = IpAddr::from([0u16; 8]);
        for only_family in [None, Some(false), Some(true)] {
            let options = Options { only_family, ..Options::default() };
            assert!(options.only_family(v4));
            assert_eq!(options.only_family(v6), only_family.unwrap_or_else(system_only_family));
        }
        assert_eq!(Options { tos: 0x68, ..Options::default() }.traffic_class(), 0x68);
    }
}
