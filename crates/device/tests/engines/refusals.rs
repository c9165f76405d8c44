//! What several engines cannot do is refused in words.

use std::num::NonZeroU8;

use uroce_device::datapath::LoopbackFabric;
use uroce_device::memory::{AllocMwError, MwType};
use uroce_device::transport::{QpType, SrqAttr, XrcSrq};
use uroce_device::{
    CreateError, DatapathChoice, Device, DeviceConfig, DeviceLimits, OpenError, QpRequest,
};

use crate::common::Node;
use crate::{PORT, address, config, open};

const SMALL: SrqAttr = SrqAttr { max_wr: 4, max_sge: 1, limit: 0 };

#[test]
fn the_switch_in_the_process_carries_one_engine_only() {
    let datapath = DatapathChoice::Loopback(LoopbackFabric::new());
    let error = Device::open(DeviceConfig { datapath, ..config(40, 2) }).expect_err("one");
    assert!(matches!(error, OpenError::OneEngineOnly("loopback")), "{error}");
    assert!(error.to_string().contains("use `udp`"), "{error}");
}

#[test]
fn engines_are_counted_and_find_each_other_by_the_port() {
    let unknown = DeviceConfig { port: 0, ..config(40, 2) };
    assert!(matches!(Device::open(unknown), Err(OpenError::EnginesWithoutPort)));
    let error = Device::open(config(40, 65)).expect_err("too many");
    assert_eq!(error.to_string(), "65 engines are too many for one device: ask for 1 to 64");
    let one = DeviceConfig { engines: NonZeroU8::MIN, ..DeviceConfig::new(address(40)) };
    assert_eq!(Device::open(DeviceConfig { port: PORT, ..one }).expect("opens").engine_count(), 1);
}

#[test]
fn a_vector_is_an_engine() {
    let a = open(config(41, 3));
    assert_eq!(a[0].device.attr().num_comp_vectors, 3);
    let error = a[0].device.create_cq_on(3, 16, None, 0).expect_err("0 to 2");
    assert!(error.to_string().starts_with("completion vector 3: this device has 3"), "{error}");
    let error = a[0].device.create_srq_on(7, a[0].pd, &SMALL).expect_err("0 to 2");
    assert!(matches!(error, CreateError::CompVector { asked: 7, engines: 3 }), "{error}");
}

#[test]
fn what_works_together_is_in_one_engine() {
    let a = open(config(42, 2));
    let device = &a[0].device;
    let other = |request: QpRequest, what: &str| {
        let error = device.create_qp(&request).expect_err(what);
        assert!(matches!(error, CreateError::OtherEngine { .. }), "{error}");
        assert!(error.to_string().starts_with(what), "{error}");
    };
    let request = a[0].request(QpType::Rc);
    other(QpRequest { recv_cq: a[1].cq, ..request }, "the receive CQ is in engine 1");
    let srq = device.create_srq(a[0].pd, &SMALL).expect("an SRQ");
    let in_one = a[1].request(QpType::Rc);
    other(QpRequest { srq: Some(srq), ..in_one }, "the SRQ is in engine 0");
    device.create_qp(&QpRequest { srq: Some(srq), ..request }).expect("all in engine 0");

    let domain = device.xrc().open(a[0].pd, a[0].cq).expect("a domain");
    let xrc = XrcSrq { xrcd: domain, cq: a[1].cq };
    let error = device.xrc().create_srq(a[0].pd, xrc, &SMALL).expect_err("two engines");
    assert!(error.to_string().starts_with("the CQ is in engine 1"), "{error}");
    let xrc = XrcSrq { cq: a[0].cq, ..xrc };
    let srq = device.xrc().create_srq(a[0].pd, xrc, &SMALL).expect("one engine");
    device.destroy_srq(srq).expect("nobody uses it");

    // A domain can be in any engine, with all that belongs to it.
    let domain = device.xrc().open(a[1].pd, a[1].cq).expect("a domain");
    let target = device.xrc().create_target(domain).expect("a target");
    device.xrc().close(domain).expect_err("the target uses it");
    device.destroy_qp(target).expect("it exists");
    device.xrc().close(domain).expect("nobody uses it");
}

#[test]
fn there_are_no_windows() {
    let a = open(config(43, 2));
    let attr = a[0].device.attr();
    assert_eq!((attr.limits.max_mw, attr.device_cap_flags & (1 << 17 | 1 << 24)), (0, 0));
    for kind in [MwType::Type1, MwType::Type2B] {
        let error = a[0].device.memory().alloc_mw(a[0].pd, kind).expect_err("no windows");
        assert_eq!(error, AllocMwError::Unsupported);
        assert!(error.to_string().contains("one engine"), "{error}");
    }
}

#[test]
fn limits_are_those_of_the_device() {
    let limits =
        DeviceLimits { max_qp: 3, max_cq: 3, max_srq: 2, max_mr: 2, ..DeviceLimits::default() };
    let a = open(DeviceConfig { limits, ..config(44, 2) });
    let device = &a[0].device;
    let at_the_limit = |error: CreateError, most: usize| {
        assert!(
            matches!(error, CreateError::LimitReached { limit, .. } if limit == most),
            "{error}"
        );
    };
    let make = |node: &Node| device.create_qp(&node.request(QpType::Rc));
    let qps: Vec<_> = [0, 1, 0].into_iter().map(|at| make(&a[at]).expect("room")).collect();
    at_the_limit(make(&a[1]).expect_err("three in all"), 3);
    device.destroy_qp(qps[0]).expect("it exists");
    make(&a[1]).expect("room again");

    device.create_cq_on(1, 16, None, 0).expect("the third");
    at_the_limit(device.create_cq_on(0, 16, None, 0).expect_err("three in all"), 3);
    let srq = |vector| device.create_srq_on(vector, a[0].pd, &SMALL);
    let _srqs = [0, 1].map(|vector| srq(vector).expect("room"));
    at_the_limit(srq(0).expect_err("two in all"), 2);
    let _regions = [a[0].buffer(8), a[1].buffer(8)];
    let region = uroce_device::memory::Region::alloc(8).expect("memory");
    let access = uroce_device::memory::Access::LOCAL_WRITE;
    device.memory().reg_mr(a[0].pd, region, 0, access).expect_err("two in all");
}
