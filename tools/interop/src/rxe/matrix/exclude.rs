//! Combinations that make no sense, each with its reason.

use uroce_rxe_guest::faults::Fault;

use super::cell::{Cell, Pingpong, Program};

/// Largest path MTU of the wire; datagrams use this one whatever is asked for.
const LINK_PATH_MTU: u32 = 4096;

/// Packets that a UC sender may send at once and all arrive; the guest's card has room for 256.
const UC_BURST: u32 = 64;

/// Packets that each of 16 queue pairs may send at once without all of them running out of retries,
const SRQ_BURST: u32 = 256;

/// and bytes, whatever the packets: with 1 MiB each, two guests with rxe did not finish once in
/// seven tries of 40 s, even on a wire without faults.
const SRQ_MESSAGE: u32 = 65_536;

/// Sizes that rping takes.
const RPING_SMALLEST: u32 = 23;
const RPING_LARGEST: u32 = 65_535;

/// Gaps that are repaired within 10 s.
const MOST_GAPS: u32 = 150;

/// Why `cell` is not tried; `None` when it is.
pub fn reason(cell: &Cell) -> Option<&'static str> {
    let unreliable = match cell.program {
        Program::Pingpong(Pingpong::Uc) => uc(cell),
        Program::Pingpong(Pingpong::Ud) => ud(cell),
        Program::Pingpong(Pingpong::Srq) => srq(cell),
        Program::Rping => rping(cell),
        _ => None,
    };
    unreliable.or_else(|| empty(cell)).or_else(|| slow(cell))
}

fn empty(cell: &Cell) -> Option<&'static str> {
    match cell.program {
        _ if cell.size > 0 => None,
        Program::Pingpong(Pingpong::Ud) | Program::Rping => None,
        Program::Pingpong(_) => Some("the stock ping-pong cannot register an empty buffer"),
        Program::Perf(..) => Some("the stock performance programs take one byte at least"),
    }
}

/// rxe, like any go-back-N sender with one retry in flight, repairs one gap per timer of 67 ms.
fn slow(cell: &Cell) -> Option<&'static str> {
    let gaps_per_thousand = match cell.fault {
        Fault::None | Fault::Duplicate => 0,
        Fault::Corrupt => 5,
        Fault::Loss => 10,
        Fault::Reorder | Fault::HeavyLoss => 50,
    };
    let gaps = cell.packets() * gaps_per_thousand / 1000;
    (gaps > MOST_GAPS)
        .then_some("rxe repairs one gap per 67 ms: so many packets would take minutes")
}

fn uc(cell: &Cell) -> Option<&'static str> {
    match cell.fault {
        Fault::Loss | Fault::Corrupt => {
            Some("UC does not send a lost message again: the ping-pong would wait for ever")
        }
        _ if cell.size / cell.mtu > UC_BURST => {
            Some("UC has no flow control: a longer burst overruns the guest's card")
        }
        Fault::Duplicate => {
            Some("UC delivers a doubled SEND Only twice: the ping-pong loses its turn and hangs")
        }
        Fault::Reorder if cell.size > cell.mtu => {
            Some("UC drops a message whose packets come out of order")
        }
        _ => None,
    }
}

fn srq(cell: &Cell) -> Option<&'static str> {
    (cell.size / cell.mtu > SRQ_BURST || cell.size > SRQ_MESSAGE).then_some(
        "16 queue pairs with such bursts choke the guest's card: rxe to rxe does not finish either",
    )
}

fn ud(cell: &Cell) -> Option<&'static str> {
    match cell.fault {
        _ if cell.size > LINK_PATH_MTU => Some("a datagram is one packet"),
        _ if cell.mtu != LINK_PATH_MTU => Some("a datagram has no path MTU to choose"),
        Fault::Loss | Fault::Corrupt => {
            Some("UD does not send a lost datagram again: the ping-pong would wait for ever")
        }
        Fault::Duplicate => {
            Some("UD delivers a doubled datagram twice: the ping-pong would count it twice")
        }
        _ => None,
    }
}

fn rping(cell: &Cell) -> Option<&'static str> {
    match cell.size {
        _ if cell.mtu != LINK_PATH_MTU => Some("rping has no path MTU to choose"),
        0..RPING_SMALLEST => Some("rping has a text in front of its data"),
        RPING_SMALLEST..=RPING_LARGEST => None,
        _ => Some("rping takes at most 65535 bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::cell::{Family, Role};
    use super::*;

    fn cell(program: Program, size: u32, fault: Fault) -> Cell {
        Cell { program, role: Role::Client, size, mtu: 4096, family: Family::V4, fault }
    }

    #[test]
    fn datagrams_fit_one_packet_and_want_a_clean_wire() {
        let ud = Program::Pingpong(Pingpong::Ud);
        assert_eq!(reason(&cell(ud, 4096, Fault::None)), None);
        assert_eq!(reason(&cell(ud, 0, Fault::Reorder)), None);
        assert!(reason(&cell(ud, 65536, Fault::None)).is_some());
        assert!(reason(&cell(ud, 1, Fault::Loss)).is_some());
    }

    #[test]
    fn uc_ping_pongs_do_not_meet_doubled_packets() {
        let uc = Program::Pingpong(Pingpong::Uc);
        assert!(reason(&cell(uc, 1, Fault::Duplicate)).is_some());
        assert!(reason(&cell(uc, 8192, Fault::Reorder)).is_some());
        assert_eq!(reason(&cell(uc, 1, Fault::Reorder)), None);
    }

    #[test]
    fn sixteen_queue_pairs_do_not_send_a_mebibyte_each() {
        let srq = Program::Pingpong(Pingpong::Srq);
        assert!(reason(&cell(srq, 1 << 20, Fault::None)).is_some());
        for fault in Fault::ALL {
            assert_eq!(reason(&cell(srq, 65536, fault)), None);
        }
    }

    #[test]
    fn reliable_programs_are_tried_under_every_fault() {
        for fault in Fault::ALL {
            assert_eq!(reason(&cell(Program::Pingpong(Pingpong::Rc), 65536, fault)), None);
        }
        assert!(reason(&cell(Program::Pingpong(Pingpong::Rc), 0, Fault::None)).is_some());
    }
}
