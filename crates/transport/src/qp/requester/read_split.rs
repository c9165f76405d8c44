//! How many packets a READ REQUEST asks for.
//!
//! The responses of one request are `[FIRST, MIDDLE]`, trains of equal MIDDLE packets, and a LAST, which is
//! longer than they are by its AETH and so leads the next send, together with the FIRST and a MIDDLE of
//! the request behind it. A request of three packets more than some whole trains therefore costs the responder
//! the fewest sends for each packet, and each send costs as much as thirty packets.

use uroce_wire::Mtu;

use crate::limits;
use crate::qp::run::middle_train;

/// By the code of the path MTU, less 1.
const SPLITS: [u32; Mtu::ALL.len()] = {
    let mut pieces = [0; Mtu::ALL.len()];
    let mut index = 0;
    while index < pieces.len() {
        pieces[index] = cheapest(Mtu::ALL[index].bytes());
        index += 1;
    }
    pieces
};

/// PSNs of one READ REQUEST at most.
pub(crate) fn read_split(mtu: Mtu) -> u32 {
    SPLITS[usize::from(mtu.code()) - 1]
}

/// The number of packets, within the limits, with the fewest sends for each.
const fn cheapest(mtu: usize) -> u32 {
    let train = middle_train(mtu);
    let most = most(mtu);
    let (mut best, mut packets) = (most, most);
    while packets > most / 2 {
        if sends(packets, train) * best < sends(best, train) * packets {
            best = packets;
        }
        packets -= 1;
    }
    best
}

/// So few that two requests are in flight at a time.
const fn most(mtu: usize) -> u32 {
    let by_bytes = (limits::READ_SPLIT_BYTES / mtu as u64) as u32;
    let half = limits::SHORT_PATH_WINDOW / 2;
    if by_bytes < half { by_bytes } else { half }
}

/// Sends that the responses of a request take.
const fn sends(packets: u32, train: u32) -> u32 {
    1 + (packets - 3).div_ceil(train)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_whole_trains_where_that_saves_sends() {
        // 62 packets of path MTU 1024 are a train, and 127 = 3 + 2 * 62.
        assert_eq!(Mtu::ALL.map(read_split), [128, 128, 127, 64, 32]);
    }

    #[test]
    fn two_pieces_fit_the_window() {
        for mtu in Mtu::ALL {
            let pair = 2 * read_split(mtu);
            let bytes = u64::from(pair) * mtu.bytes() as u64;
            assert!(
                pair <= limits::SHORT_PATH_WINDOW && bytes <= limits::SHORT_PATH_WINDOW_BYTES,
                "{mtu}"
            );
        }
    }
}
