//! What a REJ tells beside its reason.

use uroce_cm::message::{Rej, RejectedMessage};
use uroce_cm::{Ari, CommId, PrivateData, RejReason};

fn rej(reason: RejReason, info_len: u8, told: &[u8]) -> Rej {
    let mut info = [0; 72];
    info[..told.len()].copy_from_slice(told);
    Rej {
        local_comm_id: CommId::NONE,
        remote_comm_id: CommId(1),
        message: RejectedMessage::REQ,
        info_len,
        reason,
        info,
        private_data: PrivateData::default(),
    }
}

fn words(reason: RejReason, told: &[u8]) -> Option<String> {
    Ari::of(&rej(reason, told.len() as u8, told)).words(reason)
}

#[test]
fn r111_additional_rejection_information_has_words() {
    let gid = [&[0; 10][..], &[0xff, 0xff, 10, 77, 0, 2]].concat();
    let guid = 0x5054_00ff_fe00_0011_u64.to_be_bytes();
    let all: [(RejReason, &[u8], &str); 12] = [
        (RejReason::TIMEOUT, &guid, "from the node with GUID 0x505400fffe000011"),
        (RejReason::INVALID_GID, &gid, "GID ::ffff:10.77.0.2 would do"),
        (RejReason::PORT_REDIRECT, &gid, "it is at GID ::ffff:10.77.0.2"),
        (RejReason::INVALID_LID, &[0x12, 0x34], "LID 0x1234 would do"),
        (RejReason::INVALID_SL, &[0x30], "service level 3 would do"),
        (RejReason::INVALID_TRAFFIC_CLASS, &[104], "traffic class 104 would do"),
        (RejReason::INVALID_HOP_LIMIT, &[64], "hop limit 64 would do"),
        (RejReason::INVALID_MTU, &[0x30], "1024 bytes are the most"),
        (RejReason::INVALID_MTU, &[0x03], "1024 bytes are the most"),
        (RejReason::INVALID_CLASS_VERSION, &[2], "class version 2 would do"),
        (RejReason::CONSUMER, &[0xab, 1], "additional information ab01"),
        (RejReason(900), &[0], "additional information 00"),
    ];
    for (reason, told, expected) in all {
        assert_eq!(words(reason, told).as_deref(), Some(expected), "{reason}");
    }
}

#[test]
fn r111_additional_information_that_is_too_short_is_shown_as_it_is() {
    for (reason, told) in [
        (RejReason::TIMEOUT, &[1; 7][..]),
        (RejReason::INVALID_GID, &[1; 15]),
        (RejReason::INVALID_LID, &[1]),
        (RejReason::INVALID_MTU, &[0xf0]),
    ] {
        let told = words(reason, told).expect("something is told");
        assert!(told.starts_with("additional information "), "{reason}: {told}");
    }
    assert_eq!(words(RejReason::INVALID_MTU, &[]), None);
}

#[test]
fn r111_additional_information_is_as_long_as_it_says_and_no_longer_than_its_field() {
    let longest = Ari::of(&rej(RejReason::CONSUMER, 127, &[7; 72]));
    assert_eq!(longest.bytes(), [7; 72]);
    let cut = Ari::of(&rej(RejReason::CONSUMER, 2, &[7; 72]));
    assert_eq!(cut.bytes(), [7; 2]);
    assert_eq!(Ari::default().with(RejReason::CONSUMER), RejReason::CONSUMER.to_string());
    assert_eq!(
        Ari::of(&rej(RejReason::INVALID_MTU, 1, &[0x50])).with(RejReason::INVALID_MTU),
        "invalid path MTU (REJ reason 26): 4096 bytes are the most"
    );
}
