//! What a user reads when an address cannot be used.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use rustix::io::Errno;
use uroce_host::process::Peer;
use uroce_host::{BindError, PortHolder};

fn local() -> SocketAddr {
    "127.0.0.1:4791".parse().expect("address")
}

#[test]
fn a_busy_port_names_its_holder_and_what_to_do() {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("free");
    let local = socket.local_addr().expect("bound");
    let error = BindError::explain("binding", local, Errno::ADDRINUSE.into());
    assert!(matches!(error, BindError::PortBusy { holder: PortHolder::Own { .. }, .. }));
    let text = error.to_string();
    assert!(text.contains(&local.port().to_string()) && text.contains("127.0.0.1"), "{text}");
    assert!(text.contains("a process of this user") && text.contains("--address"), "{text}");
}

#[test]
fn every_sentence_names_an_option_or_a_command() {
    let explain = |errno: Errno| BindError::explain("binding", local(), errno.into());
    let peer = Peer { pid: 7, user: 1000 };
    for (error, remedy) in [
        (explain(Errno::ADDRNOTAVAIL), "--address"),
        (explain(Errno::PERM), "seccomp or AppArmor profile"),
        (
            BindError::explain(
                "binding",
                "127.0.0.1:80".parse().expect("address"),
                Errno::PERM.into(),
            ),
            "CAP_NET_BIND_SERVICE",
        ),
        (explain(Errno::NFILE), "`ulimit -n`"),
        (explain(Errno::AFNOSUPPORT), "--address"),
        (BindError::NotUnicast([0, 0, 0, 0].into()), "--address"),
        (BindError::NoSlot(local()), "`ss -xl`"),
        (BindError::no_slot(local(), (3, Some(peer))), "end those processes"),
    ] {
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[test]
fn the_missing_ip_version_is_that_of_the_address() {
    let text = |local: &str| {
        let local = local.parse().expect("address");
        BindError::explain("binding", local, Errno::AFNOSUPPORT.into()).to_string()
    };
    assert!(text("10.0.0.1:1").contains("no IPv4"));
    assert!(text("[fd00::1]:1").contains("no IPv6"));
}

#[test]
fn addresses_of_the_other_ip_version_are_not_offered() {
    let text = |local: &str| {
        let local = local.parse().expect("address");
        BindError::explain("binding", local, Errno::ADDRNOTAVAIL.into()).to_string()
    };
    assert!(text("192.0.2.1:1").contains("127.0.0.1 (lo)"));
    assert!(!text("[2001:db8::1]:1").contains("127.0.0.1 (lo)"));
}

#[test]
fn an_error_that_is_not_of_the_kernel_keeps_its_words() {
    let source = io::Error::other("something odd");
    let error = BindError::explain("asking", local(), source);
    assert!(matches!(error, BindError::System { what: "asking", .. }));
    assert!(error.to_string().contains("something odd"), "{error}");
}
