//! A model of another RoCE stack: how kernel rxe runs reliable connections, as far as it is known.
//!
//! Our NICs agree with themselves even where both ends misread a rule. The model is a peer with ways of its own:
//! go-back-N without reordering, timers that tick every few milliseconds, a retry count of 7 that never runs out, READs
//! and WRITEs that resume in the middle, READ responses in one burst, and a sequence NAK right behind an RNR NAK.

mod memory;
mod packet;
mod requester;
mod responder;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

use uroce_datapath::Route;
use uroce_device::transport::{RecvWr, SendWr, Wc, WcOpcode, WcStatus};
use uroce_wire::{Packet, Qpn, Service};

pub(crate) use self::memory::RxeMemory;
use self::requester::RxeRequester;
use self::responder::{RxeReceive, RxeResponder};
use crate::monitor::{has_good_icrc, icrc_of};
use crate::sim_packet::SimPacket;

/// Nanoseconds from tick to tick of its timers.
pub(crate) const TICK_NS: u64 = 4_000_000;
/// The number of its first queue pair.
const FIRST_QPN: u32 = 17;

/// The first tick that is not before a time.
fn tick(at_ns: u64) -> u64 {
    at_ns.next_multiple_of(TICK_NS)
}

/// How a queue pair is connected.
#[derive(Debug, Clone)]
pub(crate) struct RxeLink {
    pub(crate) peer: IpAddr,
    pub(crate) dest: Qpn,
    pub(crate) mtu: usize,
    pub(crate) timeout_ns: Option<u64>,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) rd_atomic: u8,
    pub(crate) signal_all: bool,
}

/// What happened at a node, for the coverage.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RxeCounters {
    naks_sent: u64,
    naks_taken: u64,
    rnr_naks_sent: u64,
    rnr_naks_taken: u64,
    repairs: u64,
    timeouts: u64,
    duplicates: u64,
}

impl RxeCounters {
    /// Names of what is counted.
    pub(crate) const NAMES: [&'static str; 7] = [
        "rxe model: a NAK for a gap is sent",
        "rxe model: a NAK for a gap is taken",
        "rxe model: an RNR NAK is sent",
        "rxe model: an RNR NAK is taken",
        "rxe model: it goes back",
        "rxe model: a timeout",
        "rxe model: a request that comes again",
    ];

    /// Names and counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counts = [
            self.naks_sent,
            self.naks_taken,
            self.rnr_naks_sent,
            self.rnr_naks_taken,
            self.repairs,
            self.timeouts,
            self.duplicates,
        ];
        RxeCounters::NAMES.into_iter().zip(counts)
    }
}

/// What requester and responder of a queue pair work with.
struct Io<'a> {
    now_ns: u64,
    qpn: Qpn,
    link: &'a RxeLink,
    memory: &'a RxeMemory,
    /// Packets that leave, without their ICRCs.
    packets: Vec<Vec<u8>>,
    completions: &'a mut RxeCompletions,
    counters: &'a mut RxeCounters,
}

impl Io<'_> {
    fn send(&mut self, packet: Vec<u8>) {
        self.packets.push(packet);
    }

    fn complete_send(&mut self, wr_id: u64, opcode: WcOpcode, status: WcStatus) {
        let qpn = self.qpn.get();
        self.completions.sends.push(Wc { wr_id, status, opcode, qpn, ..Wc::default() });
    }

    fn complete_receive(
        &mut self,
        wr_id: u64,
        opcode: WcOpcode,
        byte_len: u32,
        imm: Option<u32>,
        status: WcStatus,
    ) {
        let qpn = self.qpn.get();
        let wc = Wc { wr_id, status, opcode, byte_len, imm, qpn, ..Wc::default() };
        self.completions.receives.push(wc);
    }
}

/// RxeCompletions that nobody has taken.
#[derive(Debug, Default)]
struct RxeCompletions {
    sends: Vec<Wc>,
    receives: Vec<Wc>,
}

struct RxeQp {
    memory: RxeMemory,
    /// What it is while it is connected.
    link: Option<RxeLink>,
    /// It has failed, or was ended.
    is_failed: bool,
    requester: Option<RxeRequester>,
    responder: RxeResponder,
    completions: RxeCompletions,
}

impl RxeQp {
    /// Lets requester or responder do something, and sends what comes of it. Gives the packets.
    fn run(
        &mut self,
        qpn: Qpn,
        now_ns: u64,
        counters: &mut RxeCounters,
        act: impl FnOnce(&mut RxeRequester, &mut RxeResponder, &mut Io<'_>) -> Result<(), WcStatus>,
    ) -> Vec<Vec<u8>> {
        let (Some(link), Some(requester)) = (&self.link, &mut self.requester) else {
            return vec![];
        };
        if self.is_failed {
            return vec![];
        }
        let (memory, completions) = (&self.memory, &mut self.completions);
        let packets = vec![];
        let mut io = Io { now_ns, qpn, link, memory, packets, completions, counters };
        let outcome =
            act(requester, &mut self.responder, &mut io).and_then(|()| requester.transmit(&mut io));
        let packets = io.packets;
        if let Err(status) = outcome {
            self.fail(qpn, status);
        }
        packets
    }

    /// Ends it: the oldest request with this status, everything else is flushed.
    fn fail(&mut self, qpn: Qpn, status: WcStatus) {
        self.is_failed = true;
        let flushed =
            |wr_id| Wc { wr_id, status: WcStatus::WrFlushErr, qpn: qpn.get(), ..Wc::default() };
        let sends = self.requester.as_mut().map(RxeRequester::take_all).unwrap_or_default();
        let mut sends: Vec<Wc> = sends.into_iter().map(flushed).collect();
        if let Some(first) = sends.first_mut() {
            first.status = status;
        }
        self.completions.sends.extend(sends);
        let receives = self.responder.receives.drain(..).map(|receive| flushed(receive.wr_id));
        self.completions.receives.extend(receives);
    }
}

/// A host with queue pairs.
pub(crate) struct RxeNode {
    address: IpAddr,
    qps: BTreeMap<u32, RxeQp>,
    next_qpn: u32,
    sent: VecDeque<SimPacket>,
    pub(crate) counters: RxeCounters,
}

impl RxeNode {
    pub(crate) fn new(address: IpAddr) -> RxeNode {
        RxeNode {
            address,
            qps: BTreeMap::new(),
            next_qpn: FIRST_QPN,
            sent: VecDeque::new(),
            counters: RxeCounters::default(),
        }
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// How many queue pairs there are.
    pub(crate) fn len(&self) -> usize {
        self.qps.len()
    }

    pub(crate) fn create_qp(&mut self, memory: RxeMemory) -> Qpn {
        let qpn = Qpn::new(self.next_qpn);
        self.next_qpn += 1;
        let qp = RxeQp {
            memory,
            link: None,
            is_failed: false,
            requester: None,
            responder: RxeResponder::new(0),
            completions: RxeCompletions::default(),
        };
        self.qps.insert(qpn.get(), qp);
        qpn
    }

    pub(crate) fn destroy_qp(&mut self, qpn: Qpn) {
        self.qps.remove(&qpn.get());
    }

    /// Begins a connection. `psns` are the first ones of the queue pair and of its peer.
    pub(crate) fn connect(&mut self, qpn: Qpn, link: RxeLink, psns: [u32; 2]) {
        let Some(qp) = self.qps.get_mut(&qpn.get()) else { return };
        qp.requester = Some(RxeRequester::new(psns[0], &link));
        qp.responder = RxeResponder::new(psns[1]);
        (qp.link, qp.is_failed) = (Some(link), false);
    }

    /// Ends a connection: what is posted completes as flushed.
    pub(crate) fn fail_qp(&mut self, qpn: Qpn) {
        if let Some(qp) = self.qps.get_mut(&qpn.get()) {
            qp.fail(qpn, WcStatus::WrFlushErr);
        }
    }

    /// Forgets everything about a connection.
    pub(crate) fn reset_qp(&mut self, qpn: Qpn) {
        if let Some(qp) = self.qps.get_mut(&qpn.get()) {
            (qp.link, qp.requester) = (None, None);
            (qp.responder, qp.completions) = (RxeResponder::new(0), RxeCompletions::default());
        }
    }

    /// False: the queue pair is not connected.
    pub(crate) fn post_send(&mut self, qpn: Qpn, wr: &SendWr<'_>) -> bool {
        let Some(qp) = self.qps.get_mut(&qpn.get()) else { return false };
        let (Some(link), Some(requester)) = (&qp.link, &mut qp.requester) else { return false };
        requester.post(wr, link);
        if qp.is_failed {
            qp.fail(qpn, WcStatus::WrFlushErr);
        }
        true
    }

    /// False: there is no such queue pair.
    pub(crate) fn post_recv(&mut self, qpn: Qpn, wr: &RecvWr<'_>) -> bool {
        let Some(qp) = self.qps.get_mut(&qpn.get()) else { return false };
        let receive = RxeReceive { wr_id: wr.wr_id, sges: wr.sges.to_vec() };
        qp.responder.receives.push_back(receive);
        if qp.is_failed {
            qp.fail(qpn, WcStatus::WrFlushErr);
        }
        true
    }

    /// True if sends, or receives, have completed.
    pub(crate) fn has_completions(&self, qpn: Qpn, of_sends: bool) -> bool {
        self.qps.get(&qpn.get()).is_some_and(|qp| {
            let RxeCompletions { sends, receives } = &qp.completions;
            !if of_sends { sends } else { receives }.is_empty()
        })
    }

    /// Takes the completions of sends, or of receives.
    pub(crate) fn poll(&mut self, qpn: Qpn, of_sends: bool) -> Vec<Wc> {
        let Some(qp) = self.qps.get_mut(&qpn.get()) else { return vec![] };
        let RxeCompletions { sends, receives } = &mut qp.completions;
        std::mem::take(if of_sends { sends } else { receives })
    }

    /// A packet has arrived. What is damaged or comes from a stranger is dropped.
    pub(crate) fn handle_packet(&mut self, now_ns: u64, arrived: &SimPacket) {
        let SimPacket { route: Route { src, dst, .. }, bytes } = arrived;
        let Ok(packet) = Packet::parse(bytes) else { return };
        let qpn = packet.bth.dest_qpn;
        let Some(qp) = self.qps.get_mut(&qpn.get()) else { return };
        let is_peer = qp.link.as_ref().is_some_and(|link| link.peer == src.ip());
        let is_ours = packet.info.service == Service::Rc && dst.ip() == self.address;
        if !is_peer || !is_ours || !has_good_icrc(*src, *dst, bytes) {
            return;
        }
        let packets = qp.run(qpn, now_ns, &mut self.counters, |requester, responder, io| {
            if packet.info.is_response() {
                return requester.handle_response(&packet, io);
            }
            responder.handle_request(&packet, io).map_err(|code| {
                responder.refuse(code, io);
                WcStatus::WrFlushErr
            })
        });
        self.send(qpn, packets);
    }

    /// Serves timers, and sends what was posted.
    pub(crate) fn drive(&mut self, now_ns: u64) {
        let qpns: Vec<u32> = self.qps.keys().copied().collect();
        for qpn in qpns {
            let Some(qp) = self.qps.get_mut(&qpn) else { continue };
            let timers = |requester: &mut RxeRequester, _: &mut RxeResponder, io: &mut Io<'_>| {
                requester.handle_timeout(io)
            };
            let packets = qp.run(Qpn::new(qpn), now_ns, &mut self.counters, timers);
            self.send(Qpn::new(qpn), packets);
        }
    }

    /// When it wants to be driven, although nothing arrives.
    pub(crate) fn poll_timeout(&self) -> Option<u64> {
        let live = self.qps.values().filter(|qp| !qp.is_failed);
        live.filter_map(|qp| qp.requester.as_ref()?.poll_timeout()).min()
    }

    /// The packets that it has sent, oldest first.
    pub(crate) fn take_sent(&mut self) -> impl Iterator<Item = SimPacket> {
        self.sent.drain(..)
    }

    /// Gives packets of a queue pair their ICRCs.
    fn send(&mut self, qpn: Qpn, packets: Vec<Vec<u8>>) {
        let link = self.qps.get(&qpn.get()).and_then(|qp| qp.link.as_ref());
        let Some(peer) = link.map(|link| link.peer) else { return };
        let src = SocketAddr::new(self.address, 0xc000 | qpn.get() as u16 & 0x3fff);
        let dst = SocketAddr::new(peer, uroce_device::ROCE_PORT);
        for mut bytes in packets {
            let icrc = icrc_of(src, dst, &bytes);
            bytes.extend_from_slice(&icrc.to_le_bytes());
            let route = Route { src, dst, hop_limit: 64, traffic_class: 0 };
            self.sent.push_back(SimPacket { route, bytes });
        }
    }
}
