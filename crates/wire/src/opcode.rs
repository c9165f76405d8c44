//! The opcode table. Everything that depends on an opcode asks it.

use core::fmt;

use bitflags::bitflags;

/// An opcode from the wire: any byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u8);

/// Transport service that an opcode belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
    /// Extended reliable connection.
    Xrc,
    /// Congestion notification.
    Cnp,
}

/// What a packet does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// SEND.
    Send,
    /// RDMA WRITE.
    Write,
    /// RDMA READ request.
    ReadRequest,
    /// RDMA READ response.
    ReadResponse,
    /// ACK, NAK, RNR NAK.
    Acknowledge,
    /// Result of an atomic.
    AtomicAcknowledge,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// FLUSH.
    Flush,
    /// ATOMIC WRITE.
    AtomicWrite,
    /// Congestion notification packet.
    Cnp,
}

/// Place of a packet in its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Position {
    /// The first of several.
    First,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    Last,
    /// The only one.
    Only,
}

bitflags! {
    /// Extension headers behind the BTH.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct HeaderSet: u16 {
        /// DETH
        const DETH = 1;
        /// RETH
        const RETH = 1 << 1;
        /// AETH
        const AETH = 1 << 2;
        /// AtomicETH
        const ATOMIC_ETH = 1 << 3;
        /// AtomicAckETH
        const ATOMIC_ACK_ETH = 1 << 4;
        /// ImmDt
        const IMMDT = 1 << 5;
        /// IETH
        const IETH = 1 << 6;
        /// FETH
        const FETH = 1 << 7;
        /// XRCETH
        const XRCETH = 1 << 8;
    }
}

/// What may follow the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PayloadRule {
    /// Nothing.
    None,
    /// Up to the path MTU.
    Any,
    /// Exactly this many bytes.
    Exact(u16),
}

/// What is known about an opcode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpcodeInfo {
    /// The opcode.
    pub opcode: Opcode,
    /// Its name, as in `RC_SEND_FIRST`.
    pub name: &'static str,
    /// Its service.
    pub service: Service,
    /// What it does.
    pub operation: Operation,
    /// Its place in a message.
    pub position: Position,
    /// Its extension headers.
    pub headers: HeaderSet,
    /// Bytes of BTH and extension headers.
    pub header_len: usize,
    /// What follows them.
    pub payload: PayloadRule,
}

impl OpcodeInfo {
    /// True for the first packet of a message.
    #[inline]
    pub const fn starts(&self) -> bool {
        matches!(self.position, Position::First | Position::Only)
    }

    /// True for the last packet of a message.
    #[inline]
    pub const fn ends(&self) -> bool {
        matches!(self.position, Position::Last | Position::Only)
    }

    /// True for what a requester sends.
    #[inline]
    pub const fn is_request(&self) -> bool {
        // Not by way of `is_response`, so that it is one test: every packet is asked.
        !matches!(
            self.operation,
            Operation::ReadResponse
                | Operation::Acknowledge
                | Operation::AtomicAcknowledge
                | Operation::Cnp
        )
    }

    /// True for what a responder sends.
    #[inline]
    pub const fn is_response(&self) -> bool {
        matches!(
            self.operation,
            Operation::ReadResponse | Operation::Acknowledge | Operation::AtomicAcknowledge
        )
    }

    /// True if bytes may follow the headers.
    #[inline]
    pub const fn carries_payload(&self) -> bool {
        !matches!(self.payload, PayloadRule::None)
    }

    /// True if it has immediate data.
    #[inline]
    pub const fn has_imm(&self) -> bool {
        self.headers.contains(HeaderSet::IMMDT)
    }

    /// True if it invalidates a key.
    #[inline]
    pub const fn has_invalidate(&self) -> bool {
        self.headers.contains(HeaderSet::IETH)
    }
}

const NONE: HeaderSet = HeaderSet::empty();
const RETH: HeaderSet = HeaderSet::RETH;
const AETH: HeaderSet = HeaderSet::AETH;
const IMM: HeaderSet = HeaderSet::IMMDT;
const INV: HeaderSet = HeaderSet::IETH;

const fn lengths(headers: HeaderSet) -> usize {
    const LENGTHS: [(HeaderSet, usize); 9] = [
        (HeaderSet::DETH, 8),
        (HeaderSet::RETH, 16),
        (HeaderSet::AETH, 4),
        (HeaderSet::ATOMIC_ETH, 28),
        (HeaderSet::ATOMIC_ACK_ETH, 8),
        (HeaderSet::IMMDT, 4),
        (HeaderSet::IETH, 4),
        (HeaderSet::FETH, 4),
        (HeaderSet::XRCETH, 4),
    ];
    let (mut sum, mut i) = (12, 0);
    while i < LENGTHS.len() {
        if headers.contains(LENGTHS[i].0) {
            sum += LENGTHS[i].1;
        }
        i += 1;
    }
    sum
}

/// One row per defined opcode: value, constant, service, operation, position, headers, payload.
macro_rules! opcodes {
    ($($value:literal $name:ident $service:ident $operation:ident $position:ident $headers:expr, $payload:expr;)*) => {
        #[allow(missing_docs, reason = "the names are those of the InfiniBand specification")]
        impl Opcode {
            $(pub const $name: Opcode = Opcode($value);)*
        }

        const TABLE: [Option<OpcodeInfo>; 256] = {
            let mut table = [None; 256];
            $(table[$value] = Some(OpcodeInfo {
                opcode: Opcode($value),
                name: stringify!($name),
                service: Service::$service,
                operation: Operation::$operation,
                position: Position::$position,
                headers: $headers,
                header_len: lengths($headers),
                payload: $payload,
            });)*
            table
        };
    };
}

use PayloadRule::{Any, Exact};

const NO: PayloadRule = PayloadRule::None;
const XRC: HeaderSet = HeaderSet::XRCETH;

opcodes! {
    0x00 RC_SEND_FIRST Rc Send First NONE, Any;
    0x01 RC_SEND_MIDDLE Rc Send Middle NONE, Any;
    0x02 RC_SEND_LAST Rc Send Last NONE, Any;
    0x03 RC_SEND_LAST_IMM Rc Send Last IMM, Any;
    0x04 RC_SEND_ONLY Rc Send Only NONE, Any;
    0x05 RC_SEND_ONLY_IMM Rc Send Only IMM, Any;
    0x06 RC_WRITE_FIRST Rc Write First RETH, Any;
    0x07 RC_WRITE_MIDDLE Rc Write Middle NONE, Any;
    0x08 RC_WRITE_LAST Rc Write Last NONE, Any;
    0x09 RC_WRITE_LAST_IMM Rc Write Last IMM, Any;
    0x0a RC_WRITE_ONLY Rc Write Only RETH, Any;
    0x0b RC_WRITE_ONLY_IMM Rc Write Only RETH.union(IMM), Any;
    0x0c RC_READ_REQUEST Rc ReadRequest Only RETH, NO;
    0x0d RC_READ_RESPONSE_FIRST Rc ReadResponse First AETH, Any;
    0x0e RC_READ_RESPONSE_MIDDLE Rc ReadResponse Middle NONE, Any;
    0x0f RC_READ_RESPONSE_LAST Rc ReadResponse Last AETH, Any;
    0x10 RC_READ_RESPONSE_ONLY Rc ReadResponse Only AETH, Any;
    0x11 RC_ACKNOWLEDGE Rc Acknowledge Only AETH, NO;
    0x12 RC_ATOMIC_ACKNOWLEDGE Rc AtomicAcknowledge Only AETH.union(HeaderSet::ATOMIC_ACK_ETH), NO;
    0x13 RC_COMPARE_SWAP Rc CompareSwap Only HeaderSet::ATOMIC_ETH, NO;
    0x14 RC_FETCH_ADD Rc FetchAdd Only HeaderSet::ATOMIC_ETH, NO;
    0x16 RC_SEND_LAST_INV Rc Send Last INV, Any;
    0x17 RC_SEND_ONLY_INV Rc Send Only INV, Any;
    0x1c RC_FLUSH Rc Flush Only HeaderSet::FETH.union(RETH), NO;
    0x1d RC_ATOMIC_WRITE Rc AtomicWrite Only RETH, Exact(8);

    0x20 UC_SEND_FIRST Uc Send First NONE, Any;
    0x21 UC_SEND_MIDDLE Uc Send Middle NONE, Any;
    0x22 UC_SEND_LAST Uc Send Last NONE, Any;
    0x23 UC_SEND_LAST_IMM Uc Send Last IMM, Any;
    0x24 UC_SEND_ONLY Uc Send Only NONE, Any;
    0x25 UC_SEND_ONLY_IMM Uc Send Only IMM, Any;
    0x26 UC_WRITE_FIRST Uc Write First RETH, Any;
    0x27 UC_WRITE_MIDDLE Uc Write Middle NONE, Any;
    0x28 UC_WRITE_LAST Uc Write Last NONE, Any;
    0x29 UC_WRITE_LAST_IMM Uc Write Last IMM, Any;
    0x2a UC_WRITE_ONLY Uc Write Only RETH, Any;
    0x2b UC_WRITE_ONLY_IMM Uc Write Only RETH.union(IMM), Any;

    0x64 UD_SEND_ONLY Ud Send Only HeaderSet::DETH, Any;
    0x65 UD_SEND_ONLY_IMM Ud Send Only HeaderSet::DETH.union(IMM), Any;

    0x81 CNP Cnp Cnp Only NONE, Exact(16);

    0xa0 XRC_SEND_FIRST Xrc Send First XRC, Any;
    0xa1 XRC_SEND_MIDDLE Xrc Send Middle XRC, Any;
    0xa2 XRC_SEND_LAST Xrc Send Last XRC, Any;
    0xa3 XRC_SEND_LAST_IMM Xrc Send Last XRC.union(IMM), Any;
    0xa4 XRC_SEND_ONLY Xrc Send Only XRC, Any;
    0xa5 XRC_SEND_ONLY_IMM Xrc Send Only XRC.union(IMM), Any;
    0xa6 XRC_WRITE_FIRST Xrc Write First XRC.union(RETH), Any;
    0xa7 XRC_WRITE_MIDDLE Xrc Write Middle XRC, Any;
    0xa8 XRC_WRITE_LAST Xrc Write Last XRC, Any;
    0xa9 XRC_WRITE_LAST_IMM Xrc Write Last XRC.union(IMM), Any;
    0xaa XRC_WRITE_ONLY Xrc Write Only XRC.union(RETH), Any;
    0xab XRC_WRITE_ONLY_IMM Xrc Write Only XRC.union(RETH).union(IMM), Any;
    0xac XRC_READ_REQUEST Xrc ReadRequest Only XRC.union(RETH), NO;
    0xad XRC_READ_RESPONSE_FIRST Xrc ReadResponse First AETH, Any;
    0xae XRC_READ_RESPONSE_MIDDLE Xrc ReadResponse Middle NONE, Any;
    0xaf XRC_READ_RESPONSE_LAST Xrc ReadResponse Last AETH, Any;
    0xb0 XRC_READ_RESPONSE_ONLY Xrc ReadResponse Only AETH, Any;
    0xb1 XRC_ACKNOWLEDGE Xrc Acknowledge Only AETH, NO;
    0xb2 XRC_ATOMIC_ACKNOWLEDGE Xrc AtomicAcknowledge Only AETH.union(HeaderSet::ATOMIC_ACK_ETH), NO;
    0xb3 XRC_COMPARE_SWAP Xrc CompareSwap Only XRC.union(HeaderSet::ATOMIC_ETH), NO;
    0xb4 XRC_FETCH_ADD Xrc FetchAdd Only XRC.union(HeaderSet::ATOMIC_ETH), NO;
    0xb6 XRC_SEND_LAST_INV Xrc Send Last XRC.union(INV), Any;
    0xb7 XRC_SEND_ONLY_INV Xrc Send Only XRC.union(INV), Any;
    0xbc XRC_FLUSH Xrc Flush Only XRC.union(HeaderSet::FETH).union(RETH), NO;
    0xbd XRC_ATOMIC_WRITE Xrc AtomicWrite Only XRC.union(RETH), Exact(8);
}

static INFO: [Option<OpcodeInfo>; 256] = TABLE;

impl Opcode {
    /// What is known about it; `None` for an opcode that is not defined.
    #[inline]
    pub fn info(self) -> Option<&'static OpcodeInfo> {
        INFO[usize::from(self.0)].as_ref()
    }

    /// The same operation of another service: the upper 3 bits are the service, the lower 5 the
    /// operation. It need not be defined there.
    #[inline]
    pub const fn of_service(self, service: Service) -> Opcode {
        let base = match service {
            Service::Rc => 0x00,
            Service::Uc => 0x20,
            Service::Ud => 0x60,
            Service::Cnp => 0x80,
            Service::Xrc => 0xa0,
        };
        Opcode(base | self.0 & 0x1f)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.info() {
            Some(info) => f.write_str(info.name),
            // RD, which RoCE does not have; some NICs use its numbers for a service of their own (DC).
            None if self.0 >> 5 == 2 => match Opcode(self.0 & 0x1f).info() {
                Some(info) => {
                    let operation = info.name.trim_start_matches("RC_");
                    write!(f, "opcode {:#04x} (RD or DC {operation})", self.0)
                }
                None => write!(f, "opcode {:#04x} (RD or DC)", self.0),
            },
            None => write!(f, "opcode {:#04x}", self.0),
        }
    }
}

/// The opcode of an operation at a position, with or without immediate data or invalidate.
/// `None` if the service has no such packet.
#[inline]
pub fn opcode_for(
    service: Service,
    operation: Operation,
    position: Position,
    imm: bool,
    inv: bool,
) -> Option<Opcode> {
    if service == Service::Cnp {
        return (operation == Operation::Cnp).then_some(Opcode::CNP);
    }
    let low = low_bits(operation, position, imm, inv)?;
    let opcode = Opcode(low).of_service(service);
    opcode.info().map(|info| info.opcode)
}

#[inline]
fn low_bits(operation: Operation, position: Position, imm: bool, inv: bool) -> Option<u8> {
    use Position::{First, Last, Middle, Only};
    Some(match (operation, position, imm, inv) {
        (Operation::Send, First, false, false) => 0x00,
        (Operation::Send, Middle, false, false) => 0x01,
        (Operation::Send, Last, false, false) => 0x02,
        (Operation::Send, Last, true, false) => 0x03,
        (Operation::Send, Only, false, false) => 0x04,
        (Operation::Send, Only, true, false) => 0x05,
        (Operation::Send, Last, false, true) => 0x16,
        (Operation::Send, Only, false, true) => 0x17,
        (Operation::Write, First, false, false) => 0x06,
        (Operation::Write, Middle, false, false) => 0x07,
        (Operation::Write, Last, false, false) => 0x08,
        (Operation::Write, Last, true, false) => 0x09,
        (Operation::Write, Only, false, false) => 0x0a,
        (Operation::Write, Only, true, false) => 0x0b,
        (Operation::ReadRequest, Only, false, false) => 0x0c,
        (Operation::ReadResponse, First, false, false) => 0x0d,
        (Operation::ReadResponse, Middle, false, false) => 0x0e,
        (Operation::ReadResponse, Last, false, false) => 0x0f,
        (Operation::ReadResponse, Only, false, false) => 0x10,
        (Operation::Acknowledge, Only, false, false) => 0x11,
        (Operation::AtomicAcknowledge, Only, false, false) => 0x12,
        (Operation::CompareSwap, Only, false, false) => 0x13,
        (Operation::FetchAdd, Only, false, false) => 0x14,
        (Operation::Flush, Only, false, false) => 0x1c,
        (Operation::AtomicWrite, Only, false, false) => 0x1d,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r23_r132_only_defined_opcodes_are_known() {
        let known = (0..=255u8).filter(|byte| Opcode(*byte).info().is_some()).count();
        assert_eq!(known, 25 + 12 + 2 + 1 + 25);
        for byte in [0x15, 0x18, 0x1b, 0x1e, 0x1f, 0x40, 0x46, 0x80, 0xc0, 0xff] {
            assert!(Opcode(byte).info().is_none(), "{byte:#x}");
        }
    }

    #[test]
    fn every_opcode_is_found_by_its_meaning() {
        for byte in 0..=255u8 {
            let Some(info) = Opcode(byte).info() else {
                continue;
            };
            let found = opcode_for(
                info.service,
                info.operation,
                info.position,
                info.has_imm(),
                info.has_invalidate(),
            );
            assert_eq!(found, Some(Opcode(byte)), "{}", info.name);
        }
    }

    #[test]
    fn header_lengths_of_the_reference_table() {
        let length = |opcode: Opcode| opcode.info().unwrap().header_len;
        assert_eq!(length(Opcode::RC_SEND_MIDDLE), 12);
        assert_eq!(length(Opcode::RC_ACKNOWLEDGE), 16);
        assert_eq!(length(Opcode::RC_WRITE_ONLY_IMM), 32);
        assert_eq!(length(Opcode::RC_FETCH_ADD), 40);
        assert_eq!(length(Opcode::RC_ATOMIC_ACKNOWLEDGE), 24);
        assert_eq!(length(Opcode::RC_FLUSH), 32);
        assert_eq!(length(Opcode::UD_SEND_ONLY_IMM), 24);
        assert_eq!(length(Opcode::XRC_FETCH_ADD), 44);
    }
}
