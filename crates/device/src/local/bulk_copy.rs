//! Messages that are copied from memory region to memory region (docs/adr/020-one-copy.md).
//!
//! Of two devices in one process, the sender of a long message holds its own engine, and tries the
//! lock of the other. If it gets the lock, both memory tables are at hand, and the middle of the
//! message is one copy. If it does not, packets are sent as usual.

use std::net::SocketAddr;
use std::sync::Arc;

use uroce_memory::MrSlice;
use uroce_transport::{Arrival, Instant, Path, Run};
use uroce_wire::Qpn;

use super::{EngineDatapath, LocalPeer};
use crate::engine::{Engine, Nic, reschedule, route};
use crate::engines::shared::Shared;
use crate::limits::RX_BUDGET;

impl Shared {
    /// Receives a run of packets from a device of this process, whose engine the caller holds. Never
    /// waits. False, with nothing changed, if the packets have to be sent one by one.
    pub(super) fn receive_run(&self, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool {
        let Some(mut engine) = self.try_lock() else {
            return false;
        };
        // The caller holds its own engine: it polls this one later, or wakes its progress thread.
        engine.assists = false;
        engine.wakes_thread = !engine.allows_assist();
        engine.receive_run(arrival, run, payload)
    }
}

impl Engine {
    /// Copies up to `most` packets of `qpn` at once. Returns their number; 0: they have to be sent
    /// one by one.
    pub(crate) fn bulk_copy(&mut self, qpn: Qpn, now: Instant, most: usize) -> usize {
        let Some(run) = self.plan_run(qpn, most) else {
            return 0;
        };
        let to = SocketAddr::new(run.path().dst, self.nic.local.port());
        let Some(peer) = self.peer_for_copy(&to) else {
            return 0;
        };
        // Packets before the run have to arrive before it.
        self.flush(now);
        let Engine { nic, datapath: EngineDatapath::Local(local), retry_at: None, .. } = self
        else {
            return 0;
        };
        let Some(payload) = run.payload(&nic.tables.mem) else {
            return 0;
        };
        let arrival = arrival(run.path(), nic.local);
        if !peer.receive_run(&arrival, &run, &payload) {
            return 0;
        }
        local.notify(&to);
        self.pass_run(qpn, now, &run);
        run.packets() as usize
    }

    /// The peer at `to`, if no application polls its engine. A thread of another device that polls
    /// this engine may use the one it came from in any case.
    fn peer_for_copy(&mut self, to: &SocketAddr) -> Option<Arc<LocalPeer>> {
        let EngineDatapath::Local(datapath) = &mut self.datapath else { return None };
        let endpoint = datapath.find(to)?;
        if !self.local.being_assisted && !endpoint.is_assisted() {
            return None;
        }
        self.local.peer(endpoint).map(Arc::clone)
    }

    fn plan_run(&mut self, qpn: Qpn, most: usize) -> Option<Run> {
        let Nic { qps, in_flight, .. } = &mut self.nic;
        let entry = qps.get_mut(qpn)?;
        let room = in_flight.allowance(entry).saturating_sub(entry.qp.bytes_in_flight());
        entry.qp.plan_run(u32::try_from(most).unwrap_or(u32::MAX), room)
    }

    fn pass_run(&mut self, qpn: Qpn, now: Instant, run: &Run) {
        let Nic { qps, tables, timers, in_flight, .. } = &mut self.nic;
        let Some(entry) = qps.get_mut(qpn) else { return };
        entry.qp.pass_run(now, run, &mut tables.context());
        timers.arm(qpn.get(), entry.qp.poll_timeout(), &mut entry.armed);
        in_flight.account(entry);
    }

    /// The receiving side of [`bulk_copy`](Self::bulk_copy).
    fn receive_run(&mut self, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool {
        if !self.local.copies_in_bulk {
            return false;
        }
        let now = self.clock.now();
        self.nic.tables.cqs.set_time(now);
        // Packets before the run have to be received before it.
        self.receive(now) < RX_BUDGET && self.nic.receive_run(now, arrival, run, payload)
    }
}

impl Nic {
    fn receive_run(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        run: &Run,
        payload: &MrSlice<'_>,
    ) -> bool {
        let Some(head) = run.head() else { return false };
        let Some(entry) = self.qps.get_mut(head.bth.dest_qpn) else {
            return false;
        };
        let admitted = entry.qp.admits(arrival, &head);
        let (Ok(admitted), None) = (admitted, entry.awaits_comm_est) else {
            return false;
        };
        let context = &mut self.tables.context();
        let taken = entry.qp.handle_run(now, arrival, run, payload, admitted, context);
        reschedule(entry, &mut self.scheduler, &mut self.timers, &mut self.in_flight);
        taken
    }
}

/// The header fields that the receiver sees of packets on this path.
fn arrival(path: &Path, local: SocketAddr) -> Arrival {
    let route = route(path, local);
    Arrival {
        src: route.src.ip(),
        dst: route.dst.ip(),
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit.max(1),
        ip_id: 0,
        udp_len: 0,
    }
}
