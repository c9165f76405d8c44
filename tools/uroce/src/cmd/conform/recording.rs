//! The capture of a run: one file, or a folder with a file for each case.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use uroce_datapath::{Direction, Fate, PcapError, PcapFile, PcapWriter, Route, RxPacket};

use crate::failure::Failure;

/// Packets that come before the first case are in the file of this name.
const BEFORE: &str = "before-the-first-case";

/// Records what the tester sends and receives.
pub struct Recording {
    /// With a file for each case.
    folder: Option<PathBuf>,
    /// Name of the interface in the capture.
    interface: String,
    writer: Option<PcapWriter>,
    case: String,
    /// The next packet is the first of its case.
    is_first: bool,
}

impl Recording {
    /// Records to `path`, or, if that is a folder or ends with `/`, to a file for each case in it.
    ///
    /// # Errors
    /// Exit 3: the file or the folder cannot be made.
    pub fn create(path: &Path, local: SocketAddr) -> Result<Recording, Failure> {
        let is_folder = path.is_dir() || path.to_string_lossy().ends_with('/');
        let mut recording = Recording {
            folder: is_folder.then(|| path.to_owned()),
            interface: format!("tester {local}"),
            writer: None,
            case: BEFORE.to_owned(),
            is_first: false,
        };
        if is_folder {
            std::fs::create_dir_all(path).map_err(|error| {
                Failure::environment(format!("cannot make {}: {error}", path.display()))
                    .help("--pcap takes a file, or a folder for a file of each case")
            })?;
        } else {
            recording.writer = Some(recording.open(path).map_err(Failure::environment)?);
        }
        Ok(recording)
    }

    /// A case begins, perhaps not for the first time. Without packets it gets no file.
    pub fn begin(&mut self, case: &str) {
        self.is_first = true;
        if self.folder.is_some() && self.case != case {
            self.writer = None;
        }
        case.clone_into(&mut self.case);
    }

    /// Records a packet that was sent along `route`.
    ///
    /// # Errors
    /// The file of the case cannot be made.
    pub fn sent(&mut self, route: &Route, ip_id: u16, packet: &[u8]) -> Result<(), PcapError> {
        let comment = self.comment();
        self.writer()?.sent(route, ip_id, packet, comment.as_deref().as_slice());
        Ok(())
    }

    /// Records an Ethernet frame that was sent.
    ///
    /// # Errors
    /// The file of the case cannot be made.
    pub fn frame(&mut self, frame: &[u8]) -> Result<(), PcapError> {
        let comment = self.comment();
        self.writer()?.frame(Direction::Outbound, frame, comment.as_deref().as_slice());
        Ok(())
    }

    /// What the first packet of a case says of it.
    fn comment(&mut self) -> Option<String> {
        std::mem::take(&mut self.is_first).then(|| format!("case {}", self.case))
    }

    /// Records a packet that came.
    ///
    /// # Errors
    /// The file of the case cannot be made.
    pub fn received(&mut self, packet: &RxPacket<'_>) -> Result<(), PcapError> {
        self.writer()?.received(packet, Fate::Taken);
        Ok(())
    }

    fn writer(&mut self) -> Result<&PcapWriter, PcapError> {
        let writer = match (self.writer.take(), &self.folder) {
            (None, Some(folder)) => self.open(&folder.join(format!("{}.pcapng", self.case)))?,
            (None, None) => return Err(PcapError::Write("its file is gone".to_owned())),
            (Some(writer), _) => writer,
        };
        Ok(self.writer.insert(writer))
    }

    fn open(&self, path: &Path) -> Result<PcapWriter, PcapError> {
        PcapFile::create(path)?.interface(&self.interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_has_the_packets_of_all_its_runs_and_none_of_another() {
        let folder = std::env::temp_dir().join(format!("uroce-cases-{}/", std::process::id()));
        let local = SocketAddr::from(([192, 0, 2, 1], 4791));
        let dst = SocketAddr::from(([192, 0, 2, 2], 4791));
        let route = Route { src: local, dst, hop_limit: 64, traffic_class: 0 };
        let mut recording = Recording::create(&folder, local).expect("a temporary folder");
        for case in ["one", "silent", "two", "two"] {
            recording.begin(case);
            if case != "silent" {
                recording.frame(&[0; 60]).expect("a file");
                recording.sent(&route, 0, &[0; 16]).expect("a file");
            }
        }
        drop(recording);
        let comments = |case: &str| {
            let bytes = std::fs::read(folder.join(format!("{case}.pcapng"))).unwrap_or_default();
            String::from_utf8_lossy(&bytes).matches(&format!("case {case}")).count()
        };
        assert_eq!(["one", "silent", "two"].map(comments), [1, 0, 2]);
        assert_eq!(std::fs::read_dir(&folder).expect("the folder").count(), 2);
        let _ = std::fs::remove_dir_all(&folder);
    }
}
