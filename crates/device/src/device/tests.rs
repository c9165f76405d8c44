//! Engines work while others are held.

use std::num::NonZeroU8;
use std::time::{Duration, Instant};

use uroce_memory::{Access, PdId, Region, Sge};
use uroce_transport::{
    AddressVector, CqId, QpAttr, QpAttrMask as M, QpCaps, QpState, QpType, SendData, SendFlags,
    SendOp, SendWr, Wc,
};
use uroce_wire::Qpn;

use super::*;
use crate::config::DeviceConfig;
use crate::engine::QpRequest;

const PORT: u16 = 24_792;

struct End {
    device: Device,
    pd: PdId,
    cq: CqId,
    qpn: Qpn,
}

/// A device of two engines with a queue pair in the second.
fn end(last: u8) -> End {
    let engines = NonZeroU8::new(2).expect("not 0");
    let config = DeviceConfig::new([127, 92, 17, last].into());
    let device = Device::open(DeviceConfig { port: PORT, engines, ..config }).expect("it opens");
    let pd = device.memory().alloc_pd().expect("a PD");
    let cq = device.create_cq_on(1, 64, None, 0).expect("a CQ");
    let caps = QpCaps { max_send_wr: 16, max_send_sge: 1, ..QpCaps::default() };
    let request = QpRequest {
        qp_type: QpType::Rc,
        pd,
        send_cq: cq,
        recv_cq: cq,
        srq: None,
        caps,
        signal_all: true,
    };
    let qpn = device.create_qp(&request).expect("a QP");
    End { device, pd, cq, qpn }
}

fn connect(one: &End, other: &End) {
    let attr = QpAttr {
        access: Access::REMOTE_WRITE,
        av: Some(AddressVector::new(one.device.address(), other.device.address())),
        path_mtu: uroce_wire::Mtu::M1024,
        dest_qpn: other.qpn.get(),
        timeout: 14,
        retry_cnt: 7,
        ..QpAttr::default()
    };
    for (from, to) in [
        (QpState::Reset, QpState::Init),
        (QpState::Init, QpState::Rtr),
        (QpState::Rtr, QpState::Rts),
    ] {
        let mask = M::required(QpType::Rc, from, to);
        let attr = QpAttr { state: to, ..attr };
        one.device.modify_qp(one.qpn, &attr, mask).expect("a legal transition");
    }
}

/// Everything on the way of a message, posting, sending, receiving, the keys, the answer and the
/// completion, is done while another thread holds the first engine of both devices, the lists of
/// events and the order of changes.
#[test]
fn no_lock_is_shared_on_the_data_path() {
    let (a, b) = (end(1), end(2));
    connect(&a, &b);
    connect(&b, &a);
    let region = Region::alloc(4096).expect("memory");
    let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
    let addr = region.addr();
    let from = a.device.memory().reg_mr(a.pd, region.clone(), addr, access).expect("an MR");
    let to = b.device.memory().reg_mr(b.pd, region, addr, access).expect("an MR");

    let engines = [&a, &b].map(|end| &end.device.0.engines);
    let orders = engines.map(|engines| engines.order());
    assert!(orders.iter().all(Option::is_some), "two engines each");
    let _held = engines.map(|engines| engines.first().lock());

    let begin = Instant::now();
    for wr_id in 0..100 {
        let sges = [Sge { addr, length: 2048, lkey: from.lkey }];
        let wr = SendWr {
            wr_id,
            op: SendOp::Write { va: addr + 2048, rkey: to.rkey },
            flags: SendFlags::empty(),
            data: SendData::Sges(&sges),
            ud: None,
            srqn: None,
        };
        a.device.post_send(a.qpn, &[wr]).expect("posted");
        let mut out = [Wc::default()];
        while a.device.poll_cq(a.cq, &mut out).expect("it exists") == 0 {
            assert!(
                begin.elapsed() < Duration::from_secs(20),
                "a message waits for another engine"
            );
        }
        assert!(out[0].is_ok(), "{}", out[0]);
    }
}
