//! The TCP connection between the two ends: connect, accept, exchange, notice that the peer is gone.

mod connect;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

pub use connect::{connect, resolve, unknown_host, unreachable};
use connect::{connect_any, no_server};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use uroce_exchange::BadRecord;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The TCP port of perftest and the pingpongs.
pub const PORT: u16 = 18515;

/// How long a client keeps trying while there is no listener: about as long as it takes to start a server
/// in the other window.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long one attempt may take: longer than the 3 s after which the kernel says that no neighbour answers.
const CONNECT_TRY: Duration = Duration::from_secs(4);
const PAUSE: Duration = Duration::from_millis(20);
/// How often a blocking read looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// How long the end of a run waits for the peer to close too, so that lost acknowledgements can
/// still be repeated.
const LINGER: Duration = Duration::from_millis(500);

/// How long a silent peer is waited for, and what to suspect after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// How long.
    pub limit: Duration,
    /// What to do about it.
    pub help: &'static str,
}

/// For the exchange of records at the beginning. A peer that waits for more bytes than we send is
/// another program.
pub const INTRODUCTION: Patience = Patience {
    limit: Duration::from_secs(15),
    help: "it may be another program that waits for us: run the same test at both ends",
};

/// What TCP tells about the peer without reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerState {
    /// Connected, and silent.
    Silent,
    /// It sent something that was not read yet.
    Talking,
    /// It closed the connection, or died.
    Gone,
}

/// The side channel of a run.
#[derive(Debug)]
pub struct Channel {
    stream: TcpStream,
    peer: SocketAddr,
    /// The address of the peer's NIC, once it is known.
    nic: OnceLock<IpAddr>,
    client: bool,
    interrupt: Interrupt,
    patience: Mutex<Option<Patience>>,
    /// Held while the socket does not block.
    looking: Mutex<()>,
}

/// A server that listens, and that a client can connect to.
#[derive(Debug)]
pub struct Waiting(TcpListener);

impl Waiting {
    /// Waits for one client. One that is gone already, such as a port scanner, is none.
    ///
    /// # Errors
    /// Exit 1 on Ctrl-C.
    pub fn accept(self, interrupt: &Interrupt) -> Result<Channel, Failure> {
        loop {
            match self.0.accept() {
                Ok((stream, _)) if stream.peer_addr().is_err_and(|error| is_gone(&error)) => {}
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(broken)?;
                    return Channel::over(stream, false, interrupt);
                }
                Err(error) if is_pause(&error) || is_gone(&error) => {}
                Err(error) => return Err(broken(error)),
            }
            if interrupt.is_set() {
                return Err(Failure::test("interrupted while waiting for a client"));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Channel {
    /// Connects to `host`.
    ///
    /// # Errors
    /// Exit 4 when there is no listener, exit 3 when the name is unknown or there is no way to it, exit 1 on Ctrl-C.
    pub fn connect(host: &str, port: u16, interrupt: &Interrupt) -> Result<Channel, Failure> {
        let addresses = resolve(host, port)?;
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        loop {
            let error = match connect_any(&addresses, CONNECT_TRY, interrupt) {
                Ok(stream) => return Channel::over(stream, true, interrupt),
                Err(error) => error,
            };
            let hopeless = error.kind() != ErrorKind::ConnectionRefused;
            if interrupt.is_set() {
                return Err(Failure::interrupted());
            }
            if hopeless || Instant::now() >= deadline {
                return Err(no_server(host, port, &error));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Connects to `host` if there is a listener now.
    ///
    /// # Errors
    /// Exit 4 when there is no listener, exit 3 when the name is unknown or there is no way to it, exit 1 on Ctrl-C.
    pub fn attempt(host: &str, port: u16, interrupt: &Interrupt) -> Result<Channel, Failure> {
        let stream = connect_any(&resolve(host, port)?, CONNECT_TRY, interrupt);
        Channel::over(stream.map_err(|error| no_server(host, port, &error))?, true, interrupt)
    }

    /// Listens for a client. `port` 0 is not useful here.
    ///
    /// # Errors
    /// Exit 3 when the port is taken.
    pub fn listen(port: u16) -> Result<Waiting, Failure> {
        let listener = listen(port).map_err(|error| taken(port, &error))?;
        listener.set_nonblocking(true).map_err(broken)?;
        Ok(Waiting(listener))
    }

    /// Both ends inside this process: the client's and the server's.
    ///
    /// # Errors
    /// Exit 3 without TCP on the loopback interface, exit 1 on Ctrl-C.
    pub fn pair(interrupt: &Interrupt) -> Result<(Channel, Channel), Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
        let address = listener.local_addr().map_err(broken)?;
        let client = connect(address, CONNECT_TRY, interrupt).map_err(no_loopback)?;
        let (server, _) = listener.accept().map_err(broken)?;
        Ok((Channel::over(client, true, interrupt)?, Channel::over(server, false, interrupt)?))
    }

    fn over(stream: TcpStream, client: bool, interrupt: &Interrupt) -> Result<Channel, Failure> {
        stream.set_nodelay(true).map_err(broken)?;
        stream.set_read_timeout(Some(LOOK)).map_err(broken)?;
        // Without it a peer whose machine died is noticed later; no reason to fail.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive());
        let peer = stream.peer_addr().map_err(lost)?;
        let (interrupt, patience) = (interrupt.clone(), Mutex::new(None));
        let (nic, looking) = (OnceLock::new(), Mutex::default());
        Ok(Channel { stream, peer, nic, client, interrupt, patience, looking })
    }

    /// True at the end that connected; it speaks first in every exchange.
    pub fn is_client(&self) -> bool {
        self.client
    }

    /// The peer's address: that of its NIC once it is known, before that the other end of the connection.
    pub fn peer(&self) -> IpAddr {
        self.nic.get().copied().unwrap_or_else(|| self.peer.ip().to_canonical())
    }

    /// The peer has told the address of its NIC. TCP may come from another one.
    pub fn set_nic_of_peer(&self, address: IpAddr) {
        if !address.is_unspecified() {
            let _ = self.nic.set(address);
        }
    }

    /// The local address of the connection: the one that reaches the peer.
    ///
    /// # Errors
    /// Exit 3; does not happen on a connected socket.
    pub fn local(&self) -> Result<IpAddr, Failure> {
        let local = self.stream.local_addr().map_err(broken)?;
        Ok(local.ip().to_canonical())
    }

    /// From now on a silent peer is waited for so long; `None`: for ever.
    pub fn set_patience(&self, patience: Option<Patience>) {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner) = patience;
    }

    fn patience(&self) -> Option<Patience> {
        *self.patience.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends bytes.
    ///
    /// # Errors
    /// Exit 4 when the peer is gone.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Failure> {
        let sent = (&self.stream).write_all(bytes);
        sent.map_err(|error| gone(self.peer(), &error.to_string()))
    }

    /// Fills `out`, however long the peer takes.
    ///
    /// # Errors
    /// Exit 4 when the peer is gone or silent for too long, exit 1 on Ctrl-C.
    pub fn receive(&self, out: &mut [u8]) -> Result<(), Failure> {
        let (mut filled, start) = (0, Instant::now());
        while filled < out.len() {
            match (&self.stream).read(&mut out[filled..]) {
                Ok(0) => return Err(gone(self.peer(), "it closed the connection")),
                Ok(count) => filled += count,
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(gone(self.peer(), &error.to_string())),
            }
            if filled < out.len() && self.interrupt.is_set() {
                return Err(Failure::interrupted());
            }
            if let Some(patience) = self.patience()
                && filled < out.len()
                && start.elapsed() > patience.limit
            {
                return Err(silent(self.peer(), patience));
            }
        }
        Ok(())
    }

    /// One exchange: the client speaks first, the server answers.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`receive`](Self::receive).
    pub fn swap<const N: usize>(&self, mine: &[u8; N]) -> Result<[u8; N], Failure> {
        self.timed_swap(mine).map(|(theirs, _)| theirs)
    }

    /// The same, with the moment just before this end spoke: the other one cannot have gone on earlier.
    ///
    /// # Errors
    /// As [`swap`](Self::swap).
    pub fn timed_swap<const N: usize>(
        &self,
        mine: &[u8; N],
    ) -> Result<([u8; N], Instant), Failure> {
        let mut theirs = [0; N];
        if !self.client {
            self.receive(&mut theirs)?;
        }
        let spoke = Instant::now();
        self.send(mine)?;
        if self.client {
            self.receive(&mut theirs)?;
        }
        Ok((theirs, spoke))
    }

    /// Looks at the connection without reading from it or waiting.
    pub fn peer_state(&self) -> PeerState {
        let _alone = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut byte = [0];
        let waits = self.stream.set_nonblocking(true).is_ok();
        let seen = self.stream.peek(&mut byte);
        if waits && self.stream.set_nonblocking(false).is_err() {
            return PeerState::Gone;
        }
        match seen {
            Ok(0) => PeerState::Gone,
            Ok(_) => PeerState::Talking,
            Err(error) if is_pause(&error) => PeerState::Silent,
            Err(_) => PeerState::Gone,
        }
    }

    /// Says that this end is done and waits a little for the other to close, while the device still
    /// answers.
    pub fn linger(self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
        let deadline = Instant::now() + LINGER;
        let mut rest = [0; 64];
        while Instant::now() < deadline && !self.interrupt.is_set() {
            match (&self.stream).read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) if is_pause(&error) => {}
                Err(_) => return,
            }
        }
    }
}

/// The failure for a record that does not belong here.
pub fn stranger(bad: BadRecord) -> Failure {
    Failure::peer(bad).help("run the same test, of the same program family, at both ends")
}

/// A machine that answers nothing for 30 s is dead; a virtual one may well stand still for 10.
fn keepalive() -> TcpKeepalive {
    TcpKeepalive::new()
        .with_time(Duration::from_secs(10))
        .with_interval(Duration::from_secs(5))
        .with_retries(4)
}

/// True when nothing has come yet. `TimedOut` is another thing: the peer's machine answers no more.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

/// True when the peer has reset the connection before this end looked at it.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotConnected | ErrorKind::ConnectionAborted)
}

/// On all addresses of both IP versions; on IPv4 alone where there is no IPv6.
fn listen(port: u16) -> io::Result<TcpListener> {
    match listen_on(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port))) {
        Err(error) if error.kind() != ErrorKind::AddrInUse => {
            listen_on(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))
        }
        done => done,
    }
}

fn listen_on(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(1)?;
    Ok(socket.into())
}

fn taken(port: u16, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot listen on TCP port {port}: {error}"))
        .help("another server runs there: end it, or give both ends another port with -p")
}

fn gone(peer: IpAddr, how: &str) -> Failure {
    Failure::peer(format!("the peer {peer} is gone: {how}"))
        .help("look for its error message at the other end")
}

fn silent(peer: IpAddr, patience: Patience) -> Failure {
    let seconds = patience.limit.as_secs();
    Failure::peer(format!("the peer {peer} has said nothing for {seconds} s")).help(patience.help)
}

/// A connection without a peer: it has reset it.
fn lost(error: io::Error) -> Failure {
    if !is_gone(&error) {
        return broken(error);
    }
    Failure::peer(format!("the peer has closed the connection at once: {error}")).help(
        "is another program at that port? If not, look for its error message at the other end",
    )
}

fn broken(error: io::Error) -> Failure {
    Failure::environment(format!("TCP does not work here: {error}"))
}

fn no_loopback(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::Interrupted => Failure::interrupted(),
        _ => broken(error).help("the loopback interface may be down: `ip link set lo up`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_exchanges_and_notices_the_end() {
        let (client, server) = Channel::pair(&Interrupt::default()).expect("loopback");
        assert!(client.is_client() && !server.is_client());
        assert_eq!(server.peer_state(), PeerState::Silent);
        let thread = std::thread::spawn(move || {
            assert_eq!(server.swap(b"pong").expect("peer is there"), *b"ping");
            server
        });
        assert_eq!(client.swap(b"ping").expect("peer is there"), *b"pong");
        let server = thread.join().expect("no panic");
        client.send(b"x").expect("peer is there");
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(server.peer_state(), PeerState::Talking);
        server.receive(&mut [0]).expect("one byte");
        drop(client);
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(server.peer_state(), PeerState::Gone);
        let failure = server.receive(&mut [0]).expect_err("closed");
        assert_eq!(failure.exit, crate::failure::Exit::Peer);
    }

    #[test]
    fn a_peer_is_named_by_its_nic_once_that_is_known() {
        let (client, server) = Channel::pair(&Interrupt::default()).expect("loopback");
        assert_eq!(server.peer().to_string(), "127.0.0.1");
        server.set_nic_of_peer(Ipv4Addr::UNSPECIFIED.into());
        server.set_nic_of_peer(Ipv4Addr::new(127, 99, 3, 3).into());
        drop(client);
        let failure = server.receive(&mut [0]).expect_err("closed");
        assert!(failure.what.contains("the peer 127.99.3.3 is gone"), "{failure}");
    }

    #[test]
    fn a_server_knows_since_when_its_client_can_go_on() {
        let (client, server) = Channel::pair(&Interrupt::default()).expect("loopback");
        let thread = std::thread::spawn(move || {
            client.swap(b"ping").expect("peer is there");
            Instant::now()
        });
        let before = Instant::now();
        let (_, spoke) = server.timed_swap(b"pong").expect("peer is there");
        let went_on = thread.join().expect("no panic");
        assert!(before <= spoke && spoke <= went_on);
    }

    /// A connection that its client has reset.
    fn reset(port: u16) {
        let client = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        SockRef::from(&client).set_linger(Some(Duration::ZERO)).expect("an option");
    }

    #[test]
    fn a_server_goes_on_waiting_when_a_client_is_gone_at_once() {
        let waiting = Channel::listen(0).expect("a port");
        let port = waiting.0.local_addr().expect("bound").port();
        reset(port);
        let client = std::thread::spawn(move || {
            let client = Channel::connect("127.0.0.1", port, &Interrupt::default());
            client.expect("it waits").swap(b"ping").expect("peer is there")
        });
        let server = waiting.accept(&Interrupt::default()).expect("the second one");
        assert_eq!(server.swap(b"pong").expect("peer is there"), *b"ping");
        assert_eq!(client.join().expect("no panic"), *b"pong");
    }

    #[test]
    fn a_connection_that_is_reset_at_once_is_the_peers_fault() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        reset(listener.local_addr().expect("bound").port());
        let (stream, _) = listener.accept().expect("it was queued");
        let failure = Channel::over(stream, false, &Interrupt::default()).expect_err("no peer");
        assert_eq!(failure.exit, crate::failure::Exit::Peer, "{failure}");
        assert!(failure.help.is_some());
    }

    #[test]
    fn a_machine_that_answers_no_more_is_not_a_pause() {
        let error = |errno: rustix::io::Errno| io::Error::from(errno);
        assert!(is_pause(&error(rustix::io::Errno::AGAIN)), "what a read times out with");
        assert!(!is_pause(&error(rustix::io::Errno::TIMEDOUT)), "what keepalive ends with");
    }

    #[test]
    fn a_missing_server_is_the_peers_fault_and_named() {
        let port = {
            let socket = TcpListener::bind("127.0.0.1:0").expect("loopback");
            socket.local_addr().expect("bound").port()
        };
        let before = Instant::now();
        let failure = Channel::connect("127.0.0.1", port, &Interrupt::default())
            .expect_err("there is no listener");
        assert_eq!(failure.exit, crate::failure::Exit::Peer);
        assert!(failure.help.is_some_and(|help| help.contains("server first")));
        assert!(before.elapsed() < Duration::from_secs(3));
    }
}
