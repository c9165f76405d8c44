//! Our end of the wire: our program in the namespace, or the stock one in a second guest for comparison.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use uroce_rxe_guest::{Guest, Job, Output};
use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};

use super::cell::{Cell, Program};
use super::command::{Part, announces_itself, ours, stock, stock_script};
use super::datapath::Datapath;

/// How long a program may take until it listens.
const LISTEN_LIMIT: Duration = Duration::from_secs(20);

/// Who plays our part.
#[derive(Debug)]
pub enum Near<'a> {
    /// The program `uroce`, as the user nobody at the wire of `guest`.
    Ours {
        /// The guest at the other end.
        guest: &'a Guest,
        /// The program.
        program: PathBuf,
        /// How it reaches the wire.
        datapath: Datapath,
    },
    /// The stock programs in a guest at our end.
    Stock(Guest),
}

/// A started program, at either end.
#[derive(Debug)]
pub enum Running<'a> {
    /// A process of this host.
    Process(Process),
    /// A job in a guest.
    Job(Job<'a>),
}

/// A process of this host; killed on drop.
#[derive(Debug)]
pub struct Process {
    child: Child,
    output: PathBuf,
    _guard: Guard,
}

impl Near<'_> {
    /// The name of what carries our packets: that of the datapath, or `stock`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ours { datapath, .. } => datapath.name(),
            Self::Stock(_) => "stock",
        }
    }

    /// Our programs use `chosen` from now on; stock programs have nothing to choose.
    pub fn use_datapath(&mut self, chosen: Datapath) {
        if let Self::Ours { datapath, .. } = self {
            *datapath = chosen;
        }
    }

    /// Starts this end's program.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(&self, cell: &Cell, part: Part, port: u16) -> Result<Running<'_>> {
        match self {
            Self::Ours { guest, program, datapath } => {
                let (program, datapath_name) = (program.display(), datapath.name());
                let arguments = ours(cell, part, port);
                let line = format!("{program} --datapath {datapath_name} {arguments}");
                let words: Vec<&str> = line.split_whitespace().collect();
                let capabilities = datapath.capabilities();
                let command = guest.namespace().command_as_nobody(capabilities, &words);
                Process::start(command, guest.folder().join("near")).map(Running::Process)
            }
            Self::Stock(guest) => {
                let line = stock(cell, part, port, guest.gid_index(cell.family.near())?);
                guest.spawn(&stock_script(cell, &line, part, port)).map(Running::Job)
            }
        }
    }

    /// Waits until the server `running` accepts connections at `port`; only rping's is no TCP port.
    ///
    /// # Errors
    /// It ended first, or did not listen in time.
    pub fn wait_listening(&self, cell: &Cell, running: &mut Running<'_>, port: u16) -> Result<()> {
        match (self, running) {
            (Self::Ours { guest, .. }, Running::Process(process)) => wait_until(|| {
                if !process.runs() {
                    return Err(Error::new(format!(
                        "our server ended at once: {}",
                        process.text()
                    )));
                }
                match cell.program {
                    Program::Rping => Ok(announces_itself(&process.text())),
                    _ => Ok(guest.namespace().listens(port)),
                }
            }),
            (_, running) => running.wait_announced(),
        }
    }
}

impl Running<'_> {
    /// Waits until a stock server in a guest has said that it listens.
    ///
    /// # Errors
    /// It did not within 20 s.
    pub fn wait_announced(&self) -> Result<()> {
        match self {
            Self::Job(job) => wait_until(|| Ok(announces_itself(&job.text()))),
            Self::Process(_) => Ok(()),
        }
    }

    /// What the program has printed so far.
    pub fn text(&self) -> String {
        match self {
            Self::Job(job) => job.text(),
            Self::Process(process) => process.text(),
        }
    }

    /// Waits for the end of the program.
    ///
    /// # Errors
    /// It took longer than `limit`; then it is killed.
    pub fn wait(self, limit: Duration) -> Result<Output> {
        match self {
            Self::Job(job) => job.wait(limit),
            Self::Process(mut process) => process.wait(limit),
        }
    }
}

impl Process {
    /// Starts it; what it prints goes to the file `output`.
    ///
    /// # Errors
    /// It did not start.
    pub fn start(mut command: Command, output: PathBuf) -> Result<Self> {
        let file =
            File::create(&output).context(|| format!("could not make {}", output.display()))?;
        let second = file.try_clone().context(|| "could not share the output file")?;
        let child =
            command.stdout(file).stderr(second).spawn().context(|| "our program did not start")?;
        let guard = Guard::new(Leftover::Process(child.id()));
        Ok(Self { child, output, _guard: guard })
    }

    /// True until it has ended.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// What it has printed so far.
    pub fn text(&self) -> String {
        read(&self.output)
    }

    fn wait(&mut self, limit: Duration) -> Result<Output> {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            let ended = self.child.try_wait().context(|| "our program could not be waited for")?;
            if let Some(status) = ended {
                return Ok(Output { code: status.code().unwrap_or(-1), text: self.text() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let seconds = limit.as_secs();
        Err(Error::new(format!(
            "our program did not end within {seconds} s; it had printed:\n{}",
            self.text()
        )))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Waits until a server listens.
///
/// # Errors
/// What `done` says, or it took too long.
pub fn wait_until(mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + LISTEN_LIMIT;
    while Instant::now() < deadline {
        if done()? {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Error::new(format!("the server did not listen within {} s", LISTEN_LIMIT.as_secs())))
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}
