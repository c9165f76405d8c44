//! The path record of an id (`rdma_route.path_rec`): what programs read of the way to the peer.

use libc::c_int;
use uroce_device::cm::Call;
use uroce_device::transport::AddressVector;
use uroce_verbs_abi::{
    IBV_RATE_10_GBPS, IBV_RATE_20_GBPS, IBV_RATE_30_GBPS, IBV_RATE_40_GBPS, IBV_RATE_MAX,
    ibv_sa_path_rec, rdma_addr,
};

use crate::contexts::Used;
use crate::options::Options;

/// The value is exact (`ib_sa_selector`).
const EXACTLY: u8 = 2;
/// The only one of the table, as it stands in packets.
const PKEY: u16 = 0xffff;
/// Rates that a kernel gives to Ethernet, the largest first, in Gb/s.
const RATES: [(u64, c_int); 4] = [
    (40, IBV_RATE_40_GBPS),
    (30, IBV_RATE_30_GBPS),
    (20, IBV_RATE_20_GBPS),
    (10, IBV_RATE_10_GBPS),
];

/// A record that the program may read and write while its id lives and has no newer one: an RDMA_OPTION_IB_PATH replaces it.
#[derive(Debug)]
pub(crate) struct PathRecord(*mut ibv_sa_path_rec);

// SAFETY: nobody but the program uses the record, and it is given back by whoever drops this.
unsafe impl Send for PathRecord {}

impl PathRecord {
    /// The record of the path between these GIDs over this device, as a kernel makes it for RoCE.
    pub(crate) fn new(addr: &rdma_addr, used: &Used, options: &Options) -> PathRecord {
        let device = &used.open_device.device;
        let bits = device.interface().shown_bits_per_second();
        let rate = RATES.iter().find(|(gigabits, _)| bits >= gigabits * 1_000_000_000);
        let lifetime = options.packet_lifetime.unwrap_or(Call::PACKET_LIFETIME);
        PathRecord(Box::into_raw(Box::new(ibv_sa_path_rec {
            dgid: addr.dgid,
            sgid: addr.sgid,
            dlid: 0,
            slid: 0,
            raw_traffic: 0,
            flow_label: 0,
            hop_limit: AddressVector::new(used.address, used.address).hop_limit,
            traffic_class: options.traffic_class(),
            reversible: 1,
            numb_path: 1,
            pkey: PKEY.to_be(),
            sl: 0,
            mtu_selector: EXACTLY,
            mtu: device.active_mtu().code(),
            rate_selector: EXACTLY,
            rate: rate.map_or(IBV_RATE_MAX, |(_, code)| *code) as u8,
            packet_life_time_selector: EXACTLY,
            packet_life_time: lifetime,
            preference: 0,
        })))
    }

    /// What the program gets. It lives as long as this.
    pub(crate) fn as_ptr(&self) -> *mut ibv_sa_path_rec {
        self.0
    }
}

impl Drop for PathRecord {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and nobody uses the record of an id that is destroyed.
        drop(unsafe { Box::from_raw(self.0) });
    }
}
