//! One flat list of everything that is counted, for people and for dashboards.

use crate::engine::Engine;
use std::sync::LazyLock;
use uroce_wire::DropReason;

/// `drop_` and the reason's name, made once: two reasons share their name with one of rxe's counters.
static DROP_NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let name = |reason: &DropReason| -> &'static str { format!("drop_{}", reason.name()).leak() };
    DropReason::ALL.iter().map(name).collect()
});

/// rxe's names first, then ours, the ICRC verdicts, the datapath's counters, and one counter
/// `drop_<reason>` for each [`DropReason`].
pub(crate) fn snapshot(engine: &Engine) -> Vec<(&'static str, u64)> {
    let mut all: Vec<(&'static str, u64)> = engine.nic.tables.counters.iter().collect();
    let icrc = &engine.nic.icrc;
    all.push(("icrc_valid", icrc.valid));
    all.push(("icrc_predicted", icrc.predicted));
    all.push(("icrc_solved", icrc.solved));
    all.push(("trains_lost", engine.nic.trains.lost));
    all.extend(datapath_counters(engine));
    let drops = engine.nic.tables.counters.drops().map(|(_, count)| count);
    all.extend(DROP_NAMES.iter().copied().zip(drops));
    all
}

/// Adds the counters of another engine.
pub(crate) fn add(all: &mut [(&'static str, u64)], more: &[(&'static str, u64)]) {
    for ((name, value), (same, more)) in all.iter_mut().zip(more) {
        debug_assert_eq!(name, same, "all engines count the same");
        *value += more;
    }
}

fn datapath_counters(engine: &Engine) -> [(&'static str, u64); 13] {
    let stats = engine.datapath.stats();
    [
        ("datapath_tx_packets", stats.tx_packets),
        ("datapath_tx_bytes", stats.tx_bytes),
        ("datapath_tx_dropped", stats.tx_dropped),
        ("datapath_rx_packets", stats.rx_packets),
        ("datapath_rx_bytes", stats.rx_bytes),
        ("datapath_rx_dropped", stats.rx_dropped),
        ("datapath_rx_truncated", stats.rx_truncated),
        ("datapath_rx_adopted", stats.rx_adopted),
        ("datapath_rx_forwarded", stats.rx_forwarded),
        ("datapath_rx_unforwarded", stats.rx_unforwarded),
        ("datapath_syscalls", stats.syscalls),
        ("datapath_soft_errors", stats.soft_errors),
        ("datapath_blocked", stats.blocked),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn drop_names_are_told_apart_from_rxe_names() {
        let rxe: Vec<&str> = uroce_transport::Counters::new().iter().map(|(n, _)| n).collect();
        assert!(rxe.contains(&"duplicate_request"));
        let all: HashSet<&str> = rxe.iter().copied().chain(DROP_NAMES.iter().copied()).collect();
        assert_eq!(all.len(), rxe.len() + DropReason::COUNT, "every name is used once");
        assert!(all.contains("drop_bad_icrc"));
    }
}
