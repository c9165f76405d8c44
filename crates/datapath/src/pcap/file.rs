//! The capture file that several devices write to.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use uroce_host::{Thread, lock_until};

use super::block::PcapBlocks;
use super::output::{self, Output};
use super::recorder::Recorder;
use super::{PcapError, exit};

/// A record waits at most so long before it is written.
const WRITE_EVERY: Duration = Duration::from_millis(10);

/// Most bytes that wait for the writing thread; a thread that records more writes them itself.
const MAX_WAITING: usize = 1024 * 1024;

/// LINKTYPE_ETHERNET of libpcap.
const ETHERNET: u16 = 1;

/// Blocks that are not in the file yet.
pub(super) struct Pending {
    pub(super) recorder: Recorder,
    interfaces: u32,
    /// Packets in the blocks.
    packets: u64,
    /// The writing thread ends: the last recorder is gone.
    ended: bool,
    /// The process ends: there may be no later occasion to write.
    at_once: bool,
}

impl Pending {
    fn blocks(&mut self) -> &mut Vec<u8> {
        self.recorder.blocks.bytes_mut()
    }
}

/// What all clones of a [`PcapFile`] and its thread share. Of the two locks, `output` is taken first: blocks
/// reach the file in the order in which they were recorded.
pub(super) struct Shared {
    path: PathBuf,
    pending: Mutex<Pending>,
    /// There is something to write, or the end has come.
    recorded: Condvar,
    output: Mutex<(Output, Vec<u8>)>,
    /// After an error: what is recorded is only counted.
    broken: AtomicBool,
    /// Packets that are not in the file.
    lost: AtomicU64,
    /// How many of them the log tells of already.
    told: AtomicU64,
    /// The process that opened the file. A child has a copy of what waits, which is not its own to write.
    process: u32,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records one packet, unless the capture has ended with an error. `put` returns whether it is one that
    /// can be recorded.
    pub(super) fn record(&self, put: impl FnOnce(&mut Recorder) -> bool) {
        if self.broken.load(Ordering::Relaxed) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut pending = self.lock();
        let first = pending.blocks().is_empty();
        pending.packets += u64::from(put(&mut pending.recorder));
        let write = pending.at_once || pending.blocks().len() >= MAX_WAITING;
        drop(pending);
        if write {
            // Errors go to the log and to callers that ask for a flush.
            let _ = self.write();
        } else if first {
            self.recorded.notify_one();
        }
    }

    /// Writes what waits.
    fn write(&self) -> Result<(), PcapError> {
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
        drop(pending);
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
        output.failure().map_or(Ok(()), |reason| Err(PcapError::Write(reason.to_owned())))
    }

    fn tell_loss(&self) {
        let lost = self.lost.load(Ordering::Relaxed);
        if self.told.swap(lost, Ordering::Relaxed) != lost {
            tracing::warn!("{lost} packets are not in the capture {}", self.path.display());
        }
    }

    /// The thread: writes what waits, until the end.
    fn run(&self) {
        loop {
            let waits = |pending: &mut Pending| !pending.ended && pending.blocks().is_empty();
            let pending = self.recorded.wait_while(self.lock(), waits);
            let pending = pending.unwrap_or_else(PoisonError::into_inner);
            let more = |pending: &mut Pending| !pending.ended;
            let collected = self.recorded.wait_timeout_while(pending, WRITE_EVERY, more);
            let (pending, _) = collected.unwrap_or_else(PoisonError::into_inner);
            let ended = pending.ended;
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
        let _ = self.write_locked(&mut output, pending);
        self.tell_loss();
    }
}

/// Ends the thread with the last clone.
struct Handle {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A child process has no such thread, and perhaps a lock that is never released.
        let Some(thread) = self.thread.take().and_then(Thread::if_here) else { return };
        self.shared.lock().ended = true;
        self.shared.recorded.notify_one();
        thread.join();
        self.shared.tell_loss();
    }
}

/// A pcapng file with one interface for each device. Clones are the same file.
///
/// Link type Ethernet, nanosecond timestamps. A thread of the file writes what was recorded, whole blocks at a
/// time, 10 ms after it was recorded at the latest; the rest is written on [`flush`](Self::flush), when the last
/// clone is dropped, and when the process exits with clones left. So even the file of a process that is killed lacks
/// no more than its last 10 ms. An error stops the capture, not the traffic: the log tells of it once, and at
/// the end how many packets are missing.
#[derive(Clone)]
pub struct PcapFile {
    handle: Arc<Handle>,
}

impl std::fmt::Debug for PcapFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapFile").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl PcapFile {
    /// Creates the file, or empties it when it exists. `%p` in its name becomes the process id.
    ///
    /// A file that another capture is being written to is left alone: the name then gets the process id, which
    /// the log tells; see [`path`](Self::path).
    ///
    /// # Errors
    ///
    /// [`PcapError::Create`] when the place is not writable.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, PcapError> {
        Self::open(path.as_ref(), false)
    }

    /// As [`create`](Self::create), but a file that has something in it is left alone as well: for one of several
    /// processes that were given the same name.
    ///
    /// # Errors
    ///
    /// [`PcapError::Create`] when the place is not writable.
    pub fn create_beside(path: impl AsRef<Path>) -> Result<Self, PcapError> {
        Self::open(path.as_ref(), true)
    }

    /// Empties the file that [`create_beside`](Self::create_beside) will open, and makes it if
    /// there is none: for a program that starts those processes. Without effect while a capture is
    /// being written to it.
    ///
    /// # Errors
    ///
    /// [`PcapError::Create`] when the place is not writable.
    pub fn make_room(path: impl AsRef<Path>) -> Result<(), PcapError> {
        let path = path.as_ref();
        let failed = |source| PcapError::Create { path: path.to_owned(), source };
        Output::make_room(path).map_err(failed)
    }

    fn open(asked: &Path, keep: bool) -> Result<Self, PcapError> {
        let failed = |source| PcapError::Create { path: asked.to_owned(), source };
        let (output, path) = Output::open(asked, keep).map_err(failed)?;
        if path != output::with_process_id(asked) {
            let (asked, file) = (asked.display(), path.display());
            tracing::warn!("another process records to {asked}: this one records to {file}");
        }
        let mut blocks = PcapBlocks::default();
        blocks.section();
        let recorder = Recorder::new(blocks);
        let pending = Pending { recorder, interfaces: 0, packets: 0, ended: false, at_once: false };
        let shared = Arc::new(Shared {
            path,
            pending: Mutex::new(pending),
            recorded: Condvar::new(),
            output: Mutex::new((output, Vec::new())),
            broken: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            told: AtomicU64::new(0),
            process: std::process::id(),
        });
        let same = Arc::clone(&shared);
        let thread = Some(Thread::spawn("uroce-capture", move || same.run()).map_err(failed)?);
        let capture: Arc<dyn exit::Capture> = Arc::clone(&shared) as _;
        exit::write_at_exit(&capture);
        Ok(Self { handle: Arc::new(Handle { shared, thread }) })
    }

    /// Adds an interface with that name and returns its number.
    pub(super) fn add_interface(&self, name: &str) -> Result<u32, PcapError> {
        let mut pending = self.handle.shared.lock();
        pending.recorder.blocks.interface(name, ETHERNET, 0);
        let interface = pending.interfaces;
        pending.interfaces += 1;
        drop(pending);
        self.flush()?;
        Ok(interface)
    }

    /// Writes everything recorded so far to the file.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`], also for a record that failed earlier.
    pub fn flush(&self) -> Result<(), PcapError> {
        self.handle.shared.write()
    }

    /// The file that is written to: its name may have got the process id.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.handle.shared.path
    }

    /// Packets that were recorded, but are not in the file because writing to it failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.handle.shared.lost.load(Ordering::Relaxed)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.handle.shared
    }
}
