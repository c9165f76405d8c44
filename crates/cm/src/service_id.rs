//! What a listener listens on.

use std::fmt;

/// Port spaces of rdma_cm (`enum rdma_port_space`): each has ports of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortSpace {
    /// IPoIB multicast.
    Ipoib = 0x0002,
    /// Connections of RC, UC or XRC queue pairs; the usual one.
    Tcp = 0x0106,
    /// Services that UD queue pairs send datagrams to; no connection is made.
    Udp = 0x0111,
    /// Any service of InfiniBand.
    Ib = 0x013f,
}

impl PortSpace {
    const ALL: [PortSpace; 4] = [PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib];

    /// Its services can be connected to: a REQ for one makes sense.
    pub const fn takes_connections(self) -> bool {
        matches!(self, PortSpace::Tcp | PortSpace::Ib)
    }

    /// Its services can be sent datagrams: a SIDR_REQ for one makes sense.
    pub const fn takes_datagrams(self) -> bool {
        !matches!(self, PortSpace::Tcp)
    }
}

/// A service id: port space and port, or anything else of 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServiceId(pub u64);

impl ServiceId {
    /// The service id of a port.
    pub const fn new(space: PortSpace, port: u16) -> ServiceId {
        ServiceId((space as u64) << 16 | port as u64)
    }

    /// Its port space, if it is one of rdma_cm's. Their REQ and SIDR_REQ carry an
    /// [`IpCm`](crate::IpCm) header.
    pub fn port_space(self) -> Option<PortSpace> {
        PortSpace::ALL.into_iter().find(|space| *space as u64 == self.0 >> 16)
    }

    /// Its port, if it is one of rdma_cm's.
    pub const fn port(self) -> u16 {
        self.0 as u16
    }
}

impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port_space() {
            Some(space) => write!(f, "{space:?} port {}", self.port()),
            None => write!(f, "service {:#018x}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_spaces_have_the_kernels_numbers() {
        let ids = PortSpace::ALL.map(|space| ServiceId::new(space, 7174));
        assert_eq!(ids.map(|id| id.0), [0x0002_1c06, 0x0106_1c06, 0x0111_1c06, 0x013f_1c06]);
        for (id, space) in ids.into_iter().zip(PortSpace::ALL) {
            assert_eq!((id.port_space(), id.port()), (Some(space), 7174));
        }
        assert_eq!(ServiceId(0x1_0106_1c06).port_space(), None);
        assert_eq!(ids[1].to_string(), "Tcp port 7174");
    }
}
