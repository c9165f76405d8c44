//! Frames of captures, taken apart.

use uroce_analyze::{
    Dissector, DissectorConfig, Frame, FrameKind, LinkType, PacketSummary, Timestamp, fields,
};

use crate::input::Input;

/// Link types by number: those of docs/captures.md and one that is unknown.
const LINKS: [u32; 9] = [0, 1, 101, 108, 113, 197, 247, 276, 999];

/// Reads the bytes as a frame of one kind of link, whole or cut.
pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let link_type = LinkType::from_number(LINKS[usize::from(input.below(LINKS.len() as u8))]);
    let cut = u32::from(input.u8());
    let data = input.rest();
    let frame = Frame {
        number: 1,
        interface: 0,
        time: Timestamp::default(),
        link_type,
        direction: None,
        original_len: data.len() as u32 + cut,
        data,
        comment: "",
    };
    let mut found = 0;
    let kind =
        Dissector::new(DissectorConfig::default()).dissect(&frame, &mut |packet, payload, _| {
            found += 1;
            assert!(payload.len() <= data.len());
            assert!(!PacketSummary::new(packet, payload).to_string().is_empty());
        });
    if let FrameKind::Roce { packets } = kind {
        assert_eq!(u32::from(packets), found);
    }
    for layer in fields(&frame, &DissectorConfig::default()) {
        assert!(layer.range.end <= data.len());
        layer.visit(&mut |field| assert!(field.range.end <= data.len(), "{}", field.name));
    }
}
