//! Who gets a place, and what clients ask for.

use std::net::SocketAddr;
use std::os::fd::AsFd;

use rustix::event::epoll;
use uroce_host::process::Peer;
use uroce_wire::Slot;

use super::attached::AttachedClient;
use super::memo::SlotOwner;
use super::serve::{PortService, ServiceConnection};
use crate::control::ControlSocket;
use crate::message::{ClientMessage, ServedAddress, ServiceMessage, SlotToken, TOKEN};
use crate::ring::MEMORY;
use crate::status::AddressCounts;
use crate::sys::shared_memory::SharedMemory;

impl PortService {
    pub(super) fn served(&self, port: usize) -> ServedAddress {
        ServedAddress::of(self.ports[port].inner.caps(), self.namespace)
    }

    /// Gives a connection a place, or says why not.
    pub(super) fn attach(
        &mut self,
        number: u64,
        (port, had): (usize, Option<(Slot, SlotToken)>),
        control: ControlSocket,
        peer: Peer,
    ) {
        let place = self.admit(port, had, peer).and_then(|place| {
            let memory = SharedMemory::create(MEMORY);
            memory.map(|memory| (place, memory)).map_err(|error| format!("no memory: {error}"))
        });
        let ((slot, token), (memory, file)) = match place {
            Ok(place) => place,
            Err(why) => {
                tracing::info!(user = peer.user, pid = peer.pid, %why, "a client was refused");
                // A client that does not read its answers goes without.
                control.send(&ServiceMessage::Refused(why).encode()).ok();
                return;
            }
        };
        let answer = ServiceMessage::Attached(slot, token, self.served(port)).encode();
        if control.send_with(&answer, &[file.as_fd()]).is_err() {
            return;
        }
        let local = self.ports[port].local;
        tracing::info!(%local, %slot, user = peer.user, pid = peer.pid, "a client has a place");
        self.memo.give((local, slot), SlotOwner { user: peer.user, token });
        self.last_slot = slot.get();
        self.connections.insert(number, ServiceConnection::Client(port, slot));
        let client = AttachedClient::new(control, memory, slot, peer);
        self.ports[port].clients.add(client);
    }

    /// The slot and the secret of a new client, or of one that had a place before the service was restarted.
    fn admit(
        &self,
        port: usize,
        had: Option<(Slot, SlotToken)>,
        peer: Peer,
    ) -> Result<(Slot, SlotToken), String> {
        let local = self.ports[port].local;
        self.options.check_user(peer.user)?;
        if let Some((slot, token)) = had {
            let owner = SlotOwner { user: peer.user, token };
            let kept = self.memo.is_kept_for((local, slot), owner);
            return kept.then_some((slot, token)).ok_or_else(|| "the slot is gone".to_owned());
        }
        let of_user = self.ports[port].clients.iter().filter(|c| c.peer.user == peer.user).count();
        if of_user >= self.options.per_user {
            return Err(format!(
                "user {} has {of_user} clients on {local}, as many as one may have (--per-user)",
                peer.user
            ));
        }
        let slot = self.free_slot(local).ok_or("all slots are taken")?;
        let mut token = [0; TOKEN];
        getrandom::fill(&mut token).map_err(|error| format!("no random numbers: {error}"))?;
        Ok((slot, token))
    }

    /// The first free slot behind the one that was given out last.
    fn free_slot(&self, local: SocketAddr) -> Option<Slot> {
        let behind = (1..=u8::MAX).map(|n| self.last_slot.wrapping_add(n));
        behind.filter_map(Slot::new).find(|slot| self.memo.is_free((local, *slot)))
    }

    /// Does what a client asks for.
    pub(super) fn serve_message(&mut self, port: usize, slot: Slot, message: &ClientMessage) {
        let port = &mut self.ports[port];
        let (number, outcome) = match *message {
            ClientMessage::Claim(number, service) => (number, port.clients.claim(slot, service)),
            ClientMessage::Join(number, group) => (number, port.join(slot, group)),
            ClientMessage::Release(service) => return port.clients.release(slot, service),
            ClientMessage::Leave(group) => return port.leave(slot, group),
            ClientMessage::Unlink(number) => return port.clients.unlink(slot, number),
            // It has woken the service; a second place is for a second connection.
            _ => return,
        };
        if let Err(error) = &outcome {
            tracing::debug!(%slot, ?message, %error, "refused");
        }
        // Who waits for no answer may not read one, and it would take the room of others.
        if number == 0 {
            return;
        }
        if let Some(client) = port.clients.get(slot) {
            // A client that does not read its answers goes without.
            client.control.send(&ServiceMessage::done(number, &outcome).encode()).ok();
        }
    }

    /// Takes a place back, after what the client had sent before it left.
    pub(super) fn remove(&mut self, port: usize, slot: Slot) {
        let is_of = |connection: &ServiceConnection| matches!(connection, ServiceConnection::Client(p, s) if (*p, *s) == (port, slot));
        self.connections.retain(|_, connection| !is_of(connection));
        let port = &mut self.ports[port];
        port.serve_rest(slot);
        if let Some(client) = port.clients.get(slot) {
            epoll::delete(&self.epoll, &client.control).ok();
        }
        port.remove(slot);
        self.memo.take_back((port.local, slot));
        tracing::info!(local = %port.local, %slot, "a client has left");
    }

    /// The addresses, what was dropped, and the clients, as messages.
    pub(super) fn status(&self) -> Vec<ServiceMessage> {
        let mut records = vec![];
        for port in &self.ports {
            let (stats, caps) = (port.inner.stats(), port.inner.caps());
            let counts = AddressCounts {
                sent: stats.tx_packets,
                received: stats.rx_packets,
                between_clients: port.local_packets,
            };
            records.push(ServiceMessage::Address(port.local, counts, caps.name.to_owned()));
            let drops = port.clients.drops();
            records.extend(drops.map(|(why, count)| ServiceMessage::Drop(count, why.to_string())));
            let clients = port.clients.iter();
            let links = &port.clients.links;
            records.extend(
                clients
                    .map(|client| ServiceMessage::Client(client.status(links.count(client.slot)))),
            );
        }
        records
    }
}
