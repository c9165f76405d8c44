//! What this process may do.

use super::finding::Finding;

/// The capabilities that matter, by their numbers in capabilities(7).
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const IPC_LOCK: u32 = 14;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;

/// Memory that AF_XDP and io_uring lock at most, in bytes.
const LOCKED: u64 = 64 << 20;

/// The effective capabilities of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(u64);

impl Capabilities {
    /// Those of this process; none where the system does not tell.
    pub fn here() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self::parse(&status).unwrap_or_default()
    }

    fn parse(status: &str) -> Option<Self> {
        let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(line.trim(), 16).ok().map(Capabilities)
    }

    fn has(self, number: u32) -> bool {
        self.0 & 1 << number != 0
    }
}

/// The capabilities, and how much memory may be locked. `unlimited` says whether socket buffers are: not by a capability
/// that is one of a user namespace only.
pub fn examine(held: Capabilities, unlimited: bool) -> Vec<Finding> {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let bpf = held.has(BPF) || held.has(SYS_ADMIN);
    vec![
        capability(
            "CAP_NET_RAW",
            held.has(NET_RAW),
            "AF_PACKET and AF_XDP sockets may be opened",
            "AF_PACKET and AF_XDP are not permitted; UDP sockets need nothing. setcap is for this program alone: \
             `uroce run --help` says what reaches programs under it",
        ),
        capability(
            "CAP_NET_ADMIN",
            held.has(NET_ADMIN),
            match unlimited {
                true => "socket buffers are not limited, XDP programs may be attached",
                false => {
                    "XDP programs may be attached; socket buffers stay within the system's limits, as the capability \
                     is one of a user namespace"
                }
            },
            "socket buffers stay within the system's limits, XDP programs cannot be attached",
        ),
        capability(
            "CAP_BPF",
            bpf,
            "BPF programs may be loaded",
            "BPF programs cannot be loaded, which only AF_XDP needs",
        ),
        memlock(&limits, held.has(IPC_LOCK)),
    ]
}

fn capability(name: &'static str, held: bool, with: &str, without: &str) -> Finding {
    if held {
        return Finding::ok(name, with);
    }
    // One setcap replaces what an earlier one gave, so each gives all that come before it as well.
    let all = match name {
        "CAP_NET_RAW" => "cap_net_raw",
        "CAP_NET_ADMIN" => "cap_net_raw,cap_net_admin",
        _ => "cap_net_raw,cap_net_admin,cap_bpf",
    };
    Finding::note(name, format!("not held: {without}"))
        .repair(format!("sudo setcap {all}+ep $(command -v uroce)"))
}

/// Soft limit of locked memory in bytes; `None` is unlimited.
fn locked(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn memlock(limits: &str, exempt: bool) -> Finding {
    match locked(limits) {
        _ if exempt => Finding::ok("memlock", "no limit (CAP_IPC_LOCK)"),
        None => Finding::ok("memlock", "no limit"),
        Some(bytes) if bytes >= LOCKED => Finding::ok("memlock", format!("{} KiB", bytes >> 10)),
        Some(bytes) => Finding::note(
            "memlock",
            format!("{} KiB may be locked, which is little for AF_XDP", bytes >> 10),
        )
        .repair(format!("ulimit -l {}", LOCKED >> 10)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_status() {
        let status = "Name:\tx\nCapPrm:\t0\nCapEff:\t0000000000003000\nCapBnd:\t000001ffffffffff\n";
        let held = Capabilities::parse(status).expect("a CapEff line");
        assert!(held.has(NET_ADMIN) && held.has(NET_RAW) && !held.has(BPF));
        assert_eq!(Capabilities::parse("Name:\tx\n"), None);
        assert_eq!(Capabilities::parse("CapEff:\tnonsense\n"), None);
    }

    #[test]
    fn what_is_missing_is_a_note_with_the_command_that_grants_it() {
        let none = examine(Capabilities::default(), false);
        assert_eq!(none[0].state, State::Note);
        assert!(none[0].what.contains("uroce run --help"), "{}", none[0].what);
        assert_eq!(
            none[0].repair.as_deref(),
            Some("sudo setcap cap_net_raw+ep $(command -v uroce)")
        );
        let all = examine(Capabilities(u64::MAX), true);
        assert!(all.iter().all(|finding| finding.state == State::Ok), "{all:?}");
        let of_namespace = &examine(Capabilities(u64::MAX), false)[1];
        assert!(of_namespace.what.contains("stay within the system's limits"), "{of_namespace}");
    }

    #[test]
    fn the_limit_of_locked_memory() {
        let limits = |soft| {
            format!(
                "Limit   Soft Limit   Hard Limit   Units\nMax locked memory   {soft}   unlimited   bytes\n"
            )
        };
        assert_eq!(locked(&limits("8388608")), Some(8 << 20));
        assert_eq!(locked(&limits("unlimited")), None);
        assert_eq!(memlock(&limits("8388608"), false).state, State::Note);
        assert_eq!(memlock(&limits("8388608"), true).state, State::Ok);
        assert_eq!(memlock(&limits("unlimited"), false).state, State::Ok);
    }
}
