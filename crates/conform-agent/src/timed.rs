//! Waits that end.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use uroce_conform::limits;

/// How long to sleep between two looks at a queue.
const NAP: Duration = Duration::from_micros(100);

/// Reads from a connection until a time is over, however slowly the bytes come.
pub(crate) struct Timed<'s> {
    stream: &'s TcpStream,
    end: Instant,
}

impl<'s> Timed<'s> {
    /// A connection; the first message has `time`.
    pub(crate) fn new(stream: &'s TcpStream, time: Duration) -> Self {
        Timed { stream, end: Instant::now() + time }
    }

    /// The next message has `time`.
    pub(crate) fn wait(&mut self, time: Duration) {
        self.end = Instant::now() + time;
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        match self.stream.read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(io::ErrorKind::TimedOut.into())
            }
            done => done,
        }
    }
}

/// Looks until there is what is waited for, or the time is over.
pub(crate) fn wait(milliseconds: u32, mut there: impl FnMut() -> bool) -> bool {
    let time = Duration::from_millis(milliseconds.into()).min(limits::WAIT);
    let end = Instant::now() + time;
    loop {
        if there() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        std::thread::sleep(NAP);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Write};
    use std::net::TcpListener;
    use std::thread;

    use uroce_conform::{ProtocolError, Request, read_message};

    use super::*;

    #[test]
    fn who_sends_byte_after_byte_is_not_waited_for() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let slow = thread::spawn(move || {
            let mut stream = TcpStream::connect(address).expect("it listens");
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        let (stream, _) = listener.accept().expect("a connection");
        let mut input = BufReader::new(Timed::new(&stream, Duration::from_millis(100)));
        let read = read_message::<Request>(&mut input);
        let Err(ProtocolError::Connection(error)) = read else { panic!("{read:?}") };
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        drop(stream);
        slow.join().expect("it ends when the connection does");
    }
}
