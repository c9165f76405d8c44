//! One end: a process whose output goes to a file, and that does not run for ever.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::describe;

/// How long a program may take. None takes longer than 20 s on an idle machine.
pub const RUN_TIMEOUT: Duration = Duration::from_secs(300);
const STEP: Duration = Duration::from_millis(20);

/// A running program; dropping it ends it.
pub struct End {
    line: String,
    output: PathBuf,
    child: Child,
    started: Instant,
    limit: Duration,
    _guard: Guard,
}

impl End {
    /// Starts `command`; what it prints goes to `output`.
    ///
    /// # Errors
    /// There is no such program.
    pub fn start(command: &mut Command, output: &Path) -> Result<End> {
        let line = describe(command);
        let file =
            File::create(output).context(|| format!("could not make {}", output.display()))?;
        let copy = file.try_clone().context(|| "could not copy a descriptor")?;
        command.stdin(Stdio::null()).stdout(file).stderr(copy);
        let child = command.spawn().context(|| format!("could not start `{line}`"))?;
        let guard = Guard::new(Leftover::Process(child.id()));
        let (output, started) = (output.to_owned(), Instant::now());
        Ok(End { line, output, child, started, limit: RUN_TIMEOUT, _guard: guard })
    }

    /// The same with another limit of its time.
    pub fn within(mut self, limit: Duration) -> End {
        self.limit = limit;
        self
    }

    /// Its process id.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// What it has printed so far.
    pub fn printed(&self) -> String {
        fs::read_to_string(&self.output).unwrap_or_default()
    }

    /// True once it has ended.
    ///
    /// # Errors
    /// The system does not know the process.
    pub fn has_ended(&mut self) -> Result<bool> {
        self.child.try_wait().map(|status| status.is_some()).context(|| self.line.clone())
    }

    /// Waits until `ready` says so, at most until the program ends or its time is over.
    ///
    /// # Errors
    /// It was not ready in time.
    pub fn wait_until(&mut self, ready: impl Fn(&End) -> bool) -> Result<()> {
        while !ready(self) {
            if self.has_ended()? || self.started.elapsed() > self.limit {
                return Err(Error::new(self.described("did not get ready")));
            }
            std::thread::sleep(STEP);
        }
        Ok(())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It failed, or took too long.
    pub fn finish(mut self) -> Result<()> {
        while !self.has_ended()? {
            if self.started.elapsed() > self.limit {
                return Err(Error::new(self.described("took too long")));
            }
            std::thread::sleep(STEP);
        }
        let status = self.child.wait().context(|| self.line.clone())?;
        if status.success() { Ok(()) } else { Err(Error::new(self.described(&status.to_string()))) }
    }

    fn described(&self, what: &str) -> String {
        format!("`{}` {what}:\n{}", self.line, self.printed())
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
