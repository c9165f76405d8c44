//! `uroce conform PEER --no-agent`: the queue pairs of perftest servers, where no agent may run.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::{Duration, Instant};

use uroce_conform::{AgentError, AgentLink, Card, Link, Offer, Reply, Request, Takes, Wanted};
use uroce_exchange::perftest::{self, Keys};
use uroce_verbs::Gid;

use crate::channel::{self, Channel, Patience, stranger};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long a program may take to be started again. Its loop needs a fraction of a second.
const RESTART: Duration = Duration::from_secs(10);
/// How long to wait before the next attempt.
const PAUSE: Duration = Duration::from_millis(10);
/// How long a program may take for one record of its exchange.
const RECORD: Patience = Patience {
    limit: Duration::from_secs(5),
    help: "it may be another program than --no-agent names: all options but -p, -d and -x must be left out",
};
/// How long `ib_send_bw` may take to post its receives, which it does behind its last record.
const POSTS: Duration = Duration::from_millis(50);
/// READs and atomics that the tester pretends to serve at a time.
const READS: u16 = 16;
/// Exchanges of the keys behind the first: both ends are connected then.
const BARRIERS: usize = 2;

/// A server of perftest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Server {
    Write,
    Read,
    Atomic,
    Send,
}

impl Server {
    const ALL: [Server; 4] = [Server::Write, Server::Read, Server::Atomic, Server::Send];

    fn name(self) -> &'static str {
        match self {
            Server::Write => "ib_write_bw",
            Server::Read => "ib_read_bw",
            Server::Atomic => "ib_atomic_bw",
            Server::Send => "ib_send_bw",
        }
    }

    fn takes(self) -> Takes {
        let none = Takes::default();
        match self {
            Server::Write => Takes { write: true, ..none },
            Server::Read => Takes { read: true, ..none },
            Server::Atomic => Takes { atomic: true, ..none },
            Server::Send => Takes { send: true, ..none },
        }
    }

    /// Bytes that its memory has at least, if no option says otherwise.
    fn memory(self) -> u32 {
        match self {
            Server::Write | Server::Read => 64 << 10,
            Server::Atomic => 64,
            Server::Send => 0,
        }
    }
}

/// A server of perftest on the machine under test: `ib_write_bw`, or `ib_write_bw:18600`.
#[derive(Debug, Clone)]
pub struct Program {
    server: Server,
    port: u16,
}

impl FromStr for Program {
    type Err = String;

    fn from_str(text: &str) -> Result<Program, String> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, port.parse().map_err(|_| format!("{port} is no port"))?),
            None => (text, channel::PORT),
        };
        let server = Server::ALL.into_iter().find(|server| server.name() == name);
        let server = server.ok_or_else(|| {
            format!("one of {} is needed", Server::ALL.map(Server::name).join(", "))
        })?;
        Ok(Program { server, port })
    }
}

/// The programs of a machine under test, in place of its agent.
pub struct Programs {
    host: String,
    /// The same program on several ports: the port that was used longest ago is first.
    all: Vec<Program>,
    /// Connections, by port, to programs that wait for their first record. The servers of perftest sleep for a second when
    /// a client has connected, which passes while a case runs with another.
    early: HashMap<u16, Channel>,
    /// The program that holds the queue pair of the case; it ends with the connection.
    current: Option<Channel>,
    /// The address of the NIC under test.
    address: IpAddr,
    interrupt: Interrupt,
}

impl Programs {
    /// Looks whether all programs are there, and what they are like.
    ///
    /// # Errors
    /// Exit 4: one is not there, or is another one.
    pub fn open(
        host: &str,
        all: &[Program],
        own: Option<IpAddr>,
        interrupt: &Interrupt,
    ) -> Result<(Programs, Card), Failure> {
        let mut programs = Programs {
            host: host.to_owned(),
            all: all.to_vec(),
            early: HashMap::new(),
            current: None,
            address: Ipv4Addr::UNSPECIFIED.into(),
            interrupt: interrupt.clone(),
        };
        let mut found = Vec::new();
        for program in all {
            let seen = patient(interrupt, || programs.look(program, own));
            found.push(seen.map_err(|failure| failure.help(started(program)))?);
        }
        let address = found.first().map(|found| found.0.gid.to_ip());
        programs.address = address.ok_or_else(|| Failure::usage("--no-agent names no program"))?;
        let mtu = found.iter().map(|found| found.1).min().unwrap_or(1);
        let names: Vec<_> = all.iter().map(|program| program.server.name()).collect();
        let card = card(&names.join(", "), programs.address, mtu);
        Ok((programs, card))
    }

    /// The keys and the path MTU of a program, which ends then.
    fn look(&mut self, program: &Program, own: Option<IpAddr>) -> Result<(Keys, u8), Failure> {
        let channel = self.channel(program)?;
        let own = own.map_or_else(|| channel.local(), Ok)?;
        exchange(&channel, &Keys { qpn: 1, gid: Gid::from_ip(own), ..nothing() }, 5)
    }

    /// A connection to a program that was not used before.
    fn channel(&mut self, program: &Program) -> Result<Channel, Failure> {
        self.connect_early();
        let channel = self.early.remove(&program.port);
        channel.ok_or_else(|| Failure::peer(gone(&self.host, program)))
    }

    fn connect(&mut self, at: usize, wanted: &Wanted) -> Result<Offer, Failure> {
        let program = self.take(at);
        let mine = keys(&wanted.link, &program);
        let channel = self.channel(&program)?;
        let (theirs, mtu) = exchange(&channel, &mine, wanted.link.mtu)?;
        if theirs.gid.to_ip() != self.address {
            let (other, first) = (theirs.gid.to_ip(), self.address);
            return Err(Failure::peer(format!("it is at {other}, and another program at {first}")));
        }
        if program.server == Server::Send {
            std::thread::sleep(POSTS);
        }
        self.current = Some(channel);
        let (takes, length) = (program.server.takes(), program.server.memory());
        let Keys { qpn, psn, vaddr: va, rkey, .. } = theirs;
        Ok(Offer { qpn, psn, mtu, takes, va, rkey, length })
    }

    /// What was used last is being started again: the same program on other ports comes first.
    fn take(&mut self, at: usize) -> Program {
        let program = self.all.remove(at);
        let behind = self.all.iter().rposition(|other| other.server == program.server);
        self.all.insert(behind.map_or(at, |last| last + 1), program.clone());
        program
    }

    /// Connects to the programs that listen and have no connection yet.
    fn connect_early(&mut self) {
        for port in self.all.iter().map(|program| program.port) {
            if !self.early.contains_key(&port)
                && let Ok(channel) = Channel::attempt(&self.host, port, &self.interrupt)
            {
                self.early.insert(port, channel);
            }
        }
    }

    fn fitting(&self, wanted: &Wanted) -> Option<usize> {
        self.all.iter().position(|program| {
            let takes = program.server.takes();
            takes.includes(wanted.takes) && (wanted.receives || !takes.send)
        })
    }
}

impl AgentLink for Programs {
    fn knows_device(&self) -> bool {
        false
    }

    fn call(&mut self, request: &Request, _waiting: &mut dyn FnMut()) -> Result<Reply, AgentError> {
        self.current = None;
        match request {
            Request::Clear => Ok(Reply::Done),
            other => Err(AgentError::NeedsAgent(asked(other).to_owned())),
        }
    }

    fn offer(&mut self, wanted: &Wanted) -> Result<Option<Offer>, AgentError> {
        self.current = None;
        if let Some(what) = wanted.only_by_agent {
            return Err(AgentError::NeedsAgent(what.to_owned()));
        }
        let none = || match wanted.receives {
            true => AgentError::NeedsAgent(format!("no program takes {}", wanted.takes)),
            false => AgentError::NeedsAgent("no program has no receives".to_owned()),
        };
        self.fitting(wanted).ok_or_else(none)?;
        let interrupt = self.interrupt.clone();
        let connected = patient(&interrupt, || {
            let at = self.fitting(wanted).ok_or_else(|| Failure::usage("no program"))?;
            self.connect(at, wanted)
        });
        connected.map(Some).map_err(|failure| {
            AgentError::NoProgram(format!("a program did not start again: {failure}"))
        })
    }
}

/// Tries until it succeeds or a program had time enough to be started again.
fn patient<T>(
    interrupt: &Interrupt,
    mut attempt: impl FnMut() -> Result<T, Failure>,
) -> Result<T, Failure> {
    let end = Instant::now() + RESTART;
    loop {
        match attempt() {
            Err(_) if Instant::now() < end && !interrupt.is_set() => std::thread::sleep(PAUSE),
            done => return done,
        }
    }
}

fn nothing() -> Keys {
    let gid = Gid::new([0; 16]);
    Keys { lid: 0, out_reads: READS, qpn: 0, psn: 0, rkey: 0, vaddr: 0, gid, srqn: 0 }
}

/// What the tester tells a program.
fn keys(link: &Link, program: &Program) -> Keys {
    let out_reads = match program.server {
        Server::Read | Server::Atomic => READS,
        Server::Write | Server::Send => 1,
    };
    let gid = Gid::from_ip(link.address);
    Keys { out_reads, qpn: link.qpn, psn: link.rq_psn, gid, ..nothing() }
}

/// The exchange of perftest, until the queue pair of the program takes requests. Returns its keys, and the path MTU.
fn exchange(channel: &Channel, mine: &Keys, mtu: u8) -> Result<(Keys, u8), Failure> {
    channel.set_patience(Some(RECORD));
    let version = channel.swap(&perftest::plain_version_record())?;
    perftest::decode_version(&version).map_err(stranger)?;
    channel.swap(&perftest::CYCLE_BUFFER.to_be_bytes())?;
    channel.swap(&perftest::CACHE_LINE.to_be_bytes())?;
    let theirs = channel.swap(&perftest::mtu_record(mtu))?;
    let mtu = perftest::decode_mtu(theirs).map_err(stranger)?.min(mtu);
    let keys = Keys::decode(&channel.swap(&mine.encode())?).map_err(stranger)?;
    for _ in 0..BARRIERS {
        channel.swap(&mine.encode())?;
    }
    Ok((keys, mtu))
}

fn gone(host: &str, program: &Program) -> String {
    let Program { server, port } = program;
    format!("no {} listens at {host}, TCP port {port}", server.name())
}

/// How a program is started so that a run finds it again after each case.
fn started(program: &Program) -> String {
    let (name, port) = (program.server.name(), program.port);
    format!("on the machine under test: while :; do {name} -p {port}; done")
}

/// What a request is about, for a sentence.
fn asked(request: &Request) -> &'static str {
    match request {
        Request::Look { .. } => "its memory",
        Request::Fill { .. } => "other contents of its memory",
        Request::Poll { .. } => "its completions",
        Request::Events { .. } | Request::Notify { .. } | Request::Woken { .. } => "its events",
        Request::Send { .. } => "work for its send queue",
        Request::Query { .. } | Request::Modify { .. } => "its state",
        Request::Deregister { .. } => "the end of its memory region",
        _ => "what its application does",
    }
}

/// What is known of the machine under test.
fn card(names: &str, address: IpAddr, mtu: u8) -> Card {
    Card {
        system: "no agent".to_owned(),
        mtu,
        max_dest_rd_atomic: READS as u8,
        max_rd_atomic: READS as u8,
        no_cm: Some("it needs an agent".to_owned()),
        ..Card::new(names, address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_named_with_or_without_a_port() {
        let read = |text: &str| text.parse().map(|Program { server, port }| (server, port));
        assert_eq!(read("ib_write_bw"), Ok((Server::Write, 18_515)));
        assert_eq!(read("ib_atomic_bw:99"), Ok((Server::Atomic, 99)));
        assert!(read("ib_write_bw:x").is_err_and(|error| error.contains("x is no port")));
        assert!(read("rping").is_err_and(|error| error.contains("ib_send_bw")));
    }
}
