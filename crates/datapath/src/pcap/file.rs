//! The capture file that several devices write to.

use std::path::Path;
use std::sync::Arc;

use uroce_host::Thread;

use super::block::PcapBlocks;
use super::output::{self, Output};
use super::recorder::Recorder;
use super::waiting::Shared;
use super::{PcapError, exit};

/// Ends the thread with the last clone.
struct Handle {
    shared: Arc<Shared>,
    thread: Option<Thread>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        // A child process has no such thread, and perhaps a lock that is never released.
        let Some(thread) = self.thread.take().and_then(Thread::if_here) else { return };
        self.shared.end();
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
/// the end how many packets are missing. Nor does a file that is too slow stop the traffic: when 4 MiB wait and it takes
/// nothing for 50 ms, packets are left out until it does, and the next one of the interface has their number (`epb_dropcount`);
/// the end of the file has that of all (`isb_ifdrop`).
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
        let shared = Arc::new(Shared::new(path, output, recorder));
        let same = Arc::clone(&shared);
        let thread = Some(Thread::spawn("uroce-capture", move || same.run()).map_err(failed)?);
        let capture: Arc<dyn exit::Capture> = Arc::clone(&shared) as _;
        exit::write_at_exit(&capture);
        Ok(Self { handle: Arc::new(Handle { shared, thread }) })
    }

    /// Adds an interface with that name and returns its number.
    pub(super) fn add_interface(&self, name: &str) -> Result<u32, PcapError> {
        let interface = self.handle.shared.lock().recorder.interface(name);
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
        self.handle.shared.path()
    }

    /// Packets that are not in the file because writing to it failed, or because it was too slow.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.handle.shared.lost()
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.handle.shared
    }
}
