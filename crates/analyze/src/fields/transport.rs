//! The transport headers.

use super::spec::{Spec, bytes, decimal, hex, wide_hex};
use super::words;

pub(super) const BTH: &[Spec] = &[
    decimal("infiniband.bth.opcode", "Opcode", (0, 0), 8).says(words::opcode),
    decimal("infiniband.bth.se", "Solicited event", (1, 0), 1),
    decimal("infiniband.bth.m", "MigReq", (1, 1), 1),
    decimal("infiniband.bth.padcnt", "Pad count", (1, 2), 2),
    decimal("infiniband.bth.tver", "Transport version", (1, 4), 4),
    decimal("infiniband.bth.p_key", "Partition key", (2, 0), 16),
    decimal("uroce.bth.fecn", "FECN", (4, 0), 1),
    decimal("uroce.bth.becn", "BECN", (4, 1), 1),
    decimal("uroce.bth.reserved6", "Reserved", (4, 2), 6),
    hex("infiniband.bth.destqp", "Destination queue pair", (5, 0), 24).says(words::qpn),
    decimal("infiniband.bth.a", "Acknowledge request", (8, 0), 1),
    decimal("infiniband.bth.reserved7", "Reserved", (8, 1), 7),
    decimal("infiniband.bth.psn", "Packet sequence number", (9, 0), 24).says(words::hex_number),
];

pub(super) const DETH: &[Spec] = &[
    wide_hex("infiniband.deth.q_key", "Queue key", (0, 0), 32, 16),
    wide_hex("infiniband.deth.srcqp", "Source queue pair", (5, 0), 24, 8),
];

pub(super) const RDETH: &[Spec] =
    &[decimal("infiniband.rdeth.eecnxt", "End-to-end context", (1, 0), 24)];

pub(super) const RETH: &[Spec] = &[
    hex("infiniband.reth.va", "Virtual address", (0, 0), 64),
    hex("infiniband.reth.r_key", "Remote key", (8, 0), 32),
    decimal("infiniband.reth.dmalen", "DMA length", (12, 0), 32),
];

pub(super) const ATOMIC_ETH: &[Spec] = &[
    hex("infiniband.reth.va", "Virtual address", (0, 0), 64),
    hex("infiniband.reth.r_key", "Remote key", (8, 0), 32),
    decimal("infiniband.atomiceth.swapdt", "Swap or add data", (12, 0), 64).says(words::hex_number),
    decimal("infiniband.atomiceth.cmpdt", "Compare data", (20, 0), 64).says(words::hex_number),
];

pub(super) const ATOMIC_ACK_ETH: &[Spec] =
    &[decimal("infiniband.atomicacketh.origremdt", "Original remote data", (0, 0), 64)
        .says(words::hex_number)];

pub(super) const FETH: &[Spec] = &[
    decimal("infiniband.feth.reserved27", "Reserved", (0, 0), 26),
    decimal("infiniband.feth.sel", "Selectivity", (3, 2), 2).says(words::selectivity),
    decimal("infiniband.feth.plt", "Placement type", (3, 4), 4).says(words::placement),
];

pub(super) const XRCETH: &[Spec] =
    &[hex("uroce.xrceth.srqn", "XRC shared receive queue", (1, 0), 24)];

const MSN: Spec = decimal("infiniband.aeth.msn", "Message sequence number", (1, 0), 24);

const SYNDROME: Spec =
    decimal("infiniband.aeth.syndrome", "Syndrome", (0, 0), 8).says(words::syndrome);

const RESERVED: Spec = decimal("infiniband.aeth.syndrome.reserved", "Reserved", (0, 0), 1);
const KIND: Spec = decimal("infiniband.aeth.syndrome.opcode", "Kind", (0, 1), 2);
const CREDITS: Spec =
    decimal("infiniband.aeth.syndrome.credit_count", "Credit code", (0, 3), 5).says(words::credits);
const TIMER: Spec =
    decimal("infiniband.aeth.syndrome.timer", "RNR timer code", (0, 3), 5).says(words::rnr_timer);
const ERROR: Spec =
    decimal("infiniband.aeth.syndrome.error_code", "Error code", (0, 3), 5).says(words::nak);
const OTHER: Spec = decimal("infiniband.aeth.syndrome.reserved_value", "Reserved", (0, 3), 5);

/// The AETH: what its lower five bits are depends on the kind.
pub(super) const fn aeth(syndrome: u8) -> &'static [Spec] {
    const ACK: &[Spec] = &[SYNDROME.with(&[RESERVED, KIND, CREDITS]), MSN];
    const RNR: &[Spec] = &[SYNDROME.with(&[RESERVED, KIND, TIMER]), MSN];
    const UNUSED: &[Spec] = &[SYNDROME.with(&[RESERVED, KIND, OTHER]), MSN];
    const NAK: &[Spec] = &[SYNDROME.with(&[RESERVED, KIND, ERROR]), MSN];
    match syndrome >> 5 & 3 {
        0 => ACK,
        1 => RNR,
        2 => UNUSED,
        _ => NAK,
    }
}

pub(super) const IMMDT: &[Spec] = &[bytes("infiniband.immdt", "Immediate data", 0, 4)];

pub(super) const IETH: &[Spec] = &[bytes("infiniband.ieth", "Key to invalidate", 0, 4)];

pub(super) const CNP: &[Spec] = &[bytes("uroce.cnp", "Reserved", 0, 16)];

/// All tables.
pub(super) const ALL: &[&[Spec]] = &[
    BTH,
    DETH,
    RDETH,
    RETH,
    ATOMIC_ETH,
    ATOMIC_ACK_ETH,
    FETH,
    XRCETH,
    aeth(0),
    aeth(0x20),
    aeth(0x40),
    aeth(0x60),
    IMMDT,
    IETH,
    CNP,
];
