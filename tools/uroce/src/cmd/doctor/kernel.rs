//! What the kernel can do.

use super::finding::Finding;
use uroce_device::datapath::{UringError, probe};

/// The version, and each feature that a datapath builds on.
pub fn examine() -> Vec<Finding> {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let release = release.trim();
    vec![
        match release {
            "" => Finding::note("kernel", "cannot tell its version: /proc is not mounted"),
            release => Finding::ok("kernel", format!("Linux {release}")),
        },
        Finding::of(
            "UDP_SEGMENT",
            &probe::udp_segment(),
            "a train of packets passes the kernel as one",
            "one packet a send, which is slower: Linux 4.18 can do more",
        ),
        Finding::of(
            "UDP_GRO",
            &probe::udp_gro(),
            "trains can be received as one",
            "one packet a receive, which is slower: Linux 5.0 can do more",
        ),
        Finding::of(
            "AF_PACKET",
            &probe::packet_socket(),
            "sockets can be opened",
            "sockets cannot be opened",
        ),
        Finding::of(
            "AF_XDP",
            &probe::xdp_socket(),
            "sockets can be opened",
            "sockets cannot be opened",
        ),
        uring(),
    ]
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
    fn this_kernel_is_new_enough() {
        let findings = examine();
        assert!(findings[0].what.starts_with("Linux "), "{}", findings[0]);
        assert!(findings.iter().all(|finding| finding.state < State::Problem));
    }
}
