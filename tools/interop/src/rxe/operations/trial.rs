//! One operation, tried.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use uroce_rxe_guest::addresses::{GUEST_V4, HOST_V4};
use uroce_rxe_guest::script::tcp_listens;
use uroce_rxe_guest::{Guest, GuestConfig, Kernel, Output};
use uroce_testbed::error::Result;

use super::case::Case;
use crate::rxe::matrix::cell::Role;
use crate::rxe::matrix::command::serving_script;
use crate::rxe::matrix::near::{Process, Running, wait_until};
use crate::rxe::program::{self, ENTER, guest_line};

const SOURCE: &str = include_str!("operations.c");
/// A FLUSH that nobody answers is given up after some 20 s.
const LIMIT: Duration = Duration::from_secs(90);
/// Of an operation that must not fail: an emulated rxe repeats requests now and then, which ATOMIC WRITE does not survive.
const ATTEMPTS: usize = 4;

/// Makes the program.
///
/// # Errors
/// The packages cannot be had, or there is no C compiler.
pub fn compile(folder: &Path) -> Result<PathBuf> {
    program::compile("operations", SOURCE, folder)
}

/// The two ends.
pub struct Bench {
    guest: Guest,
    /// Our `uroce`, and the program that both ends run.
    uroce: PathBuf,
    program: PathBuf,
    next_port: AtomicU16,
}

impl Bench {
    /// Boots a guest with this kernel, and gives it `program` with the libraries that it needs.
    ///
    /// # Errors
    /// It did not boot, or a file is missing.
    pub fn boot(kernel: Kernel, folder: &Path, program: &Path) -> Result<Self> {
        let guest = Guest::boot(&GuestConfig { kernel, ipv6: false, ..GuestConfig::default() })?;
        program::give(&guest, program)?;
        let (uroce, next_port) = (folder.join("bin/uroce"), AtomicU16::new(23_000));
        Ok(Self { guest, uroce, program: program.to_owned(), next_port })
    }

    /// The first two numbers of the kernel's version.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn version(&self) -> Result<String> {
        let name = self.guest.run("uname -r", Duration::from_secs(10))?.text;
        Ok(name.split('.').take(2).collect::<Vec<_>>().join("."))
    }

    /// How the operation fails with our end in this role; `None`: it does not.
    ///
    /// # Errors
    /// The server did not even listen, or the guest is gone.
    pub fn try_case(&self, case: Case, role: Role) -> Result<Option<String>> {
        for _ in 1..ATTEMPTS {
            match self.attempt(case, role)? {
                Some(failure) if failure.contains("remote access error") => {}
                outcome => return Ok(outcome),
            }
        }
        self.attempt(case, role)
    }

    fn attempt(&self, case: Case, role: Role) -> Result<Option<String>> {
        let port = self.next_port.fetch_add(1, Ordering::Relaxed);
        let Case { operation, mtu } = case;
        let gid = self.guest.gid_index(GUEST_V4.into())?;
        let theirs = guest_line("operations", &format!("{port} {gid} {mtu} {operation}"));
        let ours = format!(
            "{} run --device {HOST_V4} --datapath udp -- {} {port} 0 {mtu} {operation}",
            self.uroce.display(),
            self.program.display()
        );
        let (server, client) = match role {
            Role::Client => {
                let script = serving_script(&theirs, &tcp_listens(port));
                let far = Running::Job(self.guest.spawn(&format!("{ENTER}{script}"))?);
                far.wait_announced()?;
                (far, Running::Process(self.near(&format!("{ours} {GUEST_V4}"))?))
            }
            Role::Server => {
                let mut near = self.near(&ours)?;
                wait_until(|| Ok(!near.runs() || self.guest.namespace().listens(port)))?;
                let far = self.guest.spawn(&format!("{ENTER}{theirs} {HOST_V4}\n"))?;
                (Running::Process(near), Running::Job(far))
            }
        };
        let client = client.wait(LIMIT)?;
        // Where the client failed before it called, the server waits for ever; where the server failed, it has said why.
        let server = match client.code {
            0 => server.wait(LIMIT)?,
            _ => Output { code: -1, text: server.text() },
        };
        Ok(match role {
            Role::Server => failure(&server, &client),
            Role::Client => failure(&client, &server),
        })
    }

    fn near(&self, line: &str) -> Result<Process> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let command = self.guest.namespace().command_as_nobody(&[], &words);
        Process::start(command, self.guest.folder().join("near"))
    }
}

/// What one of the programs said about its failure; `None`: both did well.
fn failure(near: &Output, far: &Output) -> Option<String> {
    let failed = [("ours", near), ("rxe", far)].into_iter().filter(|(_, output)| output.code != 0);
    let failed: Vec<_> = failed.collect();
    let said = failed.iter().find_map(|(end, output)| {
        let line = output.text.lines().rfind(|line| !is_consequence(line))?;
        Some(format!("{end}: {line}"))
    });
    let silent = failed.first().map(|(end, output)| format!("{end}: exit code {}", output.code));
    said.or(silent)
}

/// A log, or what an end says because the other one has failed.
fn is_consequence(line: &str) -> bool {
    let starts =
        ["uroce:", "libibverbs:", "the other end is gone", "connect:", "the server listens"];
    let is_shell = line.contains(": kill: ");
    is_shell || starts.iter().any(|start| line.starts_with(start)) || line.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_what_the_program_said_last() {
        let output = |code, text: &str| Output { code, text: text.to_owned() };
        let failed = output(2, "uroce: a log\nFLUSH ends badly\nuroce: more\n");
        let gone = output(1, "the other end is gone: Success\n");
        let well = output(0, "flush: ok\n");
        assert_eq!(failure(&gone, &failed).as_deref(), Some("rxe: FLUSH ends badly"));
        assert_eq!(failure(&failed, &gone).as_deref(), Some("ours: FLUSH ends badly"));
        assert_eq!(failure(&gone, &well).as_deref(), Some("ours: exit code 1"));
        assert_eq!(failure(&well, &well), None);
    }
}
