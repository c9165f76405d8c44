//! One flat list of everything that is counted, for people and for dashboards.

use std::sync::LazyLock;

use uroce_cm::PortCounters;
use uroce_datapath::DatapathStats;
use uroce_transport::Counters;
use uroce_wire::DropReason;

use crate::engine::IcrcFindings;

/// `drop_` and the reason's name, made once: two reasons share their name with one of rxe's counters.
static DROP_NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let name = |reason: &DropReason| -> &'static str { format!("drop_{}", reason.name()).leak() };
    DropReason::ALL.iter().map(name).collect()
});

/// The counters of rxe, then ours, the ICRC findings, the datapath's counters, and one counter
/// `drop_<reason>` for each [`DropReason`].
pub(crate) fn snapshot(
    counters: &Counters,
    icrc: &IcrcFindings,
    trains_lost: u64,
    stats: &DatapathStats,
) -> Vec<(&'static str, u64)> {
    let mut all: Vec<(&'static str, u64)> = counters.iter().collect();
    all.extend(icrc_counters(icrc, trains_lost));
    all.extend(datapath_counters(stats));
    let refused = stats.refused();
    let drops = counters.drops().map(|(reason, count)| {
        let more = refused.iter().find(|(same, _)| *same == reason);
        count + more.map_or(0, |(_, more)| *more)
    });
    all.extend(DROP_NAMES.iter().copied().zip(drops));
    all
}

fn icrc_counters(icrc: &IcrcFindings, trains_lost: u64) -> [(&'static str, u64); 4] {
    [
        ("icrc_valid", icrc.valid),
        ("icrc_predicted", icrc.predicted),
        ("icrc_solved", icrc.solved),
        ("trains_lost", trains_lost),
    ]
}

/// The names of all that a device counts by itself, in the order of [`Device::counters`](crate::Device::counters):
/// all but the counters of the datapath.
pub fn hw_counter_names() -> &'static [&'static str] {
    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
        let transport = Counters::new();
        let icrc = icrc_counters(&IcrcFindings::default(), 0);
        let counters = transport.iter().chain(icrc).map(|(name, _)| name);
        counters.chain(DROP_NAMES.iter().copied()).collect()
    });
    &NAMES
}

/// What is wrong with packets that count as PortRcvErrors: damaged, or malformed.
const RCV_ERRORS: [DropReason; 6] = [
    DropReason::RxTruncated,
    DropReason::TooShort,
    DropReason::BadLength,
    DropReason::BadPad,
    DropReason::BadTransportVersion,
    DropReason::BadIcrc,
];

/// What network management is told of the port: the share of this engine.
pub(crate) fn port_counters(counters: &Counters, stats: &DatapathStats) -> PortCounters {
    let dropped: u64 = RCV_ERRORS.iter().map(|reason| counters.dropped(*reason)).sum();
    let refused = stats.refused().into_iter().filter(|(reason, _)| RCV_ERRORS.contains(reason));
    PortCounters {
        link_downed: counters.link_downed,
        rcv_errors: dropped + refused.map(|(_, count)| count).sum::<u64>(),
        xmit_discards: counters.dropped(DropReason::TxFailed) + stats.tx_dropped,
        xmit_bytes: counters.sent_bytes,
        rcv_bytes: counters.rcvd_bytes,
        xmit_pkts: counters.sent_pkts,
        rcv_pkts: counters.rcvd_pkts,
    }
}

/// The same of two engines together.
pub(crate) fn port_sum(one: PortCounters, other: PortCounters) -> PortCounters {
    PortCounters {
        link_downed: one.link_downed + other.link_downed,
        rcv_errors: one.rcv_errors + other.rcv_errors,
        xmit_discards: one.xmit_discards + other.xmit_discards,
        xmit_bytes: one.xmit_bytes + other.xmit_bytes,
        rcv_bytes: one.rcv_bytes + other.rcv_bytes,
        xmit_pkts: one.xmit_pkts + other.xmit_pkts,
        rcv_pkts: one.rcv_pkts + other.rcv_pkts,
    }
}

/// Adds the counters of another engine.
pub(crate) fn add(all: &mut [(&'static str, u64)], more: &[(&'static str, u64)]) {
    for ((name, value), (same, more)) in all.iter_mut().zip(more) {
        debug_assert_eq!(name, same, "all engines count the same");
        *value += more;
    }
}

fn datapath_counters(stats: &DatapathStats) -> [(&'static str, u64); 14] {
    [
        ("datapath_tx_packets", stats.tx_packets),
        ("datapath_tx_bytes", stats.tx_bytes),
        ("datapath_tx_in_place", stats.tx_in_place),
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
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn drop_names_are_told_apart_from_rxe_names() {
        let rxe: Vec<&str> = uroce_transport::Counters::new().iter().map(|(n, _)| n).collect();
        assert!(rxe.contains(&"duplicate_request"));
        let all: HashSet<&str> = rxe.iter().copied().chain(DROP_NAMES.iter().copied()).collect();
        assert_eq!(all.len(), rxe.len() + DropReason::COUNT, "every name is used once");
        assert!(all.contains("drop_bad_icrc"));
    }
}
