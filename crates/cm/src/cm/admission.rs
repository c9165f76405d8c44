//! Which new requests are let in (A21). Nothing is kept of a request that is not, and an
//! answer to it is as long as the request (A26).

use std::net::IpAddr;

use uroce_wire::{DropReason, Gid, Qpn};

use super::Cm;
use crate::call::DEFAULT_PKEY;
use crate::connection::{Connection, Standing, rej};
use crate::event::{ConnectionRequest, Event};
use crate::identity::Identity;
use crate::ip_cm::IpCm;
use crate::limits::UNCONFIRMED;
use crate::listener::Listeners;
use crate::mad::Mad;
use crate::message::{RejectedMessage, Req, SidrReq, TransportService};
use crate::mutation::mutated;
use crate::reopening::Early;
use crate::resolution::{Answer, Resolution};
use crate::time::Time;
use crate::{CommId, PortSpace, PrivateData, RejReason, ServiceId, SidrStatus};

/// Code of the smallest path MTU: 256.
const SMALLEST_MTU: u8 = 1;

/// Why a request is not let in.
enum Refusal {
    /// With an answer.
    Rej(RejReason, DropReason),
    /// Without one: the answer would only help a flood.
    Silent(DropReason),
}

impl Cm {
    pub(super) fn handle_req(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        req: &Req,
    ) -> Result<(), DropReason> {
        let known = self.table.find_remote_id(peer, req.local_comm_id);
        if let Some(id) = known.filter(|_| !mutated("req-again-is-new")) {
            return self.handle_duplicate_req(now, peer, tid, req, id);
        }
        let proven = self.proven.contains(peer);
        if !self.requests.take(now, peer, proven) {
            return Err(DropReason::CmRateLimit);
        }
        let early = || Early { peer, tid, service_id: req.service_id, message: (*req).into() };
        match self.admit(now, peer, tid, req, proven) {
            Ok(()) => Ok(()),
            Err(Refusal::Silent(why)) => Err(why),
            Err(Refusal::Rej(_, why)) if self.reopening.keep_refused(now, why, early) => Err(why),
            Err(Refusal::Rej(reason, why)) => {
                self.send_rej(now, peer, tid, req, reason);
                Err(why)
            }
        }
    }

    fn handle_duplicate_req(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        req: &Req,
        id: CommId,
    ) -> Result<(), DropReason> {
        let Some(connection) = self.table.connection_mut(id) else {
            return Err(DropReason::CmUnknownId);
        };
        let reason = connection.handle_duplicate_req(now, &mut self.out);
        if reason == DropReason::CmStale {
            self.send_rej(now, peer, tid, req, RejReason::STALE_CONNECTION);
        }
        Err(reason)
    }

    fn admit(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        req: &Req,
        proven: bool,
    ) -> Result<(), Refusal> {
        let bad = |reason| Refusal::Rej(reason, DropReason::CmBadRequest);
        check(req, peer, &self.us).map_err(bad)?;
        let ip = check_header(&self.us, req.service_id, peer, req.private_data.bytes());
        let ip = ip.map_err(|()| bad(RejReason::UNSUPPORTED))?;
        check_listener(&self.table.listeners, req.service_id, PortSpace::takes_connections)?;
        if let Some(old) = self.table.find_remote_qpn(peer, req.local_qpn)
            && !mutated("req-again-is-new")
        {
            return Err(match self.contradict(now, peer, old) {
                Standing::InDoubt => Refusal::Silent(DropReason::CmStale),
                Standing::Firm => Refusal::Rej(RejReason::STALE_CONNECTION, DropReason::CmStale),
            });
        }
        self.check_room(now, peer, req.service_id, proven)?;
        let full = Refusal::Silent(DropReason::CmBacklog);
        let id = self.draw_id().ok_or(full)?;
        let decision_time = self.limits.decision_time;
        let connection = Connection::called(now, &self.us, peer, (id, tid), req, decision_time);
        self.table.add_connection(id, connection);
        let request = Box::new(ConnectionRequest::new(peer, req, ip));
        self.out.event(Event::Request { id, request });
        Ok(())
    }

    /// Backlog, source, device, in this order. Where there is no room, the call makes some that waits for
    /// its RTU for longest: that is what a forged one does.
    fn check_room(
        &mut self,
        now: Time,
        peer: IpAddr,
        id: ServiceId,
        proven: bool,
    ) -> Result<(), Refusal> {
        if !self.table.listeners.has_room(id) {
            return Err(Refusal::Rej(RejReason::NO_RESOURCES, DropReason::CmBacklog));
        }
        if !self.table.half_open.source_has_room(peer, &self.limits) {
            // A source that has completed an exchange before may be slow.
            let before = if proven { now.saturating_sub(UNCONFIRMED) } else { now };
            let oldest = self.table.oldest_unconfirmed(before, |source| source == peer);
            let full = Refusal::Rej(RejReason::NO_RESOURCES, DropReason::CmBacklog);
            self.table.make_room(oldest.ok_or(full)?, &mut self.out);
        }
        if !self.table.half_open.has_room(proven, &self.limits) {
            let known = &self.proven;
            let oldest = self.table.oldest_unconfirmed(now, |source| !known.contains(source));
            let full = Refusal::Silent(DropReason::CmBacklog);
            self.table.make_room(oldest.ok_or(full)?, &mut self.out);
        }
        Ok(())
    }

    fn send_rej(&mut self, now: Time, peer: IpAddr, tid: u64, req: &Req, reason: RejReason) {
        let ids = [CommId::NONE, req.local_comm_id];
        let mut rej = rej(ids, RejectedMessage::REQ, reason, PrivateData::default());
        if reason == RejReason::INVALID_MTU {
            rej = rej.with_largest_mtu(self.us.active_mtu);
        }
        self.send_stray(now, peer, Mad { tid, message: rej.into() });
    }

    pub(super) fn handle_sidr_req(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        req: &SidrReq,
    ) -> Result<(), DropReason> {
        let known = self.table.find_question(peer, req.request_id);
        if let Some(id) = known.filter(|_| !mutated("question-again-is-new")) {
            if let Some(resolution) = self.table.resolution_mut(id) {
                resolution.handle_duplicate_req(&mut self.out);
            }
            return Err(DropReason::CmDuplicate);
        }
        let proven = self.proven.contains(peer);
        if !self.requests.take(now, peer, proven) {
            return Err(DropReason::CmRateLimit);
        }
        self.admit_question(now, peer, tid, req, proven)
    }

    fn admit_question(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        req: &SidrReq,
        proven: bool,
    ) -> Result<(), DropReason> {
        let ip = check_header(&self.us, req.service_id, peer, req.private_data.bytes());
        let Ok(ip) = ip.and_then(|ip| is_default(req.pkey).then_some(ip).ok_or(())) else {
            self.refuse_question(now, peer, tid, req, SidrStatus::REJECTED);
            return Err(DropReason::CmBadRequest);
        };
        let early = || Early { peer, tid, service_id: req.service_id, message: (*req).into() };
        let listener =
            check_listener(&self.table.listeners, req.service_id, PortSpace::takes_datagrams);
        match listener.and_then(|()| self.check_room(now, peer, req.service_id, proven)) {
            Ok(()) => {}
            Err(Refusal::Silent(why)) => return Err(why),
            Err(Refusal::Rej(_, why)) if self.reopening.keep_refused(now, why, early) => {
                return Err(why);
            }
            Err(Refusal::Rej(reason, why)) => {
                let status = match reason {
                    RejReason::INVALID_SERVICE_ID => SidrStatus::INVALID_SERVICE_ID,
                    _ => SidrStatus::REJECTED,
                };
                self.refuse_question(now, peer, tid, req, status);
                return Err(why);
            }
        }
        let id = self.draw_id().ok_or(DropReason::CmBacklog)?;
        let until = now.saturating_add(self.limits.decision_time);
        let asked = Resolution::asked(until, peer, (id, tid), req, ip, &mut self.out);
        self.table.add_resolution(id, asked);
        Ok(())
    }

    fn refuse_question(
        &mut self,
        now: Time,
        peer: IpAddr,
        tid: u64,
        req: &SidrReq,
        status: SidrStatus,
    ) {
        let Ok(rep) = Answer::refusal(status).rep(req) else { return };
        self.send_stray(now, peer, Mad { tid, message: rep.into() });
    }
}

/// There is a listener, whose port space `serves` requests of this kind.
fn check_listener(
    listeners: &Listeners,
    id: ServiceId,
    serves: fn(PortSpace) -> bool,
) -> Result<(), Refusal> {
    if !id.port_space().is_none_or(serves) {
        return Err(Refusal::Rej(RejReason::INVALID_SERVICE_ID, DropReason::CmBadRequest));
    }
    if listeners.contains(id) {
        return Ok(());
    }
    Err(Refusal::Rej(RejReason::INVALID_SERVICE_ID, DropReason::CmNoListener))
}

/// The header that every request to a service of rdma_cm begins with: it must speak of the
/// peer and of us.
fn check_header(
    us: &Identity,
    service_id: ServiceId,
    peer: IpAddr,
    private_data: &[u8],
) -> Result<Option<IpCm>, ()> {
    if service_id.port_space().is_none() {
        return Ok(None);
    }
    match IpCm::split(private_data) {
        Some((Ok(ip), _)) if ip.source == peer && ip.destination == us.address => Ok(Some(ip)),
        _ => Err(()),
    }
}

/// Full or limited membership of the only partition (B53).
fn is_default(pkey: u16) -> bool {
    pkey & 0x7fff == DEFAULT_PKEY & 0x7fff
}

/// The one extended transport that there is (X6).
const XRC: u8 = 1;

/// What a REQ to any service must be. The path must be the one that the packet came by: we
/// send nothing to third parties (A26).
fn check(req: &Req, peer: IpAddr, us: &Identity) -> Result<(), RejReason> {
    let path = &req.primary;
    if path.local_gid != Gid::from_ip(peer) || path.remote_gid != Gid::from_ip(us.address) {
        return Err(RejReason::INVALID_GID);
    }
    let known = match req.transport {
        TransportService::RC | TransportService::UC => true,
        TransportService::EXTENDED => req.extended_transport == XRC,
        _ => false,
    };
    if !known {
        return Err(RejReason::INVALID_TRANSPORT_TYPE);
    }
    if !(SMALLEST_MTU..=us.active_mtu).contains(&req.path_mtu) {
        return Err(RejReason::INVALID_MTU);
    }
    if [Qpn::SMI, Qpn::GSI, Qpn::MULTICAST].contains(&req.local_qpn) {
        return Err(RejReason::NO_QP);
    }
    if req.local_comm_id == CommId::NONE {
        return Err(RejReason::INVALID_COMM_ID);
    }
    if !is_default(req.pkey) {
        return Err(RejReason::UNSUPPORTED);
    }
    Ok(())
}
