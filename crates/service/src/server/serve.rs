//! The service: its socket, its clients and its loop.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::process::geteuid;
use uroce_datapath::{Datapath, GsiTarget};
use uroce_host::process::{self, Peer};
use uroce_wire::Slot;

use super::memo::SlotMemo;
use super::port::ServedPort;
use super::spin::IdleSpin;
use crate::control::{self, ControlSocket, Datagram};
use crate::message::{ClientMessage, ServiceMessage};
use crate::network_namespace;

/// Most connections that have no place (yet), in all and of one user. Further ones are closed.
const MAX_NEWCOMERS: (usize, usize) = (256, 16);

/// Most connections accepted in one round.
const ACCEPT_BUDGET: usize = 64;

/// Time in which a connection must ask for something.
const NEWCOMER_TIMEOUT: Duration = Duration::from_secs(2);

/// Most messages read from one connection in one round.
const MESSAGE_BUDGET: usize = 16;

/// Rounds between two looks at the connections while packets come.
const LOOK_INTERVAL: u32 = 64;

/// Time after which a datapath that took no more packets is asked again.
const RETRY: Duration = Duration::from_micros(100);

/// Time after which a client whose ring was full may have room for a mark.
const MARK_RETRY: Duration = Duration::from_millis(2);

/// Longest sleep, after which the end of the service is looked at.
const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// Event number of the listening socket, and the first of connections.
const LISTENER: u64 = 0;
const FIRST_CONNECTION: u64 = 1024;

/// How a service is run.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// Where its socket is; `None`: it is the first descriptor from the init system (LISTEN_FDS).
    pub socket: Option<PathBuf>,
    /// The permissions of that socket: who may write to it may be a client.
    pub mode: u32,
    /// The file in which slots are written down for the time after a restart.
    pub slots: PathBuf,
    /// The users (numbers) that may be clients; all that can connect if there is none.
    pub users: Vec<u32>,
    /// Most clients of one user on one address.
    pub per_user: usize,
    /// Most links of one client: other clients of its address that packets reach without the service.
    pub links: usize,
}

impl ServiceOptions {
    /// Whether this user may be a client; why not.
    pub(super) fn check_user(&self, user: u32) -> Result<(), String> {
        match self.users.is_empty() || self.users.contains(&user) {
            true => Ok(()),
            false => Err(format!("user {user} may not be a client (--allow-user)")),
        }
    }

    /// Whether this user may see the status: clients, root, and the user of the service, which is `own`.
    fn check_status(&self, user: u32, own: u32) -> Result<(), String> {
        if user == 0 || user == own { Ok(()) } else { self.check_user(user) }
    }
}

/// Where a connection belongs.
#[derive(Debug)]
pub(super) enum ServiceConnection {
    /// It has asked for nothing yet.
    Newcomer(ControlSocket, Peer, Instant),
    /// It is that of a client: the number of its port, and its slot.
    Client(usize, Slot),
}

/// The service.
pub struct PortService {
    listener: OwnedFd,
    pub(super) epoll: OwnedFd,
    /// Of the datapaths, watched by the epoll.
    _waiters: Vec<OwnedFd>,
    pub(super) ports: Vec<ServedPort>,
    pub(super) connections: HashMap<u64, ServiceConnection>,
    next: u64,
    pub(super) memo: SlotMemo,
    pub(super) options: ServiceOptions,
    pub(super) namespace: u64,
    /// The slot given out last: one that has become free is used as late as possible.
    pub(super) last_slot: u8,
}

impl std::fmt::Debug for PortService {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortService").field("options", &self.options).finish_non_exhaustive()
    }
}

impl PortService {
    /// A service for the addresses of these datapaths.
    ///
    /// # Errors
    ///
    /// When its socket cannot be opened, the file of slots is another one (`InvalidData`), or the process has no free descriptor.
    pub fn new(
        datapaths: Vec<Box<dyn Datapath>>,
        gsi: GsiTarget,
        (listener, options): (Option<OwnedFd>, ServiceOptions),
    ) -> io::Result<Self> {
        SlotMemo::check(&options.slots).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", options.slots.display()))
        })?;
        let listener = match (listener, &options.socket) {
            (Some(listener), _) => listener,
            (None, Some(path)) => control::listen(path, options.mode)?,
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let mut waiters = vec![];
        for (number, datapath) in datapaths.iter().enumerate() {
            let waiter = datapath.waiter()?;
            let data = EventData::new_u64(1 + number as u64);
            epoll::add(&epoll, &waiter, data, EventFlags::IN)?;
            waiters.push(waiter);
        }
        Ok(Self {
            listener,
            epoll,
            _waiters: waiters,
            ports: datapaths
                .into_iter()
                .map(|datapath| ServedPort::new(datapath, gsi, options.links))
                .collect(),
            connections: HashMap::new(),
            next: FIRST_CONNECTION,
            memo: SlotMemo::load(options.slots.clone()),
            options,
            namespace: network_namespace(),
            last_slot: 0,
        })
    }

    /// Serves until `stop` is set.
    ///
    /// # Errors
    ///
    /// When the link of a datapath fails.
    pub fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut rounds = 0u32;
        let mut spin = IdleSpin::new(Instant::now());
        while !stop.load(Ordering::Relaxed) {
            let packets = self.serve_ports()?;
            rounds = rounds.wrapping_add(1);
            if packets > 0 {
                spin.record_work(Instant::now());
                if rounds.is_multiple_of(LOOK_INTERVAL) {
                    self.serve_connections(Some(Duration::ZERO))?;
                }
                continue;
            }
            let now = Instant::now();
            if spin.may_spin(now) {
                std::thread::yield_now();
                spin.record_yield(now, Instant::now());
                if rounds.is_multiple_of(LOOK_INTERVAL) {
                    self.serve_connections(Some(Duration::ZERO))?;
                }
            } else {
                self.sleep()?;
            }
        }
        Ok(())
    }

    fn serve_ports(&mut self) -> io::Result<usize> {
        let mut packets = 0;
        for number in 0..self.ports.len() {
            let round = self.ports[number].serve()?;
            packets += round.packets;
            for slot in round.bad {
                tracing::warn!(%slot, "a client wrote nonsense into its ring, and is put out");
                self.remove(number, slot);
            }
        }
        Ok(packets)
    }

    fn sleep(&mut self) -> io::Result<()> {
        let mut more = false;
        for port in &mut self.ports {
            more |= port.arm();
        }
        let blocked = self.ports.iter().any(|port| port.blocked);
        let timeout = match more {
            true => Duration::ZERO,
            false if blocked => RETRY,
            false if self.ports.iter().any(|port| port.clients.has_marks) => MARK_RETRY,
            false => self.time_left().min(LONGEST_SLEEP),
        };
        let served = self.serve_connections(Some(timeout));
        self.ports.iter_mut().for_each(ServedPort::disarm);
        served
    }

    /// Time until a datapath wants to be asked although no packet arrives.
    fn time_left(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let nanos = |n: i64| u64::try_from(n).unwrap_or(0);
        let now = nanos(now.tv_sec) * 1_000_000_000 + nanos(now.tv_nsec);
        let due = self.ports.iter().filter_map(|port| port.inner.poll_timeout()).min();
        due.map_or(Duration::MAX, |at| Duration::from_nanos(at.saturating_sub(now)))
    }

    /// Waits for connections, messages and packets, and serves the former two.
    fn serve_connections(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut events = Vec::with_capacity(64);
        let spare = rustix::buffer::spare_capacity(&mut events);
        match epoll::wait(&self.epoll, spare, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => self.accept(),
                number if number >= FIRST_CONNECTION => self.serve_connection(number),
                _ => {}
            }
        }
        if self.connections.len() > self.clients() {
            self.connections.retain(|_, connection| match connection {
                ServiceConnection::Newcomer(_, _, since) => since.elapsed() < NEWCOMER_TIMEOUT,
                ServiceConnection::Client(..) => true,
            });
        }
        Ok(())
    }

    fn clients(&self) -> usize {
        self.ports.iter().map(|port| port.clients.slots.len()).sum()
    }

    /// Whether one more connection of that user may wait for its first message.
    fn has_room_for(&self, peer: Peer) -> bool {
        let newcomers = self.connections.values().filter_map(|connection| match connection {
            ServiceConnection::Newcomer(_, peer, _) => Some(peer.user),
            ServiceConnection::Client(..) => None,
        });
        let (all, own) = newcomers
            .fold((0, 0), |(all, own), user| (all + 1, own + usize::from(user == peer.user)));
        all < MAX_NEWCOMERS.0 && own < MAX_NEWCOMERS.1
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPT_BUDGET {
            let control = match control::accept(&self.listener) {
                Ok(Some(control)) => control,
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a client must wait");
                    return std::thread::sleep(Duration::from_millis(1));
                }
            };
            let Ok(peer) = process::peer(&control) else { continue };
            if !self.has_room_for(peer) {
                tracing::debug!(user = peer.user, "too many connections that ask for nothing");
                continue;
            }
            let number = self.next;
            self.next += 1;
            let data = EventData::new_u64(number);
            if epoll::add(&self.epoll, &control, data, EventFlags::IN).is_ok() {
                let newcomer = ServiceConnection::Newcomer(control, peer, Instant::now());
                self.connections.insert(number, newcomer);
            }
        }
    }

    /// Reads what a connection says; one that has gone, or says nonsense, is closed.
    fn serve_connection(&mut self, number: u64) {
        for _ in 0..MESSAGE_BUDGET {
            let place = match self.connections.get(&number) {
                None => return,
                Some(ServiceConnection::Newcomer(..)) => None,
                Some(ServiceConnection::Client(port, slot)) => Some((*port, *slot)),
            };
            let received = match (self.connections.get(&number), place) {
                (Some(ServiceConnection::Newcomer(control, ..)), _) => control.receive(),
                (_, Some((port, slot))) => match self.ports[port].clients.get(slot) {
                    Some(client) => client.control.receive(),
                    None => return,
                },
                _ => return,
            };
            let message = match received {
                Ok(None) => return,
                Ok(Some(datagram)) => decode(&datagram),
                Err(_) => None,
            };
            match (message, place) {
                (Some(message), None) => self.welcome(number, &message),
                (Some(message), Some((port, slot))) => self.serve_message(port, slot, &message),
                (None, Some((port, slot))) => return self.remove(port, slot),
                (None, None) => return drop(self.connections.remove(&number)),
            }
        }
    }

    /// Answers the first message of a connection.
    fn welcome(&mut self, number: u64, message: &ClientMessage) {
        let Some(ServiceConnection::Newcomer(control, peer, _)) = self.connections.remove(&number)
        else {
            return;
        };
        let port = |wanted: &SocketAddr| self.ports.iter().position(|port| port.local == *wanted);
        let answer = match message {
            ClientMessage::Query(local) => match port(local) {
                Some(port) => ServiceMessage::Serves(self.served(port)),
                None => ServiceMessage::Refused("it does not serve this address".to_owned()),
            },
            ClientMessage::Attach(local, had) => match port(local) {
                Some(port) => return self.attach(number, (port, *had), control, peer),
                None => ServiceMessage::Refused(format!(
                    "it does not serve {local}: start it as `uroce serve {}`",
                    local.ip()
                )),
            },
            ClientMessage::Status => {
                let records = match self.options.check_status(peer.user, geteuid().as_raw()) {
                    Ok(()) => self.status(),
                    Err(why) => vec![ServiceMessage::Refused(why)],
                };
                for record in records {
                    if control.send(&record.encode()).is_err() {
                        break;
                    }
                }
                return;
            }
            _ => return,
        };
        // A client that does not read its answers goes without.
        control.send(&answer.encode()).ok();
    }
}

fn decode(datagram: &Datagram) -> Option<ClientMessage> {
    ClientMessage::decode(datagram.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_for_those_who_may_be_clients() {
        let (socket, slots) = (None, PathBuf::new());
        let (mode, users, per_user, links) = (0o666, vec![1000], 64, 32);
        let options = ServiceOptions { socket, mode, slots, users, per_user, links };
        let shown: Vec<u32> = [0, 7, 1000, 1001]
            .into_iter()
            .filter(|user| options.check_status(*user, 7).is_ok())
            .collect();
        assert_eq!(shown, [0, 7, 1000]);
        let anybody = ServiceOptions { users: vec![], ..options };
        assert_eq!(anybody.check_status(1001, 7), Ok(()));
    }
}
