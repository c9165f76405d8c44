//! One command line, tried.

use std::path::{Path, PathBuf};
use std::process::Command;

use uroce_testbed::error::{Error, Result};

use super::case::{Case, Form, How, VALGRIND};
use super::end::End;
use super::install::SCRATCH;
use super::mpi;
use super::stage::{Stage, is_listening};
use super::system;

/// What the library says, if it is asked to say much, when a program listens for calls or datagrams.
pub const LISTENS: &str = "uroce: listening for";

/// Options of valgrind: an error of memory is a failure.
const WATCH: &str = "--quiet --error-exitcode=9";

/// Runs the case with the libraries in `folder`.
///
/// # Errors
/// What the program said when it failed.
pub fn run(case: &Case, stage: &Stage, folder: &Path) -> Result<()> {
    let output = |name: &str| folder.join(format!("{name}.out"));
    let preloaded = match case.form {
        Form::Sockets => Some(format!("LD_PRELOAD={}", system::rspreload()?.display())),
        Form::Usual | Form::Near | Form::DropIn | Form::Interfaces => None,
    };
    let play = Play { case, stage, folder, preloaded };
    match case.how {
        How::Alone => End::start(&mut play.on(play.called()), &output("server"))?.finish(),
        How::Until(text) => {
            let mut end = End::start(&mut play.on(play.called()), &output("server"))?;
            end.wait_until(|end| end.printed().contains(text))
        }
        How::Called(client) | How::Serves(client) => {
            play.call(client, |end| end.printed().contains(LISTENS), output)
        }
        How::ServesAt(port, client) => {
            play.call(client, |end| is_listening(end.process(), port), output)
        }
        How::Pair | How::Watched => {
            let port = port();
            play.meet(port, &["-p", &port.to_string()], output)
        }
        How::PairAt(port) => play.meet(port, &[], output),
        How::Ranks => {
            let mut ranks = mpi::ranks(stage, folder, case.variable, case.arguments);
            End::start(&mut ranks, &output("server"))?.finish()
        }
    }
}

/// Both ends must end well; what both said, if one does not.
pub(super) fn both(server: End, client: End) -> Result<()> {
    match client.finish() {
        Ok(()) => server.finish(),
        Err(error) => Err(Error::new(format!("{error}\nthe server said:\n{}", server.printed()))),
    }
}

/// A case with what it needs.
struct Play<'a> {
    case: &'a Case,
    stage: &'a Stage,
    folder: &'a Path,
    /// What the environment says about libraries that are loaded before others.
    preloaded: Option<String>,
}

impl Play<'_> {
    /// Server and client, which meet at a TCP port.
    fn meet(&self, port: u16, words: &[&str], output: impl Fn(&str) -> PathBuf) -> Result<()> {
        let mut server = self.on(self.called());
        let mut server = End::start(server.args(words), &output("server"))?;
        server.wait_until(|end| is_listening(end.process(), port))?;
        let watched = self.case.how == How::Watched;
        let mut client = if watched {
            self.unwatched(self.caller(), self.case.program, self.case.arguments)
        } else {
            self.on(self.caller())
        };
        client.args(words).arg(self.called());
        both(server, End::start(&mut client, &output("client"))?)
    }

    /// Server, and when it is `ready` the other command line as client.
    fn call(
        &self,
        client: &str,
        ready: impl Fn(&End) -> bool,
        output: impl Fn(&str) -> PathBuf,
    ) -> Result<()> {
        let words = self.filled(self.case.arguments);
        let mut server = self.program(&self.stage.server, self.case.program, &words);
        let mut server = End::start(&mut server, &output("server"))?;
        server.wait_until(ready)?;
        let line = self.filled(client);
        let (name, words) = line.split_once(' ').unwrap_or((&line, ""));
        let mut client = self.program(self.caller(), name, words);
        let client = End::start(&mut client, &output("client"))?;
        if matches!(self.case.how, How::Serves(_) | How::ServesAt(..)) {
            return client.finish();
        }
        both(server, client)
    }

    /// The address of the client.
    fn caller(&self) -> &str {
        match self.case.form {
            Form::Near => &self.stage.server,
            Form::Usual | Form::DropIn | Form::Sockets => &self.stage.client,
            Form::Interfaces => &self.stage.beside,
        }
    }

    /// The address of the server.
    fn called(&self) -> &str {
        match self.case.form {
            Form::Interfaces => &self.stage.alone,
            _ => &self.stage.server,
        }
    }

    /// The words with what differs from run to run.
    fn filled(&self, words: &str) -> String {
        let scratch = self.folder.join(SCRATCH).display().to_string();
        words.replace("SERVER", &self.stage.server).replace("SCRATCH", &scratch)
    }

    /// The case's program on the device with this address.
    fn on(&self, address: &str) -> Command {
        self.program(address, self.case.program, self.case.arguments)
    }

    /// A program on the device with this address, as a user without privileges; under valgrind if the case is.
    fn program(&self, address: &str, name: &str, arguments: &str) -> Command {
        match self.case.how {
            How::Watched => {
                self.unwatched(address, VALGRIND, &format!("{WATCH} {name} {arguments}"))
            }
            _ => self.unwatched(address, name, arguments),
        }
    }

    fn unwatched(&self, address: &str, name: &str, arguments: &str) -> Command {
        let uroce = self.folder.join("bin/uroce").display().to_string();
        let mut words: Vec<&str> = Vec::new();
        let preloaded = self.preloaded.as_deref();
        words.extend(["env"].into_iter().chain(self.case.variable).chain(preloaded));
        // Some programs keep stdout back until a buffer is full, unless it is a terminal.
        if matches!(self.case.how, How::Until(_)) {
            words.extend(["stdbuf", "-oL"]);
        }
        words.extend([&uroce, "run", "--log", "debug", "--device", address]);
        if self.case.form == Form::DropIn {
            words.push("--drop-in");
        }
        words.extend(["--", name]);
        words.extend(arguments.split_whitespace());
        self.stage.command(&words)
    }
}

/// The port on which the ends exchange what they need to know; runs without a network of their own
/// need different ones.
fn port() -> u16 {
    20_000 + u16::try_from(std::process::id() % 10_000).unwrap_or(0)
}
