//! The recorder of one interface.

use super::PcapError;
use super::direction::Direction;
use super::file::PcapFile;
use super::frame::Headers;
use super::recorder::At;
use crate::packet::{Fate, RxPacket};
use crate::route::Route;

/// Comment of a received packet whose identification is unknown.
const NO_ID: &str = "no IPv4 identification makes the ICRC right: recorded as 0";

impl PcapFile {
    /// Adds an interface with that name and returns its recorder.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`] when the file cannot be written.
    pub fn interface(&self, name: &str) -> Result<PcapWriter, PcapError> {
        Ok(PcapWriter { interface: self.add_interface(name)?, file: self.clone() })
    }
}

/// Records the packets of one interface of a [`PcapFile`].
#[derive(Debug, Clone)]
pub struct PcapWriter {
    file: PcapFile,
    interface: u32,
}

impl PcapWriter {
    /// Records a packet that is sent along `route` with IPv4 identification `id`, and what there is to say
    /// about it.
    pub fn sent(&self, route: &Route, id: u16, payload: &[u8], comments: &[&str]) {
        let headers = Headers {
            src: route.src,
            dst: route.dst,
            traffic_class: route.traffic_class,
            hop_limit: route.hop_limit.max(1),
            id,
        };
        let at = self.at(Direction::Outbound);
        self.file
            .shared()
            .record(self.interface, |recorder| recorder.packet(&at, &headers, payload, comments));
    }

    /// Records a packet that arrived, and what became of it. Where the datapath does not see the IPv4
    /// identification it is the one that makes the ICRC right; if none does, 0, and a comment says so.
    pub fn received(&self, packet: &RxPacket<'_>, fate: Fate) {
        let at = self.at(Direction::Inbound);
        self.file.shared().record(self.interface, |recorder| {
            let id = recorder.id_of(packet);
            let headers = Headers {
                src: packet.src,
                dst: packet.dst,
                traffic_class: packet.traffic_class,
                hop_limit: packet.hop_limit,
                id: id.unwrap_or(0),
            };
            let (what, reason) = match fate {
                Fate::Taken => (None, None),
                Fate::Dropped(reason) => (None, Some(reason)),
                Fate::Faulted { what, drop } => (Some(what), drop),
            };
            let reason = reason.map(|reason| format!("drop reason {reason}"));
            let no_id = id.is_none().then_some(NO_ID);
            let said = [what.as_deref(), reason.as_deref(), no_id];
            let comments: Vec<&str> = said.into_iter().flatten().collect();
            recorder.packet(&at, &headers, packet.payload, &comments)
        });
    }

    /// Records an Ethernet frame as it is, with comments.
    pub fn frame(&self, direction: Direction, frame: &[u8], comments: &[&str]) {
        let at = self.at(direction);
        self.file.shared().record(self.interface, |recorder| {
            recorder.whole(&at, frame, comments);
            true
        });
    }

    /// The file this interface belongs to.
    #[must_use]
    pub fn file(&self) -> &PcapFile {
        &self.file
    }

    fn at(&self, direction: Direction) -> At {
        At { interface: self.interface, direction }
    }
}
