//! Two guests, and what runs between them: the proxy and a recorder at each tap.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use uroce_rxe_guest::addresses::{GUEST_V4, HOST_V4};
use uroce_rxe_guest::namespace::{SECOND_TAP, TAP};
use uroce_rxe_guest::script::{cm_listens, tcp_listens};
use uroce_rxe_guest::{Guest, Output};
use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, run};

use super::case::{Case, Ending};
use super::witness::{Wire, Witness};
use crate::rxe::matrix::command::{announces_itself, serving_script};

/// How long a program in a guest may take.
const LIMIT: Duration = Duration::from_secs(40);
/// How long one of ours may take to start or to end.
const STEP_TIMEOUT: Duration = Duration::from_secs(20);

/// The two ends, and the program between them.
#[derive(Debug)]
pub struct Bench<'a> {
    /// Has the clients; its tap is the first interface of the proxy.
    pub near: &'a Guest,
    /// Has the servers.
    pub far: &'a Guest,
    /// The program `uroce`.
    pub program: PathBuf,
    /// Where captures are kept, if they are.
    pub keep: Option<PathBuf>,
    /// The port that the next case takes.
    pub next_port: u16,
}

impl Bench<'_> {
    /// Runs a case and checks everything about it; what was seen, in words.
    ///
    /// # Errors
    /// What is not as it must be.
    pub fn try_case(&mut self, case: &Case) -> Result<String> {
        let witness = self.witness(case)?;
        let told = || {
            case.ending.check(&witness.client)?;
            for (rule, least) in case.applied {
                let applied = witness.applied(rule);
                super::witness::must(applied >= *least, || {
                    format!("rule {rule} was applied to {applied} packets, not to {least}")
                })?;
            }
            witness.must_be_explained()?;
            (case.check)(&witness)
        };
        told().map_err(|error| Error::new(format!("{error}\n{}", summary(&witness))))
    }

    fn witness(&mut self, case: &Case) -> Result<Witness> {
        let files = ["near.pcapng", "far.pcapng"].map(|name| self.far.folder().join(name));
        let mut recorders = [
            self.record("near-recorder", SECOND_TAP, &files[0])?,
            self.record("far-recorder", TAP, &files[1])?,
        ];
        let rules = case.rules.join("; ");
        let bridge = ["--json", "fault", "proxy", "--bridge", SECOND_TAP, TAP];
        let seeded = ["--fault-seed", "1", "--fault", &rules];
        let words = [&bridge[..], if rules.is_empty() { &[] } else { &seeded }].concat();
        let mut proxy = self.start("proxy", &words, "are joined")?;
        let client = self.run_programs(case);
        let told = proxy.stop()?;
        recorders.iter_mut().try_for_each(|recorder| recorder.stop().map(drop))?;
        self.keep(case, &files)?;
        let client = client?;
        let proxy = serde_json::from_str(&told).context(|| "the proxy's JSON cannot be read")?;
        Ok(Witness { client, proxy, near: Wire::read(&files[0])?, far: Wire::read(&files[1])? })
    }

    fn record(&self, name: &str, tap: &str, file: &Path) -> Result<Program> {
        let file = file.to_string_lossy();
        self.start(name, &["capture", "-i", tap, "-w", &file], "Ctrl-C ends it")
    }

    fn start(&self, name: &str, words: &[&str], ready: &str) -> Result<Program> {
        let mut line = vec![self.program.as_os_str()];
        line.extend(words.iter().map(std::ffi::OsStr::new));
        let command = self.far.namespace().command(&line);
        Program::start(command, &self.far.folder().join(name), ready)
    }

    fn keep(&self, case: &Case, files: &[PathBuf; 2]) -> Result<()> {
        let Some(folder) = &self.keep else { return Ok(()) };
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
        for (file, end) in files.iter().zip(["near", "far"]) {
            let kept = folder.join(format!("{}-{}-{end}.pcapng", case.name, self.next_port));
            fs::copy(file, &kept).context(|| format!("could not write {}", kept.display()))?;
        }
        Ok(())
    }

    /// Server and client; what the client printed. A server whose client failed is not waited for.
    fn run_programs(&mut self, case: &Case) -> Result<Output> {
        let port = self.next_port;
        self.next_port += 1;
        let filled = |line: &str, guest: &Guest, own: std::net::Ipv4Addr| {
            let gid = guest.gid_index(own.into())?.to_string();
            let line = line.replace("PORT", &port.to_string()).replace("GID", &gid);
            Ok::<_, Error>(line.replace("SERVER", &GUEST_V4.to_string()))
        };
        let client = format!("exec {}\n", filled(case.client, self.near, HOST_V4)?);
        let Some(server) = case.server else {
            return self.near.run(&client, LIMIT);
        };
        let is_call = server.starts_with("rping") || server.contains(" -R ");
        let listens = if is_call { cm_listens(port) } else { tcp_listens(port) };
        let server =
            self.far.spawn(&serving_script(&filled(server, self.far, GUEST_V4)?, &listens))?;
        wait_until(
            STEP_TIMEOUT,
            || announces_itself(&server.text()),
            || "the server does not listen".to_owned(),
        )?;
        let client = self.near.run(&client, LIMIT).map_err(|error| {
            Error::new(format!("{error}\nthe server had printed:\n{}", server.text()))
        })?;
        if case.ending == Ending::Well && client.code == 0 {
            let server = server.wait(LIMIT)?;
            crate::rxe::matrix::trial::content("server", server)?;
        }
        Ok(client)
    }
}

/// A program of ours that runs until it is told to stop; killed on drop.
#[derive(Debug)]
struct Program {
    child: Child,
    output: PathBuf,
    errors: PathBuf,
    _guard: Guard,
}

impl Program {
    /// Starts it and waits until it has said `ready`.
    fn start(mut command: Command, files: &Path, ready: &str) -> Result<Self> {
        let [output, errors] = ["out", "err"].map(|end| files.with_extension(end));
        let create = |path: &PathBuf| {
            File::create(path).context(|| format!("could not make {}", path.display()))
        };
        command.stdout(create(&output)?).stderr(create(&errors)?);
        let child = command.spawn().context(|| "our program did not start")?;
        let guard = Guard::new(Leftover::Process(child.id()));
        let program = Self { child, output, errors, _guard: guard };
        let is_ready = || read(&program.errors).contains(ready);
        wait_until(STEP_TIMEOUT, is_ready, || read(&program.errors))?;
        Ok(program)
    }

    /// Interrupts it as ctrl-c does; what it wrote to stdout.
    fn stop(&mut self) -> Result<String> {
        run(&mut command(["kill", "-INT", &self.child.id().to_string()]))?;
        let deadline = Instant::now() + STEP_TIMEOUT;
        while Instant::now() < deadline {
            match self.child.try_wait().context(|| "our program could not be waited for")? {
                Some(status) if status.success() => return Ok(read(&self.output)),
                Some(status) => {
                    return Err(Error::new(format!(
                        "our program: {status}: {}",
                        read(&self.errors)
                    )));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(Error::new("our program does not end"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn wait_until(
    limit: Duration,
    done: impl Fn() -> bool,
    otherwise: impl FnOnce() -> String,
) -> Result<()> {
    let deadline = Instant::now() + limit;
    while Instant::now() < deadline {
        if done() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(Error::new(format!("not ready within {} s: {}", limit.as_secs(), otherwise())))
}

fn read(path: &Path) -> String {
    fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// What was seen, to find the reason of a failure.
fn summary(witness: &Witness) -> String {
    format!(
        "near tap: {}\nfar tap: {}\nproxy: {}\nclient ended with {}:\n{}",
        witness.near.report.verdict.sentence,
        witness.far.report.verdict.sentence,
        witness.proxy,
        witness.client.code,
        witness.client.text
    )
}
