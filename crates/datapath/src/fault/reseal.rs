//! The ICRC of a packet that leaves with other header fields than it was made for.

use uroce_wire::{Flow, ICRC_LEN, icrc};

/// Changes the ICRC of `packet` (BTH to ICRC), which was made for the addresses, ports and IPv4 identification `from`,
/// into the one for `to`. A right one stays right and a wrong one wrong by the same bits: the ICRC is linear.
pub(super) fn reseal(from: (Flow, u16), to: (Flow, u16), packet: &mut [u8]) {
    if from == to {
        return;
    }
    let Some((covered, trailer)) = packet.split_last_chunk_mut::<ICRC_LEN>() else {
        return;
    };
    let change = icrc(&from.0, from.1, covered) ^ icrc(&to.0, to.1, covered);
    *trailer = (u32::from_le_bytes(*trailer) ^ change).to_le_bytes();
}

#[cfg(test)]
mod tests {
    use uroce_wire::verify;

    use super::*;

    fn flow(src_port: u16) -> Flow {
        Flow { src: [10, 0, 0, 1].into(), dst: [10, 0, 0, 2].into(), src_port, dst_port: 4791 }
    }

    #[test]
    fn a_right_icrc_stays_right_and_a_wrong_one_wrong() {
        let mut packet = vec![7; 40];
        let (covered, trailer) = packet.split_at_mut(36);
        trailer.copy_from_slice(&icrc(&flow(1), 5, covered).to_le_bytes());
        reseal((flow(1), 5), (flow(2), 9), &mut packet);
        assert!(verify(&flow(2), 9, &packet));
        packet[20] ^= 4;
        reseal((flow(2), 9), (flow(3), 0), &mut packet);
        assert!(!verify(&flow(3), 0, &packet));
        packet[20] ^= 4;
        assert!(verify(&flow(3), 0, &packet), "wrong by the changed bit only");
    }

    #[test]
    fn what_has_no_icrc_stays_as_it_is() {
        let mut packet = [1, 2, 3];
        reseal((flow(1), 5), (flow(2), 9), &mut packet);
        assert_eq!(packet, [1, 2, 3]);
    }
}
