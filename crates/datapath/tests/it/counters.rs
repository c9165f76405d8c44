//! Counters of what was dropped, by reason.

use uroce_datapath::{DatapathStats, Refusals};
use uroce_wire::DropReason;

#[test]
fn each_reason_is_counted_once_and_as_dropped() {
    for (reason, expected) in [
        (DropReason::Fragment, Refusals { fragment: 1, ..Refusals::default() }),
        (DropReason::IpOptions, Refusals { ip_options: 1, ..Refusals::default() }),
        (DropReason::BadLength, Refusals { bad_length: 1, ..Refusals::default() }),
        (DropReason::TooShort, Refusals { too_short: 1, ..Refusals::default() }),
        (DropReason::WrongPeer, Refusals { wrong_peer: 1, ..Refusals::default() }),
        (DropReason::WrongDestination, Refusals { wrong_destination: 1, ..Refusals::default() }),
        (DropReason::NotRoce, Refusals { not_roce: 1, ..Refusals::default() }),
        // A reason that no datapath tells apart.
        (DropReason::RxTruncated, Refusals { not_roce: 1, ..Refusals::default() }),
    ] {
        let mut stats = DatapathStats::default();
        stats.refuse(reason);
        assert_eq!((stats.rx_refused, stats.rx_dropped), (expected, 1), "{reason}");
        assert_eq!(stats.rx_packets, 0);
    }
}

#[test]
fn every_counter_is_listed_under_its_reason() {
    let (wrong_peer, wrong_destination) = (7, 8);
    let rx_refused = Refusals {
        not_roce: 2,
        fragment: 3,
        ip_options: 4,
        bad_length: 5,
        too_short: 6,
        wrong_peer,
        wrong_destination,
    };
    let stats = DatapathStats { rx_truncated: 1, rx_refused, ..DatapathStats::default() };
    let expected = [
        (DropReason::RxTruncated, 1),
        (DropReason::NotRoce, 2),
        (DropReason::Fragment, 3),
        (DropReason::IpOptions, 4),
        (DropReason::BadLength, 5),
        (DropReason::TooShort, 6),
        (DropReason::WrongPeer, 7),
        (DropReason::WrongDestination, 8),
    ];
    assert_eq!(stats.refused(), expected);
}

#[test]
fn received_packets_and_bytes_are_counted_together() {
    let mut stats = DatapathStats::default();
    [0, 1, 4096].into_iter().for_each(|bytes| stats.count_received(bytes));
    let expected = DatapathStats { rx_packets: 3, rx_bytes: 4097, ..DatapathStats::default() };
    assert_eq!(stats, expected);
}
