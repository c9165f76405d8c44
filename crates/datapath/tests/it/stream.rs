//! Capture files that are written block by block.

use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use uroce_datapath::{PcapBlocks, PcapError, PcapFile, PcapReplay, PcapStatistics, PcapStream};

fn section() -> PcapBlocks {
    let mut blocks = PcapBlocks::default();
    blocks.section();
    blocks.interface("eth0", 1, 0);
    blocks
}

#[test]
fn blocks_are_in_the_file_when_they_were_appended() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("appended");
    std::fs::write(&path, b"something old and longer").expect("write");
    let mut stream = PcapStream::create(&path).expect("create");
    assert_eq!((stream.path(), stream.length()), (&*path, 0));
    assert_eq!(std::fs::read(&path).expect("read"), b"");
    let mut blocks = section();
    stream.append(&blocks).expect("room");
    let mut expected = blocks.bytes().to_vec();
    assert_eq!(std::fs::read(&path).expect("read"), expected);
    blocks.clear();
    blocks.statistics(&PcapStatistics { received: 1, ..PcapStatistics::default() });
    stream.append_bytes(blocks.bytes()).expect("room");
    expected.extend(blocks.bytes());
    assert_eq!(std::fs::read(&path).expect("read"), expected);
    assert_eq!(stream.length(), expected.len() as u64);
}

#[test]
fn a_file_that_is_being_written_is_left_alone() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("busy.pcapng");
    let mut first = PcapStream::create(&path).expect("create");
    first.append(&section()).expect("room");
    let second = PcapStream::create(&path).expect("create");
    assert_ne!(second.path(), path);
    assert_eq!(second.path().extension(), path.extension());
    assert!(second.path().to_string_lossy().contains(&std::process::id().to_string()));
    assert_eq!(std::fs::read(&path).expect("read"), section().bytes());
    PcapFile::make_room(&path).expect("nothing to do");
    assert_eq!(std::fs::read(&path).expect("read"), section().bytes());
    drop(first);
    PcapFile::make_room(&path).expect("emptied");
    assert_eq!(std::fs::read(&path).expect("read"), b"");
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
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("frames");
    let file = PcapFile::create(&path).expect("create");
    let [first, second] = ["one", "two"].map(|name| file.interface(name).expect("an interface"));
    assert_eq!(first.file().path(), path);
    first.frame(Inbound, b"to us", &[]);
    second.frame(Outbound, b"from us", &["a", "b"]);
    drop((first, second, file));
    let mut replay = PcapReplay::open(&path).expect("open");
    let frames: Vec<_> = replay.by_ref().map(|frame| frame.expect("whole")).collect();
    let seen = frames.iter().map(|frame| (frame.interface, frame.direction, &frame.data[..]));
    let expected = [(0, Some(Inbound), &b"to us"[..]), (1, Some(Outbound), &b"from us"[..])];
    assert_eq!(seen.collect::<Vec<_>>(), expected);
    assert_eq!(frames[1].comments, ["a", "b"]);
    let names = [0, 1, 2].map(|interface| replay.interface_name(interface).map(str::to_owned));
    assert_eq!(names, [Some("one".to_owned()), Some("two".to_owned()), None]);
}
