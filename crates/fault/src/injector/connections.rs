//! Which queue pairs are connected, as connection management says.

use std::collections::VecDeque;
use std::net::IpAddr;

use super::flows::{FlowKey, Flows};
use crate::PacketMeta;
use crate::packet_view::PacketView;

const REQ: u16 = 0x10;
const REP: u16 = 0x13;
/// Requests without an answer that are remembered at most.
const REQUESTS_MAX: usize = 256;

/// A REQ that has no REP yet.
#[derive(Debug, Clone, Copy)]
struct Request {
    caller: IpAddr,
    called: IpAddr,
    comm_id: u32,
    qp: u32,
}

/// Calls that have no answer yet.
#[derive(Debug, Default)]
pub(super) struct Connections {
    requests: VecDeque<Request>,
}

impl Connections {
    /// A packet has come. A REP tells `flows` which queue pairs are connected.
    pub(super) fn note(&mut self, meta: &PacketMeta, packet: &PacketView<'_>, flows: &mut Flows) {
        let message = packet.cm_message().and_then(|(id, body)| match id {
            REQ => self.note_request(meta, body),
            REP => self.pair(meta, body, flows),
            _ => None,
        });
        message.unwrap_or_default();
    }

    fn note_request(&mut self, meta: &PacketMeta, body: &[u8]) -> Option<()> {
        let (comm_id, qp) = (word(body, 0)?, word(body, 32)? >> 8);
        if self.requests.len() == REQUESTS_MAX {
            self.requests.pop_front();
        }
        let (caller, called) = (meta.flow.src, meta.flow.dst);
        self.requests.push_back(Request { caller, called, comm_id, qp });
        Some(())
    }

    fn pair(&mut self, meta: &PacketMeta, body: &[u8], flows: &mut Flows) -> Option<()> {
        let (comm_id, qp) = (word(body, 4)?, word(body, 12)? >> 8);
        let (src, dst) = (meta.flow.src, meta.flow.dst);
        let is_answered = |request: &Request| {
            request.comm_id == comm_id && request.caller == dst && request.called == src
        };
        let place = self.requests.iter().rposition(is_answered)?;
        let request = self.requests.remove(place)?;
        let key = FlowKey { direction: meta.direction, src, dst, dest_qp: request.qp };
        flows.pair(key, qp);
        Some(())
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*word))
}
