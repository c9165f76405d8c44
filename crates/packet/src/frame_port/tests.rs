use super::*;

/// A virtio-net header that says nothing, and a frame of 20 bytes.
fn received() -> Vec<u8> {
    let frame: Vec<u8> = (0..20).collect();
    [&[0; Offload::LEN][..], &frame].concat()
}

#[test]
fn an_untagged_frame_is_what_follows_the_header() {
    let mut bytes = received();
    let frame = take(&mut bytes, None).expect("whole");
    assert!(frame.bytes.iter().copied().eq(0..20));
    assert_eq!(frame.offload, Offload::NONE);
}

#[test]
fn a_tag_goes_back_behind_the_hardware_addresses() {
    let mut bytes = received();
    let frame = take(&mut bytes, Some([0x81, 0, 0x20, 7])).expect("whole");
    let expected: Vec<u8> = (0..12).chain([0x81, 0, 0x20, 7]).chain(12..20).collect();
    assert_eq!(frame.bytes, expected);
}

#[test]
fn what_is_too_short_is_no_frame() {
    assert!(take(&mut [0; 9], None).is_none());
    assert!(take(&mut [0; 21], Some([0; 4])).is_none());
    assert!(take(&mut [0; 22], Some([0; 4])).is_some());
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    match FramePort::open("uroce-none0") {
        Err(FramePortError::NoInterface(name)) => assert_eq!(name, "uroce-none0"),
        Err(FramePortError::NotPermitted) => {}
        other => panic!("{other:?}"),
    }
}
