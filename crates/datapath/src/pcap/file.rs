//! The capture file that several devices write to.

use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};

use super::PcapError;
use super::frame::{self, Headers, MAX_HEADERS};
use crate::packet::RxPacket;
use crate::route::Route;
use crate::sys::udp::RECV_ROOM;

/// Bytes collected before they are written.
const BUFFER: usize = 256 * 1024;

/// Timestamps count units of 10^-9 seconds.
const NANOSECONDS: u8 = 9;

/// Which way a captured packet went, as the capturing device saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// It arrived.
    Inbound,
    /// It was sent.
    Outbound,
}

/// The file and what is needed to fill it.
struct Capture {
    writer: PcapNgWriter<BufWriter<File>>,
    frame: Vec<u8>,
    interfaces: u32,
    /// The first error; nothing is recorded after it.
    failed: Option<String>,
}

impl Capture {
    fn put(&mut self, interface_id: u32, direction: Direction, to_group: bool) {
        if self.failed.is_some() {
            return;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let length = self.frame.len() as u32;
        let block = EnhancedPacketBlock {
            interface_id,
            timestamp: now.unwrap_or(Duration::ZERO),
            original_len: length,
            data: Cow::Borrowed(&self.frame),
            options: vec![EnhancedPacketOption::Flags(flags(direction, to_group))],
        };
        let result = self.writer.write_block(&block.into_block());
        if let Err(error) = result {
            self.fail(error.to_string());
        }
    }

    fn fail(&mut self, reason: String) {
        tracing::warn!(reason, "the capture file is incomplete");
        self.failed = Some(reason);
    }

    fn check(&self) -> Result<(), PcapError> {
        self.failed.clone().map_or(Ok(()), |reason| Err(PcapError::Write(reason)))
    }
}

/// A pcapng file with one interface for each device. Clones are the same file.
///
/// Link type Ethernet, nanosecond timestamps. Records are buffered; they reach the file when the
/// buffer is full, on [`flush`](Self::flush), before a device sleeps, and when the last clone is
/// dropped. An error while recording stops the capture, not the traffic.
#[derive(Clone)]
pub struct PcapFile {
    capture: Arc<Mutex<Capture>>,
}

impl std::fmt::Debug for PcapFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapFile").finish_non_exhaustive()
    }
}

impl PcapFile {
    /// Creates the file, or empties it when it exists.
    ///
    /// # Errors
    ///
    /// [`PcapError::Create`] when the place is not writable.
    pub fn create(path: impl AsRef<Path>) -> Result<Self, PcapError> {
        let path = path.as_ref();
        let failed = |source| PcapError::Create { path: path.to_owned(), source };
        let file = BufWriter::with_capacity(BUFFER, File::create(path).map_err(failed)?);
        let writer =
            PcapNgWriter::new(file).map_err(|error| PcapError::Write(error.to_string()))?;
        let frame = Vec::with_capacity(MAX_HEADERS + RECV_ROOM);
        let capture = Capture { writer, frame, interfaces: 0, failed: None };
        Ok(Self { capture: Arc::new(Mutex::new(capture)) })
    }

    /// Adds an interface with that name and returns its recorder.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`] when the file cannot be written.
    pub fn interface(&self, name: &str) -> Result<PcapWriter, PcapError> {
        let mut block = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0);
        block.options = vec![
            InterfaceDescriptionOption::IfName(Cow::Borrowed(name)),
            InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
        ];
        let mut capture = self.lock();
        capture.check()?;
        let written = capture.writer.write_block(&block.into_block());
        written.map_err(|error| PcapError::Write(error.to_string()))?;
        let interface = capture.interfaces;
        capture.interfaces += 1;
        drop(capture);
        Ok(PcapWriter { file: self.clone(), interface })
    }

    /// Writes everything recorded so far to the file.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`], also for a record that failed earlier.
    pub fn flush(&self) -> Result<(), PcapError> {
        let mut capture = self.lock();
        if let Err(error) = capture.writer.get_mut().flush() {
            capture.fail(error.to_string());
        }
        capture.check()
    }

    fn lock(&self) -> MutexGuard<'_, Capture> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records the packets of one interface of a [`PcapFile`].
#[derive(Debug, Clone)]
pub struct PcapWriter {
    file: PcapFile,
    interface: u32,
}

impl PcapWriter {
    /// Records a packet that is sent along `route` with IPv4 identification `id`.
    pub fn sent(&self, route: &Route, id: u16, payload: &[u8]) {
        let headers = Headers {
            src: route.src,
            dst: route.dst,
            traffic_class: route.traffic_class,
            hop_limit: route.hop_limit.max(1),
            id,
        };
        self.record(Direction::Outbound, &headers, payload);
    }

    /// Records a packet that arrived. A hidden identification is recorded as 0: the ICRC of the
    /// recorded packet is then right only if the sender used 0, as this crate's senders do.
    pub fn received(&self, packet: &RxPacket<'_>) {
        let headers = Headers {
            src: packet.src,
            dst: packet.dst,
            traffic_class: packet.traffic_class,
            hop_limit: packet.hop_limit,
            id: packet.ip_id.known_or_zero(),
        };
        self.record(Direction::Inbound, &headers, packet.payload);
    }

    /// Records an Ethernet frame as it is.
    pub fn frame(&self, direction: Direction, frame: &[u8]) {
        let mut capture = self.file.lock();
        capture.frame.clear();
        capture.frame.extend_from_slice(frame);
        let to_group = frame.first().is_some_and(|first| first & 1 == 1);
        capture.put(self.interface, direction, to_group);
    }

    /// The file this interface belongs to.
    #[must_use]
    pub fn file(&self) -> &PcapFile {
        &self.file
    }

    fn record(&self, direction: Direction, headers: &Headers, payload: &[u8]) {
        let mut capture = self.file.lock();
        if frame::build(headers, payload, &mut capture.frame).is_some() {
            capture.put(self.interface, direction, headers.dst.ip().is_multicast());
        }
    }
}

/// The epb_flags word: direction in bits 0 and 1, unicast or multicast in bits 2 to 4.
fn flags(direction: Direction, to_group: bool) -> u32 {
    let direction = match direction {
        Direction::Inbound => 1,
        Direction::Outbound => 2,
    };
    direction | if to_group { 2 << 2 } else { 1 << 2 }
}
