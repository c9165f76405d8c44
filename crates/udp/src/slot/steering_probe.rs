//! Datagrams by which a process finds the sockets of the others in the port group: one for each
//! index, which the receiving process answers by a redirect message.

use uroce_datapath::RxPacket;
use uroce_wire::Slot;

use super::message::{ANSWER, HEAD, ID_KIND};

/// What a probe begins with: an opcode that no packet of RoCE has.
pub(crate) const MARK: u8 = 0xff;
/// Offset of the index.
pub(crate) const INDEX: usize = 1;
/// Offset of the QPN, which is that of no process, so that every process inspects the packet.
const QPN: usize = Slot::OFFSET;
const ASKER: usize = 8;
const NONCE: usize = 9;
const LEN: usize = NONCE + 8;

/// Asks the socket with this index to identify itself to `asker`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) index: u8,
    pub(crate) asker: Slot,
    pub(crate) nonce: u64,
}

impl Probe {
    pub(crate) fn write(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        (bytes[0], bytes[INDEX], bytes[ASKER]) = (MARK, self.index, self.asker.get());
        bytes[NONCE..].copy_from_slice(&self.nonce.to_be_bytes());
        bytes
    }

    /// The probe in a packet. Only this host sends some: the kernel takes no packet from outside that
    /// claims to be from an address of its own.
    pub(crate) fn read(rx: &RxPacket<'_>) -> Option<Self> {
        let bytes: &[u8; LEN] = rx.payload.try_into().ok()?;
        if bytes[0] != MARK || bytes[QPN] != 0 || rx.src.ip() != rx.dst.ip() {
            return None;
        }
        Self::of(bytes)
    }

    fn of(bytes: &[u8; LEN]) -> Option<Self> {
        Some(Self {
            index: bytes[INDEX],
            asker: Slot::new(bytes[ASKER])?,
            nonce: u64::from_be_bytes(*bytes.last_chunk()?),
        })
    }

    /// The message that says that `slot` is there.
    pub(crate) fn answer(&self, slot: Slot, ordered: &SlotSet) -> [u8; HEAD + LEN + SET] {
        let mut bytes = [0; HEAD + LEN + SET];
        bytes[ID_KIND] = ANSWER;
        let named = Self { asker: slot, ..*self };
        bytes[HEAD..HEAD + LEN].copy_from_slice(&named.write());
        bytes[HEAD + LEN..].copy_from_slice(&ordered.0);
        bytes
    }
}

/// The process behind an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) index: u8,
    pub(crate) slot: Slot,
    pub(crate) nonce: u64,
    /// Slots whose packets are misrouted to that process and must stay in order.
    pub(crate) ordered: SlotSet,
}

impl Answer {
    pub(crate) fn read(message: &[u8]) -> Option<Self> {
        let (head, rest) = message.split_first_chunk::<HEAD>()?;
        let (bytes, set) = rest.split_first_chunk::<LEN>()?;
        if head[ID_KIND] != ANSWER {
            return None;
        }
        let Probe { index, asker: slot, nonce } = Probe::of(bytes)?;
        Some(Self { index, slot, nonce, ordered: SlotSet(set.try_into().ok()?) })
    }
}

/// Bytes of a set of slots.
const SET: usize = 32;

/// Some slots, a bit each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SlotSet([u8; SET]);

impl SlotSet {
    pub(crate) fn add(&mut self, slot: Slot) {
        self.0[usize::from(slot.get() / 8)] |= 1 << (slot.get() % 8);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Slot> + '_ {
        Slot::all().filter(|slot| self.0[usize::from(slot.get() / 8)] >> (slot.get() % 8) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use uroce_datapath::IpId;

    use super::*;
    use crate::slot::message;

    fn packet<'a>(payload: &'a [u8], src: &str) -> RxPacket<'a> {
        RxPacket {
            src: src.parse().expect("address"),
            dst: "127.0.0.1:4791".parse().expect("address"),
            traffic_class: 0,
            hop_limit: 64,
            ip_id: IpId::Hidden(0),
            icrc_checked: false,
            following: None,
            fate: None,
            payload,
        }
    }

    #[test]
    fn a_probe_is_answered_by_name() {
        let [asker, other] = [3, 9].map(|number| Slot::new(number).expect("a slot"));
        let probe = Probe { index: 200, asker, nonce: 0x0123_4567_89ab_cdef };
        let bytes = probe.write();
        assert_eq!(Probe::read(&packet(&bytes, "127.0.0.1:9")), Some(probe));
        assert_eq!(Probe::read(&packet(&bytes, "127.0.0.2:9")), None, "from another host");
        assert_eq!(Probe::read(&packet(&bytes[1..], "127.0.0.1:9")), None);
        let mut ordered = SlotSet::default();
        [asker, other].into_iter().for_each(|slot| ordered.add(slot));
        assert_eq!(ordered.iter().collect::<Vec<_>>(), [asker, other]);
        let answer = probe.answer(other, &ordered);
        let read = Answer { index: 200, slot: other, nonce: probe.nonce, ordered };
        assert_eq!(Answer::read(&answer), Some(read));
        assert!(message::read(&answer).is_none(), "no packets in it");
        assert_eq!(Answer::read(&message::single(&packet(&bytes, "127.0.0.1:9"))), None);
    }
}
