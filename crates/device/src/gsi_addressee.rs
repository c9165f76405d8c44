//! Which of the processes on an address a packet to QP 1 is for.

use uroce_cm::addressee;
use uroce_datapath::Addressee;
use uroce_wire::Packet;

/// A message of a connection goes to the process that named the connection, a call to the one that
/// listens. What says neither stays where it is, but for a caller that gives up: each process looks for
/// its call.
pub(crate) fn gsi_addressee(payload: &[u8]) -> Addressee {
    let Ok(packet) = Packet::parse(payload) else { return Addressee::Here };
    match addressee(packet.payload()) {
        Some(uroce_cm::Addressee::Id(id)) => id.slot().map_or(Addressee::Here, Addressee::Slot),
        Some(uroce_cm::Addressee::Service(service)) => Addressee::Service(service.0),
        Some(uroce_cm::Addressee::Unknown) => Addressee::Everyone,
        None => Addressee::Here,
    }
}
