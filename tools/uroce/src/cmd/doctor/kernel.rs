//! What the kernel can do.

use std::io::{self, ErrorKind};

use uroce_packet::probe::packet_socket;
use uroce_udp::{UringError, probe};
use uroce_xdp::probe::xdp_socket;

use super::finding::Finding;

/// The version, and each feature that a datapath builds on.
pub fn examine() -> Vec<Finding> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    vec![
        match release {
            "" => Finding::note("kernel", "cannot tell its version: /proc is not mounted"),
            release => version(release),
        },
        segmentation(&probe::udp_segment()),
        Finding::of(
            "UDP_GRO",
            &probe::udp_gro(),
            "trains can be received as one",
            "one packet a receive, which is slower: Linux 5.0 can do more",
        ),
        Finding::of(
            "splice to UDP",
            &probe::udp_splice(),
            "bulk transfers leave without a copy by the kernel",
            "each packet is copied by the kernel, which is slower: Linux 6.5 with net.core.tstamp_allow_data=1 and lo up can do more",
        ),
        Finding::of(
            "AF_PACKET",
            &packet_socket(),
            "sockets can be opened",
            "sockets cannot be opened",
        ),
        Finding::of(
            "AF_XDP",
            &xdp_socket(),
            "sockets can be opened",
            "sockets cannot be opened: that needs a right, and Linux 5.4",
        ),
        uring(),
    ]
}

/// The oldest kernel whose system calls the C library and the datapaths build on.
const OLDEST: (u32, u32) = (4, 18);
/// What later ones have: the first version, and what is done without.
const LATER: [((u32, u32), &str); 4] = [
    ((5, 0), "packets are received one by one (UDP_GRO: 5.0)"),
    ((5, 4), "no --datapath xdp (5.4)"),
    ((6, 0), "no --datapath uring (6.0)"),
    ((6, 6), "AF_XDP up to an MTU of about 3500 (multi-buffer: 6.6)"),
];

/// What this version of the kernel lacks, unless its maker has added it.
fn version(release: &str) -> Finding {
    let Some(own) = parse(release) else {
        return Finding::note("kernel", format!("Linux {release}, of unknown age"));
    };
    if own < OLDEST {
        return Finding::problem(
            "kernel",
            format!("Linux {release} is too old: uroce needs Linux 4.18 or newer"),
        );
    }
    let lacking: Vec<&str> =
        LATER.iter().filter(|(since, _)| own < *since).map(|(_, what)| *what).collect();
    match lacking.is_empty() {
        true => Finding::ok("kernel", format!("Linux {release}")),
        false => Finding::note(
            "kernel",
            format!(
                "Linux {release}: {}; what its maker has added is seen below",
                lacking.join("; ")
            ),
        ),
    }
}

/// The first two numbers of a release.
fn parse(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn segmentation(tried: &io::Result<()>) -> Finding {
    match tried {
        // The socket option was taken, so the kernel knows it: what was sent is missing.
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            let what = "cannot tell: packets of 127.0.0.1 to itself do not arrive; a firewall that drops them \
                        also drops those of programs on this host";
            Finding::note("UDP_SEGMENT", what).repair("sudo nft list ruleset")
        }
        tried => Finding::of(
            "UDP_SEGMENT",
            tried,
            "a train of packets passes the kernel as one",
            "one packet a send, which is slower: Linux 4.18 can do more",
        ),
    }
}

fn uring() -> Finding {
    match probe::uring() {
        Ok(()) => Finding::ok("io_uring", "can be used, with multishot receives"),
        Err(error @ UringError::Disabled(_)) => {
            Finding::note("io_uring", error).repair("sudo sysctl -w kernel.io_uring_disabled=0")
        }
        Err(error) => Finding::note("io_uring", error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn packets_that_do_not_arrive_say_nothing_about_the_kernel() {
        let dropped = segmentation(&Err(ErrorKind::WouldBlock.into()));
        assert!(
            dropped.state == State::Note && dropped.what.starts_with("cannot tell"),
            "{dropped}"
        );
        let old = segmentation(&Err(io::Error::from_raw_os_error(92)));
        assert!(old.what.contains("Linux 4.18"), "{old}");
    }

    #[test]
    fn an_old_kernel_is_told_what_it_lacks() {
        let said = |release: &str| version(release).to_string();
        let old = said("4.15.0-213-generic");
        assert!(old.starts_with("PROBLEM") && old.contains("needs Linux 4.18"), "{old}");
        let lacks = |release: &str, what: &str| said(release).contains(what);
        for (release, gro, xdp, uring) in [
            ("4.18.0-553.el8_10.x86_64", true, true, true),
            ("5.4.0-200-generic", false, false, true),
            ("5.15.0-130-generic", false, false, true),
            ("6.1.0-42-amd64", false, false, false),
        ] {
            assert!(said(release).starts_with("note"), "{release}");
            assert_eq!(lacks(release, "UDP_GRO: 5.0"), gro, "{release}");
            assert_eq!(lacks(release, "xdp (5.4)"), xdp, "{release}");
            assert_eq!(lacks(release, "uring (6.0)"), uring, "{release}");
        }
        assert!(said("6.12.57").starts_with("ok"));
        assert!(said("next").contains("unknown age") && parse("6").or(parse("")).is_none());
    }

    #[test]
    fn this_kernel_is_new_enough() {
        let findings = examine();
        assert!(findings[0].what.starts_with("Linux "), "{}", findings[0]);
        assert!(findings.iter().all(|finding| finding.state < State::Problem));
    }
}
