//! Talks to the guest's agent over its second serial port.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::process::{ChildStdin, ChildStdout};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uroce_testbed::error::{Context, Error, Result};

use crate::addresses;

#[derive(Debug, Default)]
struct State {
    ready: bool,
    closed: bool,
    gids: Vec<(u8, IpAddr)>,
    ended: HashMap<u64, i32>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host's end of the serial line.
#[derive(Debug)]
pub struct Mailbox {
    shared: Arc<Shared>,
    writer: Mutex<ChildStdin>,
}

impl Mailbox {
    /// Starts to listen to `stdout` in a thread that ends with the machine.
    pub fn new(stdin: ChildStdin, stdout: ChildStdout) -> Self {
        let shared = Arc::new(Shared::default());
        let listener = Arc::clone(&shared);
        std::thread::spawn(move || listen(stdout, &listener));
        Self { shared, writer: Mutex::new(stdin) }
    }

    /// Sends one line to the agent.
    ///
    /// # Errors
    /// The machine is gone.
    pub fn send(&self, line: &str) -> Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = writeln!(writer, "{line}").and_then(|()| writer.flush());
        if sent.is_err() {
            self.shared.lock().closed = true;
        }
        sent.context(|| "the guest is gone")
    }

    /// Waits until the agent has reported for duty; false when it did not within `limit`.
    pub fn wait_ready(&self, limit: Duration) -> bool {
        self.wait(limit, |state| state.ready.then_some(())).is_some()
    }

    /// The guest's GID table, in its order.
    pub fn gids(&self) -> Vec<(u8, IpAddr)> {
        self.shared.lock().gids.clone()
    }

    /// Waits for the end of job `number`: its exit code.
    ///
    /// # Errors
    /// The guest died, or the job did not end within `limit`.
    pub fn wait_end(&self, number: u64, limit: Duration) -> Result<i32> {
        match self.wait(limit, |state| state.ended.remove(&number)) {
            Some(code) => Ok(code),
            None if self.shared.lock().closed => {
                Err(Error::new("the guest stopped while a command ran in it"))
            }
            None => Err(Error::new("the guest's command did not end in time")),
        }
    }

    /// Whether the machine is gone.
    pub fn is_closed(&self) -> bool {
        self.shared.lock().closed
    }

    fn wait<T>(&self, limit: Duration, mut done: impl FnMut(&mut State) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.lock();
        loop {
            if let Some(value) = done(&mut state) {
                return Some(value);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.closed {
                return None;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}

fn listen(stdout: impl Read, shared: &Shared) {
    for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
        understand(line.trim(), &mut shared.lock());
        shared.changed.notify_all();
    }
    shared.lock().closed = true;
    shared.changed.notify_all();
}

/// Takes in one line of the agent; lines it did not write (firmware, kernel) are ignored.
fn understand(line: &str, state: &mut State) {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["ready"] => state.ready = true,
        ["gid", index, gid] => {
            if let (Ok(index), Some(address)) = (index.parse(), addresses::from_gid(gid)) {
                state.gids.push((index, address));
            }
        }
        ["end", number, code] => {
            if let (Ok(number), Ok(code)) = (number.parse(), code.parse()) {
                state.ended.insert(number, code);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agents_lines_are_understood_and_others_ignored() {
        let shared = Shared::default();
        let text = "SeaBIOS\r\ngid 1 0000:0000:0000:0000:0000:ffff:0a4d:0002\r\nready\nend 7 124\nend x y\n";
        listen(text.as_bytes(), &shared);
        let state = shared.lock();
        assert!(state.ready && state.closed);
        assert_eq!(state.gids, [(1, IpAddr::from([10, 77, 0, 2]))]);
        assert_eq!(state.ended, HashMap::from([(7, 124)]));
    }
}
