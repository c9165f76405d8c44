//! Management datagrams: the 256 bytes that travel through QP1.

use thiserror::Error;
use uroce_wire::DropReason;
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

use crate::Attribute;
use crate::message::{BODY_LEN, Message};

/// Bytes of every MAD (C13-3, R101).
pub const MAD_LEN: usize = 256;
/// The Q_Key of QP1, both ways.
pub const GSI_QKEY: u32 = 0x8001_0000;

pub(crate) const BASE_VERSION: u8 = 1;
pub(crate) const CLASS_CM: u8 = 7;
pub(crate) const CLASS_VERSION: u8 = 2;
const METHOD_SEND: u8 = 3;

/// A connection management MAD.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mad {
    /// Transaction id: chosen with REQ, DREQ, SIDR_REQ and LAP, echoed by the answers.
    pub tid: u64,
    /// What it says.
    pub message: Message,
}

/// Why a MAD is not for the connection manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MadError {
    /// Shorter or longer than 256 bytes.
    #[error("{0} bytes, but a MAD has 256")]
    Length(usize),
    /// Byte 0.
    #[error("MAD byte 0: base version {0}, only 1 exists")]
    BaseVersion(u8),
    /// Byte 1.
    #[error("MAD byte 1: no message or request of management class {0:#04x} is served")]
    Class(u8),
    /// Byte 2.
    #[error("MAD byte 2: class version {0}, we know 2 only")]
    ClassVersion(u8),
    /// Byte 3.
    #[error("MAD byte 3: method {0:#04x}, connection management has 0x03 only")]
    Method(u8),
    /// Bytes 4 and 5.
    #[error("MAD byte 4: status {0:#06x} in a message that is no response")]
    Status(u16),
    /// Bytes 16 and 17.
    #[error("MAD byte 16: attribute {0:#06x} is no message of connection management")]
    Attribute(u16),
}

impl MadError {
    /// The counter that this error goes to.
    pub fn drop_reason(self) -> DropReason {
        match self {
            MadError::Length(_) => DropReason::MadLength,
            MadError::BaseVersion(_)
            | MadError::Class(_)
            | MadError::ClassVersion(_)
            | MadError::Method(_)
            | MadError::Status(_) => DropReason::MadHeader,
            MadError::Attribute(_) => DropReason::MadAttribute,
        }
    }
}

/// The fields of every MAD.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(crate) struct RawMad {
    pub(crate) base_version: u8,
    pub(crate) class: u8,
    pub(crate) class_version: u8,
    pub(crate) method: u8,
    pub(crate) status: U16,
    pub(crate) class_specific: U16,
    pub(crate) tid: U64,
    pub(crate) attribute: U16,
    pub(crate) reserved: U16,
    pub(crate) modifier: U32,
    pub(crate) body: [u8; BODY_LEN],
}

impl Mad {
    /// Reads a MAD: base version, class, class version, method, status and attribute must be those
    /// of connection management (A22).
    ///
    /// # Errors
    /// [`MadError`] says which is not.
    pub fn parse(bytes: &[u8]) -> Result<Mad, MadError> {
        let whole: &[u8; MAD_LEN] = bytes.try_into().map_err(|_| MadError::Length(bytes.len()))?;
        let raw: &RawMad = transmute_ref!(whole);
        raw.check()?;
        let attribute = Attribute(raw.attribute.get());
        let message =
            Message::read(attribute, &raw.body).ok_or(MadError::Attribute(attribute.0))?;
        Ok(Mad { tid: raw.tid.get(), message: message.with_modifier(raw.modifier.get()) })
    }

    /// Its 256 bytes.
    pub fn emit(&self) -> [u8; MAD_LEN] {
        let raw = RawMad {
            base_version: BASE_VERSION,
            class: CLASS_CM,
            class_version: CLASS_VERSION,
            method: METHOD_SEND,
            status: 0.into(),
            class_specific: 0.into(),
            tid: self.tid.into(),
            attribute: self.message.attribute().0.into(),
            reserved: 0.into(),
            modifier: self.message.modifier().into(),
            body: self.message.write(),
        };
        transmute!(raw)
    }
}

impl RawMad {
    fn check(&self) -> Result<(), MadError> {
        if self.base_version != BASE_VERSION {
            return Err(MadError::BaseVersion(self.base_version));
        }
        if self.class != CLASS_CM {
            return Err(MadError::Class(self.class));
        }
        if self.class_version != CLASS_VERSION {
            return Err(MadError::ClassVersion(self.class_version));
        }
        if self.method != METHOD_SEND {
            return Err(MadError::Method(self.method));
        }
        if self.status.get() != 0 {
            return Err(MadError::Status(self.status.get()));
        }
        Ok(())
    }
}
