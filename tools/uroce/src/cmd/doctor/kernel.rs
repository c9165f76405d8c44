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
            release => Finding::ok("kernel", format!("Linux {release}")),
        },
        segmentation(&probe::udp_segment()),
        Finding::of(
            "UDP_GRO",
            &probe::udp_gro(),
            "trains can be received as one",
            "one packet a receive, which is slower: Linux 5.0 can do more",
        ),
        Finding::of(
            "AF_PACKET",
            &packet_socket(),
            "sockets can be opened",
            "sockets cannot be opened",
        ),
        Finding::of("AF_XDP", &xdp_socket(), "sockets can be opened", "sockets cannot be opened"),
        uring(),
    ]
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
    fn this_kernel_is_new_enough() {
        let findings = examine();
        assert!(findings[0].what.starts_with("Linux "), "{}", findings[0]);
        assert!(findings.iter().all(|finding| finding.state < State::Problem));
    }
}
