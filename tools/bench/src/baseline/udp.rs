//! A stream of UDP datagrams, one a system call.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use uroce_testbed::error::{Context, Result};

use super::{Outcome, PORT, StreamArgs};

/// A receiver that gets nothing for so long is done.
const SILENCE: Duration = Duration::from_millis(200);

/// Runs one end.
///
/// # Errors
/// The sockets do not work, or the peer is missing.
pub fn run(arguments: &StreamArgs) -> Result<()> {
    match arguments.server {
        Some(server) => client(server, arguments),
        None => server(arguments),
    }
}

/// The TCP connection says when the receiver is ready, and brings its result.
fn client(server: SocketAddr, arguments: &StreamArgs) -> Result<()> {
    let control = TcpStream::connect(server).context(|| format!("no way to {server}"))?;
    let mut byte = [0];
    (&control).read_exact(&mut byte).context(|| "the server is not ready")?;
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).context(|| "no UDP socket")?;
    socket.connect(server).context(|| format!("no way to {server}"))?;
    let bytes = vec![0; arguments.size];
    let end = Instant::now() + Duration::from_secs_f64(arguments.seconds);
    while Instant::now() < end {
        for _ in 0..64 {
            // A full queue is the receiver's matter: it counts what arrives.
            let _ = socket.send(&bytes);
        }
    }
    let mut rate = [0; 8];
    (&control).read_exact(&mut rate).context(|| "the server has no result")?;
    Outcome::print(f64::from_be_bytes(rate))
}

fn server(arguments: &StreamArgs) -> Result<()> {
    let at = (Ipv4Addr::UNSPECIFIED, PORT);
    let socket = UdpSocket::bind(at).context(|| format!("port {PORT} is not free"))?;
    socket.set_read_timeout(Some(SILENCE)).context(|| "no SO_RCVTIMEO")?;
    let listener = TcpListener::bind(at).context(|| format!("port {PORT} is not free"))?;
    let (mut control, _) = listener.accept().context(|| "no client connected")?;
    control.write_all(&[1]).context(|| "the client went away")?;
    let rate = receive(&socket, arguments.size) / 1e6;
    control.write_all(&rate.to_be_bytes()).context(|| "the client went away")
}

/// Datagrams a second, from the first to the last.
fn receive(socket: &UdpSocket, size: usize) -> f64 {
    let mut bytes = vec![0; size];
    let (mut count, mut span) = (0_u64, None::<(Instant, Instant)>);
    while socket.recv(&mut bytes).is_ok() {
        count += 1;
        // The clock costs little beside the system call, but not nothing.
        if span.is_none() || count.is_multiple_of(64) {
            let now = Instant::now();
            span = Some((span.map_or(now, |(first, _)| first), now));
        }
    }
    match span {
        Some((first, last)) if last > first => count as f64 / (last - first).as_secs_f64(),
        _ => 0.0,
    }
}
