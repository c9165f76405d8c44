//! Whose a message is, where several processes share an address and one of them receives it.

use crate::message::Message;
use crate::{CommId, Mad, ServiceId};

/// The receiver that a message is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressee {
    /// The process that gave out this id, which [`CommId::slot`] knows.
    Id(CommId),
    /// The listener of this service.
    Service(ServiceId),
    /// It does not say: a caller that gave up before it learnt our id.
    Unknown,
}

/// Reads the receiver from the bytes of a MAD; `None` if it is no message of ours.
pub fn addressee(bytes: &[u8]) -> Option<Addressee> {
    let Mad { message, .. } = Mad::parse(bytes).ok()?;
    let id = match message {
        Message::Req(req) => return Some(Addressee::Service(req.service_id)),
        Message::SidrReq(req) => return Some(Addressee::Service(req.service_id)),
        Message::Rep(rep) => rep.remote_comm_id,
        Message::Rtu(rtu) => rtu.remote_comm_id,
        Message::Mra(mra) => mra.remote_comm_id,
        Message::Rej(rej) => rej.remote_comm_id,
        Message::Dreq(dreq) => dreq.remote_comm_id,
        Message::Drep(drep) => drep.remote_comm_id,
        Message::Lap(lap) => lap.remote_comm_id,
        Message::Apr(apr) => apr.remote_comm_id,
        Message::SidrRep(rep) => CommId(rep.request_id),
    };
    // Only a REJ may name none: who else does so would be answered by each receiver that hears it.
    let is_unknown = id == CommId::NONE && matches!(message, Message::Rej(_));
    Some(if is_unknown { Addressee::Unknown } else { Addressee::Id(id) })
}
