use uroce_packet::capture::CapturedFrame;

use super::*;
use crate::cmd::capture::args::RingSize;
use crate::cmd::capture::testing::{Folder, frames_of, lost_in};
use crate::live::Captured;

fn args(files: u32) -> CaptureArgs {
    let ring = RingSize { time: Duration::from_secs(10), bytes: 1 << 20 };
    CaptureArgs { ring, after: Duration::from_secs(2), files, ..CaptureArgs::for_tests() }
}

/// Feeds packets that are one byte, their second.
struct Feed {
    files: FaultFiles,
    interfaces: Interfaces,
}

impl Feed {
    fn packet(&mut self, second: u8, interface: u32, fault: bool) {
        let (time, data) = (Duration::from_secs(second.into()), &[second][..]);
        let direction = uroce_datapath::Direction::Inbound;
        let frame =
            CapturedFrame { interface, link_type: 1, time, direction, original_len: 1, data };
        let [mut description, mut packet] = [PcapBlocks::default(), PcapBlocks::default()];
        let interface = self.interfaces.number_of(&frame, &mut description);
        packet.packet(&Captured { frame, interface }.record(&[]));
        let blocks = [description.bytes(), packet.bytes()];
        if self.files.is_due(time) {
            self.close(0);
        }
        self.files.add(time, blocks, fault, &self.interfaces).expect("written");
    }

    fn close(&mut self, dropped: u64) {
        self.files.close(&self.interfaces, dropped).expect("written");
    }
}

fn feed(folder: &Folder, files: u32) -> Feed {
    let files = FaultFiles::new(&folder.file("f.pcapng"), &args(files));
    Feed { files, interfaces: Interfaces::new(96) }
}

#[test]
fn a_file_has_what_was_before_the_fault_and_after_it() {
    let folder = Folder::new("before-and-after");
    let mut feed = feed(&folder, 9);
    for second in [1, 5, 12, 13] {
        feed.packet(second, 1, false);
    }
    feed.packet(14, 1, true);
    assert!(feed.files.open.is_some());
    feed.packet(15, 2, true);
    feed.packet(16, 1, false);
    feed.packet(17, 1, false);
    assert!(feed.files.open.is_none());
    assert_eq!(frames_of(&folder.file("f-1.pcapng")), [5, 12, 13, 14, 15, 16].map(|s| vec![s]));
    feed.packet(18, 2, true);
    feed.close(0);
    assert_eq!(frames_of(&folder.file("f-2.pcapng")), [[17], [18]]);
    assert_eq!((feed.files.names().count(), feed.files.packets()), (2, 8));
}

#[test]
fn no_more_files_than_asked_for() {
    let folder = Folder::new("limit");
    let mut feed = feed(&folder, 1);
    feed.packet(1, 1, true);
    assert!(!feed.files.is_due(Duration::from_secs(3)) && !feed.files.is_complete());
    assert!(feed.files.is_due(Duration::from_secs(4)));
    feed.close(0);
    assert!(feed.files.is_complete());
    feed.packet(5, 1, true);
    assert!(!folder.file("f-2.pcapng").exists());
    assert_eq!(frames_of(&folder.file("f-1.pcapng")), [[1]]);
}

/// What the kernel dropped before the first packet of a file is not missing in it.
#[test]
fn a_file_tells_what_was_dropped_within_its_time() {
    let folder = Folder::new("dropped");
    let mut feed = feed(&folder, 9);
    feed.files.handle_dropped(4);
    feed.packet(1, 1, false);
    feed.files.handle_dropped(7);
    feed.packet(15, 1, false);
    feed.files.handle_dropped(9);
    feed.packet(16, 1, true);
    feed.close(20);
    assert_eq!(lost_in(&folder.file("f-1.pcapng")), 16, "4 were dropped before the packet of 15 s");
    feed.files.handle_dropped(20);
    feed.files.handle_dropped(20);
    feed.packet(40, 2, true);
    feed.close(20);
    assert_eq!(lost_in(&folder.file("f-2.pcapng")), 0);
    feed.packet(70, 1, true);
    feed.close(21);
    assert_eq!(lost_in(&folder.file("f-3.pcapng")), 1);
}

#[test]
fn a_full_disk_ends_a_file_with_a_whole_block() {
    let full = Path::new("/dev/full");
    let mut file = CaptureFile::create(full, &Interfaces::new(96)).expect("it can be opened");
    let error = file.flush().expect_err("it is full");
    assert!(error.to_string().contains("free some space"), "{error}");
    assert_eq!(file.packets(), 0);
}

#[test]
fn names_are_numbered_in_front_of_the_extension() {
    assert_eq!(numbered(Path::new("d/f.pcapng"), 3), Path::new("d/f-3.pcapng"));
    assert_eq!(numbered(Path::new("f"), 12), Path::new("f-12"));
}
