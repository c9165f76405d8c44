//! Construction of engines.

use std::net::SocketAddr;

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use uroce_cm::Identity;
use uroce_memory::{MemLimits, MemTable};
use uroce_transport::{Features, Instant};
use uroce_wire::{Mtu, PacketParser};

use super::gsi::{ACK_DELAY, GSI_SOURCE_PORT, Gsi};
use super::gso_black_hole::GsoBlackHoles;
use super::in_place::InPlace;
use super::last_answers::LastAnswers;
use super::mcast::McastTable;
use super::qp_table::QpTable;
use super::rx_icrc::IcrcFindings;
use super::schedule::Schedule;
use super::tables::Tables;
use super::{Engine, Nic};
use crate::clock::Clock;
use crate::limits::{DeviceLimits, IN_FLIGHT_BYTES, MAX_QP_IN_SLOT};
use crate::local::{EngineDatapath, LocalState};

/// Settings that the engines of a device have in common.
pub(crate) struct EngineBuilder {
    local: SocketAddr,
    active_mtu: Mtu,
    guid: u64,
    seed: [u8; 32],
    limits: DeviceLimits,
    split_writes: bool,
    /// One clock for all engines: completions of all engines have comparable timestamps.
    clock: Clock,
}

/// Independent streams for keys, QPNs and communication ids: to see one says nothing about the others.
/// Only the keys are the same in all engines of a device: each has a copy of its memory table, and copies
/// that see the same changes give out the same keys.
struct Streams {
    keys: [u8; 32],
    qpns: [u8; 32],
    comm_ids: [u8; 32],
}

impl Streams {
    fn of_engine(seed: [u8; 32], number: u8) -> Self {
        let mut rng = ChaCha20Rng::from_seed(seed);
        let mut draw = || {
            let mut stream = [0; 32];
            rng.fill_bytes(&mut stream);
            stream
        };
        let keys = draw();
        for _ in 0..2 * number {
            draw();
        }
        Streams { keys, qpns: draw(), comm_ids: draw() }
    }
}

impl EngineBuilder {
    pub(crate) fn new(
        local: SocketAddr,
        (active_mtu, guid): (Mtu, u64),
        seed: [u8; 32],
        limits: DeviceLimits,
        clock: Clock,
    ) -> Self {
        EngineBuilder { local, active_mtu, guid, seed, limits, split_writes: false, clock }
    }

    /// Short WRITEs leave as WRITE ONLYs, if they can form GSO batches.
    pub(crate) fn split_writes(self, split_writes: bool) -> Self {
        EngineBuilder { split_writes, ..self }
    }

    /// The engine with this number, counted from 0.
    pub(crate) fn build(&self, mut datapath: EngineDatapath, number: u8) -> Engine {
        let &EngineBuilder { local, active_mtu, guid, seed, mut limits, split_writes, ref clock } =
            self;
        let Streams { keys, qpns, comm_ids } = Streams::of_engine(seed, number);
        let gsi_port = datapath.source_port(GSI_SOURCE_PORT);
        let slot = datapath.shared_port().map(|port| port.slot());
        if slot.is_some() {
            limits.max_qp = limits.max_qp.min(MAX_QP_IN_SLOT);
        }
        let us = Identity {
            address: local.ip(),
            guid,
            ack_delay: ACK_DELAY,
            active_mtu: active_mtu.code(),
            slot,
        };
        let gso = datapath.caps().segments > 1;
        let nic = Nic {
            local,
            slot,
            icrc_caps: datapath.caps().icrc,
            parser: PacketParser::default(),
            limits,
            active_mtu,
            features: Features {
                tail_probes: true,
                selective_repeat: true,
                reorder_buffer: true,
                split_writes: split_writes && gso,
            },
            qps: QpTable::new(qpns, slot),
            schedule: Schedule::new(gso, IN_FLIGHT_BYTES),
            gso_black_holes: GsoBlackHoles::new(gso),
            in_place: InPlace::new(datapath.caps().in_place),
            last_answers: LastAnswers::default(),
            unscheduled: None,
            tables: Tables::new(MemTable::new(keys, mem_limits(&limits)), number),
            mcast: McastTable::default(),
            icrc: IcrcFindings::default(),
            cross_engine_ops: Vec::new(),
        };
        let local = LocalState::of(&mut datapath);
        Engine {
            clock: clock.clone(),
            datapath,
            nic,
            gsi: Gsi::new(us, gsi_port, comm_ids),
            polled_at: Instant::ZERO,
            retry_at: None,
            may_have_more: false,
            thread_sleeps_until: 0,
            datapath_is_lost: false,
            local,
        }
    }
}

fn mem_limits(limits: &DeviceLimits) -> MemLimits {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    MemLimits {
        max_pd: count(limits.max_pd),
        max_mr: count(limits.max_mr),
        max_mw: count(limits.max_mw),
        ..MemLimits::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a8_engines_share_the_stream_of_keys_and_no_other() {
        let all: Vec<Streams> = (0..4).map(|number| Streams::of_engine([7; 32], number)).collect();
        assert!(all.iter().all(|streams| streams.keys == all[0].keys));
        let mut others: Vec<_> = all.iter().flat_map(|s| [s.keys, s.qpns, s.comm_ids]).collect();
        others.sort_unstable();
        others.dedup();
        assert_eq!(others.len(), 1 + 2 * all.len());
    }
}
