//! A TCP ping-pong.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Instant;

use uroce_testbed::error::{Context, Error, Result};

use super::{Outcome, PORT, PingpongArgs};

/// Round trips that are not counted.
const WARM_UP: u32 = 200;

/// Runs one end.
///
/// # Errors
/// The sockets do not work, or the peer is missing.
pub fn run(arguments: &PingpongArgs) -> Result<()> {
    let stream = match arguments.server {
        Some(server) => TcpStream::connect(server).context(|| format!("no way to {server}"))?,
        None => accept()?,
    };
    stream.set_nodelay(true).context(|| "no TCP_NODELAY")?;
    stream.set_nonblocking(arguments.spin).context(|| "no O_NONBLOCK")?;
    let mut end = End { stream, bytes: vec![0; arguments.size] };
    if arguments.server.is_some() {
        client(&mut end, arguments)
    } else {
        server(&mut end, arguments)
    }
}

fn accept() -> Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, PORT));
    let listener = listener.context(|| format!("port {PORT} is not free"))?;
    Ok(listener.accept().context(|| "no client connected")?.0)
}

fn client(end: &mut End, arguments: &PingpongArgs) -> Result<()> {
    let mut samples = Vec::with_capacity(arguments.count as usize);
    for round in 0..WARM_UP + arguments.count {
        let from = Instant::now();
        end.write()?;
        end.read()?;
        if round >= WARM_UP {
            samples.push(from.elapsed());
        }
    }
    samples.sort();
    let median = samples.get(samples.len() / 2).ok_or_else(|| Error::new("nothing to measure"))?;
    Outcome::print(median.as_secs_f64() * 1e6 / 2.0)
}

fn server(end: &mut End, arguments: &PingpongArgs) -> Result<()> {
    for _ in 0..WARM_UP + arguments.count {
        end.read()?;
        end.write()?;
    }
    Ok(())
}

struct End {
    stream: TcpStream,
    bytes: Vec<u8>,
}

impl End {
    fn read(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.bytes.len() {
            match self.stream.read(&mut self.bytes[at..]) {
                Ok(0) => return Err(Error::new("the peer went away")),
                Ok(count) => at += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error).context(|| "cannot read"),
            }
        }
        Ok(())
    }

    fn write(&mut self) -> Result<()> {
        let mut at = 0;
        while at < self.bytes.len() {
            match self.stream.write(&self.bytes[at..]) {
                Ok(count) => at += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
                Err(error) => return Err(error).context(|| "cannot write"),
            }
        }
        Ok(())
    }
}
