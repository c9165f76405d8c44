//! GIDs and the GUID of a device.

use std::net::IpAddr;

use uroce_wire::Gid;

use crate::interface::Interface;
use crate::limits::GID_TABLE_LEN;

/// The GID at `index`: entries 0 and 1 are both the device's address, RoCE v2, so that the
/// `-g 0` and `-g 1` of existing instructions both work. The kernel would put a link-local GID at
/// index 0, which is the most reported cause of failing connections (docs/wire.md).
pub(crate) fn gid_at(address: IpAddr, index: u32) -> Option<Gid> {
    (index < GID_TABLE_LEN).then(|| Gid::from_ip(address))
}

/// The EUI-64 of the interface's MAC address. An interface without one (loopback, fabric) gets a
/// locally administered identity made of the address, so that two devices never share a GUID.
pub(crate) fn guid_of(interface: &Interface) -> u64 {
    let mac = if interface.mac == [0; 6] { mac_from(interface.address) } else { interface.mac };
    let [a, b, c, d, e, f] = mac;
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

fn mac_from(address: IpAddr) -> [u8; 6] {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, c, d] = v4.octets();
            [2, 0, a, b, c, d]
        }
        IpAddr::V6(v6) => {
            let mut folded = [0u8; 5];
            for (i, octet) in v6.octets().into_iter().enumerate() {
                folded[i % 5] = folded[i % 5].rotate_left(3) ^ octet;
            }
            let [a, b, c, d, e] = folded;
            [2, a, b, c, d, e]
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::interface::fabric_interface;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn guid_is_the_eui_64_of_the_mac() {
        let mut interface = fabric_interface(HOME, 1500);
        interface.mac = [0x02, 0xfc, 0, 0, 0, 1];
        assert_eq!(guid_of(&interface), 0x00fc_00ff_fe00_0001);
    }

    #[test]
    fn guids_without_a_mac_differ_by_address() {
        let first = guid_of(&fabric_interface(HOME, 1500));
        let other = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
        assert_ne!(first, guid_of(&fabric_interface(other, 1500)));
    }

    #[test]
    fn e9_both_table_entries_are_the_address() {
        assert_eq!(gid_at(HOME, 0), Some(Gid::from_ip(HOME)));
        assert_eq!(gid_at(HOME, 1), gid_at(HOME, 0));
        assert_eq!(gid_at(HOME, 2), None);
    }
}
