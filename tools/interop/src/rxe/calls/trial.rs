//! One call, tried.

use std::path::{Path, PathBuf};
use std::time::Duration;

use uroce_rxe_guest::Guest;
use uroce_rxe_guest::addresses::{GUEST_V4, HOST_V4};
use uroce_rxe_guest::faults::Fault;
use uroce_rxe_guest::script::{cm_listens, tcp_listens};
use uroce_testbed::error::{Error, Result};

use super::call::{Call, Meeting};
use crate::programs::LISTENS;
use crate::rxe::matrix::capture::{Capture, Tally};
use crate::rxe::matrix::cell::{Family, Role};
use crate::rxe::matrix::command::serving_script;
use crate::rxe::matrix::near::{Process, Running, wait_until};
use crate::rxe::matrix::trial::{complaint_about, content};

/// How long both programs of a call may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Attempts of a call. A program that is done destroys its queue pair at once and then repeats no
/// acknowledgement, which its peer can only call a failure; and a busy machine may drop a datagram.
const ATTEMPTS: usize = 4;

/// The two ends.
pub struct Bench<'a> {
    far: &'a Guest,
    /// The program `uroce` with its libraries.
    program: PathBuf,
    next_port: u16,
}

impl<'a> Bench<'a> {
    /// With the program and libraries in `folder`.
    pub fn new(far: &'a Guest, folder: &Path) -> Self {
        Self { far, program: folder.join("bin/uroce"), next_port: 21_000 }
    }

    /// Runs a call with our end in this role, again if it fails; how often it took.
    ///
    /// # Errors
    /// What the programs said, or what is wrong with the packets, in the last attempt.
    pub fn try_call(&mut self, call: &Call, role: Role, fault: Fault) -> Result<(usize, Tally)> {
        let mut attempt = 1;
        loop {
            match self.attempt(call, role, fault) {
                Ok(tally) => return Ok((attempt, tally)),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(error) => {
                    println!("attempt {attempt} failed\n{error}");
                    attempt += 1;
                }
            }
        }
    }

    fn attempt(&mut self, call: &Call, role: Role, fault: Fault) -> Result<Tally> {
        let port = call.port.unwrap_or(self.next_port);
        self.next_port += 1;
        let capture = Capture::start(self.far.namespace(), &self.far.folder().join("wire.pcap"))?;
        let gid = self.far.gid_index(GUEST_V4.into())?;
        let ran = self.run_both(&Lines::new(call, role, port, fault, gid), role, port);
        let tally = capture.finish(Family::V4)?;
        ran?;
        match complaint_about(&tally, fault) {
            Some(complaint) => Err(Error::new(complaint)),
            None => Ok(tally),
        }
    }

    fn run_both(&self, lines: &Lines, role: Role, port: u16) -> Result<()> {
        let (server, client) = match role {
            Role::Client => {
                let listens = match lines.meeting {
                    Meeting::Call => cm_listens(port),
                    Meeting::Tcp => tcp_listens(port),
                };
                let script = serving_script(&lines.server, &listens);
                let server = Running::Job(self.far.spawn(&script)?);
                server.wait_announced()?;
                (server, Running::Process(self.start_near(&lines.client, lines.client_faults)?))
            }
            Role::Server => {
                let mut server = self.start_near(&lines.server, "")?;
                wait_until(|| {
                    let listens = match lines.meeting {
                        Meeting::Call => server.text().contains(LISTENS),
                        Meeting::Tcp => self.far.namespace().listens(port),
                    };
                    Ok(!server.runs() || listens)
                })?;
                let client = self.far.spawn(&format!("exec {}\n", lines.client))?;
                (Running::Process(server), Running::Job(client))
            }
        };
        let client = client.wait(LIMIT).and_then(|output| content("client", output));
        client.map_err(|error| {
            Error::new(format!("{error}\nthe server had printed:\n{}", server.text()))
        })?;
        content("server", server.wait(LIMIT)?)
    }

    fn start_near(&self, line: &str, faults: &str) -> Result<Process> {
        let program = self.program.display();
        let line = format!("{program} run --log debug --device {HOST_V4} --datapath udp -- {line}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.far.namespace().command_as_nobody(&[], &words);
        if !faults.is_empty() {
            command.env("UROCE_FAULT", faults);
        }
        Process::start(command, self.far.folder().join("near"))
    }
}

/// The command lines of one attempt.
struct Lines {
    meeting: Meeting,
    server: String,
    client: String,
    client_faults: &'static str,
}

impl Lines {
    /// `gid`: the index of the guest's address there; with us, 0 and 1 both are the address.
    fn new(call: &Call, role: Role, port: u16, fault: Fault, gid: u8) -> Self {
        let server = if role == Role::Server { HOST_V4 } else { GUEST_V4 }.to_string();
        let gid = gid.to_string();
        let filled = |line: &str| {
            let line = line.replace("PORT", &port.to_string()).replace("GID", &gid);
            let line = line.replace("OWN", &server).replace("PEER", &server);
            if fault == Fault::None { line } else { line + call.on_loss }
        };
        Self {
            meeting: call.meeting,
            server: filled(call.server),
            client: filled(&call.client()),
            client_faults: call.client_faults,
        }
    }
}
