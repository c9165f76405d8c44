//! The connection to the agent.

use std::io::{self, BufReader, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use uroce_conform::{
    AgentError, AgentLink, Card, ProtocolError, Reply, Request, VERSION, read_message,
    write_message,
};

use super::PORT;
use crate::channel;
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a reply may take; no request waits so long.
const REPLY: Duration = Duration::from_secs(30);
/// How often the wait for a greeting looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);
/// How often the wait for another reply looks for packets.
const PACKETS: Duration = Duration::from_millis(1);

/// A session with an agent.
pub struct AgentSession {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

impl AgentSession {
    /// Connects and says who we are.
    ///
    /// # Errors
    /// Exit 4: no agent, or it refuses; exit 3: no way to it; exit 2: a peer that has no address; exit 1: Ctrl-C.
    pub fn open(
        peer: &str,
        token: String,
        interrupt: &Interrupt,
    ) -> Result<(AgentSession, Card), Failure> {
        let address = address(peer)?;
        let mut link =
            AgentSession::connect(address, interrupt).map_err(|error| no_agent(address, &error))?;
        let hello = Request::Hello { version: VERSION, token };
        let answered = link.greet(&hello, interrupt);
        if interrupt.is_set() {
            return Err(Failure::interrupted());
        }
        match answered.map_err(|error| unanswered(address, &error))? {
            Reply::Welcome { card } if card.version == VERSION => Ok((link, card)),
            Reply::Welcome { card } => Err(Failure::peer(format!(
                "the agent speaks version {} of the protocol, this is {VERSION}",
                card.version
            ))
            .help("use the same release of uroce at both ends")),
            Reply::Refused { why } => {
                let help = match why.contains("protocol version") {
                    true => "use the same release of uroce at both ends",
                    false => "--token takes what the agent printed when it started",
                };
                Err(Failure::peer(format!("the agent refuses: {why}")).help(help))
            }
            other => Err(Failure::peer(format!("{address} is no agent: {other:?}"))),
        }
    }

    fn connect(address: SocketAddr, interrupt: &Interrupt) -> io::Result<AgentSession> {
        let output = channel::connect(address, CONNECT, interrupt)?;
        output.set_nodelay(true)?;
        output.set_read_timeout(Some(REPLY))?;
        let input = BufReader::new(output.try_clone()?);
        Ok(AgentSession { input, output })
    }

    /// The answer to a greeting may take long: an agent serves one tester at a time. Ctrl-C is obeyed meanwhile.
    fn greet(&mut self, hello: &Request, interrupt: &Interrupt) -> Result<Reply, AgentError> {
        let go_on = || match interrupt.is_set() {
            true => Err(ErrorKind::Interrupted.into()),
            false => Ok(()),
        };
        self.exchange(hello, LOOK, go_on)
    }

    /// Asks, and waits for the reply; `look` is called `every` so often meanwhile.
    fn exchange(
        &mut self,
        request: &Request,
        every: Duration,
        look: impl FnMut() -> io::Result<()>,
    ) -> Result<Reply, AgentError> {
        write_message(&mut self.output, request)?;
        self.await_reply(every, look).map_err(ProtocolError::Connection)?;
        Ok(read_message(&mut self.input)?)
    }

    /// Waits until something came, or `look` does not want to.
    fn await_reply(
        &self,
        every: Duration,
        mut look: impl FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        let start = Instant::now();
        self.output.set_read_timeout(Some(every))?;
        loop {
            match self.output.peek(&mut [0]) {
                Ok(_) => return self.output.set_read_timeout(Some(REPLY)),
                Err(error) if is_silence(&error) && start.elapsed() < REPLY => look()?,
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Why there is no connection.
fn no_agent(address: SocketAddr, error: &io::Error) -> Failure {
    let help = match error.kind() {
        ErrorKind::Interrupted => return Failure::interrupted(),
        ErrorKind::ConnectionRefused => {
            "start `uroce conform agent` on the machine under test; PEER:PORT names another port than 18520"
        }
        _ => {
            "is this the address of the machine under test, and does a firewall let its TCP port through?"
        }
    };
    channel::unreachable(&address.ip().to_string(), error)
        .unwrap_or_else(|| Failure::peer(format!("no agent at {address}: {error}")).help(help))
}

/// Why a greeting was not answered.
fn unanswered(address: SocketAddr, error: &AgentError) -> Failure {
    match error {
        AgentError::Gone(ProtocolError::Connection(error)) if is_silence(error) => {
            Failure::peer(format!("the agent at {address} does not answer"))
                .help("it serves one tester at a time: another one may be at work")
        }
        AgentError::Gone(ProtocolError::Meaningless(_)) => {
            Failure::peer(format!("what listens at {address} is no agent: {error}"))
                .help("PEER:PORT names the port that the agent printed")
        }
        other => Failure::peer(other),
    }
}

impl AgentLink for AgentSession {
    fn call(&mut self, request: &Request, waiting: &mut dyn FnMut()) -> Result<Reply, AgentError> {
        self.exchange(request, PACKETS, || {
            waiting();
            Ok(())
        })
    }
}

/// `HOST`, `HOST:PORT`, or an IPv6 address.
fn address(peer: &str) -> Result<SocketAddr, Failure> {
    let bare = peer.trim_start_matches('[').trim_end_matches(']');
    let found = match bare.parse() {
        Ok(ip) => Some(SocketAddr::new(ip, PORT)),
        Err(_) if peer.contains(':') => resolve(peer),
        Err(_) => resolve(&format!("{peer}:{PORT}")),
    };
    found.ok_or_else(|| Failure::usage(format!("{peer} is no name or address of a machine")))
}

fn resolve(peer: &str) -> Option<SocketAddr> {
    peer.to_socket_addrs().ok()?.next()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;

    /// What a tester says to an agent that greets with this line.
    fn greeted(line: &'static str) -> Failure {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = listener.local_addr().expect("an address").to_string();
        let agent = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a tester");
            let hello: Request = read_message(&mut BufReader::new(&stream)).expect("a greeting");
            assert!(matches!(hello, Request::Hello { version: VERSION, .. }));
            writeln!(stream, "{line}").expect("it listens");
        });
        let session = AgentSession::open(&peer, "t".to_owned(), &Interrupt::default());
        let failure = session.err().expect("no session");
        agent.join().expect("it answers");
        failure
    }

    #[test]
    fn an_agent_of_another_release_is_told_from_a_wrong_token() {
        let older = r#"{"is":"refused","why":"a tester of protocol version 9 was refused: this is version 2"}"#;
        let stranger =
            r#"{"is":"refused","why":"a stranger was refused: the token is another one"}"#;
        assert!(format!("{:?}", greeted(older)).contains("the same release of uroce"));
        assert!(format!("{:?}", greeted(stranger)).contains("--token takes"));
        assert!(
            greeted("220 mail.example ready").to_string().contains("no message of this protocol")
        );
    }

    #[test]
    fn an_agent_that_is_busy_with_another_tester_is_not_waited_for_after_a_signal() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let peer = listener.local_addr().expect("an address").to_string();
        let (interrupt, start) = (Interrupt::default(), Instant::now());
        let flag = interrupt.clone();
        let user = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            flag.set();
        });
        let session = AgentSession::open(&peer, "t".to_owned(), &interrupt);
        assert_eq!(session.err(), Some(Failure::interrupted()));
        assert!(start.elapsed() < Duration::from_secs(5));
        user.join().expect("no panic");
    }

    #[test]
    fn a_peer_is_an_address_with_or_without_a_port() {
        let read = |text: &str| address(text).map(|address| address.to_string()).ok();
        assert_eq!(read("192.0.2.1").as_deref(), Some("192.0.2.1:18520"));
        assert_eq!(read("192.0.2.1:99").as_deref(), Some("192.0.2.1:99"));
        assert_eq!(read("2001:db8::1").as_deref(), Some("[2001:db8::1]:18520"));
        assert_eq!(read("[2001:db8::1]:99").as_deref(), Some("[2001:db8::1]:99"));
        assert_eq!(read("192.0.2.1:x"), None);
    }
}
