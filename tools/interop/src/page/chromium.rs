//! The process of a Chromium without a window: messages of the DevTools protocol go in and out over
//! two pipes, each wait has an end, and nothing of it stays behind.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, end_of_log};

/// The protocol runs over descriptors 3 and 4 of the browser: the shell moves its stdin and stdout
/// there.
const SHELL: &str = "exec \"$@\" 3<&0 4>&1 </dev/null >/dev/null";
const FLAGS: [&str; 9] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--remote-debugging-pipe",
];
/// How long one wait may take: a start with a cold disk on a busy machine is the longest.
pub const ANSWER_TIMEOUT: Duration = Duration::from_secs(180);
/// Lines of the browser's log that a failure shows.
const LOG_LINES: usize = 20;

/// A running browser.
#[derive(Debug)]
pub struct Chromium {
    child: Child,
    to: ChildStdin,
    messages: Receiver<Vec<u8>>,
    timeout: Duration,
    log: PathBuf,
    group: Option<Guard>,
    _folder: Guard,
}

impl Chromium {
    /// Starts one with a profile of its own.
    ///
    /// # Errors
    /// There is none.
    pub fn start() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("uroce-page-{}", std::process::id()));
        let mut words = vec!["chromium".to_owned()];
        words.extend(FLAGS.map(str::to_owned));
        words.push(format!("--user-data-dir={}", folder.display()));
        let mut shell = command(["sh", "-c", SHELL, "sh"]);
        shell.args(words);
        Self::start_as(shell, folder, ANSWER_TIMEOUT)
    }

    /// Starts `program` as the browser; its log goes to `folder`, which is removed at the end.
    fn start_as(mut program: Command, folder: PathBuf, timeout: Duration) -> Result<Self> {
        std::fs::create_dir_all(&folder).context(|| format!("folder {}", folder.display()))?;
        let log = folder.join("stderr.log");
        let _folder = Guard::new(Leftover::Folder(folder));
        let stderr = File::create(&log).context(|| format!("file {}", log.display()))?;
        let pipes = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        // A group of its own: the browser is many processes, and all of them have to end.
        let started = pipes.process_group(0).spawn();
        let mut child = started.context(|| "could not start chromium")?;
        let group = Some(Guard::new(Leftover::Group(child.id())));
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::new("chromium has no pipes"));
        };
        Ok(Self { child, to, messages: messages(from), timeout, log, group, _folder })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// The browser is gone; what it said last.
    pub fn send(&mut self, message: &str) -> Result<()> {
        let sent = self.to.write_all(format!("{message}\0").as_bytes());
        sent.map_err(|error| self.failure(&format!("takes no more calls: {error}")))
    }

    /// The next message from it.
    ///
    /// # Errors
    /// None comes; what it said last.
    pub fn receive(&mut self) -> Result<Vec<u8>> {
        self.messages.recv_timeout(self.timeout).map_err(|error| match error {
            RecvTimeoutError::Timeout => {
                self.failure(&format!("does not answer in {} s", self.timeout.as_secs()))
            }
            RecvTimeoutError::Disconnected => self.failure("went away"),
        })
    }

    fn failure(&self, what: &str) -> Error {
        Error::new(format!("chromium {what}; it said last:\n{}", end_of_log(&self.log, LOG_LINES)))
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        // The folder can be removed only when no process writes to it.
        drop(self.group.take());
        let _ = self.child.wait();
    }
}

/// Messages as they come, read by a thread so that waiting for one can end.
fn messages(from: ChildStdout) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    let mut from = BufReader::new(from);
    std::thread::spawn(move || {
        let mut next = Vec::new();
        while from.read_until(0, &mut next).is_ok() && next.pop() == Some(0) {
            if sender.send(std::mem::take(&mut next)).is_err() {
                return;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, name: &str, timeout: Duration) -> Chromium {
        let folder = std::env::temp_dir().join(format!("uroce-{name}-{}", std::process::id()));
        Chromium::start_as(command(["sh", "-c", script]), folder, timeout).expect("a shell")
    }

    fn is_alive(id: &str) -> bool {
        // A zombie has ended; only its parent can say that it has.
        let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        !status.is_empty() && !status.contains(") Z ")
    }

    #[test]
    fn messages_end_with_zero_and_all_processes_with_the_browser() {
        let script = "sleep 600 & printf '%s\\0' $!; printf 'second\\0'; sleep 600";
        let mut browser = start(script, "group", ANSWER_TIMEOUT);
        let child = String::from_utf8(browser.receive().expect("a message")).expect("a number");
        assert_eq!(browser.receive().expect("a message"), b"second");
        assert!(is_alive(&child), "the process that the browser started");
        let folder = browser.log.parent().expect("a folder").to_owned();
        drop(browser);
        for _ in 0..1000 {
            if !is_alive(&child) {
                assert!(!folder.exists());
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("process {child} is still there");
    }

    #[test]
    fn a_failure_shows_what_the_browser_said() {
        let mut browser = start("echo no display >&2", "failure", ANSWER_TIMEOUT);
        let error = browser.receive().expect_err("it is gone").to_string();
        assert!(error.contains("went away") && error.contains("no display"), "{error}");
    }

    #[test]
    fn a_silent_browser_is_not_waited_for_for_ever() {
        let mut browser = start("sleep 600", "silent", Duration::from_millis(50));
        let error = browser.receive().expect_err("it says nothing").to_string();
        assert!(error.contains("does not answer"), "{error}");
    }
}
