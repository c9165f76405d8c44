//! Listing what a device has. One engine after the other is locked for as long as it takes to copy numbers;
//! words are made of them afterwards.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::Arc;

use uroce_cm::{CommId, ServiceId, State};
use uroce_datapath::FaultCounters;
use uroce_memory::{MrInfo, PdId};
use uroce_transport::{
    CqId, FlushReason, QpAttr, QpInit, QpState, QpTraffic, QpType, SrqAttr, SrqId, XrcSrq,
};
use uroce_wire::Qpn;

use crate::counters;
use crate::engine::Engine;
use crate::engines::Shared;
use crate::resource::{Resource, ResourceKind};

/// Names of the migration states, by number (`ibv_mig_state`).
const MIGRATION: [&str; 3] = ["MIGRATED", "REARM", "ARMED"];

struct Qp {
    init: QpInit,
    attr: QpAttr,
    waiting: usize,
    traffic: QpTraffic,
    error: Option<FlushReason>,
}

struct Cq {
    id: CqId,
    capacity: usize,
    waiting: usize,
    overflowed: bool,
    channel: bool,
}

struct Srq {
    id: SrqId,
    pd: PdId,
    attr: SrqAttr,
    waiting: usize,
    /// Of an XRC SRQ, with the number that peers name.
    xrc: Option<(XrcSrq, u32)>,
}

struct Connection {
    id: CommId,
    qpn: Option<Qpn>,
    state: State,
    peer: IpAddr,
}

struct Inventory {
    counters: Vec<(&'static str, u64)>,
    qps: Vec<Qp>,
    cqs: Vec<Cq>,
    mrs: Vec<MrInfo>,
    pds: Vec<(PdId, u32)>,
    srqs: Vec<Srq>,
    connections: Vec<Connection>,
    listeners: Vec<ServiceId>,
}

/// Everything that the device `about` has in its engines, itself and its counters first.
pub(crate) fn list(
    engines: &[Arc<Shared>],
    about: &Resource,
    faults: Option<&FaultCounters>,
) -> Vec<Resource> {
    let parts = engines.iter().map(|shared| Inventory::take(&shared.lock()));
    let mut all = parts.reduce(Inventory::with).expect("a device has an engine");
    all.sort();
    let mut list = vec![about.clone(), counters_line(&all.counters, faults)];
    list.extend(all.qps.iter().map(qp_line));
    let users = count(all.qps.iter().flat_map(|Qp { init, .. }| [init.send_cq, init.recv_cq]));
    list.extend(all.cqs.iter().map(|cq| cq_line(cq, users.get(&cq.id).copied().unwrap_or(0))));
    list.extend(all.mrs.iter().map(mr_line));
    list.extend(all.pds.iter().map(|&(pd, users)| pd_line(pd, users)));
    let users = count(all.qps.iter().filter_map(|qp| qp.init.srq));
    list.extend(all.srqs.iter().map(|srq| srq_line(srq, users.get(&srq.id).copied().unwrap_or(0))));
    list.extend(all.listeners.iter().copied().map(listener_line));
    list.extend(all.connections.iter().map(connection_line));
    list
}

impl Inventory {
    fn take(engine: &Engine) -> Self {
        let nic = &engine.nic;
        let cqs = nic.tables.cqs.iter().map(|(id, cq)| Cq {
            id,
            capacity: cq.capacity(),
            waiting: cq.len(),
            overflowed: cq.is_overflowed(),
            channel: nic.tables.cq_notes.get(&id).is_some_and(|note| note.channel.is_some()),
        });
        let qps = nic.qps.iter().map(|entry| Qp {
            init: entry.init,
            attr: entry.qp.attr(),
            waiting: entry.qp.send_queue_len(),
            traffic: entry.qp.traffic(),
            error: entry.qp.error(),
        });
        let srqs = nic.tables.srqs.iter().map(|(id, srq)| Srq {
            id,
            pd: srq.pd(),
            attr: srq.attr(),
            waiting: srq.len(),
            xrc: srq.xrc().map(|xrc| (xrc, srq.number())),
        });
        let connections = engine.gsi.connections().map(|(id, qpn, state, peer)| Connection {
            id,
            qpn,
            state,
            peer,
        });
        Inventory {
            counters: engine.counters(),
            qps: qps.collect(),
            cqs: cqs.collect(),
            mrs: nic.tables.mem.mrs().collect(),
            pds: nic.tables.mem.pds().collect(),
            srqs: srqs.collect(),
            connections: connections.collect(),
            listeners: engine.gsi.listeners().collect(),
        }
    }

    /// Adds what another engine has. Regions and domains are the same in each, so that the regions are among
    /// the users of a domain in each.
    fn with(mut self, other: Inventory) -> Self {
        counters::add(&mut self.counters, &other.counters);
        self.qps.extend(other.qps);
        self.cqs.extend(other.cqs);
        self.srqs.extend(other.srqs);
        self.connections.extend(other.connections);
        self.listeners.extend(other.listeners);
        let regions = count(other.mrs.iter().map(|info| info.pd));
        let others: HashMap<PdId, u32> = other.pds.into_iter().collect();
        for (pd, users) in &mut self.pds {
            let more = others.get(pd).copied().unwrap_or(0);
            let twice = regions.get(pd).copied().unwrap_or(0);
            *users += more.saturating_sub(u32::try_from(twice).unwrap_or(u32::MAX));
        }
        self
    }

    /// Tables that are looked up by hash have no order of their own.
    fn sort(&mut self) {
        self.qps.sort_unstable_by_key(|qp| qp.init.qpn.get());
        self.connections.sort_unstable_by_key(|connection| connection.id);
        self.listeners.sort_unstable();
    }
}

fn count<T: Eq + Hash>(used: impl Iterator<Item = T>) -> HashMap<T, usize> {
    let mut users = HashMap::new();
    used.for_each(|object| *users.entry(object).or_default() += 1);
    users
}

/// The counters of a device, and two for each rule of its faults.
fn counters_line(counters: &[(&'static str, u64)], faults: Option<&FaultCounters>) -> Resource {
    let line = Resource::new(ResourceKind::Counters);
    let line = counters.iter().fold(line, |line, (name, value)| line.with(*name, value));
    let rules = faults.map(FaultCounters::rules).unwrap_or_default();
    rules.iter().fold(line, |line, rule| {
        line.with(format!("fault_{}_matched", rule.name), rule.matched)
            .with(format!("fault_{}_applied", rule.name), rule.applied)
    })
}

fn qp_line(Qp { init, attr, waiting, traffic, error }: &Qp) -> Resource {
    let has_peer = init.qp_type != QpType::Ud && attr.state != QpState::Reset;
    let remote = attr.av.filter(|_| has_peer).map(|av| av.remote);
    let migration = MIGRATION.get(usize::from(attr.path_mig_state)).copied();
    Resource::new(ResourceKind::Qp)
        .with("lqpn", init.qpn.get())
        .with_some("rqpn", remote.map(|_| attr.dest_qpn))
        .with_some("peer", remote)
        .with("type", init.qp_type.name())
        .with("state", attr.state.name())
        .with("rq-psn", attr.rq_psn)
        .with("sq-psn", attr.sq_psn)
        .with("path-mig-state", migration.unwrap_or("MIGRATED"))
        .with("path-mtu", attr.path_mtu)
        .with("sends", waiting)
        .with("pdn", init.pd.place())
        .with("send-cqn", init.send_cq.0)
        .with("recv-cqn", init.recv_cq.0)
        .with_some("srqn", init.srq.map(|srq| srq.0))
        .with_some("xrcdn", init.xrcd.map(|xrcd| xrcd.0))
        .with("sent-msgs", traffic.sent_messages)
        .with("rcvd-msgs", traffic.rcvd_messages)
        .with("sent-bytes", traffic.sent_bytes)
        .with("rcvd-bytes", traffic.rcvd_bytes)
        .with("retransmitted-pkts", traffic.retransmitted_pkts)
        .with("rcvd-rnr", traffic.rcvd_rnr_naks)
        .with_some("error", error.map(error_word))
}

/// What ended a queue pair: the status of its first failed completion, where there is one.
fn error_word(reason: FlushReason) -> &'static str {
    match reason {
        FlushReason::ByModify => "modify",
        FlushReason::SendFailed { status, .. } | FlushReason::RecvFailed { status, .. } => {
            status.name().trim_start_matches("IBV_WC_")
        }
        FlushReason::PeerViolation { code, .. } => code.name(),
        FlushReason::CqOverflow => "CQ overflow",
    }
}

fn cq_line(cq: &Cq, users: usize) -> Resource {
    Resource::new(ResourceKind::Cq)
        .with("cqn", cq.id.0)
        .with("cqe", cq.capacity)
        .with("users", users)
        .with("waiting", cq.waiting)
        .with("channel", if cq.channel { "yes" } else { "no" })
        .with("overflowed", if cq.overflowed { "yes" } else { "no" })
}

fn mr_line(info: &MrInfo) -> Resource {
    Resource::new(ResourceKind::Mr)
        .with("mrn", info.mr.id.place())
        .with("rkey", format_args!("{:#x}", info.mr.rkey.0))
        .with("lkey", format_args!("{:#x}", info.mr.lkey.0))
        .with("iova", format_args!("{:#x}", info.iova))
        .with("mrlen", info.len)
        .with("access", access_words(info.access))
        .with("pdn", info.pd.place())
}

fn access_words(access: uroce_memory::Access) -> String {
    let names: Vec<_> = access.iter_names().map(|(name, _)| name).collect();
    names.join("|")
}

fn pd_line(pd: PdId, users: u32) -> Resource {
    Resource::new(ResourceKind::Pd).with("pdn", pd.place()).with("users", users)
}

fn srq_line(srq: &Srq, users: usize) -> Resource {
    Resource::new(ResourceKind::Srq)
        .with("srqn", srq.id.0)
        .with("type", if srq.xrc.is_some() { "XRC" } else { "BASIC" })
        .with("max-wr", srq.attr.max_wr)
        .with("waiting", srq.waiting)
        .with("limit", srq.attr.limit)
        .with("users", users)
        .with("pdn", srq.pd.place())
        .with_some("cqn", srq.xrc.map(|(xrc, _)| xrc.cq.0))
        .with_some("xrcdn", srq.xrc.map(|(xrc, _)| xrc.xrcd.0))
        .with_some("remote-srqn", srq.xrc.map(|(_, number)| number))
}

fn listener_line(service: ServiceId) -> Resource {
    let line = Resource::new(ResourceKind::CmId).with("state", "LISTEN");
    match service.port_space() {
        Some(space) => {
            line.with("ps", format!("{space:?}").to_uppercase()).with("src-port", service.port())
        }
        None => line.with("service", format_args!("{:#018x}", service.0)),
    }
}

fn connection_line(connection: &Connection) -> Resource {
    Resource::new(ResourceKind::CmId)
        .with("cm-idn", connection.id)
        .with_some("lqpn", connection.qpn.map(Qpn::get))
        .with("state", connection.state.name())
        .with("dst-addr", connection.peer)
}
