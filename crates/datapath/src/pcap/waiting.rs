//! The blocks of a capture that wait for its file, and the thread that writes them.
//!
//! Only that thread writes to the file while packets travel. A file that takes nothing for a while, on a disk that stands
//! still or in a pipe whose reader has paused, must not stop the engines that record to it: an engine that stands still
//! answers no peer.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uroce_host::lock_until;

use super::output::Output;
use super::recorder::Recorder;
use super::{PcapError, exit};

/// A record waits at most so long before it is written, if the file takes it.
const WRITE_EVERY: Duration = Duration::from_millis(10);
/// So many bytes are written at once.
const WRITE_AT: usize = 1024 * 1024;
/// Most bytes that wait, beside those that are being written.
const MAX_WAITING: usize = 4 * WRITE_AT;
/// How long a thread that records waits for a file that takes nothing: less than the ACK timeout that most programs set
/// (14: 67 ms).
const STALL_LIMIT: Duration = Duration::from_millis(50);

/// Blocks that are not in the file yet.
pub(super) struct Pending {
    pub(super) recorder: Recorder,
    /// Packets in the blocks.
    packets: u64,
    /// How often the blocks were taken to be written, and how often they are in the file since.
    taken: u64,
    written: u64,
    /// A thread has waited for the file in vain: none waits again until the blocks are taken.
    stalled: bool,
    /// Somebody waits until the blocks are in the file.
    urgent: bool,
    /// The writing thread ends: the last recorder is gone.
    ended: bool,
    /// The process ends: there may be no later occasion to write.
    at_once: bool,
}

impl Pending {
    fn new(recorder: Recorder) -> Self {
        let (packets, taken, written) = (0, 0, 0);
        let (stalled, urgent, ended, at_once) = (false, false, false, false);
        Self { recorder, packets, taken, written, stalled, urgent, ended, at_once }
    }

    fn blocks(&mut self) -> &mut Vec<u8> {
        self.recorder.blocks.bytes_mut()
    }

    fn is_full(&mut self) -> bool {
        self.blocks().len() >= MAX_WAITING
    }

    /// The blocks need not wait for others.
    fn is_due(&mut self) -> bool {
        self.ended || self.urgent || self.blocks().len() >= WRITE_AT
    }
}

/// What all clones of a [`PcapFile`](super::PcapFile) and its thread share. Of the two locks, `output` is taken first:
/// blocks reach the file in the order in which they were recorded.
pub(super) struct Shared {
    path: PathBuf,
    pending: Mutex<Pending>,
    /// There is something to write, or the end has come.
    recorded: Condvar,
    /// Blocks were taken to be written, or are in the file.
    progressed: Condvar,
    output: Mutex<(Output, Vec<u8>)>,
    /// After an error: what is recorded is only counted.
    broken: AtomicBool,
    /// Packets that are not in the file.
    lost: AtomicU64,
    /// How many of them the log tells of already.
    told: AtomicU64,
    /// The log tells already that the file is too slow.
    told_stall: AtomicBool,
    /// The process that opened the file. A child has a copy of what waits, which is not its own to write.
    process: u32,
}

impl Shared {
    pub(super) fn new(path: PathBuf, output: Output, recorder: Recorder) -> Self {
        Shared {
            path,
            pending: Mutex::new(Pending::new(recorder)),
            recorded: Condvar::new(),
            progressed: Condvar::new(),
            output: Mutex::new((output, Vec::new())),
            broken: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            told: AtomicU64::new(0),
            told_stall: AtomicBool::new(false),
            process: std::process::id(),
        }
    }

    pub(super) fn path(&self) -> &PathBuf {
        &self.path
    }

    /// Packets that are not in the file.
    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records one packet of an interface, unless the capture has ended with an error or its file has taken nothing for too
    /// long. `put` returns whether it is one that can be recorded.
    pub(super) fn record(&self, interface: u32, put: impl FnOnce(&mut Recorder) -> bool) {
        if self.broken.load(Ordering::Relaxed) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut pending = self.lock_with_room();
        if pending.is_full() && !pending.at_once {
            pending.recorder.count_lost(interface);
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let (first, due) = (pending.blocks().is_empty(), pending.is_due());
        pending.packets += u64::from(put(&mut pending.recorder));
        let wake = first || !due && pending.is_due();
        let at_once = pending.at_once;
        drop(pending);
        if at_once {
            // Errors go to the log and to callers that ask for a flush.
            let _ = self.write();
        } else if wake {
            self.recorded.notify_one();
        }
    }

    /// The blocks, as soon as there is room for more, or without room when the file takes nothing.
    fn lock_with_room(&self) -> MutexGuard<'_, Pending> {
        let mut pending = self.lock();
        if !pending.is_full() || pending.stalled || pending.at_once {
            return pending;
        }
        let waited = self.progressed.wait_timeout_while(pending, STALL_LIMIT, Pending::is_full);
        (pending, _) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.stalled = pending.is_full();
        if pending.stalled && !self.told_stall.swap(true, Ordering::Relaxed) {
            let file = self.path.display();
            tracing::warn!("the capture {file} has gaps: its disk or its reader is too slow");
        }
        pending
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// [`PcapError::Write`].
    pub(super) fn write(&self) -> Result<(), PcapError> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let pending = self.lock();
        self.write_locked(&mut output, pending)
    }

    fn write_locked(
        &self,
        (output, spare): &mut (Output, Vec<u8>),
        mut pending: MutexGuard<'_, Pending>,
    ) -> Result<(), PcapError> {
        std::mem::swap(pending.blocks(), spare);
        let packets = std::mem::take(&mut pending.packets);
        pending.taken += 1;
        (pending.stalled, pending.urgent) = (false, false);
        drop(pending);
        self.progressed.notify_all();
        let ours = self.process == std::process::id();
        let written = if ours && !spare.is_empty() { output.write(spare) } else { Ok(()) };
        spare.clear();
        if let Err(reason) = written {
            self.lost.fetch_add(packets, Ordering::Relaxed);
            if !self.broken.swap(true, Ordering::Relaxed) {
                let file = self.path.display();
                tracing::warn!("the capture {file} ends here: {reason}");
            }
        }
        let mut pending = self.lock();
        pending.written = pending.taken;
        drop(pending);
        self.progressed.notify_all();
        output.failure().map_or(Ok(()), |reason| Err(PcapError::Write(reason.to_owned())))
    }

    /// Has the thread write what waits at once, and waits until that is done, but not for a file that takes nothing.
    pub(super) fn write_soon(&self) {
        let mut pending = self.lock();
        if pending.stalled || pending.at_once {
            return;
        }
        pending.urgent = true;
        let wanted = pending.taken + u64::from(!pending.blocks().is_empty());
        self.recorded.notify_one();
        let behind = |pending: &mut Pending| pending.written < wanted;
        let waited = self.progressed.wait_timeout_while(pending, STALL_LIMIT, behind);
        let (mut pending, result) = waited.unwrap_or_else(PoisonError::into_inner);
        pending.stalled = result.timed_out();
    }

    pub(super) fn tell_loss(&self) {
        let lost = self.lost();
        if self.told.swap(lost, Ordering::Relaxed) != lost {
            tracing::warn!("{lost} packets are not in the capture {}", self.path.display());
        }
    }

    /// Ends the thread, when it has written what waits.
    pub(super) fn end(&self) {
        self.lock().ended = true;
        self.recorded.notify_one();
    }

    /// The thread: writes what waits, until the end.
    pub(super) fn run(&self) {
        loop {
            let waits = |pending: &mut Pending| !pending.ended && pending.blocks().is_empty();
            let pending = self.recorded.wait_while(self.lock(), waits);
            let pending = pending.unwrap_or_else(PoisonError::into_inner);
            let more = |pending: &mut Pending| !pending.is_due();
            let collected = self.recorded.wait_timeout_while(pending, WRITE_EVERY, more);
            let (mut pending, _) = collected.unwrap_or_else(PoisonError::into_inner);
            let ended = pending.ended;
            if ended {
                pending.recorder.end();
            }
            drop(pending);
            let _ = self.write();
            if ended {
                return;
            }
        }
    }
}

impl exit::Capture for Shared {
    /// The last write, unless one of the locks is held until `end`.
    fn finish(&self, end: Instant) {
        if self.process != std::process::id() {
            return;
        }
        let (Some(mut output), Some(mut pending)) =
            (lock_until(&self.output, end), lock_until(&self.pending, end))
        else {
            return;
        };
        pending.at_once = true;
        pending.recorder.end();
        let _ = self.write_locked(&mut output, pending);
        self.tell_loss();
    }
}
