//! Capture files that are written block by block.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uroce_datapath::{PcapBlocks, PcapError, PcapFile, PcapReplay, PcapStream};

/// A file that goes away with its owner.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("uroce-stream-{}-{name}", std::process::id())))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn section() -> PcapBlocks {
    let mut blocks = PcapBlocks::default();
    blocks.section();
    blocks.interface("eth0", 1, 0);
    blocks
}

#[test]
fn blocks_are_in_the_file_when_they_were_appended() {
    let scratch = Scratch::new("appended");
    std::fs::write(&scratch.0, b"something old and longer").expect("write");
    let mut stream = PcapStream::create(&scratch.0).expect("create");
    assert_eq!((stream.path(), stream.length()), (&*scratch.0, 0));
    assert_eq!(std::fs::read(&scratch.0).expect("read"), b"");
    let mut blocks = section();
    stream.append(&blocks).expect("room");
    let mut expected = blocks.bytes().to_vec();
    assert_eq!(std::fs::read(&scratch.0).expect("read"), expected);
    blocks.clear();
    blocks.statistics(0, Duration::ZERO, 1, 0);
    stream.append_bytes(blocks.bytes()).expect("room");
    expected.extend(blocks.bytes());
    assert_eq!(std::fs::read(&scratch.0).expect("read"), expected);
    assert_eq!(stream.length(), expected.len() as u64);
}

#[test]
fn a_file_that_is_being_written_is_left_alone() {
    let scratch = Scratch::new("busy.pcapng");
    let mut first = PcapStream::create(&scratch.0).expect("create");
    first.append(&section()).expect("room");
    let second = PcapStream::create(&scratch.0).expect("create");
    let other = Scratch(second.path().to_owned());
    assert_ne!(other.0, scratch.0);
    assert_eq!(other.0.extension(), scratch.0.extension());
    assert!(other.0.to_string_lossy().contains(&std::process::id().to_string()));
    assert_eq!(std::fs::read(&scratch.0).expect("read"), section().bytes());
    PcapFile::make_room(&scratch.0).expect("nothing to do");
    assert_eq!(std::fs::read(&scratch.0).expect("read"), section().bytes());
    drop(first);
    PcapFile::make_room(&scratch.0).expect("emptied");
    assert_eq!(std::fs::read(&scratch.0).expect("read"), b"");
}

#[test]
fn a_place_where_nothing_can_be_made_is_named() {
    let missing = Path::new("/nonexistent/file.pcapng");
    let error = PcapStream::create(missing).expect_err("no such folder");
    assert!(matches!(error, PcapError::Create { .. }));
    // Both forms of an error are the sentence.
    assert_eq!(format!("{error}"), format!("{error:?}"));
    assert!(error.to_string().contains("/nonexistent/file.pcapng"), "{error}");
    let error = PcapFile::make_room(missing).expect_err("no such folder");
    assert!(matches!(error, PcapError::Create { .. }));
    assert!(matches!(PcapFile::create_beside(missing), Err(PcapError::Create { .. })));
}

#[test]
fn a_pipe_whose_reader_has_gone_is_told_from_a_full_disk() {
    let (reader, pipe) = std::io::pipe().expect("a pipe");
    let path = PathBuf::from(format!("/proc/self/fd/{}", pipe.as_raw_fd()));
    let mut stream = PcapStream::create(&path).expect("create");
    stream.append(&section()).expect("somebody reads");
    let written = stream.length();
    drop((reader, pipe));
    for _ in 0..2 {
        let error = stream.append(&section()).expect_err("nobody reads");
        assert!(matches!(error, PcapError::ReaderGone), "{error}");
        assert!(error.to_string().contains("reader has gone"), "{error}");
    }
    assert_eq!(stream.length(), written);

    let mut stream = PcapStream::create(Path::new("/dev/full")).expect("create");
    for _ in 0..2 {
        let error = stream.append(&section()).expect_err("no room");
        assert!(matches!(error, PcapError::Write(_)), "{error}");
        assert!(error.to_string().contains("free some space"), "{error}");
    }
    assert_eq!(stream.length(), 0);
}

#[test]
fn a_capture_to_a_full_disk_has_no_interface() {
    let file = PcapFile::create("/dev/full").expect("create");
    let error = file.interface("eth0").expect_err("no room");
    assert!(matches!(error, PcapError::Write(_)), "{error}");
    assert!(matches!(file.flush(), Err(PcapError::Write(_))), "for good");
    assert_eq!(file.lost(), 0, "there was no packet yet");
}

#[test]
fn the_standard_output_has_its_own_name() {
    let stream = PcapStream::stdout().expect("open");
    assert_eq!((stream.path(), stream.length()), (Path::new("-"), 0));
}

#[test]
fn whole_frames_are_recorded_with_their_direction_and_comments() {
    use uroce_datapath::Direction::{Inbound, Outbound};
    let scratch = Scratch::new("frames");
    let file = PcapFile::create(&scratch.0).expect("create");
    let [first, second] = ["one", "two"].map(|name| file.interface(name).expect("an interface"));
    assert_eq!(first.file().path(), scratch.0);
    first.frame(Inbound, b"to us", &[]);
    second.frame(Outbound, b"from us", &["a", "b"]);
    drop((first, second, file));
    let mut replay = PcapReplay::open(&scratch.0).expect("open");
    let frames: Vec<_> = replay.by_ref().map(|frame| frame.expect("whole")).collect();
    let seen = frames.iter().map(|frame| (frame.interface, frame.direction, &frame.data[..]));
    let expected = [(0, Some(Inbound), &b"to us"[..]), (1, Some(Outbound), &b"from us"[..])];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert_eq!(frames[1].comments, ["a", "b"]);
    let names = [0, 1, 2].map(|interface| replay.interface_name(interface).map(str::to_owned));
    assert_eq!(names, [Some("one".to_owned()), Some("two".to_owned()), None]);
}
