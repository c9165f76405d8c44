//! The operations without acknowledgements.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use uroce_verbs::{GRH_AREA_LEN, SendWr};

use super::node::{Node, Pair, QKEY, STEP_TIMEOUT};
use super::{Step, StepResult};

/// How long a multicast message may take; it is not certain that this machine routes it.
const MULTICAST_TIMEOUT: Duration = Duration::from_millis(500);

/// A message of several packets, without acknowledgements.
pub fn uc_send(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 10_000, 9)?;
    b.clear(0, 10_000)?;
    b.receive(&b.uc, 0, 10_000)?;
    a.run(&a.uc, SendWr::send(1, &[a.sge(0, 10_000)]))?;
    b.completion()?;
    b.expect(0, &sent)?;
    Ok(StepResult::new(10_000, "complete at A as soon as it was sent"))
}

/// Neither A nor B is told that it arrived.
pub fn uc_write(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 20_000, 10)?;
    b.clear(0, 20_000)?;
    a.run(&a.uc, SendWr::write(1, &[a.sge(0, 20_000)], b.mr.remote().part(..20_000)))?;
    // There is no completion to wait for at B, so look until the last byte is there.
    let deadline = std::time::Instant::now() + STEP_TIMEOUT;
    while b.expect(0, &sent).is_err() && std::time::Instant::now() < deadline {
        b.cq.poll(&mut [Default::default()]);
    }
    b.expect(0, &sent)?;
    Ok(StepResult::new(20_000, "B's memory changed; nothing came back"))
}

fn to_other<'a>(a: &'a Node, b: &Node, wr: SendWr<'a>) -> Result<SendWr<'a>, String> {
    let handle = a.other.as_ref().ok_or("no address handle")?;
    Ok(wr.to(handle, b.ud.qpn(), QKEY))
}

/// A datagram, which says where it comes from.
pub fn ud_send(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 1000, 11)?;
    b.clear(0, 1100)?;
    b.receive(&b.ud, 0, 1000 + GRH_AREA_LEN)?;
    let here = [a.sge(0, 1000)];
    a.run(&a.ud, to_other(a, b, SendWr::send(1, &here))?)?;
    let received = b.completion()?;
    b.expect(GRH_AREA_LEN, &sent)?;
    if received.src_qpn != a.ud.qpn().get() || received.src_ip != Some(a.context.address()) {
        return Err(format!(
            "the sender is given as {:?}, {:#x}",
            received.src_ip, received.src_qpn
        ));
    }
    let from = a.context.address();
    Ok(StepResult::new(1000, format!("behind {GRH_AREA_LEN} bytes that name the sender {from}")))
}

/// A datagram to a group.
pub fn multicast(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let group: IpAddr = match a.context.address() {
        IpAddr::V4(_) => Ipv4Addr::new(239, 77, 7, 7).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0x77, 7).into(),
    };
    if let Err(error) = b.ud.attach_mcast(group) {
        return Ok(StepResult::skipped(error.to_string()));
    }
    let done = to_group(pair, group);
    let left = b.ud.detach_mcast(group).map_err(|error| error.to_string());
    let shown = done?;
    left.map(|()| shown)
}

fn to_group(pair: &Pair, group: IpAddr) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let sent = a.fill(0, 256, 12)?;
    b.clear(0, 300)?;
    b.receive(&b.ud, 0, 256 + GRH_AREA_LEN)?;
    let handle = a.pd.create_ah(group).map_err(|error| error.to_string())?;
    let here = [a.sge(0, 256)];
    a.run(&a.ud, SendWr::send(1, &here).to(&handle, uroce_verbs::Qpn::MULTICAST, QKEY))?;
    if b.cq.wait_one(MULTICAST_TIMEOUT).is_err() {
        return Ok(StepResult::skipped(format!(
            "this machine does not route {group} between the two addresses"
        )));
    }
    b.expect(GRH_AREA_LEN, &sent)?;
    Ok(StepResult::new(256, format!("B had joined {group}")))
}
