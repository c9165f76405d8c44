//! Whether the link of a device is up and its address there, and the events when that changes.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use uroce_link::LinkChanges;
use uroce_transport::AsyncEvent;

use crate::interface::Interface;

/// Between two looks, however often the kernel says that something has changed.
const REST: Duration = Duration::from_millis(100);

/// State of the interface and the address of a device, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortStatus {
    /// The interface is up and has a carrier.
    pub(crate) up: bool,
    /// Bytes; `None` if the driver does not report it, or the interface is gone.
    mtu: Option<u32>,
    /// The host has the address.
    addressed: bool,
}

impl PortStatus {
    /// As it is now; `None`: the system cannot be asked (no descriptor is free).
    pub(crate) fn now(interface: &Interface) -> Option<PortStatus> {
        let netdevs = uroce_link::interfaces().ok()?;
        let link = netdevs.iter().find(|netdev| netdev.name == interface.netdev);
        let mut listed = netdevs.iter().flat_map(|netdev| &netdev.addresses);
        let addressed = listed.any(|&listed| covers(listed, interface.address));
        let up = link.is_some_and(|link| link.running);
        Some(PortStatus { up, mtu: link.and_then(|link| link.mtu), addressed })
    }

    /// The events that tell how it came from `self` to `now`. A change of the MTU has none.
    fn events_until(self, now: PortStatus) -> impl Iterator<Item = AsyncEvent> {
        let port = match (self.up, now.up) {
            (true, false) => Some(AsyncEvent::PortErr),
            (false, true) => Some(AsyncEvent::PortActive),
            _ => None,
        };
        let gid = (self.addressed != now.addressed).then_some(AsyncEvent::GidChange);
        port.into_iter().chain(gid)
    }
}

/// With one address of 127.0.0.0/8 the host has all of them.
fn covers(listed: IpAddr, address: IpAddr) -> bool {
    let is_v4_loopback = |ip: IpAddr| ip.is_ipv4() && ip.is_loopback();
    listed == address || is_v4_loopback(listed) && is_v4_loopback(address)
}

/// Looks at the port of a device whenever the kernel says that an interface or an address has changed.
#[derive(Debug)]
pub(crate) struct PortWatch {
    changes: LinkChanges,
    interface: Interface,
    status: PortStatus,
    /// There is something to look for.
    due: bool,
    /// No look before this.
    next_look: Instant,
}

impl PortWatch {
    /// From the time on at which the device was opened on `interface`.
    pub(crate) fn new(interface: Interface) -> io::Result<PortWatch> {
        let changes = LinkChanges::open()?;
        let mtu = u32::try_from(interface.mtu).ok();
        let status = PortStatus { up: interface.running, mtu, addressed: true };
        // Something may have changed before the socket was there.
        Ok(PortWatch { changes, interface, status, due: true, next_look: Instant::now() })
    }

    /// Tells what has changed, if it is time to look.
    ///
    /// # Errors
    /// When nothing more will be heard from the kernel.
    pub(crate) fn look(&mut self, tell: impl FnMut(AsyncEvent)) -> io::Result<()> {
        if Instant::now() < self.next_look {
            return Ok(());
        }
        self.due |= self.changes.take()?;
        if self.due {
            self.compare(PortStatus::now(&self.interface), tell);
            self.next_look = Instant::now() + REST;
        }
        Ok(())
    }

    /// An unknown status is queried again.
    fn compare(&mut self, now: Option<PortStatus>, tell: impl FnMut(AsyncEvent)) {
        self.due = now.is_none();
        let Some(now) = now else { return };
        let before = std::mem::replace(&mut self.status, now);
        if let (Some(was), Some(is)) = (before.mtu, now.mtu)
            && was != is
        {
            tracing::info!(netdev = %self.interface.netdev, was, is, "the MTU of the link changed; path MTUs stay");
        }
        before.events_until(now).for_each(tell);
    }

    /// What to wait for before the next [`look`](Self::look): the descriptor, or, where there is none, this time.
    pub(crate) fn wait_for(&self) -> (Option<BorrowedFd<'_>>, Option<Duration>) {
        let rest = self.next_look.saturating_duration_since(Instant::now());
        if rest.is_zero() { (Some(self.changes.as_fd()), None) } else { (None, Some(rest)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::interface_of;

    const FINE: PortStatus = PortStatus { up: true, mtu: Some(1500), addressed: true };

    fn events(was: PortStatus, now: PortStatus) -> Vec<AsyncEvent> {
        was.events_until(now).collect()
    }

    #[test]
    fn v47_events_tell_what_changed() {
        use AsyncEvent::{GidChange, PortActive, PortErr};
        let down = PortStatus { up: false, ..FINE };
        let elsewhere = PortStatus { addressed: false, ..FINE };
        let gone = PortStatus { up: false, mtu: None, addressed: false };
        assert_eq!(events(FINE, FINE), []);
        assert_eq!(events(FINE, PortStatus { mtu: Some(9000), ..FINE }), []);
        assert_eq!(events(FINE, down), [PortErr]);
        assert_eq!(events(down, FINE), [PortActive]);
        assert_eq!(events(FINE, elsewhere), [GidChange]);
        assert_eq!(events(elsewhere, FINE), [GidChange]);
        assert_eq!(events(FINE, gone), [PortErr, GidChange]);
        assert_eq!(events(gone, FINE), [PortActive, GidChange]);
        assert_eq!(events(down, gone), [GidChange]);
    }

    #[test]
    fn v47_each_change_is_told_once_and_what_nobody_knows_is_no_change() {
        let lo = interface_of([127, 0, 0, 1].into()).expect("lo");
        let mut watch = PortWatch::new(lo).expect("netlink");
        watch.status = FINE;
        let mut told = Vec::new();
        let down = PortStatus { up: false, ..FINE };
        for now in [Some(FINE), None, Some(down), Some(down), None, Some(down), Some(FINE)] {
            watch.compare(now, |event| told.push(event));
            assert_eq!(watch.due, now.is_none(), "it is asked again");
        }
        assert_eq!(told, [AsyncEvent::PortErr, AsyncEvent::PortActive]);
    }

    #[test]
    fn v47_a_flood_of_changes_is_looked_at_once_in_a_while() {
        let lo = interface_of([127, 0, 0, 1].into()).expect("lo");
        let mut watch = PortWatch::new(lo).expect("netlink");
        watch.look(|_| ()).expect("a socket");
        watch.due = true;
        watch.next_look = Instant::now() + Duration::from_secs(3600);
        watch.look(|event| panic!("{event:?}")).expect("a socket");
        assert!(watch.due, "not yet");
        let (descriptor, time) = watch.wait_for();
        assert!(descriptor.is_none() && time.is_some_and(|time| time > REST));
        watch.next_look = Instant::now();
        watch.look(|_| ()).expect("a socket");
        assert!(!watch.due);
    }

    #[test]
    fn v47_the_loopback_interface_is_up_with_all_its_addresses() {
        for address in [[127, 0, 0, 1], [127, 9, 8, 7]] {
            let lo = interface_of(address.into()).expect("lo");
            let status = PortStatus::now(&lo).expect("the system says");
            assert!(status.up && status.addressed && status.mtu.is_some(), "{status:?}");
        }
    }
}
