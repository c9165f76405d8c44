//! Tries one cell.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fmt, fs};

use serde::Serialize;
use uroce_rxe_guest::faults::Fault;
use uroce_rxe_guest::{Guest, Output};
use uroce_testbed::error::{Context, Error, Result};

use super::capture::{Capture, Tally};
use super::cell::{Cell, Program, Role, Verb};
use super::command::{Part, TO_GUEST, TO_US, stock, stock_script};
use super::datapath::Datapath;
use super::near::{Near, Running};

/// How long both programs of a cell may take.
const LIMIT: Duration = Duration::from_secs(40);

/// The same for many gaps in long reads, each of which makes rxe ask for all the rest again: 5 reads
/// of 1 MiB with 5 % reordered take 30 to 39 s under emulation, from us and from another rxe.
const SLOW_LIMIT: Duration = Duration::from_secs(120);

/// Attempts in a cell whose last acknowledgement may get lost: a stock program that is done destroys
/// its queue pair at once and then answers nothing any more, which its peer can only call a failure.
const LOSSY_ATTEMPTS: u32 = 2;

/// What came out of a cell.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// The combination.
    pub cell: Cell,
    /// What carried our packets: a datapath, or `stock`.
    pub near: &'static str,
    /// True when both programs were content and the wire was as it must be.
    pub passed: bool,
    /// Why not.
    pub reason: Option<String>,
    /// How often it was tried.
    pub attempts: u32,
    /// Time for all attempts, in seconds.
    pub seconds: f64,
    /// What passed the wire in the last attempt.
    #[serde(flatten)]
    pub tally: Tally,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.passed { "ok" } else { "FAILED" };
        write!(f, "{word:6}  {:6}  {} ({:.1} s)", self.near, self.cell, self.seconds)?;
        let reason = self.reason.iter().flat_map(|reason| reason.lines());
        reason.filter(|line| !line.is_empty()).try_for_each(|line| write!(f, "\n        {line}"))
    }
}

/// Tries cells one after the other between the same two ends.
#[derive(Debug)]
pub struct Bench<'a> {
    far: &'a Guest,
    near: Near<'a>,
    fault: Fault,
    next_port: u16,
    keep: Option<PathBuf>,
}

impl<'a> Bench<'a> {
    /// A bench with a clean wire; captures of failed cells go to the folder `keep`.
    pub fn new(far: &'a Guest, near: Near<'a>, keep: Option<PathBuf>) -> Self {
        Self { far, near, fault: Fault::None, next_port: 20_000, keep }
    }

    /// Our programs use `datapath` from now on.
    pub fn use_datapath(&mut self, datapath: Datapath) {
        self.near.use_datapath(datapath);
    }

    /// True if the guest is gone, and no cell can be tried here any more.
    pub fn is_over(&self) -> bool {
        self.far.is_gone()
    }

    /// Tries `cell`.
    ///
    /// # Errors
    /// The bench itself broke: the guest died or the wire could not be recorded.
    pub fn try_cell(&mut self, cell: &Cell) -> Result<Verdict> {
        if self.fault != cell.fault {
            self.far.netem(cell.fault)?;
            self.fault = cell.fault;
        }
        let started = Instant::now();
        let allowed =
            if matches!(cell.fault, Fault::Loss | Fault::Corrupt) { LOSSY_ATTEMPTS } else { 1 };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let (tally, reason) = self.attempt(cell)?;
            if reason.is_none() || attempts == allowed || self.is_over() {
                let seconds = started.elapsed().as_secs_f64();
                return Ok(Verdict {
                    cell: *cell,
                    near: self.near.name(),
                    passed: reason.is_none(),
                    reason,
                    attempts,
                    seconds,
                    tally,
                });
            }
        }
    }

    fn attempt(&mut self, cell: &Cell) -> Result<(Tally, Option<String>)> {
        let port = self.next_port;
        self.next_port += 1;
        let file = self.far.folder().join("wire.pcap");
        let capture = Capture::start(self.far.namespace(), &file)?;
        let ran = self.run_both(cell, port);
        let tally = capture.finish(cell.family)?;
        let reason = match ran {
            Err(error) => Some(error.to_string()),
            Ok(()) => complaint_about(&tally, cell.fault),
        };
        if reason.is_some() {
            self.keep_capture(cell, &file)?;
        }
        Ok((tally, reason))
    }

    fn keep_capture(&self, cell: &Cell, file: &Path) -> Result<()> {
        let Some(folder) = &self.keep else { return Ok(()) };
        let kept = folder.join(format!(
            "{}_{}.pcap",
            self.near.name(),
            cell.to_string().replace('/', "_")
        ));
        let copied = fs::create_dir_all(folder).and_then(|()| fs::copy(file, &kept));
        copied.map(drop).context(|| format!("could not keep the capture as {}", kept.display()))
    }

    fn run_both(&self, cell: &Cell, port: u16) -> Result<()> {
        let (server, client) = match cell.role {
            Role::Client => {
                let server = self.start_far(cell, Part::Server, port)?;
                server.wait_announced()?;
                (server, self.near.start(cell, TO_GUEST, port)?)
            }
            Role::Server => {
                let mut server = self.near.start(cell, Part::Server, port)?;
                self.near.wait_listening(cell, &mut server, port)?;
                (server, self.start_far(cell, TO_US, port)?)
            }
        };
        // The client ends first; when it failed, there is no wait for the server.
        let limit = limit(cell);
        let client = client.wait(limit).and_then(|output| content("client", output));
        client.map_err(|error| {
            Error::new(format!("{error}\nthe server had printed:\n{}", server.text()))
        })?;
        content("server", server.wait(limit)?)
    }

    fn start_far(&self, cell: &Cell, part: Part, port: u16) -> Result<Running<'_>> {
        let line = stock(cell, part, port, self.far.gid_index(cell.family.far())?);
        self.far.spawn(&stock_script(cell, &line, part, port)).map(Running::Job)
    }
}

fn limit(cell: &Cell) -> Duration {
    let reads = matches!(cell.program, Program::Perf(Verb::Read, _));
    let slow = reads && cell.fault == Fault::Reorder && cell.size > 65_536;
    if slow { SLOW_LIMIT } else { LIMIT }
}

/// An exit code of 0, or what the program said.
///
/// # Errors
/// Any other code.
pub fn content(who: &str, output: Output) -> Result<()> {
    if output.code == 0 {
        return Ok(());
    }
    Err(Error::new(format!("the {who} exited with {}:\n{}", output.code, output.text)))
}

/// What is wrong with the wire, if anything: netem may damage packets, we and rxe may not.
pub fn complaint_about(tally: &Tally, fault: Fault) -> Option<String> {
    if tally.near_bad > 0 {
        return Some(format!(
            "{} of our {} packets have a wrong ICRC",
            tally.near_bad, tally.near_packets
        ));
    }
    if tally.far_bad > 0 && fault != Fault::Corrupt {
        return Some(format!(
            "{} of rxe's {} packets look wrong to us",
            tally.far_bad, tally.far_packets
        ));
    }
    if tally.near_packets == 0 || tally.far_packets == 0 {
        return Some(format!(
            "{} packets from us, {} from rxe were seen",
            tally.near_packets, tally.far_packets
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_netem_may_damage_packets() {
        let damaged = Tally { near_packets: 9, far_packets: 9, near_bad: 0, far_bad: 1 };
        assert!(complaint_about(&damaged, Fault::None).is_some());
        assert_eq!(complaint_about(&damaged, Fault::Corrupt), None);
        let ours = Tally { near_bad: 1, ..damaged };
        assert!(complaint_about(&ours, Fault::Corrupt).is_some());
    }

    #[test]
    fn a_silent_wire_is_a_failure() {
        assert!(complaint_about(&Tally::default(), Fault::None).is_some());
    }
}
