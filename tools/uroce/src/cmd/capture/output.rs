//! Where captured packets are written.

use std::path::{Path, PathBuf};
use std::time::Duration;

use uroce_datapath::{PcapBlocks, PcapError, PcapStream};

use super::args::CaptureArgs;
use super::ring::PacketRing;
use crate::failure::Failure;
use crate::live::{Interfaces, clock};

/// Bytes that wait at most before they are written.
const PIECE: usize = 1 << 20;

/// One file that is being written.
#[derive(Debug)]
pub struct CaptureFile {
    stream: PcapStream,
    waiting: PcapBlocks,
    waiting_packets: u64,
    /// Packets that are in the file.
    packets: u64,
}

impl CaptureFile {
    /// A new file, or stdout if its name is `-`, with the interfaces so far.
    ///
    /// # Errors
    /// Exit 3 when it cannot be made.
    pub fn create(path: &Path, interfaces: &Interfaces) -> Result<Self, Failure> {
        let to_stdout = path.as_os_str() == "-";
        let stream = if to_stdout { PcapStream::stdout() } else { PcapStream::create(path) };
        let stream = stream.map_err(Failure::environment)?;
        let waiting = PcapBlocks::with_capacity(2 * PIECE);
        let mut file = CaptureFile { stream, waiting, waiting_packets: 0, packets: 0 };
        interfaces.begin(&mut file.waiting);
        Ok(file)
    }

    /// Adds blocks, `packets` of them packets.
    ///
    /// # Errors
    /// [`PcapError`] when they, or those before, cannot be written.
    pub fn add(&mut self, blocks: &[u8], packets: u64) -> Result<(), PcapError> {
        self.waiting.extend(blocks);
        self.waiting_packets += packets;
        if self.waiting.bytes().len() < PIECE { Ok(()) } else { self.flush() }
    }

    /// Writes what waits.
    ///
    /// # Errors
    /// [`PcapError`] when that is not possible; the file then ends with what was written before.
    pub fn flush(&mut self) -> Result<(), PcapError> {
        let written = self.stream.append(&self.waiting);
        self.waiting.clear();
        let packets = std::mem::take(&mut self.waiting_packets);
        written.map(|()| self.packets += packets)
    }

    /// Ends the file. `dropped`: packets that the kernel had no room for.
    ///
    /// # Errors
    /// As there.
    pub fn end(&mut self, interfaces: &Interfaces, dropped: u64) -> Result<(), PcapError> {
        self.flush()?;
        interfaces.end(&mut self.waiting, clock(), self.packets, dropped);
        self.flush()
    }

    /// Packets that are in the file.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Its name.
    pub fn path(&self) -> &Path {
        self.stream.path()
    }
}

/// The file of a fault that is being written.
#[derive(Debug)]
struct OpenFile {
    file: CaptureFile,
    /// Packets that pass later do not belong to it.
    until: Duration,
    /// Packets that the kernel had surely dropped before its first packet.
    dropped_before: u64,
}

/// Files that are written when a fault passes: each with the packets before and after it.
#[derive(Debug)]
pub struct FaultFiles {
    name: PathBuf,
    after: Duration,
    most: usize,
    ring: PacketRing,
    open: Option<OpenFile>,
    /// The files so far.
    names: Vec<PathBuf>,
    /// Packets in those that are closed.
    packets: u64,
}

impl FaultFiles {
    /// No file yet.
    pub fn new(name: &Path, args: &CaptureArgs) -> Self {
        let (after, most, ring) = (args.after, args.files as usize, PacketRing::new(args.ring));
        let name = name.to_owned();
        FaultFiles { name, after, most, ring, open: None, names: Vec::new(), packets: 0 }
    }

    /// Adds a packet that passed at `time`, and the description of its interface if that is new. `fault`: it is a
    /// sign of a fault. Returns the file that begins with it, if one does.
    ///
    /// # Errors
    /// Exit 3 when a file cannot be made, [`PcapError`] when it cannot be written.
    pub fn add(
        &mut self,
        time: Duration,
        blocks: [&[u8]; 2],
        fault: bool,
        interfaces: &Interfaces,
    ) -> Result<Option<&Path>, CaptureStop> {
        let [description, packet] = blocks;
        if let Some(OpenFile { file, .. }) = &mut self.open {
            file.add(description, 0)?;
            file.add(packet, 1)?;
            return Ok(None);
        }
        self.ring.push(time, packet);
        if !fault || self.is_complete() {
            return Ok(None);
        }
        self.begin(time, interfaces)?;
        Ok(self.names.last().map(PathBuf::as_path))
    }

    /// Opens the next file and writes the ring to it.
    fn begin(&mut self, time: Duration, interfaces: &Interfaces) -> Result<(), CaptureStop> {
        let number = self.names.len() + 1;
        let mut file = CaptureFile::create(&numbered(&self.name, number), interfaces)?;
        self.names.push(file.path().to_owned());
        let packets = self.ring.len() as u64;
        let [first, second] = self.ring.blocks();
        file.add(first, packets)?;
        file.add(second, 0)?;
        file.flush()?;
        let dropped_before = self.ring.dropped_before();
        self.ring.clear();
        self.open = Some(OpenFile { file, until: time.saturating_add(self.after), dropped_before });
        Ok(())
    }

    /// The kernel had no further packet a moment ago, and has dropped `dropped` so far.
    pub fn handle_dropped(&mut self, dropped: u64) {
        self.ring.handle_dropped(dropped);
    }

    /// A file is open whose time was over before `now`, the time of a packet or of the clock.
    pub fn is_due(&self, now: Duration) -> bool {
        self.open.as_ref().is_some_and(|open| now > open.until)
    }

    /// Closes the file that is open. `dropped`: packets that the kernel has dropped so far.
    ///
    /// # Errors
    /// [`PcapError`] when the last packets cannot be written.
    pub fn close(&mut self, interfaces: &Interfaces, dropped: u64) -> Result<(), PcapError> {
        let Some(OpenFile { mut file, dropped_before, .. }) = self.open.take() else {
            return Ok(());
        };
        let written = file.end(interfaces, dropped.saturating_sub(dropped_before));
        self.packets += file.packets();
        let packets = uroce_analyze::quantity::count(file.packets(), "packet");
        eprintln!("uroce capture: {packets} in {}", file.path().display());
        written
    }

    /// Writes what waits for the file that is open.
    ///
    /// # Errors
    /// [`PcapError`] when that is not possible.
    pub fn flush(&mut self) -> Result<(), PcapError> {
        self.open.as_mut().map_or(Ok(()), |open| open.file.flush())
    }

    /// All files are written.
    pub fn is_complete(&self) -> bool {
        self.names.len() == self.most && self.open.is_none()
    }

    /// The files so far.
    pub fn names(&self) -> impl Iterator<Item = &Path> {
        self.names.iter().map(PathBuf::as_path)
    }

    /// Packets in those that are closed.
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

/// Why a capture ends before its time.
#[derive(Debug)]
pub enum CaptureStop {
    /// A file cannot be made, or the interface is gone.
    Failed(Failure),
    /// A file cannot be written.
    Write(PcapError),
}

impl From<PcapError> for CaptureStop {
    fn from(error: PcapError) -> Self {
        CaptureStop::Write(error)
    }
}

impl From<Failure> for CaptureStop {
    fn from(failure: Failure) -> Self {
        CaptureStop::Failed(failure)
    }
}

/// `fault-3.pcapng` for `fault.pcapng`.
fn numbered(name: &Path, number: usize) -> PathBuf {
    let mut stem = name.file_stem().unwrap_or_default().to_owned();
    stem.push(format!("-{number}"));
    if let Some(extension) = name.extension() {
        stem.push(".");
        stem.push(extension);
    }
    name.with_file_name(stem)
}

#[cfg(test)]
mod tests;
