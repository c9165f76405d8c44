use super::super::envelope::tests::frame;
use super::*;

/// What was sent and seen: side, frame, comment.
#[derive(Default)]
struct Recorded {
    sent: Vec<(Side, Vec<u8>, String)>,
    seen: Vec<(Side, Vec<u8>, String)>,
}

impl Wire for Recorded {
    fn send(&mut self, side: Side, _: &Offload, frame: &[u8], comment: &str) {
        self.sent.push((side, frame.to_vec(), comment.to_owned()));
    }

    fn seen(&mut self, side: Side, frame: &[u8], comment: &str) {
        self.seen.push((side, frame.to_vec(), comment.to_owned()));
    }
}

fn relay(rules: &str) -> Relay {
    Relay::new(&rules.parse().expect("rules"), 7, 4791, false)
}

fn give(relay: &mut Relay, at_ms: u64, side: Side, bytes: &[u8]) -> Recorded {
    let mut wire = Recorded::default();
    relay.handle_frame(Duration::from_millis(at_ms), side, (&Offload::NONE, bytes), &mut wire);
    wire
}

#[test]
fn what_is_no_roce_passes_untouched() {
    let arp = [&[0xff; 12][..], &[8, 6], &[0; 28]].concat();
    for side in [Side::First, Side::Second] {
        let wire = give(&mut relay("any -> drop"), 0, side, &arp);
        assert_eq!(wire.sent, [(side.other(), arp.clone(), String::new())]);
        assert_eq!(wire.seen, [(side, arp.clone(), String::new())]);
    }
}

#[test]
fn a_rule_of_one_direction_touches_that_side_only() {
    let mut relay = relay("gone: tx -> drop");
    let bytes = frame(None, 48);
    let gone = give(&mut relay, 0, Side::First, &bytes);
    assert!(gone.sent.is_empty());
    assert_eq!(gone.seen[0].2, "fault: dropped by rule \"gone\"");
    let passed = give(&mut relay, 0, Side::Second, &bytes);
    assert_eq!(passed.sent, [(Side::First, bytes, String::new())]);
}

#[test]
fn a_late_packet_leaves_in_its_own_headers() {
    let mut relay = relay("tx -> delay=5ms");
    for vlan in [None, Some(9)] {
        let bytes = frame(vlan, 48);
        assert!(give(&mut relay, 0, Side::First, &bytes).sent.is_empty());
        assert_eq!(relay.poll_timeout(), Some(Duration::from_millis(5)));
        let mut wire = Recorded::default();
        relay.release(Duration::from_millis(5), &mut wire);
        assert_eq!((wire.sent[0].0, &wire.sent[0].1), (Side::Second, &bytes));
        relay = self::relay("tx -> delay=5ms");
    }
}

#[test]
fn a_copy_follows_and_a_mark_is_under_a_right_checksum() {
    let mut relay = relay("tx -> dup; rx -> ce");
    let bytes = frame(None, 48);
    let twice = give(&mut relay, 0, Side::First, &bytes);
    assert_eq!(twice.sent.len(), 2);
    assert!(twice.sent.iter().all(|(side, frame, _)| (*side, frame) == (Side::Second, &bytes)));
    assert!(twice.seen[0].2.starts_with("fault: "), "what was doubled says so: {:?}", twice.seen);
    let marked = give(&mut relay, 0, Side::Second, &bytes);
    assert_eq!(marked.sent[0].1[15] & 3, 3);
}
