//! A datapath that records what passes through another one.

use std::cell::RefCell;
use std::io;
use std::path::Path;

use uroce_wire::{NakCode, Packet, SyndromeKind};

use super::{PcapError, PcapFile, PcapWriter};
use crate::packet::RxPacket;
use crate::route::Route;
use crate::{Datapath, Flush, Middleware};

/// Records every packet of the datapath inside it.
///
/// A packet is recorded as sent when it is committed, and as received when it was handed over, with what became
/// of it. Two devices that record to one file therefore show a packet between them twice, on two interfaces.
///
/// A NAK that ends a queue pair is in the file before its program learns of it, unless the file takes nothing at that time.
pub struct PcapTap {
    inner: Box<dyn Datapath>,
    writer: PcapWriter,
    /// About the packet that is committed next.
    comments: Vec<String>,
    /// Something was recorded that must not wait.
    urgent: bool,
}

impl std::fmt::Debug for PcapTap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PcapTap").field("local", &self.inner.local()).finish_non_exhaustive()
    }
}

impl PcapTap {
    /// Records to a new file at `path`.
    ///
    /// # Errors
    ///
    /// [`PcapError`] when the file cannot be made.
    pub fn create(inner: Box<dyn Datapath>, path: &Path) -> Result<Self, PcapError> {
        Self::with_file(inner, PcapFile::create(path)?)
    }

    /// Records to a file that others record to as well; the interface is called by the datapath's
    /// name and address.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`] when the file cannot be written.
    pub fn with_file(inner: Box<dyn Datapath>, file: PcapFile) -> Result<Self, PcapError> {
        let name = format!("{} {}", (*inner).caps().name, inner.local());
        Self::with_name(inner, &file, &name)
    }

    /// As [`with_file`](Self::with_file), with the name of the interface in the capture.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`] when the file cannot be written.
    pub fn with_name(
        inner: Box<dyn Datapath>,
        file: &PcapFile,
        name: &str,
    ) -> Result<Self, PcapError> {
        let writer = file.interface(name)?;
        Ok(Self { inner, writer, comments: Vec::new(), urgent: false })
    }

    /// Records to the same interface of the file: for what does not pass through this datapath.
    #[must_use]
    pub fn writer(&self) -> &PcapWriter {
        &self.writer
    }

    fn write_urgent(&mut self) {
        if std::mem::take(&mut self.urgent) {
            // The file tells of its own errors; traffic goes on.
            self.writer.file().shared().write_soon();
        }
    }
}

impl Middleware for PcapTap {
    type Inner = dyn Datapath;

    fn inner(&self) -> &Self::Inner {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut Self::Inner {
        &mut *self.inner
    }

    fn tx_comment(&mut self, comment: &str) {
        self.comments.push(comment.to_owned());
    }

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        let Self { inner, writer, comments, urgent } = self;
        (**inner).tx_commit(route, len, &mut |id, packet| {
            seal(id, packet);
            *urgent |= ends_queue_pair(packet);
            let comments: Vec<&str> = comments.iter().map(String::as_str).collect();
            writer.sent(route, id, packet, &comments);
        });
        comments.clear();
    }

    fn flush(&mut self) -> io::Result<Flush> {
        let flush = (*self.inner).flush();
        self.write_urgent();
        flush
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let Self { inner, writer, urgent, .. } = self;
        let received = (**inner).recv(limit, &mut |packet| {
            let fate = RefCell::default();
            sink(RxPacket { fate: Some(&fate), following: None, ..packet });
            *urgent |= ends_queue_pair(packet.payload);
            writer.received(&packet, fate.take());
        });
        self.write_urgent();
        received
    }
}

/// A NAK that ends a queue pair: what a program learns of it may be the last that it does.
fn ends_queue_pair(packet: &[u8]) -> bool {
    let nak = Packet::parse(packet).ok().and_then(|packet| packet.aeth());
    let kind = nak.map(|nak| nak.syndrome.kind());
    matches!(kind, Some(SyndromeKind::Nak(code)) if code != NakCode::PsnSequence)
}
