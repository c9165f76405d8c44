use std::io::Read;

use flate2::read::GzDecoder;
use proptest::prelude::*;
use serde_json::Value;

use super::super::base64::decode;
use super::super::builder::{ViewBuilder, ViewConfig};
use super::super::input::{ViewConversation, ViewEnd, ViewFinding};
use super::super::testing::Sample;
use super::*;
use crate::judge::Severity;

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>{{bytes}}";

fn html(builder: ViewBuilder, summary: &ViewSummary) -> String {
    let mut out = Vec::new();
    builder.finish(summary).write_to(&mut out).expect("a vector takes everything");
    String::from_utf8(out).expect("text")
}

/// What lies in the script element with this id.
fn section<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, behind) = page.split_once(&format!("id=\"{id}\"")).expect("the section is there");
    let (_, behind) = behind.split_once('>').expect("the tag ends");
    behind.split_once("</script>").expect("the section ends").0
}

fn meta(page: &str) -> Value {
    serde_json::from_str(section(page, "meta")).expect("JSON")
}

fn unpack(page: &str, id: &str) -> Vec<u8> {
    let packed = decode(section(page, id).trim());
    let mut bytes = Vec::new();
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("gzip");
    bytes
}

fn one_packet(compress: bool) -> ViewBuilder {
    let mut builder = ViewBuilder::new(ViewConfig { compress, ..Default::default() });
    builder.handle_packet(&Sample::write().row());
    builder
}

#[test]
fn columns_and_bytes_come_back() {
    let (_, columns) = one_packet(true).packets.columns.join();
    let bytes = one_packet(true).packets.bytes;
    let page = html(one_packet(true), &ViewSummary::default());
    assert_eq!(unpack(&page, "columns"), columns);
    assert_eq!(unpack(&page, "bytes"), bytes);
    let plain = html(one_packet(false), &ViewSummary::default());
    assert_eq!(decode(section(&plain, "bytes").trim()), bytes);
}

#[test]
fn a_field_is_found_where_the_tables_say() {
    let page = html(one_packet(true), &ViewSummary::default());
    let (meta, bytes) = (meta(&page), unpack(&page, "bytes"));
    let find = |label: &str| {
        let layout = meta["layouts"][1].as_array().expect("places").iter();
        layout
            .flat_map(|place| {
                let header = &meta["headers"][place[0].as_u64().expect("index") as usize];
                let fields = header["fields"].as_array().expect("fields").iter();
                fields.map(move |field| (place[1].as_u64().expect("offset"), field))
            })
            .find(|(_, field)| field["label"] == label)
            .map(|(at, field)| {
                let byte = (at * 8 + field["bit"].as_u64().expect("bit")) as usize / 8;
                &bytes[byte..byte + field["width"].as_u64().expect("width") as usize / 8]
            })
    };
    assert_eq!(find("PSN"), Some(&[0, 0x12, 0x34][..]));
    assert_eq!(find("Destination QP"), Some(&[0, 0, 0x11][..]));
    assert_eq!(find("Remote key"), Some(&[0, 0, 0, 0x77][..]));
}

#[test]
fn hostile_texts_stay_texts() {
    let mut builder = ViewBuilder::new(ViewConfig::default());
    let mut sample = Sample::write();
    sample.comment = HOSTILE.to_owned();
    builder.handle_packet(&sample.row());
    let end = ViewEnd { address: HOSTILE.to_owned(), qpn: Some(1) };
    let conversation = ViewConversation {
        ends: [end.clone(), end],
        service: HOSTILE.to_owned(),
        paired_by: HOSTILE.to_owned(),
        flows: [Some(0), None],
    };
    let finding = ViewFinding {
        rule: HOSTILE.to_owned(),
        title: HOSTILE.to_owned(),
        severity: Severity::Error,
        meaning: HOSTILE.to_owned(),
        text: HOSTILE.to_owned(),
        frames: vec![1],
    };
    let summary = ViewSummary {
        title: HOSTILE.to_owned(),
        frames: 1,
        notes: vec![HOSTILE.to_owned()],
        conversations: vec![conversation],
        findings: vec![finding],
    };
    let page = html(builder, &summary);
    let harmless = html(one_packet(true), &ViewSummary::default());
    for tag in ["<script", "</script", "<img", "alert(1)<"] {
        assert_eq!(page.matches(tag).count(), harmless.matches(tag).count(), "{tag}");
    }
    assert_eq!(meta(&page)["title"], HOSTILE);
    assert!(meta(&page)["strings"].as_array().expect("texts").contains(&HOSTILE.into()));
}

#[test]
fn a_page_asks_nobody_for_anything() {
    let page = html(one_packet(true), &ViewSummary::default());
    for address in ["http://", "https://", "src=", "@import", "fetch(", "innerHTML", "eval("] {
        assert!(!page.contains(address), "{address}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("require-trusted-types-for 'script'"));
    assert!(!page.contains("{{"));
}

#[test]
fn a_page_without_packets_is_a_page() {
    let page = html(ViewBuilder::new(ViewConfig::default()), &ViewSummary::default());
    assert_eq!(meta(&page)["packets"], 0);
    assert!(page.ends_with("</html>\n"));
}

proptest! {
    #[test]
    fn any_frame_gives_a_page(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        bth in 0usize..400,
        cut in any::<bool>(),
        opcode in any::<u8>(),
        comment in ".{0,60}",
    ) {
        let mut sample = Sample::write();
        sample.packet.is_cut = cut;
        sample.packet.bth.opcode = uroce_wire::Opcode(opcode);
        sample.packet.opcode_info = sample.packet.bth.opcode.info();
        sample.frame = bytes;
        sample.comment = comment;
        let mut row = sample.row();
        row.bth = bth;
        row.transport = sample.frame.get(bth..).unwrap_or(&[]);
        let mut builder = ViewBuilder::new(ViewConfig { payload_bytes: 5, ..Default::default() });
        builder.handle_packet(&row);
        let kept: u64 = [&builder.packets.columns.head, &builder.packets.columns.payload, &builder.packets.columns.tail]
            .iter()
            .map(|column| column.get(0).expect("a row"))
            .sum();
        prop_assert_eq!(kept, builder.packets.bytes.len() as u64);
        let page = html(builder, &ViewSummary::default());
        prop_assert_eq!(&meta(&page)["packets"], 1);
    }
}
