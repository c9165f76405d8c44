//! Changes of interfaces and addresses are heard.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use uroce_link::LinkChanges;
use uroce_testkit::namespace::Namespace;

/// Whether there is something to take, now.
fn is_readable(changes: &LinkChanges) -> bool {
    is_readable_within(changes, Timespec { tv_sec: 0, tv_nsec: 0 })
}

/// Whether there is something to take before `limit` has passed.
fn is_readable_within(changes: &LinkChanges, limit: Timespec) -> bool {
    let fd = changes.as_fd();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&limit)).expect("poll") == 1
}

#[test]
fn every_kind_of_change_is_heard_once_and_only_in_its_namespace() {
    let (Some(here), Some(elsewhere)) = (Namespace::open(), Namespace::open()) else { return };
    let open = || LinkChanges::open().expect("netlink");
    let (ours, theirs) = (here.run(open), elsewhere.run(open));
    assert!(!is_readable(&ours) && !ours.take().expect("usable"));
    for change in [
        "ip addr add 127.0.0.9/8 dev lo",
        "ip addr add fd00::9/128 dev lo nodad",
        "ip addr del 127.0.0.9/8 dev lo",
        "ip link set lo mtu 1400",
        "ip link set lo down",
    ] {
        here.sh(change);
        // A worker of the kernel announces an IPv6 address, and may do so after `ip` has ended.
        let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
        assert!(is_readable_within(&ours, limit) && ours.take().expect("usable"), "{change}");
        assert!(!is_readable(&ours) && !ours.take().expect("usable"), "{change} is taken");
    }
    assert!(!theirs.take().expect("usable"), "nothing has changed there");
}

#[test]
fn more_changes_than_there_is_room_for_are_heard_as_well() {
    let Some(space) = Namespace::open() else { return };
    let changes = space.run(LinkChanges::open).expect("netlink");
    let heard = space.run(move || {
        let batch: String = (0..2000).map(|n| format!("link set lo mtu {}\n", 2000 + n)).collect();
        let mut ip = std::process::Command::new("ip")
            .args(["-batch", "-"])
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("ip");
        let mut stdin = ip.stdin.take().expect("piped");
        std::io::Write::write_all(&mut stdin, batch.as_bytes()).expect("written");
        drop(stdin);
        assert!(ip.wait().expect("ends").success());
        [changes.take().expect("usable"), changes.take().expect("usable")]
    });
    assert_eq!(heard, [true, false]);
}
