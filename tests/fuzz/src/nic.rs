//! A device with a queue pair of each service, and everything that it may have to do with.

use std::net::{IpAddr, Ipv4Addr};

use uroce_device::datapath::LoopbackFabric;
use uroce_device::memory::{Access, Lkey, Mr, PdId, Region, Sge};
use uroce_device::transport::{
    AddressVector, CqId, QpAttr, QpAttrMask as M, QpCaps, QpState, QpType, Wc,
};
use uroce_device::wire::{Mtu, Qpn};
use uroce_device::{Device, DeviceConfig, QpRequest, VirtualClock};

/// Bytes of each region of a device.
const MEMORY: usize = 8192;
/// What stands in them at first.
const CANARY: u8 = 0xee;
/// The Q_Key of datagrams.
pub(crate) const QKEY: u32 = 0x1122_3344;
/// The first PSN of both directions.
pub(crate) const FIRST_PSN: u32 = 0xff_fffc;
/// Entries of the completion queue.
const CQE: u32 = 256;

/// The address of the first byte of each region, as peers name it.
const BASE: u64 = 1 << 40;

/// A host of the network.
pub(crate) fn host(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, last))
}

/// A device without a thread, on a clock that the caller moves; the same each time.
pub(crate) fn open(fabric: &LoopbackFabric, last: u8, clock: &VirtualClock) -> Device {
    Device::open(DeviceConfig {
        progress_thread: false,
        report: false,
        seed: Some([last; 32]),
        clock: Some(clock.clone()),
        ..DeviceConfig::loopback(host(last), fabric)
    })
    .expect("the address is free")
}

/// A device with a region of memory and a completion queue.
pub(crate) struct Nic {
    pub(crate) device: Device,
    pub(crate) pd: PdId,
    pub(crate) cq: CqId,
    /// What queue pairs and their peers may read and write.
    pub(crate) mr: Mr,
    memory: Region,
    /// A region of another protection domain, which nothing may change.
    other: Region,
}

impl Nic {
    pub(crate) fn open(fabric: &LoopbackFabric, last: u8, clock: &VirtualClock) -> Nic {
        let device = open(fabric, last, clock);
        let pd = device.memory().alloc_pd().expect("a protection domain");
        let cq = device.create_cq(CQE, None, 0).expect("a completion queue");
        let other_pd = device.memory().alloc_pd().expect("a protection domain");
        let all = Access::LOCAL_WRITE
            | Access::REMOTE_WRITE
            | Access::REMOTE_READ
            | Access::REMOTE_ATOMIC
            | Access::FLUSH_GLOBAL
            | Access::MW_BIND;
        let register = |pd| {
            let region = Region::alloc(MEMORY).expect("memory");
            region.fill(0, MEMORY, CANARY).expect("inside");
            let mr = device.memory().reg_mr(pd, region.clone(), BASE, all).expect("a region");
            (region, mr)
        };
        let ((memory, mr), (other, _)) = (register(pd), register(other_pd));
        Nic { device, pd, cq, mr, memory, other }
    }

    /// Address of a byte of the region, or behind it.
    pub(crate) fn addr(&self, offset: u16) -> u64 {
        BASE + u64::from(offset)
    }

    pub(crate) fn sge(&self, offset: u16, length: u16) -> Sge {
        Sge { addr: self.addr(offset), length: length.into(), lkey: Lkey(self.mr.lkey.0) }
    }

    /// The region of the other protection domain is as it was.
    pub(crate) fn assert_canaries(&self) {
        let mut bytes = vec![0; MEMORY];
        self.other.read(0, &mut bytes).expect("inside");
        assert!(bytes.iter().all(|byte| *byte == CANARY), "memory of another protection domain");
    }

    /// What stands in the region.
    pub(crate) fn contents(&self) -> Vec<u8> {
        let mut bytes = vec![0; MEMORY];
        self.memory.read(0, &mut bytes).expect("inside");
        bytes
    }

    pub(crate) fn qp(&self, qp_type: QpType) -> Qpn {
        let caps = QpCaps {
            max_send_wr: 16,
            max_recv_wr: 16,
            max_send_sge: 2,
            max_recv_sge: 2,
            max_inline: 64,
        };
        let (send_cq, recv_cq) = (self.cq, self.cq);
        let request =
            QpRequest { qp_type, pd: self.pd, send_cq, recv_cq, srq: None, caps, signal_all: true };
        self.device.create_qp(&request).expect("a queue pair")
    }

    /// RESET to RTS towards a queue pair of `peer`.
    pub(crate) fn connect(&self, qpn: Qpn, qp_type: QpType, peer: (IpAddr, Qpn)) {
        let attr = QpAttr {
            access: Access::REMOTE_WRITE | Access::REMOTE_READ | Access::REMOTE_ATOMIC,
            av: Some(AddressVector::new(self.device.address(), peer.0)),
            path_mtu: Mtu::M256,
            timeout: 10,
            retry_cnt: 2,
            rnr_retry: 2,
            rq_psn: FIRST_PSN,
            sq_psn: FIRST_PSN,
            max_rd_atomic: 4,
            max_dest_rd_atomic: 4,
            min_rnr_timer: 1,
            dest_qpn: peer.1.get(),
            qkey: QKEY,
            ..QpAttr::default()
        };
        let connected = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        let responder = M::MAX_DEST_RD_ATOMIC | M::MIN_RNR_TIMER;
        let requester = M::TIMEOUT | M::RETRY_CNT | M::RNR_RETRY | M::MAX_QP_RD_ATOMIC;
        let (init, rtr, rts) = match qp_type {
            QpType::Ud => (M::QKEY, M::empty(), M::SQ_PSN),
            QpType::Uc => (M::ACCESS_FLAGS, connected, M::SQ_PSN),
            _ => (M::ACCESS_FLAGS, connected | responder, M::SQ_PSN | requester),
        };
        let init = M::PKEY_INDEX | M::PORT | init;
        for (state, mask) in [(QpState::Init, init), (QpState::Rtr, rtr), (QpState::Rts, rts)] {
            let attr = QpAttr { state, ..attr };
            self.device.modify_qp(qpn, &attr, mask | M::STATE).expect("a legal transition");
        }
    }

    /// Lets the device work until it has nothing to do.
    pub(crate) fn drive(&self) {
        let is_done = (0..100_000).any(|_| !self.device.drive());
        assert!(is_done, "work without end");
    }

    /// Some of the completions that wait; none only if there are none.
    pub(crate) fn poll(&self) -> Vec<Wc> {
        let mut out = [Wc::default(); 32];
        let count = self.device.poll_cq(self.cq, &mut out).expect("the completion queue exists");
        out[..count].to_vec()
    }
}
