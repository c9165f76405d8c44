//! The responder's part in runs: the middle of a message that comes in, and the middle of a READ response.

use uroce_memory::{Access, MrSlice, Sge};
use uroce_wire::{Bth, Opcode, Operation, Packet};

use crate::context::Context;
use crate::qp::config::QpConfig;
use crate::qp::responder::Responder;
use crate::qp::run::{Origin, Run};

use super::Message;
use super::response::{ReadResponse, Response};

impl Responder {
    /// Executes `packets` middle packets with the expected PSNs, of which `payload` is all. False, with nothing
    /// changed, if something about them is not usual.
    pub(crate) fn run_middles(
        &mut self,
        config: &QpConfig,
        head: &Packet<'_>,
        packets: u32,
        payload: &MrSlice<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(message) = self.message else {
            return false;
        };
        let usual = message.contains(head) && self.goes_on_with(head.bth.psn);
        if !usual || !self.place_middles(config, &message, payload, cx) {
            return false;
        }
        self.pass_middle(payload.len(), head.bth.psn.add(packets));
        if head.bth.ack_req {
            self.acknowledge_request(cx);
        }
        true
    }

    /// Copies the payload to its place; false, with nothing written, if that is not allowed or not simple.
    fn place_middles(
        &self,
        config: &QpConfig,
        message: &Message,
        payload: &MrSlice<'_>,
        cx: &mut Context<'_>,
    ) -> bool {
        let length = payload.len() as u64;
        let place = match message.operation {
            Operation::Write => self.place_in_write(config, message, length, cx.mem),
            Operation::Send => {
                let &[Sge { addr, length: room, lkey }] = &self.recv.sges[..] else {
                    return false;
                };
                let Some(addr) = addr.checked_add(message.done) else { return false };
                if message.done + length > u64::from(room) {
                    return false;
                }
                let place = Sge { addr, length: length as u32, lkey };
                cx.mem.check_local(&place, self.recv_pd(config, cx), Access::LOCAL_WRITE).ok()
            }
            _ => None,
        };
        place.is_some_and(|place| place.copy_from(payload).is_ok())
    }

    /// The middle packets of a READ response are next, and there are several.
    #[inline]
    pub(crate) fn answers_read(&self) -> bool {
        matches!(self.responses.front(), Some(Response::Read(train)) if middle_of(train) > 1)
    }

    /// Up to `most` of them.
    pub(crate) fn plan_response_run(&self, config: &QpConfig, most: u32) -> Option<Run> {
        let Some(Response::Read(train)) = self.responses.front() else {
            return None;
        };
        let packets = middle_of(train).min(most);
        if packets < 2 || self.cnp_due {
            return None;
        }
        let mtu = config.attr.path_mtu.bytes();
        let offset = train.next.since(train.base).max(0) as u64 * mtu as u64;
        let va = train.va.checked_add(offset)?;
        let bth = Bth::new(Opcode::RC_READ_RESPONSE_MIDDLE, config.peer_qpn(), train.next);
        let origin = Origin::Read { by: self.requirer_in(config, train.pd), rkey: train.rkey, va };
        Run::new(&bth, packets, mtu, origin, config.path())
    }

    /// So many of them have arrived.
    pub(crate) fn pass_response_run(&mut self, packets: u32) {
        if let Some(Response::Read(front)) = self.responses.front_mut() {
            front.next = front.next.add(packets);
        }
    }
}

/// Middle packets of a READ response that go out before anything else of it.
fn middle_of(train: &ReadResponse) -> u32 {
    match train.next == train.first {
        true => 0,
        false => u32::try_from(train.last.since(train.next)).unwrap_or(0),
    }
}
