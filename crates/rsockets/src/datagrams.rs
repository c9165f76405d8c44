//! A socket of datagrams. The first one to a peer goes by UDP, with the number of the queue pair before it;
//! the peer answers with that of its own, and from then on they go from queue pair to queue pair.

use std::collections::{HashMap, VecDeque};
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use libc::{c_int, c_short};
use socket2::{Domain, SockRef, Socket, Type};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::udp_arrival::{self, UdpArrival};
use uroce_rdmacm::resolve::device_towards;

use crate::connection::{READABLE, WRITABLE};
use crate::datagram_header::{self as header, Introduction};
use crate::datagram_queue_pair::{Arrival, DatagramQueuePair};
use crate::deadline::Asleep;
use crate::options::Options;
use crate::socket::Endpoint;

/// Peers whose queue pairs are remembered; strangers may be many.
const MOST_PEERS: usize = 4_096;
/// Devices of a socket up to which datagrams of strangers open another one: of 127.0.0.0/8 every address is ours, and a device
/// lives as long as the process.
pub(crate) const MOST_PORTS: usize = 64;
/// Datagrams of UDP that are taken at once.
const MOST_INTRODUCTIONS: usize = 64;
/// A peer that has said nothing for so long may have ended, and another program have its address: a datagram goes by UDP again,
/// which it answers with the number of its queue pair.
const MOST_SILENCE: Duration = Duration::from_secs(1);
/// The longest datagram of UDP.
const LONGEST: usize = 65_535;

/// What a socket of datagrams holds.
#[derive(Debug)]
pub(crate) struct Datagrams {
    udp: UdpSocket,
    ports: Vec<DatagramQueuePair>,
    /// The device from which to reach an address.
    routes: HashMap<IpAddr, IpAddr>,
    /// Queue pairs of peers, and when they were heard of last.
    peers: HashMap<SocketAddr, (u32, Instant)>,
    inbox: VecDeque<(SocketAddr, Vec<u8>)>,
    /// The only peer, if the program has named one.
    only: Option<SocketAddr>,
    options: Options,
    buffer: Vec<u8>,
    /// Who sleeps was not told of what has changed.
    has_changed: bool,
}

impl Datagrams {
    pub fn new(domain: c_int, options: Options) -> Result<Datagrams, Errno> {
        let kind = Type::DGRAM.nonblocking().cloexec();
        let udp = UdpSocket::from(Socket::new(Domain::from(domain), kind, None)?);
        udp_arrival::show_destinations(udp.as_fd(), domain)?;
        Ok(Datagrams {
            udp,
            ports: Vec::new(),
            routes: HashMap::new(),
            peers: HashMap::new(),
            inbox: VecDeque::new(),
            only: None,
            options,
            buffer: vec![0; LONGEST],
            has_changed: false,
        })
    }

    pub fn fd(&self) -> c_int {
        self.udp.as_raw_fd()
    }

    pub fn bind(&self, to: SocketAddr) -> Result<(), Errno> {
        SockRef::from(&self.udp).bind(&to.into())?;
        uroce_ibverbs::log::tell(&format_args!(
            "listening for datagrams to port {} of {}",
            to.port(),
            to.ip()
        ));
        Ok(())
    }

    /// An address of IPv6 that stands for any does not stand for those of IPv4.
    pub fn set_only_family(&self, only: bool) -> Result<(), Errno> {
        Ok(SockRef::from(&self.udp).set_only_v6(only)?)
    }

    /// Sends to this peer, and takes no datagrams of others.
    pub fn connect(&mut self, peer: SocketAddr) -> Result<(), Errno> {
        self.named_port_to(peer.ip())?;
        self.only = Some(peer);
        Ok(())
    }

    /// The place of the queue pair from which to reach an address.
    fn port_to(&mut self, peer: IpAddr) -> Result<usize, Errno> {
        let address = match self.routes.get(&peer) {
            Some(address) => *address,
            None => {
                let bound = self.udp.local_addr().ok().map(|local| local.ip());
                device_towards(peer, bound)?
            }
        };
        let port = self.port_at(address)?;
        self.learn_route(peer, address);
        Ok(port)
    }

    fn learn_route(&mut self, peer: IpAddr, address: IpAddr) {
        if self.routes.len() >= MOST_PEERS {
            self.routes.clear();
        }
        self.routes.insert(peer, address);
    }

    fn port_at(&mut self, address: IpAddr) -> Result<usize, Errno> {
        if let Some(known) = self.ports.iter().position(|port| port.address == address) {
            return Ok(known);
        }
        self.ports.push(DatagramQueuePair::new(address, self.options.receive_queue)?);
        // Who sleeps does so on the descriptors of those before.
        self.has_changed = true;
        Ok(self.ports.len() - 1)
    }

    /// Sends a datagram; `None`: there is no room now.
    pub fn send(&mut self, data: &[u8], to: Option<SocketAddr>) -> Option<Result<usize, Errno>> {
        let Some(to) = to.or(self.only) else {
            return Some(Err(Errno(libc::EDESTADDRREQ)));
        };
        match self.post(data, to) {
            Ok(true) => Some(Ok(data.len())),
            Ok(false) => None,
            Err(errno) => Some(Err(errno)),
        }
    }

    fn post(&mut self, data: &[u8], to: SocketAddr) -> Result<bool, Errno> {
        let (index, local) = self.named_port_to(to.ip())?;
        let port = &mut self.ports[index];
        if header::length(local.ip()) + data.len() > port.most {
            return Err(Errno(libc::EMSGSIZE));
        }
        if let Some((qpn, heard)) = self.peers.get(&to)
            && heard.elapsed() < MOST_SILENCE
        {
            return port.send([&header::encode(local), data], to.ip(), *qpn);
        }
        let introduction = Introduction { is_data: true, qpn: port.qpn(), to: to.ip() };
        introduce(&self.udp, introduction, data, to)
    }

    /// The place of the queue pair from which to reach an address, and our address as peers there know it.
    fn named_port_to(&mut self, peer: IpAddr) -> Result<(usize, SocketAddr), Errno> {
        let index = self.port_to(peer)?;
        Ok((index, self.named(self.ports[index].address)?))
    }

    /// Our address as peers know it. A socket that is not bound yet gets a port.
    fn named(&self, address: IpAddr) -> Result<SocketAddr, Errno> {
        let local = self.udp.local_addr().map_err(|_| INVALID)?;
        if local.port() > 0 {
            return Ok(SocketAddr::new(address, local.port()));
        }
        self.bind(SocketAddr::new(address, 0))?;
        Ok(self.udp.local_addr()?)
    }

    /// The oldest datagram; with `peek` it stays.
    pub fn receive(&mut self, peek: bool) -> Option<(SocketAddr, Vec<u8>)> {
        if peek { self.inbox.front().cloned() } else { self.inbox.pop_front() }
    }

    fn arrived(&mut self, from: SocketAddr, data: &[u8]) {
        let wanted = self.only.is_none_or(|only| only == from);
        // As with UDP, what comes while the program does not read is lost in the end.
        if wanted && self.inbox.len() < usize::from(self.options.receive_queue) {
            self.inbox.push_back((from, data.to_vec()));
        }
    }

    fn learn(&mut self, peer: SocketAddr, qpn: u32) {
        if self.peers.len() >= MOST_PEERS {
            self.peers.clear();
        }
        self.peers.insert(peer, (qpn, Instant::now()));
    }

    /// Takes what has come by UDP.
    fn take_introductions(&mut self) {
        for _ in 0..MOST_INTRODUCTIONS {
            let mut buffer = std::mem::take(&mut self.buffer);
            let found = udp_arrival::receive(self.udp.as_fd(), &mut buffer);
            if let Ok(arrival) = found
                && let Some((introduction, data)) = Introduction::decode(&buffer[..arrival.length])
            {
                self.introduced(introduction, arrival, data);
            }
            self.buffer = buffer;
            if found == Err(Errno(libc::EAGAIN)) {
                return;
            }
            self.has_changed = true;
        }
    }

    /// What the sender says of addresses is not believed: rdma-core's says its own there, and strangers what they like.
    fn introduced(&mut self, introduction: Introduction, arrival: UdpArrival, data: &[u8]) {
        let from = arrival.from;
        if !introduction.is_data {
            return self.learn(from, introduction.qpn);
        }
        let Some(index) = arrival.to.and_then(|to| self.port_of_stranger(to)) else { return };
        self.learn(from, introduction.qpn);
        self.learn_route(from.ip(), self.ports[index].address);
        let answer = Introduction { is_data: false, qpn: self.ports[index].qpn(), to: from.ip() };
        // If it gets lost, the peer sends by UDP again.
        let _ = introduce(&self.udp, answer, &[], from);
        self.arrived(from, data);
    }

    /// The place of the queue pair on the device that a stranger has sent to.
    fn port_of_stranger(&mut self, to: IpAddr) -> Option<usize> {
        let is_known = self.ports.iter().any(|port| port.address == to);
        if is_known || self.ports.len() < MOST_PORTS { self.port_at(to).ok() } else { None }
    }

    /// Everything was sent.
    pub fn is_idle(&self) -> bool {
        self.ports.iter().all(DatagramQueuePair::is_idle)
    }
}

/// Sends by UDP; false: there is no room now.
fn introduce(
    udp: &UdpSocket,
    introduction: Introduction,
    data: &[u8],
    to: SocketAddr,
) -> Result<bool, Errno> {
    let mut bytes = introduction.encode();
    bytes.extend(data);
    match udp.send_to(&bytes, to) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error.into()),
    }
}

impl Endpoint for Datagrams {
    fn progress(&mut self) {
        self.take_introductions();
        let mut found: Vec<Arrival> = Vec::new();
        self.ports.iter_mut().for_each(|port| port.take(|arrival| found.push(arrival)));
        for arrival in found {
            let Some((from, data)) = header::decode(&arrival.bytes) else { continue };
            // What it says of its sender must be true.
            if arrival.ip == Some(from.ip()) {
                self.learn(from, arrival.qpn);
                self.arrived(from, data);
            }
        }
    }

    fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    fn revents(&mut self, events: c_short) -> c_short {
        let mut found = 0;
        if !self.inbox.is_empty() {
            found |= READABLE;
        }
        if self.ports.iter().all(DatagramQueuePair::has_place) {
            found |= WRITABLE;
        }
        found & events
    }

    fn arm(&mut self, asleep: &Asleep<'_>) -> bool {
        self.ports.iter_mut().filter_map(|port| port.arm(asleep).then_some(())).count() > 0
    }

    fn fds(&self) -> Vec<c_int> {
        let mut fds = vec![self.fd()];
        fds.extend(self.ports.iter().map(DatagramQueuePair::fd));
        fds
    }

    fn local(&self) -> Option<SocketAddr> {
        self.udp.local_addr().ok()
    }

    fn peer(&self) -> Option<SocketAddr> {
        self.only
    }

    fn options(&mut self) -> &mut Options {
        &mut self.options
    }

    fn special(&mut self, level: c_int, name: c_int) -> Option<c_int> {
        Some(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_ERROR | libc::SO_ACCEPTCONN) => 0,
            (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_DGRAM,
            _ => return None,
        })
    }
}
