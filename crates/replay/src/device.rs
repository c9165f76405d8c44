//! A queue pair in virtual time, set up so that the recorded requests are valid.

use std::collections::HashMap;

use uroce_memory::{MemLimits, MemTable, PdId, Region, Sge};
use uroce_transport::{
    AddressVector, Arrival, CompletionQueue, Context, Counters, CqId, CqTable, EventQueue,
    Features, Instant, QpAttr, QpAttrMask, QpCaps, QpInit, QpState, QpType, QueuePair, RecvWr,
    ReorderBuffers, SrqTable, Wc, limits,
};
use uroce_wire::{DropReason, Mtu, Packet, Qpn};

use crate::memory::Memory;
use crate::{Recording, ReplayError, Setup};

/// Receives that wait at a time: one window of messages is more than a peer sends ahead.
const RECEIVES: u32 = 4096;
/// Completions between two looks at the queue: one packet may finish what a gap held back.
const COMPLETIONS: usize = 8192;
/// Queue pair of the requester if the capture does not tell.
const UNKNOWN_QPN: Qpn = Qpn::new(0xff_fffe);

/// A responder, and the tables of its device.
pub(crate) struct Responder {
    qp: QueuePair,
    mem: MemTable,
    cqs: CqTable,
    srqs: SrqTable,
    events: EventQueue,
    reorder_buffers: ReorderBuffers,
    counters: Counters,
    cq: CqId,
    buffer: Sge,
    /// Keys of now by those of the recording.
    pub keys: HashMap<u32, u32>,
}

fn failed(error: impl std::fmt::Display) -> ReplayError {
    ReplayError::Setup(error.to_string())
}

impl Responder {
    pub(crate) fn new(
        recording: &Recording,
        setup: &Setup,
        keeps: bool,
    ) -> Result<Self, ReplayError> {
        let qpn = recording.responder.qpn.unwrap_or(UNKNOWN_QPN);
        // A fixed seed: the keys of now are no secret, and the same in every run.
        let mut mem = MemTable::new([0x5e; 32], MemLimits::default());
        let pd = mem.alloc_pd().map_err(failed)?;
        let memory = Memory::register(&mut mem, pd, qpn.get(), &setup.regions)?;
        memory.fill(recording, setup.path_mtu);
        let buffer = receive_buffer(&mut mem, pd, setup)?;
        let mut cqs = CqTable::new();
        let cq = cqs.insert(CompletionQueue::new(COMPLETIONS));
        let mut qp = QueuePair::new(&init(qpn, pd, cq)).map_err(failed)?;
        qp.set_features(Features { reorder_buffer: keeps, ..Features::default() });
        let mut responder = Self {
            qp,
            mem,
            cqs,
            srqs: SrqTable::new(),
            events: EventQueue::new(),
            reorder_buffers: ReorderBuffers::new(),
            counters: Counters::new(),
            cq,
            buffer,
            keys: memory.keys,
        };
        responder.connect(recording, setup)?;
        Ok(responder)
    }

    fn connect(&mut self, recording: &Recording, setup: &Setup) -> Result<(), ReplayError> {
        let (local, remote) = (recording.responder.address, recording.requester.address);
        let attr = QpAttr {
            access: setup.access,
            av: Some(AddressVector::new(local, remote)),
            path_mtu: setup.path_mtu,
            dest_qpn: recording.requester.qpn.unwrap_or(UNKNOWN_QPN).get(),
            rq_psn: setup.first_psn.get(),
            max_dest_rd_atomic: limits::MAX_RD_ATOMIC,
            min_rnr_timer: setup.rnr_timer,
            ..QpAttr::default()
        };
        for (from, to) in [(QpState::Reset, QpState::Init), (QpState::Init, QpState::Rtr)] {
            let mask = QpAttrMask::required(QpType::Rc, from, to);
            self.modify(&QpAttr { state: to, ..attr }, mask)?;
        }
        Ok(())
    }

    fn modify(&mut self, attr: &QpAttr, mask: QpAttrMask) -> Result<(), ReplayError> {
        let (qp, mut context) = self.parts();
        qp.modify(Instant::ZERO, attr, mask, &mut context).map_err(failed)
    }

    fn parts(&mut self) -> (&mut QueuePair, Context<'_>) {
        let context = Context {
            mem: &mut self.mem,
            cqs: &mut self.cqs,
            srqs: &mut self.srqs,
            events: &mut self.events,
            reorder_buffers: &mut self.reorder_buffers,
            counters: &mut self.counters,
        };
        (&mut self.qp, context)
    }

    /// Posts one receive. With thousands of them waiting one more makes no difference.
    pub(crate) fn post_receive(&mut self) {
        let buffer = [self.buffer];
        let sges: &[Sge] = if buffer[0].length > 0 { &buffer } else { &[] };
        let (qp, mut context) = self.parts();
        let _ = qp.post_recv(&RecvWr { wr_id: 0, sges }, &mut context);
    }

    /// Takes in a packet whose ICRC is right.
    pub(crate) fn handle(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        bytes: &[u8],
    ) -> Result<(), DropReason> {
        let packet = Packet::parse(bytes).map_err(|error| error.drop_reason())?;
        let (qp, mut context) = self.parts();
        // A device finds the queue pair by its number; a fault rule may have changed it on the way.
        if packet.bth.dest_qpn != qp.qpn() {
            return Err(DropReason::UnknownQpn);
        }
        let admitted = qp.admits(arrival, &packet)?;
        qp.handle_packet(now, arrival, &packet, admitted, &mut context);
        self.forget_completions();
        Ok(())
    }

    /// The next packet that it sends.
    pub(crate) fn poll<'b>(&mut self, now: Instant, out: &'b mut [u8]) -> Option<&'b [u8]> {
        let (qp, mut context) = self.parts();
        let sent = qp.poll_transmit(now, out, &mut context)?;
        out.get(..sent.len)
    }

    fn forget_completions(&mut self) {
        let mut batch = [Wc::default(); 16];
        while self.cqs.get_mut(self.cq).is_some_and(|cq| cq.poll(&mut batch) > 0) {}
        while self.events.pop().is_some() {}
    }
}

fn init(qpn: Qpn, pd: PdId, cq: CqId) -> QpInit {
    let caps = QpCaps { max_recv_wr: RECEIVES, max_recv_sge: 1, ..QpCaps::default() };
    QpInit {
        qpn,
        qp_type: QpType::Rc,
        pd,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        xrcd: None,
        caps,
        signal_all: false,
        port_mtu: Mtu::M4096,
    }
}

/// One buffer for all receives: what arrives in it is not read.
fn receive_buffer(mem: &mut MemTable, pd: PdId, setup: &Setup) -> Result<Sge, ReplayError> {
    let length = u32::try_from(setup.longest_message).map_err(failed)?;
    let region = Region::alloc(length as usize).map_err(failed)?;
    let addr = region.addr();
    let access = uroce_memory::Access::LOCAL_WRITE;
    let mr = mem.reg_mr(pd, region, addr, access).map_err(failed)?;
    Ok(Sge { addr, length, lkey: mr.lkey })
}
