//! Packets that answer another one.

use uroce_wire::{
    Aeth, Bth, CNP_LEN, Header, HeaderSet, HeaderWriter, ICRC_LEN, Opcode, Operation, Psn, Qpn,
    Service, Syndrome, write_cnp,
};

use super::flows::{FlowKey, Flows};
use super::report::Refusal;
use crate::PacketMeta;
use crate::packet_view::PacketView;
use crate::rule::Answer;

/// The longest answer.
const ANSWER_MAX: usize = CNP_LEN + ICRC_LEN;
/// DETH behind the BTH: its source queue pair number.
const SRC_QP_AT: usize = 12 + 5;

/// An answer, ready to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct AnswerPacket {
    bytes: [u8; ANSWER_MAX],
    len: usize,
    pub meta: PacketMeta,
}

impl AnswerPacket {
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

/// Makes the answer to a packet.
pub(super) fn answer(
    answer: Answer,
    meta: &PacketMeta,
    packet: &PacketView<'_>,
    flows: &Flows,
) -> Result<AnswerPacket, Refusal> {
    let sender = FlowKey::new(meta, packet).and_then(|key| flows.sender(&key));
    let mut bytes = [0; ANSWER_MAX];
    let len = match answer {
        Answer::Cnp => {
            let known = source_qp(packet).or(sender.map(|(qp, _)| qp));
            write_cnp(&mut bytes, Qpn::new(known.ok_or(Refusal::PeerUnknown)?))
        }
        Answer::Acknowledge(syndrome) => {
            let opcode = acknowledge_opcode(packet).ok_or(Refusal::NotARequest)?;
            let (qp, msn) = sender.ok_or(Refusal::PeerUnknown)?;
            write_acknowledge(&mut bytes, opcode, qp, packet, Aeth { syndrome, msn })
        }
    };
    let len = len.ok_or(Refusal::NotARequest)?;
    let meta = meta.answer();
    let icrc = uroce_wire::icrc(&meta.flow, meta.ip_id, &bytes[..len]).to_le_bytes();
    bytes[len..len + ICRC_LEN].copy_from_slice(&icrc);
    Ok(AnswerPacket { bytes, len: len + ICRC_LEN, meta })
}

/// The queue pair that a datagram says it comes from.
fn source_qp(packet: &PacketView<'_>) -> Option<u32> {
    let has_deth = packet.info()?.headers.contains(HeaderSet::DETH);
    let qp = packet.bytes().get(SRC_QP_AT..SRC_QP_AT + 3).filter(|_| has_deth)?;
    Some(u32::from_be_bytes([0, qp[0], qp[1], qp[2]]))
}

/// The opcode that acknowledges a packet; `None` if such a packet is not acknowledged.
fn acknowledge_opcode(packet: &PacketView<'_>) -> Option<Opcode> {
    let info = packet.info().filter(|info| info.is_request())?;
    match info.service {
        Service::Rc | Service::Xrc => Some(Opcode::RC_ACKNOWLEDGE.of_service(info.service)),
        Service::Uc | Service::Ud | Service::Cnp => None,
    }
}

fn write_acknowledge(
    out: &mut [u8],
    opcode: Opcode,
    qp: u32,
    packet: &PacketView<'_>,
    aeth: Aeth,
) -> Option<usize> {
    let ends = packet.info()?.ends() && aeth.syndrome == Syndrome::ack(Syndrome::ACK_UNLIMITED);
    let msn = (aeth.msn + u32::from(ends)) & Psn::MASK;
    let mut writer = HeaderWriter::new(out);
    // Of what its receiver may check or remember it has the same as the request.
    let Bth { migreq, pkey, psn, .. } = Bth::read(packet.bytes())?;
    writer.put(&Bth { migreq, pkey, ..Bth::new(opcode, Qpn::new(qp), psn) })?;
    writer.put(&Aeth { msn, ..aeth })?;
    debug_assert_eq!(opcode.info().map(|info| info.operation), Some(Operation::Acknowledge));
    Some(Bth::LEN + Aeth::LEN)
}
