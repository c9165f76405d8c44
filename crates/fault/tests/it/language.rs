//! The text form of rules.

use uroce_fault::{Plan, RuleError};

fn plan(text: &str) -> Plan {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> RuleError {
    text.parse::<Plan>().expect_err(text)
}

/// The ten examples of docs/faults.md.
const EXAMPLES: [&str; 10] = [
    "tx qp=0 psn=+4 iter=1 -> drop",
    "tx qp=0 psn=+4 iter=1..3 -> drop",
    "rx op=ack -> drop p=0.05 seed=7",
    "rx op=read-resp part=middle -> drop every=10 count=20",
    "tx op=write part=last -> hold=3",
    "any -> drop ge=0.01,0.3,1,0 from=2s until=5s",
    "tx op=send msg=3 -> corrupt=payload@17",
    "rx op=send -> answer:rnr:12 count=5",
    "tx op=write -> ce p=0.2",
    "lost-rtu: tx op=rtu -> drop count=1 then=late; late: tx op=send -> delay=200ms~50ms count=1",
];

#[test]
fn the_examples_are_written_back_as_they_are() {
    for text in EXAMPLES {
        assert_eq!(plan(text).to_string(), text);
    }
}

#[test]
fn shorthands_are_rules_that_act_beside_each_other() {
    for (shorthand, rule) in [
        ("drop 1%", "any -> drop p=0.01 also"),
        ("drop=1%", "any -> drop p=0.01 also"),
        ("loss 1%", "any -> drop p=0.01 also"),
        ("loss random 1%", "any -> drop p=0.01 also"),
        ("loss gemodel 1% 30% 100% 0%", "any -> drop ge=0.01,0.3,1,0 also"),
        ("loss gemodel 25%", "any -> drop ge=0.25,0.75,1,0 also"),
        ("delay 10ms", "any -> delay=10ms also"),
        ("delay 10ms 1ms", "any -> delay=10ms~1ms also"),
        ("duplicate 1%", "any -> dup p=0.01 also"),
        ("corrupt 0.1%", "any -> corrupt=any p=0.001 also"),
        ("reorder 5%", "any -> hold=1 p=0.05 also"),
        ("rate 100mbit", "any -> rate=100mbit also"),
        ("ce 10%", "any -> ce p=0.1 also"),
        ("rx op=ack drop 5% count=3", "rx op=ack -> drop p=0.05 count=3 also"),
        ("delay 10ms loss 1%", "any -> delay=10ms also; any -> drop p=0.01 also"),
        ("x: drop", "x: any -> drop also"),
    ] {
        assert_eq!(plan(shorthand).to_string(), rule, "{shorthand}");
    }
}

#[test]
fn errors_say_where_and_what() {
    let error = error("tx op=send -> drop;\nrx op=snd -> drop");
    assert_eq!((error.line, error.column, error.found.as_str()), (2, 4, "'op=snd'"));
    assert!(error.expected.starts_with("operations separated by '|'"), "{error}");
}

#[test]
fn toml_is_the_same_language() {
    let toml = r#"
        [[fault]]
        name = "lost-rtu"
        on = "tx"
        op = "rtu"
        do = "drop"
        count = 1
        then = "late"

        [[fault]]
        name = "late"
        on = "tx"
        op = "send"
        qp = 0x11
        do = ["ce", "delay=200ms~50ms"]
        p = 0.5
        also = true
    "#;
    let line = "lost-rtu: tx op=rtu -> drop count=1 then=late; \
                late: tx op=send qp=0x11 -> ce, delay=200ms~50ms p=0.5 also";
    assert_eq!(Plan::from_toml(toml).expect("good"), plan(line));
}

#[test]
fn errors_in_toml_say_where_and_what() {
    let error = Plan::from_toml("[[fault]]\ndo = \"drop\"\npp = 1").expect_err("no such key");
    assert_eq!((error.line, error.column, error.found.as_str()), (3, 1, "'pp'"));
    let error = Plan::from_toml("[[fault]\n").expect_err("no TOML");
    assert_eq!(error.line, 1);
}

#[test]
fn plans_are_joined_unless_names_clash() {
    let mut first = plan("a: tx -> drop");
    first.append(plan("rx -> ce p=0.5")).expect("other names");
    assert_eq!(first.to_string(), "a: tx -> drop; rx -> ce p=0.5");
    let error = first.append(plan("a: tx -> pass")).expect_err("the same name");
    assert_eq!(error.expected, "a name that no other rule has");
}

#[test]
fn plans_say_what_they_watch_and_whether_they_draw() {
    use uroce_fault::Direction::{Rx, Tx};
    let watched = |text| [Tx, Rx].map(|direction| plan(text).watches(direction));
    assert_eq!(watched("tx -> drop"), [true, false]);
    assert_eq!(watched("any op=ack -> drop"), [true, true]);
    assert_eq!(watched("rx op=send -> answer:rnr:12"), [true, true], "to whom is learned from tx");
    for text in ["any -> drop", "any -> delay=1ms", "any -> corrupt=icrc@0.0", "drop 1% seed=3"] {
        assert!(!plan(text).is_random(), "{text}");
    }
    for text in ["drop 1%", "any -> delay=1ms~1us", "any -> corrupt", "any -> drop ge=0.1,0.1"] {
        assert!(plan(text).is_random(), "{text}");
    }
}

#[test]
fn plans_say_whether_they_only_drop() {
    use uroce_fault::Direction::{Rx, Tx};
    let only_drops = |text: &str| [Tx, Rx].map(|direction| plan(text).only_drops(direction));
    assert_eq!(only_drops("drop 1%; rx op=ack -> pass; any -> mute=1s; rx -> stop"), [true, true]);
    for action in [
        "dup",
        "delay=1ms",
        "hold=2",
        "rate=1gbit",
        "ce",
        "corrupt",
        "truncate=9",
        "set:psn=1",
        "answer:rnr:12",
    ] {
        let text = format!("drop 1%; rx op=send -> {action}");
        assert_eq!(only_drops(&text), [true, false], "{text}");
    }
    assert_eq!(only_drops("tx -> corrupt, fix-icrc"), [false, true]);
    assert_eq!(only_drops("any -> delay=1ms"), [false, false]);
}

#[test]
fn a_rule_in_words() {
    let sentence = |text| plan(text).sentences().next().expect("a rule");
    assert_eq!(
        sentence("tx op=send msg=3 -> corrupt=payload@17"),
        "Of packets that leave, operation send, message no. 3: turn a bit of byte 17 round (payload)."
    );
    assert_eq!(
        sentence("drop 1% count=5"),
        "Of packets of both directions: drop (1 % of them at random; at most 5; later rules see them too)."
    );
    let names = plan("a: tx -> drop; rx -> pass");
    let names = names.texts().map(|(name, text)| (name.map(str::to_owned), text));
    let expected =
        [(Some("a".to_owned()), "a: tx -> drop".to_owned()), (None, "rx -> pass".to_owned())];
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

/// What is wrong, where (column), and a part of what is expected.
#[test]
fn every_kind_of_error_has_a_place_and_a_hint() {
    for (text, column, hint) in [
        ("", 1, "a rule such as"),
        ("tx op=send", 11, "'->' and an action"),
        ("tx op=send -> ", 15, "an action: drop"),
        ("up -> drop", 1, "'->' and an action"),
        ("tx -> drp", 7, "an action: drop"),
        ("tx -> drop dup", 12, "',' in front of another action"),
        ("tx -> drop, dup", 13, "does not contradict 'drop'"),
        ("tx -> drop q=1", 12, "an option: p="),
        ("tx -> drop p=2", 12, "a probability from 0 to 1"),
        ("tx -> drop p=1 p=1", 16, "each key once"),
        ("tx -> drop p=1 ge=1,1", 1, "either p= or ge="),
        ("tx -> drop ge=1", 12, "two to four probabilities"),
        ("tx -> drop count=0", 12, "a whole number from 1"),
        ("tx -> drop then=x", 17, "the name of a rule"),
        ("tx -> drop from=2s until=1s", 1, "until= later than from="),
        ("tx -> drop from=2", 12, "a time with its unit"),
        ("tx -> delay=25h", 7, "a time with its unit"),
        ("tx -> dup=65", 7, "a number from 1 to 64"),
        ("tx -> hold=0", 7, "a whole number from 1"),
        ("tx -> rate=0bit", 7, "a rate in bits per second"),
        ("tx -> corrupt=tail", 7, "any, header, payload or icrc"),
        ("tx -> corrupt=any@1.8", 7, "a whole number from 0 to 7"),
        ("tx -> set:psm=1", 7, "a header field: ackreq"),
        ("tx -> set:psn=0x1000000", 7, "a value of psn from 0 to 0xffffff"),
        ("tx -> answer:nak", 7, "answer:nak:CODE"),
        ("tx -> answer:rnr:32", 7, "answer:rnr:TIMER"),
        ("tx part=end -> drop", 4, "first, middle, last or only"),
        ("tx qp=0x1000000 -> drop", 4, "a queue pair number"),
        ("tx psn=%0 -> drop", 4, "a PSN such as"),
        ("tx pkt=3..2 -> drop", 4, "a number N, or a range"),
        ("tx len<0 -> drop", 4, "a number behind <"),
        ("tx ip=1.2.3 -> drop", 4, "an IP address"),
        ("tx ip=1.2.3.4/33 -> drop", 4, "an IP address"),
        ("tx ecn=3 -> drop", 4, "not-ect, ect0, ect1 or ce"),
        ("9x: tx -> drop", 1, "a name of at most 64"),
        ("a: tx -> drop; a: rx -> drop", 16, "a name that no other rule has"),
        ("loss 1% 25%", 9, "no correlation"),
        ("loss state 1%", 6, "loss gemodel"),
        ("delay 10ms 1ms distribution normal", 16, "jitter is uniform"),
        ("reorder 5% gap 5", 12, "every=N"),
        ("limit 1000", 1, "belongs to a rate"),
    ] {
        let error = error(text);
        assert_eq!((error.line, error.column), (1, column), "{text}: {error}");
        assert!(error.expected.contains(hint), "{text}: {error}");
    }
}
