//! QP 1, the general services interface: it belongs to the device, and carries the MADs of the
//! connection manager and of the management agents.

mod connections;
mod events;
mod queue_pairs;
mod services;

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

pub(crate) use queue_pairs::GsiContext;
use uroce_cm::{
    AgentRequest, Cm, CmLimits, CommId, GSI_QKEY, Identity, MAD_LEN, PortCounters, ServiceId,
    State, Time,
};
use uroce_datapath::{IcrcRx, RxPacket};
use uroce_memory::mutation::mutated;
use uroce_transport::{Instant, Path, Step, Transmit};
use uroce_wire::{Bth, Deth, DropReason, HeaderWriter, ICRC_LEN, Opcode, Packet, Psn, Qpn};

use super::rx_icrc::{IcrcFindings, RxIcrc};
use crate::cm_channel::{CmChannel, CmEvent, CmEventKind};

/// The UDP source port that rxe hashes from QPN 1.
pub(super) const GSI_SOURCE_PORT: u16 = 0xd872;
/// Our ACK delay (code), as `ibv_query_device` reports it.
pub(super) const ACK_DELAY: u8 = 15;
const HOP_LIMIT: u8 = 64;
/// The low 15 bits of the only P_Key; the top one tells full from limited membership (R6).
const PKEY_BITS: u16 = 0x7fff;

/// The event channel of a connection, and its queue pair.
#[derive(Debug, Clone)]
struct Owner {
    channel: CmChannel,
    cookie: u64,
    qpn: Option<Qpn>,
}

impl Owner {
    fn tell(&self, id: CommId, kind: CmEventKind) {
        self.channel.post(CmEvent { cookie: self.cookie, id, kind });
    }
}

/// QP 1 with its connection manager, and the services and connections of the applications.
#[derive(Debug)]
pub(crate) struct Gsi {
    cm: Cm,
    /// The IPv4 identifications of all peers together.
    rx_icrc: RxIcrc,
    owners: HashMap<CommId, Owner>,
    listeners: HashMap<ServiceId, Owner>,
    /// Services that applications have bound, with or without a listener.
    bound: HashSet<ServiceId>,
    /// Services without a listener that calls may still come for again.
    retiring: Vec<ServiceId>,
    /// Requests to the management agents of the last batch, and the addresses of their senders.
    asked: Vec<(IpAddr, AgentRequest)>,
    /// Queue pairs whose peers are to be asked for a packet.
    probes: VecDeque<Qpn>,
    address: IpAddr,
    src_port: u16,
    psn: Psn,
}

/// The connection manager counts time in `Duration`s.
fn time(now: Instant) -> Time {
    Duration::from_nanos(now.as_nanos())
}

impl Gsi {
    pub(super) fn new(us: Identity, src_port: u16, seed: [u8; 32]) -> Gsi {
        Gsi {
            address: us.address,
            cm: Cm::new(us, CmLimits::default(), seed),
            rx_icrc: RxIcrc::default(),
            owners: HashMap::new(),
            listeners: HashMap::new(),
            bound: HashSet::new(),
            retiring: Vec::new(),
            asked: Vec::new(),
            probes: VecDeque::new(),
            src_port,
            psn: Psn::new(0),
        }
    }

    /// Nothing is to be done, now or at a later time, until a MAD or a command comes.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.cm.is_idle() && self.retiring.is_empty()
    }

    pub(super) fn wants_transmit(&self) -> bool {
        self.cm.wants_transmit() || !self.probes.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        let at = self.cm.poll_timeout()?;
        Some(u64::try_from(at.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The connections of the applications: each with its queue pair, its state and its peer.
    pub(crate) fn connections(
        &self,
    ) -> impl Iterator<Item = (CommId, Option<Qpn>, State, IpAddr)> + '_ {
        let cm = &self.cm;
        let connection =
            move |id: CommId, owner: &Owner| Some((id, owner.qpn, cm.state(id)?, cm.peer(id)?));
        self.owners.iter().filter_map(move |(&id, owner)| connection(id, owner))
    }

    /// The services that applications listen to.
    pub(crate) fn listeners(&self) -> impl Iterator<Item = ServiceId> + '_ {
        self.listeners.keys().copied()
    }

    /// Hands a MAD to the connection manager or a management agent, or says why not.
    pub(super) fn handle_packet(
        &mut self,
        now: Instant,
        caps: IcrcRx,
        rx: &RxPacket<'_>,
        packet: &Packet<'_>,
        findings: &mut IcrcFindings,
    ) -> Result<(), DropReason> {
        admits_mad(packet)?;
        self.rx_icrc.check(caps, rx, findings)?;
        match AgentRequest::parse(packet.payload()) {
            Some(request) => self.note_request(now, rx.src.ip(), request),
            None => self.cm.handle_mad(time(now), rx.src.ip(), packet.payload()),
        }
    }

    /// The response waits for the end of the batch: the datapath's counters cannot be read within it.
    fn note_request(
        &mut self,
        now: Instant,
        peer: IpAddr,
        request: AgentRequest,
    ) -> Result<(), DropReason> {
        if !self.cm.may_answer(time(now), peer) {
            return Err(DropReason::CmRateLimit);
        }
        self.asked.push((peer, request));
        Ok(())
    }

    /// True if management agents were asked something.
    #[inline]
    pub(super) fn has_requests(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Answers the requests to the management agents of the last batch (C60).
    pub(super) fn respond_to_requests(&mut self, counters: &PortCounters) {
        for (peer, request) in self.asked.drain(..) {
            let answers = if mutated("answers-often") { 64 } else { 1 };
            for _ in 0..answers {
                self.cm.send_response(peer, request.respond(counters));
            }
        }
    }

    /// The next queue pair whose peer is to be asked for a packet.
    pub(super) fn pop_probe(&mut self) -> Option<Qpn> {
        self.probes.pop_front()
    }

    /// Writes the next MAD as a packet, without its ICRC.
    pub(super) fn poll_transmit(&mut self, space: &mut [u8]) -> Option<Transmit> {
        let outgoing = self.cm.poll_transmit()?;
        let mut headers = HeaderWriter::new(space);
        headers.put(&Bth::new(Opcode::UD_SEND_ONLY, Qpn::GSI, self.psn))?;
        headers.put(&Deth { qkey: GSI_QKEY, src_qpn: Qpn::GSI })?;
        let at = headers.len();
        let payload: &mut [u8; MAD_LEN] = space.get_mut(at..)?.first_chunk_mut()?;
        *payload = outgoing.bytes;
        self.psn = Psn::new(self.psn.get().wrapping_add(1));
        let path = Path {
            src: self.address,
            dst: outgoing.peer,
            src_port: self.src_port,
            hop_limit: HOP_LIMIT,
            traffic_class: outgoing.traffic_class,
        };
        Some(Transmit { len: at + MAD_LEN + ICRC_LEN, path, step: Step::Ends })
    }
}

/// Checks that a packet can be a MAD: one whole datagram from another QP 1, with the well-known
/// Q_Key and a valid P_Key (A22).
pub(crate) fn admits_mad(packet: &Packet<'_>) -> Result<(), DropReason> {
    if packet.bth.opcode != Opcode::UD_SEND_ONLY {
        return Err(DropReason::GsiQpn);
    }
    if packet.bth.pkey & PKEY_BITS != PKEY_BITS {
        return Err(DropReason::PkeyMismatch);
    }
    let deth = packet.deth().ok_or(DropReason::BadLength)?;
    if deth.qkey != GSI_QKEY {
        return Err(DropReason::QkeyMismatch);
    }
    if deth.src_qpn != Qpn::GSI {
        return Err(DropReason::GsiQpn);
    }
    if packet.payload().len() != MAD_LEN {
        return Err(DropReason::MadLength);
    }
    Ok(())
}
