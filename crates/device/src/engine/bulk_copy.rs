//! Messages that are copied from memory region to memory region (docs/adr/020-one-copy.md).
//!
//! Of two devices in one process, the sender of a long message holds its own engine, and tries the
//! lock of the other. If it gets the lock, both memory tables are at hand, and the middle of the
//! message is one copy. If it does not, packets are sent as usual.

use std::net::SocketAddr;

use uroce_memory::MrSlice;
use uroce_transport::{Arrival, Instant, Path, Run};
use uroce_wire::Qpn;

use super::transmit::route;
use super::{Engine, Nic};
use crate::limits::RX_BUDGET;
use crate::local::EngineDatapath;

impl Engine {
    /// Copies up to `most` packets of `qpn` at once. Returns their number; 0: they have to be sent
    /// one by one.
    pub(super) fn bulk_copy(&mut self, qpn: Qpn, now: Instant, most: usize) -> usize {
        let Some(run) = self.nic.plan_run(qpn, most) else {
            return 0;
        };
        let to = SocketAddr::new(run.path().dst, self.nic.local.port());
        let Some(peer) = self.local.peer_for_copy(&mut self.datapath, &to) else {
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
        nic.pass_run(qpn, now, &run);
        run.packets() as usize
    }

    /// The receiving side of [`bulk_copy`](Self::bulk_copy).
    pub(crate) fn receive_run(
        &mut self,
        arrival: &Arrival,
        run: &Run,
        payload: &MrSlice<'_>,
    ) -> bool {
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
    fn plan_run(&mut self, qpn: Qpn, most: usize) -> Option<Run> {
        let entry = self.qps.get_mut(qpn)?;
        let room = self.schedule.allowance(entry).saturating_sub(entry.qp.bytes_in_flight());
        entry.qp.plan_run(u32::try_from(most).unwrap_or(u32::MAX), room)
    }

    fn pass_run(&mut self, qpn: Qpn, now: Instant, run: &Run) {
        let Some(entry) = self.qps.get_mut(qpn) else { return };
        entry.qp.pass_run(now, run, &mut self.tables.context());
        self.schedule.arm(entry);
        self.schedule.account(entry);
    }

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
        self.schedule.update(entry);
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
