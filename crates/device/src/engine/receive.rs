//! Receive path: from a received packet to its queue pair, in the validation order of docs/wire.md.

use std::cell::RefCell;

use uroce_datapath::{Fate, FollowingSegments, RxPacket};
use uroce_memory::mutation::mutated;
use uroce_transport::{Arrival, ArrivedTrain, Instant};
use uroce_wire::{DropReason, Packet, Psn, Qpn, Service, Slot};

use super::Nic;
use super::cross_engine::{CrossEngineOp, is_elsewhere};
use super::gsi::Gsi;
use super::qp_table::QpEntry;

/// Bytes of the UDP header.
const UDP_HEADER: usize = 8;

impl Nic {
    /// Delivers a packet, or counts why not.
    pub(super) fn receive(&mut self, now: Instant, rx: &RxPacket<'_>, gsi: &mut Gsi) {
        if let Some(fate) = rx.fate {
            return self.receive_recorded(now, rx, fate, gsi);
        }
        if let Err(reason) = self.deliver(now, rx, gsi) {
            self.tables.counters.drop(reason);
        }
    }

    /// [`receive`](Self::receive) of a packet that is captured: records in `fate` whether it was
    /// dropped.
    fn receive_recorded(
        &mut self,
        now: Instant,
        rx: &RxPacket<'_>,
        fate: &RefCell<Fate>,
        gsi: &mut Gsi,
    ) {
        self.tables.counters.take_latest_drop();
        self.receive(now, &RxPacket { fate: None, ..*rx }, gsi);
        if let Some(reason) = self.tables.counters.take_latest_drop() {
            fate.replace(Fate::Dropped(reason));
        }
    }

    /// Cheap checks before expensive ones, and no change of state before the ICRC check
    /// (docs/wire.md).
    fn deliver(
        &mut self,
        now: Instant,
        rx: &RxPacket<'_>,
        gsi: &mut Gsi,
    ) -> Result<(), DropReason> {
        let packet = self.parser.parse(rx.payload).map_err(|error| error.drop_reason())?;
        let arrival = arrival(rx);
        let qpn = packet.bth.dest_qpn;
        if qpn == Qpn::MULTICAST {
            return self.deliver_to_group(now, rx, &packet, arrival, gsi);
        }
        // A multicast address only counts together with the multicast QPN.
        if arrival.dst != self.local.ip() {
            return Err(DropReason::WrongDestination);
        }
        if qpn == Qpn::GSI {
            return gsi.handle_packet(now, self.icrc_caps.rx, rx, &packet, &mut self.icrc);
        }
        self.deliver_to(now, rx, &packet, arrival, qpn, gsi)
    }

    fn deliver_to(
        &mut self,
        now: Instant,
        rx: &RxPacket<'_>,
        packet: &Packet<'_>,
        mut arrival: Arrival,
        qpn: Qpn,
        gsi: &mut Gsi,
    ) -> Result<(), DropReason> {
        let entry = self.qps.get_mut(qpn).ok_or_else(|| no_such_qp(qpn, self.slot))?;
        let admitted = entry.qp.admits(&arrival, packet)?;
        arrival.ip_id = entry.rx_icrc.check(self.icrc_caps.rx, rx, &mut self.icrc)?;
        let confirmed = entry.confirmed_by(packet);
        entry.qp.handle_packet(now, &arrival, packet, admitted, &mut self.tables.context());
        if packet.info.is_request() && packet.info.ends() {
            entry.handle_message_end();
        }
        if entry.qp.take_lost_trains() {
            self.gso_black_holes.record(arrival.src, now);
        }
        if let Some(id) = confirmed {
            entry.awaits_comm_est = None;
            match is_elsewhere(self.slot, id.slot()) {
                true => self.cross_engine_ops.push(CrossEngineOp::FirstPacket(id)),
                false => gsi.handle_comm_est(id),
            }
        }
        if rx.following.is_some() {
            self.deliver_following(now, rx, packet, &arrival, qpn);
        }
        if let Some(before) = self.unscheduled.replace(qpn).filter(|before| *before != qpn) {
            self.reschedule(before);
        }
        Ok(())
    }

    /// Delivers the packets behind `packet` in the buffer that it arrived in, as far as they are alike and nothing about them is
    /// unusual. The others come one by one.
    #[inline(never)]
    fn deliver_following(
        &mut self,
        now: Instant,
        rx: &RxPacket<'_>,
        packet: &Packet<'_>,
        arrival: &Arrival,
        qpn: Qpn,
    ) {
        let Nic { qps, tables, icrc, icrc_caps, .. } = self;
        let Some(entry) = qps.get_mut(qpn) else { return };
        let QpEntry { qp, rx_icrc, .. } = entry;
        let mut following = rx.following_packets();
        let Some(first) =
            rx.following_packets().next().and_then(|rx| packet.parse_alike(rx.payload))
        else {
            return;
        };
        let Ok(admitted) = qp.admits(arrival, &first) else { return };
        let next = |psn: Psn| {
            let rx = following.next()?;
            let next = packet
                .parse_alike(rx.payload)
                .filter(|next| next.bth.psn == psn || mutated("joined-any-psn"))?;
            rx_icrc.check(icrc_caps.rx, &rx, icrc).ok()?;
            Some(next)
        };
        let count = rx.following.map_or(0, FollowingSegments::count);
        let train = ArrivedTrain { first, admitted, count };
        let taken = qp.handle_train(now, arrival, &train, next, &mut tables.context());
        rx.take_following(taken);
        if first.info.is_request() && first.info.ends() {
            // The second message in a row says all that further ones would.
            (0..taken.min(2)).for_each(|_| entry.handle_message_end());
        }
    }

    /// Each attached queue pair gets its copy, after its own P_Key and Q_Key check (docs/wire.md).
    fn deliver_to_group(
        &mut self,
        now: Instant,
        rx: &RxPacket<'_>,
        packet: &Packet<'_>,
        arrival: Arrival,
        gsi: &mut Gsi,
    ) -> Result<(), DropReason> {
        if packet.info.service != Service::Ud || !arrival.dst.is_multicast() {
            return Err(DropReason::MulticastNotUd);
        }
        let members = self.mcast.members(arrival.dst).len();
        if members == 0 {
            return Err(DropReason::NoMulticastMember);
        }
        for place in 0..members {
            let Some(&member) = self.mcast.members(arrival.dst).get(place) else {
                break;
            };
            match self.deliver_to(now, rx, packet, arrival, member, gsi) {
                Err(DropReason::BadIcrc) => return Err(DropReason::BadIcrc),
                Err(reason) => self.tables.counters.drop(reason),
                Ok(()) => {}
            }
        }
        Ok(())
    }
}

/// The fields of the IP header that the transport uses. The identification is filled in once the
/// ICRC has confirmed its value.
fn arrival(rx: &RxPacket<'_>) -> Arrival {
    Arrival {
        src: rx.src.ip(),
        dst: rx.dst.ip(),
        traffic_class: rx.traffic_class,
        hop_limit: rx.hop_limit,
        ip_id: 0,
        udp_len: u16::try_from(rx.payload.len() + UDP_HEADER).unwrap_or(u16::MAX),
    }
}

/// Why there is no queue pair with this number.
fn no_such_qp(qpn: Qpn, own: Option<Slot>) -> DropReason {
    match own {
        _ if qpn == Qpn::SMI => DropReason::SmiQpn,
        Some(own) if Slot::of(qpn).is_some_and(|slot| slot != own) => DropReason::NoProcess,
        _ => DropReason::UnknownQpn,
    }
}
