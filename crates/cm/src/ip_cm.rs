//! The header that rdma_cm puts in front of the private data of REQ and SIDR_REQ.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use thiserror::Error;
use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned, transmute, transmute_ref};

/// The addresses of a connection request of rdma_cm: those of the active side, which sent it, and of the passive
/// side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpCm {
    /// Port of the active side, by which rdma_cm names that end; no socket is bound to it.
    pub source_port: u16,
    /// Address of the active side.
    pub source: IpAddr,
    /// Address of the passive side, of the same IP version.
    pub destination: IpAddr,
}

/// The private data does not begin with a header that we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BadIpCm {
    /// Only version 0 exists.
    #[error("IP-CM header of version {0}, only 0 exists")]
    Version(u8),
    /// Neither 4 nor 6.
    #[error("IP-CM header for IP version {0}, neither 4 nor 6")]
    IpVersion(u8),
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawIpCm {
    version: u8,
    /// IP version in the upper four bits.
    ip_version: u8,
    source_port: U16,
    source: [u8; 16],
    destination: [u8; 16],
}

impl IpCm {
    /// Bytes of the header.
    pub const LEN: usize = 36;

    /// Reads the header.
    ///
    /// # Errors
    /// [`BadIpCm`]: another version.
    pub fn read(bytes: &[u8; Self::LEN]) -> Result<IpCm, BadIpCm> {
        let raw: &RawIpCm = transmute_ref!(bytes);
        if raw.version != 0 {
            return Err(BadIpCm::Version(raw.version));
        }
        let address = match raw.ip_version >> 4 {
            4 => v4,
            6 => |bytes: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*bytes)),
            other => return Err(BadIpCm::IpVersion(other)),
        };
        Ok(IpCm {
            source_port: raw.source_port.get(),
            source: address(&raw.source),
            destination: address(&raw.destination),
        })
    }

    /// The header of `private`; `None` if there are fewer bytes.
    pub fn split(private: &[u8]) -> Option<(Result<IpCm, BadIpCm>, &[u8])> {
        let (header, rest) = private.split_first_chunk()?;
        Some((IpCm::read(header), rest))
    }

    /// Its bytes.
    pub fn write(&self) -> [u8; Self::LEN] {
        let raw = RawIpCm {
            version: 0,
            ip_version: if self.destination.is_ipv4() { 0x40 } else { 0x60 },
            source_port: self.source_port.into(),
            source: octets(self.source),
            destination: octets(self.destination),
        };
        transmute!(raw)
    }
}

/// An IPv4 address stands in the last four bytes.
fn v4([.., a, b, c, d]: &[u8; 16]) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(*a, *b, *c, *d))
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => Ipv6Addr::from(u128::from(u32::from(v4))).octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}
