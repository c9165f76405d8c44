//! Connecting: a TCP connection that Ctrl-C gives up, and what it means that there is none.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How often a connect looks for Ctrl-C: each 50 ms.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Connects to `address`.
///
/// # Errors
/// What the kernel says, [`ErrorKind::TimedOut`] after `limit`, or [`ErrorKind::Interrupted`] on Ctrl-C.
pub fn connect(
    address: SocketAddr,
    limit: Duration,
    interrupt: &Interrupt,
) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    match socket.connect(&address.into()) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => {
            wait(&socket, limit, interrupt)?;
        }
        done => done?,
    }
    socket.set_nonblocking(false)?;
    Ok(socket.into())
}

/// Waits until the connection stands.
fn wait(socket: &Socket, limit: Duration, interrupt: &Interrupt) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match poll(&mut [PollFd::new(socket, PollFlags::OUT)], Some(&LOOK)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return socket.take_error()?.map_or(Ok(()), Err),
            Err(error) => return Err(error.into()),
        }
        if interrupt.is_set() {
            return Err(ErrorKind::Interrupted.into());
        }
        if start.elapsed() >= limit {
            return Err(io::Error::new(ErrorKind::TimedOut, "connection timed out"));
        }
    }
}

/// Connects to the first address that takes it.
///
/// # Errors
/// That of the last address; at once on Ctrl-C.
pub(super) fn connect_any(
    addresses: &[SocketAddr],
    limit: Duration,
    interrupt: &Interrupt,
) -> io::Result<TcpStream> {
    let mut last = io::Error::from(ErrorKind::AddrNotAvailable);
    for address in addresses {
        match connect(*address, limit, interrupt) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// The addresses of a host.
///
/// # Errors
/// Exit 3 when the name is unknown.
pub fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>, Failure> {
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

/// The failure where no packet gets from here to `host`: no server there could help. `None` for other errors.
pub fn unreachable(host: &str, error: &io::Error) -> Option<Failure> {
    let (what, command) = match error.kind() {
        ErrorKind::NetworkUnreachable => ("there is no route to", "`ip route get`"),
        ErrorKind::HostUnreachable => ("no neighbour answers on the way to", "`ip neigh`"),
        _ => return None,
    };
    Some(Failure::environment(format!("{what} {host}: {error}")).help(format!(
        "check the address and {command}; `uroce doctor --peer ADDRESS` looks at the whole way"
    )))
}

/// The failure of a client that found no server.
pub(super) fn no_server(host: &str, port: u16, error: &io::Error) -> Failure {
    if error.kind() == ErrorKind::Interrupted {
        return Failure::interrupted();
    }
    unreachable(host, error).unwrap_or_else(|| {
        Failure::peer(format!("no server answers at {host}, TCP port {port}: {error}")).help(
            "start the server first, with the same command but without a host; \
             then check the address, -p and the firewall",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use crate::failure::Exit;

    /// A listener whose queue is full, so that the kernel drops what would connect; and what fills it.
    fn full_listener() -> (Socket, SocketAddr, Vec<TcpStream>) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        listener.bind(&any.into()).and_then(|()| listener.listen(0)).expect("loopback");
        let address = listener.local_addr().expect("bound").as_socket().expect("IPv4");
        let short = Duration::from_millis(200);
        let fill = || connect(address, short, &Interrupt::default()).ok();
        let queued: Vec<_> = std::iter::from_fn(fill).take(16).collect();
        assert!(queued.len() < 16, "the queue is full");
        (listener, address, queued)
    }

    #[test]
    fn a_connect_that_nobody_answers_ends_with_the_signal_or_in_time() {
        let (_listener, address, _queued) = full_listener();
        let (start, limit) = (Instant::now(), Duration::from_millis(300));
        let late = connect(address, limit, &Interrupt::default()).expect_err("nobody answers");
        assert_eq!(late.kind(), ErrorKind::TimedOut);
        let interrupt = Interrupt::default();
        let flag = interrupt.clone();
        let user = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            flag.set();
        });
        let failure = Channel::connect("127.0.0.1", address.port(), &interrupt);
        assert_eq!(failure.expect_err("nobody answers"), Failure::interrupted());
        assert!(start.elapsed() < Duration::from_millis(2500), "{:?}", start.elapsed());
        user.join().expect("no panic");
    }

    #[test]
    fn what_no_packet_reaches_is_not_a_missing_server() {
        // TCP has no route to a broadcast address, on every machine.
        let failure = Channel::connect("255.255.255.255", 9, &Interrupt::default());
        let failure = failure.expect_err("no TCP to all");
        assert_eq!(failure.exit, Exit::Environment);
        assert!(failure.what.starts_with("there is no route to 255.255.255.255: "), "{failure}");
        for errno in [Errno::NETUNREACH, Errno::HOSTUNREACH] {
            let failure = no_server("192.0.2.1", 9, &errno.into());
            assert_eq!(failure.exit, Exit::Environment);
            let help = failure.help.unwrap_or_default();
            assert!(help.contains("uroce doctor --peer") && !help.contains("server"), "{help}");
        }
        assert_eq!(no_server("192.0.2.1", 9, &Errno::CONNREFUSED.into()).exit, Exit::Peer);
    }
}
