//! The TCP connection between the two ends: connect, accept, exchange, notice that the peer is gone.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use uroce_exchange::BadRecord;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The TCP port of perftest and the pingpongs.
pub const PORT: u16 = 18515;

/// How long a client keeps trying while there is no listener: about as long as it takes to start a server
/// in the other window.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1500);
const CONNECT_TRY: Duration = Duration::from_secs(3);
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
    /// Waits for one client.
    ///
    /// # Errors
    /// Exit 1 on Ctrl-C.
    pub fn accept(self, interrupt: &Interrupt) -> Result<Channel, Failure> {
        loop {
            match self.0.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false).map_err(broken)?;
                    return Channel::over(stream, false, interrupt);
                }
                Err(error) if is_pause(&error) => {}
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
    /// Exit 4 when there is no listener, exit 3 when the name is unknown.
    pub fn connect(host: &str, port: u16, interrupt: &Interrupt) -> Result<Channel, Failure> {
        let addresses = resolve(host, port)?;
        let deadline = Instant::now() + CONNECT_TIMEOUT;
        loop {
            let error = match try_each(&addresses) {
                Ok(stream) => return Channel::over(stream, true, interrupt),
                Err(error) => error,
            };
            let hopeless = error.kind() != ErrorKind::ConnectionRefused;
            if hopeless || Instant::now() >= deadline || interrupt.is_set() {
                return Err(no_server(host, port, &error));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Connects to `host` if there is a listener now.
    ///
    /// # Errors
    /// Exit 4 when there is no listener, exit 3 when the name is unknown.
    pub fn attempt(host: &str, port: u16, interrupt: &Interrupt) -> Result<Channel, Failure> {
        let stream =
            try_each(&resolve(host, port)?).map_err(|error| no_server(host, port, &error))?;
        Channel::over(stream, true, interrupt)
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
    /// Exit 3 without TCP on the loopback interface.
    pub fn pair(interrupt: &Interrupt) -> Result<(Channel, Channel), Failure> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(broken)?;
        let address = listener.local_addr().map_err(broken)?;
        let client = TcpStream::connect(address).map_err(broken)?;
        let (server, _) = listener.accept().map_err(broken)?;
        Ok((Channel::over(client, true, interrupt)?, Channel::over(server, false, interrupt)?))
    }

    fn over(stream: TcpStream, client: bool, interrupt: &Interrupt) -> Result<Channel, Failure> {
        stream.set_nodelay(true).map_err(broken)?;
        stream.set_read_timeout(Some(LOOK)).map_err(broken)?;
        // Without it a peer whose machine died is noticed later; no reason to fail.
        let _ = SockRef::from(&stream).set_tcp_keepalive(&keepalive());
        let peer = stream.peer_addr().map_err(broken)?;
        let (interrupt, patience) = (interrupt.clone(), Mutex::new(None));
        Ok(Channel { stream, peer, client, interrupt, patience, looking: Mutex::default() })
    }

    /// True at the end that connected; it speaks first in every exchange.
    pub fn is_client(&self) -> bool {
        self.client
    }

    /// The peer's address.
    pub fn peer(&self) -> IpAddr {
        self.peer.ip().to_canonical()
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
        let mut theirs = [0; N];
        if self.client {
            self.send(mine)?;
            self.receive(&mut theirs)?;
        } else {
            self.receive(&mut theirs)?;
            self.send(mine)?;
        }
        Ok(theirs)
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

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let found = (host, port).to_socket_addrs();
    let mut addresses: Vec<_> = match found {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(unknown_host(host, &error)),
    };
    // The stock servers listen on IPv4, some only there.
    addresses.sort_by_key(SocketAddr::is_ipv6);
    Ok(addresses)
}

/// The failure for an unknown name: mistyped, or no name server answers.
pub fn unknown_host(host: &str, error: &io::Error) -> Failure {
    Failure::environment(format!("no address is known for the host {host:?}: {error}")).help(
        "check the name, and whether DNS works (`getent hosts NAME`), or give the server's address",
    )
}

fn try_each(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(address, CONNECT_TRY) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
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

fn no_server(host: &str, port: u16, error: &io::Error) -> Failure {
    Failure::peer(format!("no server answers at {host}, TCP port {port}: {error}")).help(
        "start the server first, with the same command but without a host; \
         then check the address, -p and the firewall",
    )
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

fn broken(error: io::Error) -> Failure {
    Failure::environment(format!("TCP does not work here: {error}"))
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
