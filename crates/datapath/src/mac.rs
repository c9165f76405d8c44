//! Hardware addresses.

use std::net::IpAddr;

/// A 48-bit hardware address.
pub type Mac = [u8; 6];

/// The hardware address of a multicast group (RFC 1112, RFC 2464); `None` for other addresses.
#[must_use]
pub fn multicast_mac(group: IpAddr) -> Option<Mac> {
    if !group.is_multicast() {
        return None;
    }
    Some(match group {
        IpAddr::V4(group) => {
            let [_, b, c, d] = group.octets();
            [0x01, 0x00, 0x5e, b & 0x7f, c, d]
        }
        IpAddr::V6(group) => {
            let [.., w, x, y, z] = group.octets();
            [0x33, 0x33, w, x, y, z]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e15_groups_map_to_their_hardware_addresses() {
        let mac = |text: &str| multicast_mac(text.parse().expect("address"));
        assert_eq!(mac("239.129.2.3"), Some([1, 0, 0x5e, 1, 2, 3]));
        assert_eq!(mac("ff12::1:2"), Some([0x33, 0x33, 0, 1, 0, 2]));
        assert_eq!((mac("10.0.0.1"), mac("fe80::1")), (None, None));
    }
}
