use std::os::unix::net::UnixDatagram;

use super::*;

fn room_of(batch: usize, aligned: usize, sent: &[&[u8]]) -> (FrameRoom, usize) {
    let (from, to) = UnixDatagram::pair().expect("sockets");
    for bytes in sent {
        assert_eq!(from.send(bytes).expect("room"), bytes.len());
    }
    let mut room = FrameRoom::new(batch, aligned);
    let got = room.receive(to.as_fd()).expect("they are there");
    (room, got)
}

#[test]
fn each_frame_is_what_was_sent_and_begins_where_it_was_asked_for() {
    for aligned in [0, 1, 52, 63] {
        let (mut room, got) = room_of(4, aligned, &[b"one", b"", b"three"]);
        assert_eq!(got, 3);
        for (index, sent) in [&b"one"[..], b"", b"three"].into_iter().enumerate() {
            let frame = room.frame(index).expect("whole");
            assert_eq!(frame, sent);
            assert_eq!((frame.as_ptr() as usize + aligned) % 64, 0, "byte {aligned} of {index}");
            assert_eq!(room.tag(index), None);
            assert_eq!(room.frame_mut(index).expect("whole"), sent);
        }
    }
}

#[test]
fn no_more_frames_are_taken_than_there_are_buffers() {
    for (batch, expected) in [(0, 1), (1, 1), (2, 2), (1000, 5)] {
        let (room, got) = room_of(batch, 0, &[b"1", b"2", b"3", b"4", b"5"]);
        assert_eq!((got, room.frame(0)), (expected, Some(&b"1"[..])), "{batch}");
    }
}

#[test]
fn a_frame_that_does_not_fit_is_no_frame_and_harms_no_other() {
    let long = vec![7; FRAME_ROOM + 1];
    let (mut room, got) = room_of(3, 0, &[b"before", &long, b"behind"]);
    assert_eq!((got, room.frame(1)), (3, None));
    assert!(room.frame_mut(1).is_none());
    assert_eq!((room.frame(0), room.frame(2)), (Some(&b"before"[..]), Some(&b"behind"[..])));
    let (room, _) = room_of(1, 0, &[&long[1..]]);
    assert_eq!(room.frame(0).map(<[u8]>::len), Some(FRAME_ROOM), "the longest one fits");
}

#[test]
fn without_a_frame_the_call_does_not_wait() {
    let (_from, to) = UnixDatagram::pair().expect("sockets");
    let error = FrameRoom::new(1, 0).receive(to.as_fd()).expect_err("nothing is there");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
}

#[test]
fn a_socket_that_lost_nothing_and_what_is_no_socket_have_no_drops() {
    let (socket, _other) = UnixDatagram::pair().expect("sockets");
    assert_eq!(drops(&socket), 0);
    assert_eq!(drops(std::fs::File::open("/dev/null").expect("a file")), 0);
}
