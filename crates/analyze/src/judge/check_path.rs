//! Checks of what stays the same in a connection.

use super::finding::Ledger;
use super::rules::path::{
    MIGREQ_CHANGES, MIGREQ_DIFFERS, MTU_ABOVE_AGREED, PKEY_CHANGES, PORT_CHANGES,
    TRAFFIC_CLASS_CHANGES,
};
use super::sight::Sight;

/// The membership bit of a P_Key, which may differ.
const PKEY_BITS: u16 = 0x7fff;

/// The fields of the first packet of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PathSeen {
    frame: u64,
    source_port: u16,
    dscp: u8,
    pkey: u16,
    migreq: bool,
}

impl PathSeen {
    fn of(sight: &Sight<'_>) -> Self {
        let packet = sight.packet;
        Self {
            frame: packet.frame,
            source_port: packet.source.port(),
            dscp: packet.traffic_class >> 2,
            pkey: packet.bth.pkey & PKEY_BITS,
            migreq: packet.bth.migreq,
        }
    }
}

/// Compares a packet with the first one of its connection, and with the path MTU that was agreed.
pub(super) fn check(
    sight: &Sight<'_>,
    path: &mut Option<PathSeen>,
    agreed_mtu: Option<u32>,
    ledger: &mut Ledger,
) {
    if sight.connected().is_none() {
        return;
    }
    check_agreed_mtu(sight, agreed_mtu, ledger);
    let now = PathSeen::of(sight);
    let first = *path.get_or_insert(now);
    if (PathSeen { frame: now.frame, ..first }) == now {
        return;
    }
    check_changes(sight, &first, &now, ledger);
}

fn check_changes(sight: &Sight<'_>, first: &PathSeen, now: &PathSeen, ledger: &mut Ledger) {
    let since = first.frame;
    if first.source_port != now.source_port {
        sight.breaks(&PORT_CHANGES, ledger, || {
            format!("port {}, in frame {since} {}", now.source_port, first.source_port)
        });
    }
    if first.dscp != now.dscp {
        sight.breaks(&TRAFFIC_CLASS_CHANGES, ledger, || {
            format!("DSCP {}, in frame {since} {}", now.dscp, first.dscp)
        });
    }
    if first.pkey != now.pkey {
        sight.breaks(&PKEY_CHANGES, ledger, || {
            format!("P_Key {:#06x}, in frame {since} {:#06x}", now.pkey, first.pkey)
        });
    }
    if first.migreq != now.migreq {
        let text = || format!("MigReq {}", u8::from(now.migreq));
        sight.breaks(&MIGREQ_CHANGES, ledger, text);
    }
}

fn check_agreed_mtu(sight: &Sight<'_>, agreed: Option<u32>, ledger: &mut Ledger) {
    let Some((agreed, length)) = agreed.zip(sight.length()) else { return };
    if length > agreed {
        let text = || format!("{length} bytes of payload, agreed are {agreed}");
        sight.breaks(&MTU_ABOVE_AGREED, ledger, text);
    }
}

/// At the end: compares the two ends of a connection.
pub(super) fn conclude(
    flow: usize,
    mine: Option<PathSeen>,
    other: Option<PathSeen>,
    ledger: &mut Ledger,
) {
    let Some((mine, other)) = mine.zip(other) else { return };
    if !mine.migreq && other.migreq {
        ledger.record(&MIGREQ_DIFFERS, Some(flow), mine.frame, || {
            format!("MigReq is 0 in frame {} and 1 in frame {}", mine.frame, other.frame)
        });
    }
}
