//! The UDP source port of a queue pair (docs/wire.md).

use uroce_wire::Qpn;

/// The port of a QP that has no path yet: rxe's hash of its own number.
pub(crate) fn from_qpn(qpn: Qpn) -> u16 {
    let hash = qpn.get().wrapping_mul(0x61C8_8647) >> (32 - 14);
    0xC000 + (hash & 0x3fff) as u16
}

/// The port of a connected QP (`rdma_get_udp_sport`): from the flow label, or from both numbers,
/// so that the two directions of a connection use the same one.
pub(crate) fn from_path(flow_label: u32, local: Qpn, remote: Qpn) -> u16 {
    let label = match flow_label & 0xf_ffff {
        0 => {
            let mut mix = u64::from(local.get()) * u64::from(remote.get());
            mix ^= mix >> 20;
            mix ^= mix >> 40;
            (mix & 0xf_ffff) as u32
        }
        label => label,
    };
    (((label & 0x3fff) ^ ((label & 0xf_c000) >> 14)) | 0xC000) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_qpns_agree_with_rxe_on_the_wire() {
        assert_eq!(from_qpn(Qpn::new(1)), 0xD872);
        assert_eq!(from_qpn(Qpn::new(0x11)), 0xDF94);
        assert_eq!(from_qpn(Qpn::new(0x17)), 0xF241);
    }

    #[test]
    fn both_directions_use_one_port() {
        let (a, b) = (Qpn::new(0x1234), Qpn::new(0xabcdef));
        assert_eq!(from_path(0, a, b), from_path(0, b, a));
        assert!(from_path(0, a, b) >= 0xC000);
        assert_eq!(from_path(0x12345, a, b), from_path(0x12345, b, b));
    }
}
