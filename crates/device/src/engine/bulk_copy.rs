//! Payload that goes from region to region, past the datapath (docs/adr/020-one-copy.md).
//!
//! Of two devices in one process, whoever sends a long message holds his own engine, and tries the lock of the
//! other. If he gets it, both memories are at hand, and the middle of the message is one copy. If he does
//! not, its packets leave as ever.

use super::transmit::route;
use super::{Engine, Nic, reschedule};
use crate::limits::RX_BUDGET;
use crate::shared::Shared;
use std::any::Any;
use std::net::SocketAddr;
use uroce_datapath::{Datapath, Neighbour};
use uroce_memory::MrSlice;
use uroce_transport::{Arrival, Instant, Path, Run};
use uroce_wire::Qpn;

impl Engine {
    /// Hands over up to `most` packets of `qpn` at once. Returns how many; 0: they have to leave one by one.
    pub(super) fn bulk_copy(&mut self, qpn: Qpn, now: Instant, most: usize) -> usize {
        let Some(run) = self.plan_run(qpn, most) else {
            return 0;
        };
        let to = SocketAddr::new(run.path().dst, self.nic.local.port());
        if !self.being_assisted && !self.datapath.invites(to) {
            return 0;
        }
        // What was written before goes before.
        self.flush(now);
        let Engine { nic, datapath, retry_at: None, .. } = self else {
            return 0;
        };
        let Some(payload) = run.payload(&nic.tables.mem) else {
            return 0;
        };
        let arrival = arrival(run.path(), nic.local);
        if !datapath.meet(to, &mut |there| take(there, &arrival, &run, &payload)) {
            return 0;
        }
        self.pass_run(qpn, now, &run);
        run.packets() as usize
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

    /// The other side of [`carry`](Self::carry).
    pub(crate) fn receive_run(
        &mut self,
        arrival: &Arrival,
        run: &Run,
        payload: &MrSlice<'_>,
    ) -> bool {
        if !self.copies_in_bulk {
            return false;
        }
        let now = self.clock.now();
        self.nic.tables.cqs.set_time(now);
        // What was sent before the run comes before it.
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

fn take(there: &dyn Neighbour, arrival: &Arrival, run: &Run, payload: &MrSlice<'_>) -> bool {
    let there: &dyn Any = there;
    there.downcast_ref::<Shared>().is_some_and(|shared| shared.receive_run(arrival, run, payload))
}

/// What the receiver sees of packets on this path.
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
