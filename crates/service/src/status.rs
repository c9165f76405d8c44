//! What a service tells about its addresses and clients.

use std::fmt;
use std::net::SocketAddr;

/// An address of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AddressStatus {
    /// The address, with its port.
    pub local: SocketAddr,
    /// The datapath of the service.
    pub datapath: String,
    /// What its datapath and the service have counted.
    pub counts: AddressCounts,
    /// Packets that were dropped, by the name of the reason.
    pub drops: Vec<(String, u64)>,
    /// Its clients, by slot.
    pub clients: Vec<ClientStatus>,
}

/// Packets of an address since the service was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AddressCounts {
    /// Sent by the datapath of the service.
    pub sent: u64,
    /// Received by it.
    pub received: u64,
    /// Handed from one client to another by the service.
    pub between_clients: u64,
}

/// A client of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientStatus {
    /// Its slot.
    pub slot: u8,
    /// Its user.
    pub user: u32,
    /// Its process; 0 if the service does not see it.
    pub process: u32,
    /// Packets from the client.
    pub sent: u64,
    /// Packets for the client.
    pub received: u64,
    /// Packets from the client that a client may not send.
    pub refused: u64,
    /// Packets for the client that found its ring full.
    pub dropped: u64,
    /// Links to other clients. What passes over them is not counted here.
    pub links: u32,
}

impl fmt::Display for AddressStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (clients, counts) = (self.clients.len(), self.counts);
        writeln!(
            f,
            "{}: datapath {}, {clients} clients, {} packets sent, {} received, {} between clients",
            self.local, self.datapath, counts.sent, counts.received, counts.between_clients
        )?;
        for (reason, count) in &self.drops {
            writeln!(f, "  drop_{reason} {count}")?;
        }
        self.clients.iter().try_for_each(|client| writeln!(f, "  {client}"))
    }
}

impl fmt::Display for ClientStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "slot {}: user {}, process {}: {} packets sent, {} received, {} refused, {} dropped, {} links",
            self.slot,
            self.user,
            self.process,
            self.sent,
            self.received,
            self.refused,
            self.dropped,
            self.links
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_line_and_each_client_and_reason_another() {
        let client = ClientStatus {
            slot: 9,
            user: 1000,
            process: 77,
            sent: 1,
            received: 2,
            refused: 3,
            dropped: 4,
            links: 5,
        };
        let status = AddressStatus {
            local: "10.0.0.1:4791".parse().expect("an address"),
            datapath: "udp".to_owned(),
            counts: AddressCounts { sent: 6, received: 7, between_clients: 8 },
            drops: vec![("bad_icrc".to_owned(), 9)],
            clients: vec![client],
        };
        assert_eq!(
            status.to_string(),
            "10.0.0.1:4791: datapath udp, 1 clients, 6 packets sent, 7 received, 8 between clients\n  \
             drop_bad_icrc 9\n  \
             slot 9: user 1000, process 77: 1 packets sent, 2 received, 3 refused, 4 dropped, 5 links\n"
        );
    }
}
