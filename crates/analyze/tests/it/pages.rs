//! Pages for a browser about captures that were made by hand.

use serde_json::Value;
use uroce_analyze::report::{Analysis, AnalysisConfig, Known};
use uroce_analyze::view::{ViewConfig, Viewer};
use uroce_analyze::{DissectorConfig, Filter};

use crate::capture::{covered, ethernet, frame, ipv4};
use crate::talk::{ACCESS_NAK, ACK, LEFT, RIGHT, SEQUENCE_NAK, Talk};

const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u{202e}&\"'";

/// Ten packets, one of which was lost and sent again.
fn talk() -> Talk {
    let mut talk = Talk::new();
    talk.send(0);
    talk.answer(0, ACK);
    [1, 2, 4].into_iter().for_each(|psn| talk.send(psn));
    talk.answer(3, SEQUENCE_NAK);
    [3, 4].into_iter().for_each(|psn| talk.send(psn));
    talk.answer(4, ACK);
    talk.write(5, 1);
    talk
}

fn page_of(talk: &Talk, viewer: Viewer, title: &str, notes: &[String]) -> String {
    let mut viewer = viewer;
    talk.each(|frame| viewer.handle_frame(frame));
    let mut html = vec![];
    viewer.finish(title, notes).write_to(&mut html).expect("a vector takes everything");
    String::from_utf8(html).expect("text")
}

fn viewer(filter: Filter) -> Viewer {
    let config = ViewConfig { compress: false, ..ViewConfig::default() };
    Viewer::new(config, DissectorConfig::default(), filter)
}

/// What the script of the page reads first.
fn meta(page: &str) -> Value {
    let (_, behind) = page.split_once("id=\"meta\"").expect("it is there");
    let (_, behind) = behind.split_once('>').expect("the tag ends");
    let (json, _) = behind.split_once("</script>").expect("the element ends");
    serde_json::from_str(json).expect("JSON")
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().expect("a list").iter().filter_map(Value::as_str).collect()
}

#[test]
fn a_page_has_the_packets_conversations_and_findings_of_the_capture() {
    let meta = meta(&page_of(&talk(), viewer(Filter::default()), "talk.pcap", &[]));
    assert_eq!(
        (&meta["title"], &meta["packets"], &meta["frames"]),
        (&"talk.pcap".into(), &10.into(), &10.into())
    );
    assert_eq!(meta["start"], "1000010000");
    let [conversation] = &meta["conversations"].as_array().expect("a list")[..] else {
        panic!("{}", meta["conversations"]);
    };
    let ends = &conversation["ends"];
    assert_eq!((&ends[0]["address"], &ends[0]["qpn"]), (&"10.0.0.1".into(), &LEFT.into()));
    assert_eq!((&ends[1]["address"], &ends[1]["qpn"]), (&"10.0.0.2".into(), &RIGHT.into()));
    assert_eq!(conversation["service"], "RC");
    assert_eq!(meta["findings_left_out"], 0);
    for column in meta["columns"].as_array().expect("a list") {
        assert_eq!(column["count"], 10, "{column}");
    }
}

#[test]
fn texts_of_strangers_stay_texts_wherever_they_come_from() {
    let mut hostile = talk();
    hostile.comments.push((3, HOSTILE.to_owned()));
    let page = page_of(&hostile, viewer(Filter::default()), HOSTILE, &[HOSTILE.to_owned()]);
    let harmless = page_of(&talk(), viewer(Filter::default()), "talk.pcap", &["a note".to_owned()]);
    for tag in ["<script", "</script", "<img", "onerror=alert(2)>", "alert(1)<"] {
        assert_eq!(page.matches(tag).count(), harmless.matches(tag).count(), "{tag}");
    }
    assert!(!page.contains('\u{202e}'), "it would turn the direction of what follows");
    let meta = meta(&page);
    let shown = HOSTILE.replace('\u{202e}', "\u{fffd}");
    assert_eq!(meta["title"], shown);
    assert!(texts(&meta["strings"]).contains(&shown.as_str()), "the comment");
    assert!(texts(&meta["notes"]).iter().any(|note| note.contains("<script>")));
}

#[test]
fn what_the_filter_leaves_out_is_followed_and_counted() {
    let filter = Filter::default().with_opcode("write".parse().expect("a word"));
    let meta = meta(&page_of(&talk(), viewer(filter), "talk.pcap", &[]));
    assert_eq!((&meta["packets"], &meta["frames"]), (&1.into(), &10.into()));
    let notes = texts(&meta["notes"]).join("\n");
    assert!(notes.contains("9 packets are left out by the filter."), "{notes}");
    assert_eq!(meta["conversations"].as_array().map(Vec::len), Some(1));
}

/// [`talk`] in network 0, and in network 1 a WRITE that is refused.
fn two_talks() -> Talk {
    let mut two = talk();
    two.net = 1;
    two.write(0, 1);
    two.answer(0, ACCESS_NAK);
    two
}

#[test]
fn a_page_tells_nothing_of_conversations_that_are_not_chosen() {
    let of = |filter: Filter| page_of(&two_talks(), viewer(filter), "t", &[]);
    let host = |address: &str| Filter::default().with_host(address.parse().expect("an address"));
    let whole = of(Filter::default());
    assert!(whole.contains("10.0.1."), "{}", meta(&whole));
    let first = of(host("10.0.0.1"));
    assert!(first.contains("10.0.0.1"), "{first}");
    assert!(!first.contains("10.0.1."), "{}", meta(&first));
    assert_eq!(meta(&first)["conversations"].as_array().map(Vec::len), Some(1));
    let rules = |page: &str| {
        let findings = meta(page)["findings"].as_array().expect("a list").clone();
        findings.iter().map(|finding| finding["rule"].to_string()).collect::<Vec<_>>()
    };
    assert_eq!(rules(&first), rules(&page_of(&talk(), viewer(Filter::default()), "t", &[])));
    let second = of(host("10.0.1.1"));
    assert!(!second.contains("10.0.0.") && rules(&second).contains(&"\"end\"".to_owned()));
    // What the other end of a chosen packet did wrong is told, too.
    let write = of(host("10.0.1.1").with_opcode("write".parse().expect("a word")));
    assert!(rules(&write).contains(&"\"end\"".to_owned()), "{}", meta(&write));
}

#[test]
fn what_was_not_analysed_or_not_captured_is_told() {
    let mut many = Talk::new();
    for qpn in 0..4100u32 {
        let mut send = covered(0x04, 1, &[7; 8]);
        send[5..8].copy_from_slice(&(qpn + 0x100).to_be_bytes()[1..]);
        many.raw(frame(1, &send));
    }
    let notes = |not_captured: u64| {
        let mut viewer = viewer(Filter::default());
        viewer.handle_not_captured(not_captured);
        let meta = meta(&page_of(&many, viewer, "t", &[]));
        texts(&meta["notes"]).iter().map(|note| (*note).to_owned()).collect::<Vec<_>>()
    };
    let untracked = "Not analysed: 4 packets of more flows than are followed. They belong to no \
        conversation.";
    assert_eq!(notes(0), [untracked]);
    assert_eq!(notes(1), [untracked, "Not captured: 1 packet, as the capture itself says."]);
}

#[test]
fn packets_that_have_no_room_are_counted() {
    for max_packets in [0, 3, 10, 11] {
        let config = ViewConfig { max_packets, compress: false, ..ViewConfig::default() };
        let mut viewer = Viewer::new(config, DissectorConfig::default(), Filter::default());
        talk().each(|frame| viewer.handle_frame(frame));
        let kept = max_packets.min(10);
        assert_eq!((viewer.packets(), viewer.left_out()), (kept, 10 - kept as u64));
        let mut html = vec![];
        viewer.finish("t", &[]).write_to(&mut html).expect("a vector takes everything");
        let meta = meta(&String::from_utf8(html).expect("text"));
        assert_eq!(
            (&meta["packets"], &meta["packets_left_out"]),
            (&kept.into(), &(10 - kept).into())
        );
    }
}

#[test]
fn a_malformed_frame_is_told_in_a_note() {
    let mut talk = talk();
    let mut fragment = ethernet(0x0800, None, &ipv4(1, &[0x11; 20]));
    fragment[20] |= 0x20;
    talk.raw(fragment);
    let meta = meta(&page_of(&talk, viewer(Filter::default()), "t", &["first".to_owned()]));
    let notes = texts(&meta["notes"]);
    assert_eq!(notes[0], "first", "those of the caller come first");
    assert!(notes.iter().any(|note| note.starts_with("1 frames look like RoCE")), "{notes:?}");
}

#[test]
fn what_a_first_reading_told_is_known_from_the_first_packet_on() {
    let mut analysis = Analysis::new(AnalysisConfig::default());
    talk().each(|frame| _ = analysis.handle_frame(frame, &mut |_| {}));
    let known = Known::from(&analysis.finish("talk.pcap"));
    let filter = || Filter::default().with_qpn(uroce_wire::Qpn::new(LEFT));
    let packets = |viewer: Viewer| meta(&page_of(&talk(), viewer, "t", &[]))["packets"].as_u64();
    assert_eq!(packets(viewer(filter()).with_known(known)), Some(10));
    // Without it the first packets do not tell who sends them.
    assert!(packets(viewer(filter())) < Some(10));
}

#[test]
fn a_page_needs_nothing_else_and_compression_changes_only_its_length() {
    let plain = page_of(&talk(), viewer(Filter::default()), "t", &[]);
    let packed = Viewer::new(ViewConfig::default(), DissectorConfig::default(), Filter::default());
    let packed = page_of(&talk(), packed, "t", &[]);
    for page in [&plain, &packed] {
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    }
    let [mut one, mut other] = [&plain, &packed].map(|page| meta(page));
    assert_eq!((one["compressed"].take(), other["compressed"].take()), (false.into(), true.into()));
    assert_eq!(one, other);
}
