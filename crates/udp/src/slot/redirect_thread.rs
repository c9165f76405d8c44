//! The thread that receives packets redirected by other processes. It sleeps in between.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};
use uroce_datapath::RateLimit;
use uroce_host::Thread;
use uroce_host::fork::keep_from_children;

use super::inbox::{Inbox, Received};
use super::namespace::{PortNamespace, check_process, check_user};
use super::steering_probe::Answer;
use super::steering_prober::SteeringProber;

/// Most connected processes: all the others, and some that send a single message.
const MAX_PEERS: usize = 1024;

/// Most processes of other users among them. A process may have changed its user since it bound the
/// port; that is looked up when it sends something, at most so often each tenth of a second.
const MAX_FOREIGN_PEERS: usize = 16;
const LOOKUPS: u16 = 2;

/// Most connections accepted at one listener before the next event is served: any user of the host can connect, faster
/// than they are accepted.
const ACCEPT_BUDGET: usize = 16;

/// Most messages read from one connection before the next is served.
const READ_BUDGET: usize = 16;

/// Event number of the end of the thread.
const STOP: u64 = 0;
/// Event number of misrouted packets.
const MISROUTED: u64 = u64::MAX;

/// State shared by the thread and its owner.
#[derive(Debug)]
struct Shared {
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    stop: OwnedFd,
    misrouted: OwnedFd,
    /// The listening sockets by event number.
    listeners: Mutex<HashMap<u64, OwnedFd>>,
}

impl Shared {
    /// Without a listener yet.
    fn new(inbox: Arc<Inbox>) -> io::Result<Self> {
        let shared = Self {
            inbox,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            misrouted: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            listeners: Mutex::default(),
        };
        shared.watch(&shared.stop, STOP)?;
        shared.watch(&shared.misrouted, MISROUTED)?;
        Ok(shared)
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<u64, OwnedFd>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, socket: &OwnedFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number), EventFlags::IN)?)
    }
}

/// The thread; dropping it ends it.
#[derive(Debug)]
pub(crate) struct RedirectThread {
    shared: Arc<Shared>,
    thread: Option<Thread>,
    /// Next event number: those of listeners are odd, those of connections even.
    next: u64,
}

impl RedirectThread {
    /// Starts the thread with one socket to listen on.
    pub(crate) fn start(
        inbox: Arc<Inbox>,
        listener: OwnedFd,
        (namespace, steering_prober): (PortNamespace, SteeringProber),
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::new(inbox)?);
        let mut redirect_thread = Self { shared: Arc::clone(&shared), thread: None, next: 1 };
        redirect_thread.open(listener)?;
        let lookups = RateLimit::new(LOOKUPS, LOOKUPS);
        let work =
            Work { shared, namespace, peers: HashMap::new(), lookups, next: 2, steering_prober };
        redirect_thread.thread = Some(Thread::spawn("uroce-slot", move || work.run())?);
        Ok(redirect_thread)
    }

    /// Listens on one more socket; returns its number.
    pub(crate) fn open(&mut self, listener: OwnedFd) -> io::Result<u64> {
        let number = self.next;
        let mut listeners = self.shared.listeners();
        self.shared.watch(&listener, number)?;
        listeners.insert(number, listener);
        self.next += 2;
        Ok(number)
    }

    /// Requests a probe of the steering: packets are misrouted, or will be.
    pub(crate) fn probe(&self) {
        rustix::io::write(&self.shared.misrouted, &1u64.to_ne_bytes()).ok();
    }

    /// Closes a listening socket. Connections stay.
    pub(crate) fn close(&self, number: u64) {
        self.shared.listeners().remove(&number);
    }
}

impl Drop for RedirectThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take().and_then(Thread::if_here) else { return };
        self.shared.inbox.close();
        rustix::io::write(&self.shared.stop, &1u64.to_ne_bytes()).ok();
        thread.join();
    }
}

/// A connected process.
struct ConnectedPeer {
    socket: OwnedFd,
    /// The process is known to be of this user; otherwise that is checked when it sends something.
    known: bool,
}

struct Work {
    shared: Arc<Shared>,
    namespace: PortNamespace,
    peers: HashMap<u64, ConnectedPeer>,
    /// Limit on lookups of processes that have changed their user.
    lookups: RateLimit,
    next: u64,
    steering_prober: SteeringProber,
}

impl Work {
    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            let timeout =
                self.steering_prober.timeout().and_then(|left| Timespec::try_from(left).ok());
            match epoll::wait(&self.shared.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::warn!(%error, "packets of others are lost"),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    MISROUTED => {
                        rustix::io::read(&self.shared.misrouted, &mut [0; 8]).ok();
                        self.steering_prober.begin();
                    }
                    number if number % 2 == 1 => self.accept(number),
                    number => self.read(number),
                }
            }
            self.steering_prober.handle_timeout();
        }
    }

    /// Accepts some of the connections at a listener; for the rest it stays readable.
    fn accept(&mut self, listener: u64) {
        for _ in 0..ACCEPT_BUDGET {
            let listeners = self.shared.listeners();
            let Some(socket) = listeners.get(&listener) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = net::accept_with(socket, flags);
            drop(listeners);
            match accepted {
                Ok(peer) => self.add_peer(peer),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    // No descriptor is free: the peer waits, and this thread must not spin.
                    tracing::warn!(%error, "a process that has packets for us must wait");
                    return std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
        }
    }

    fn add_peer(&mut self, peer: OwnedFd) {
        let number = self.next;
        if self.peers.len() >= MAX_PEERS {
            return tracing::debug!("more processes than there can be have packets for us");
        }
        let known = check_user(self.namespace, &peer).is_ok();
        let foreign = self.peers.values().filter(|peer| !peer.known).count();
        if !known && foreign >= MAX_FOREIGN_PEERS {
            return tracing::debug!("too many processes of other users are connected");
        }
        match self.shared.watch(&peer, number) {
            Ok(()) => {
                keep_from_children(&peer);
                self.next += 2;
                self.peers.insert(number, ConnectedPeer { socket: peer, known });
            }
            Err(error) => tracing::debug!(%error, "a process that has packets for us is not heard"),
        }
    }

    /// Whether messages of the peer are accepted.
    fn may_send(&mut self, peer: u64) -> bool {
        let Self { peers, lookups, namespace, .. } = self;
        let Some(peer) = peers.get_mut(&peer) else { return false };
        let source = Ipv4Addr::UNSPECIFIED.into();
        if !peer.known && lookups.take(Instant::now(), source) {
            peer.known = check_process(*namespace, &peer.socket).is_ok();
        }
        peer.known
    }

    /// Passes redirected packets to the inbox, and answers to probes to the prober.
    fn dispatch(&mut self, message: Received) {
        match Answer::read(&message.bytes[..message.len]) {
            None => self.shared.inbox.put(message),
            Some(answer) => {
                self.steering_prober.handle_answer(&answer);
                self.shared.inbox.recycle(message.bytes);
            }
        }
    }

    /// Reads the messages of one connection; forgets it when it ends. While the steering is probed, which keeps others from joining
    /// the port, it waits for room only as long as that lasts.
    fn read(&mut self, peer: u64) {
        for _ in 0..READ_BUDGET {
            let Some(ConnectedPeer { socket, .. }) = self.peers.get(&peer) else { return };
            let timeout = self.steering_prober.timeout();
            let Some(mut bytes) = self.shared.inbox.room(timeout) else { return };
            match net::recv(socket, &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((len, _)) if len > 0 && self.may_send(peer) => {
                    self.dispatch(Received { bytes, len });
                }
                Err(Errno::AGAIN | Errno::INTR) => return self.shared.inbox.recycle(bytes),
                _ => {
                    self.shared.inbox.recycle(bytes);
                    self.peers.remove(&peer);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, UdpSocket};

    use uroce_wire::Slot;

    use super::super::namespace::{connect, listen};
    use super::*;

    #[test]
    fn a41_a_flood_of_connections_does_not_keep_the_thread() {
        let local = SocketAddr::from(([127, 91, 21, 1], 4791));
        let namespace = PortNamespace::of(local).expect("an address of this host");
        let slot = Slot::new(1).expect("a slot");
        let name = namespace.slot(slot).expect("a name");
        let inbox = Arc::new(Inbox::new().expect("a descriptor"));
        let shared = Arc::new(Shared::new(inbox).expect("descriptors"));
        shared.listeners().insert(1, listen(&name).expect("free"));
        let waiting = [(); 100].map(|()| connect(namespace, &name).expect("room"));
        let member = UdpSocket::bind(local).expect("free").into();
        let mut work = Work {
            shared,
            namespace,
            peers: HashMap::new(),
            lookups: RateLimit::new(LOOKUPS, LOOKUPS),
            next: 2,
            steering_prober: SteeringProber::new(slot, namespace, member),
        };
        work.accept(1);
        assert_eq!(work.peers.len(), ACCEPT_BUDGET, "others have their turn");
        (0..waiting.len()).for_each(|_| work.accept(1));
        assert_eq!(work.peers.len(), waiting.len(), "and so do all of these");
    }
}
