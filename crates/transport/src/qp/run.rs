//! Several packets of a message in one piece, where the memory of both ends is at hand (ADR 20).
//!
//! The packets between the first and the last of a SEND, WRITE or READ response differ in PSN and payload
//! only. When the peer's queue pair is in the same process, all that are due may pass as one [`Run`]: one
//! check and one copy from region to region at the other end, instead of a packet for each. What a run does
//! is what its packets would do one after the other (`r19_runs_do_what_their_packets_do`); whatever
//! is not usual is left to them.

use uroce_memory::{Access, MemTable, MrSlice, PdId, Requirer, Sge};
use uroce_wire::{Bth, Header, ICRC_LEN, Packet, train_packets};

use crate::attr::QpType;
use crate::context::{Arrival, Context, Path};
use crate::qp::{Admitted, QueuePair};
use crate::time::Instant;

/// Bytes of a packet beside its payload.
const AROUND: usize = Bth::LEN + ICRC_LEN;

/// Middle packets of a message that pass through the kernel as one send, with a path MTU of so many bytes.
pub(super) const fn middle_train(mtu: usize) -> u32 {
    train_packets(mtu + AROUND) as u32
}

/// Consecutive packets of one message, neither its first nor its last.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// A packet without payload: the BTH is that of the first packet, but for AckReq, which is that of the last.
    head: [u8; AROUND],
    packets: u32,
    /// Bytes of all payloads together, of which each packet has as many.
    length: usize,
    origin: Origin,
    path: Path,
}

/// Where the payload lies at the sender.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Origin {
    /// In a buffer of a work request.
    Request { pd: PdId, from: Sge },
    /// Where a READ says.
    Read { by: Requirer, rkey: u32, va: u64 },
}

impl Run {
    /// A run of `packets` packets of `mtu` bytes, the first of which has this header.
    pub(crate) fn new(
        bth: &Bth,
        packets: u32,
        mtu: usize,
        origin: Origin,
        path: Path,
    ) -> Option<Run> {
        let mut head = [0; AROUND];
        bth.write(&mut head)?;
        Some(Run { head, packets, length: packets as usize * mtu, origin, path })
    }

    /// How many packets it stands for.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// Where they go.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the packets have in common, as a packet without payload. AckReq is that of the last.
    pub fn head(&self) -> Option<Packet<'_>> {
        Packet::parse(&self.head).ok()
    }

    /// The payload, in the table of the sender; `None` if it may not send that.
    pub fn payload<'t>(&self, mem: &'t MemTable) -> Option<MrSlice<'t>> {
        match &self.origin {
            Origin::Request { pd, from } => mem.check_local(from, *pd, Access::empty()).ok(),
            &Origin::Read { by, rkey, va } => {
                mem.check(rkey, by, Access::REMOTE_READ, va, self.length as u64).ok()
            }
        }
    }

    /// Writes its packets, of `len` bytes each, behind each other into `out`. In the place of their ICRCs are the
    /// [registers](uroce_wire::crc_register) of their payloads if that is what is returned, which it is only if `crcs` are wanted; else
    /// nothing that counts. `None`, with nothing written that counts: they have another length, do not fit or may not
    /// be sent.
    pub(super) fn write(
        &self,
        len: usize,
        mut crcs: bool,
        out: &mut [u8],
        mem: &MemTable,
    ) -> Option<bool> {
        let mtu = self.length / self.packets as usize;
        if len != mtu + AROUND || out.len() < self.packets as usize * len {
            return None;
        }
        let (mut bth, payload) = (Bth::read(&self.head)?, self.payload(mem)?);
        let (asks, first) = (bth.ack_req, bth.psn);
        for (index, packet) in (0..self.packets).zip(out.chunks_exact_mut(len)) {
            bth.psn = first.add(index);
            bth.ack_req = asks && index + 1 == self.packets;
            bth.write(packet)?;
            let (packet, trailer) = packet.split_last_chunk_mut::<ICRC_LEN>()?;
            let (body, at) = (packet.get_mut(Bth::LEN..)?, index as usize * mtu);
            let crc = if crcs { payload.copy_out_crc(at, body) } else { None };
            match crc {
                Some(crc) => *trailer = crc.to_le_bytes(),
                None => payload.copy_out(at, body).ok()?,
            }
            crcs = crc.is_some();
        }
        Some(crcs)
    }

    /// Bytes of its packets from BTH to ICRC.
    fn wire_bytes(&self) -> u64 {
        (self.packets as usize * AROUND + self.length) as u64
    }
}

impl QueuePair {
    /// True if [`plan_run`](Self::plan_run) may have something.
    #[inline]
    pub fn may_run(&self) -> bool {
        self.requester.may_run() || self.responder.responses().starts_with_run()
    }

    /// What could leave next as a run of up to `most` packets, at least two, requests with up to `room` bytes.
    /// Nothing has changed: once the run is at the peer, call [`pass_run`](Self::pass_run).
    pub fn plan_run(&self, most: u32, room: u64) -> Option<Run> {
        if self.config.init.qp_type != QpType::Rc {
            return None;
        }
        if self.wants_answer() && !self.responder.responses().is_one_ack() {
            return self.responder.responses().plan_run(&self.config, most);
        }
        let room = u32::try_from(room >> self.config.mtu_shift()).unwrap_or(u32::MAX);
        self.requester.plan_run(&self.config, most.min(room))
    }

    /// The run has arrived: its packets count as sent.
    pub fn pass_run(&mut self, now: Instant, run: &Run, cx: &mut Context<'_>) {
        let Some(head) = run.head() else { return };
        cx.counters.sent_pkts += u64::from(run.packets);
        cx.counters.sent_bytes += run.wire_bytes();
        self.traffic.sent_bytes += run.wire_bytes();
        match run.origin {
            Origin::Read { .. } => self.responder.pass_run(run.packets),
            Origin::Request { .. } => {
                self.requester.pass_middle(&self.config, now, run.packets, head.bth.ack_req);
            }
        }
    }

    /// Takes in a run whose [`head`](Run::head) [`admits`](Self::admits) has let pass just before. False, with
    /// nothing changed, if its packets have to come one by one.
    pub fn handle_run(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        run: &Run,
        payload: &MrSlice<'_>,
        admitted: Admitted,
        cx: &mut Context<'_>,
    ) -> bool {
        let Some(head) = run.head().filter(|_| self.config.init.qp_type == QpType::Rc) else {
            return false;
        };
        debug_assert!(admitted.is_for(self.config.init.qpn), "admitted by another queue pair");
        let mtu = self.config.attr.path_mtu.bytes();
        if run.length != run.packets as usize * mtu || payload.len() != run.length {
            return false;
        }
        let taken = match head.info.is_request() {
            true => self.responder.take_run(&self.config, &head, run.packets, payload, cx),
            false => self.requester.take_run(&self.config, now, &head, run.packets, payload, cx),
        };
        if taken {
            cx.counters.rcvd_pkts += u64::from(run.packets);
            cx.counters.rcvd_bytes += run.wire_bytes();
            self.traffic.rcvd_bytes += run.wire_bytes();
            self.responder.note_congestion(&self.config, now, arrival);
            self.settle(cx);
        }
        taken
    }
}
