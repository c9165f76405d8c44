//! A datapath that records what passes through another one.

use std::io;
use std::path::Path;

use super::{PcapError, PcapFile, PcapWriter};
use crate::packet::RxPacket;
use crate::route::Route;
use crate::{Datapath, Middleware};

/// Records every packet of the datapath inside it.
///
/// A packet is recorded as sent when it is committed, and as received when it is handed over. Two
/// devices that record to one file therefore show a packet between them twice, on two interfaces.
pub struct PcapTap {
    inner: Box<dyn Datapath>,
    writer: PcapWriter,
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
        let name = format!("{} {}", inner.caps().name, inner.local());
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
        Ok(Self { inner, writer })
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

    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        let writer = &self.writer;
        (*self.inner).tx_commit(route, len, &mut |id, packet| {
            seal(id, packet);
            writer.sent(route, id, packet);
        });
    }

    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let writer = &self.writer;
        (*self.inner).recv(limit, &mut |packet| {
            writer.received(&packet);
            sink(packet);
        })
    }

    fn arm(&mut self) -> bool {
        let ready = (*self.inner).arm();
        if !ready {
            // The file tells of its own errors; traffic goes on.
            let _ = self.writer.file().flush();
        }
        ready
    }
}
