//! Each term of the language: how it is written, how it is written back, and what is said of a wrong one.

use std::time::Duration;

use proptest::prelude::*;
use uroce_fault::{Plan, RuleError};

fn plan(text: &str) -> Plan {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> RuleError {
    text.parse::<Plan>().expect_err(text)
}

/// Text, and the text that is written back for it.
fn written(cases: &[(&str, &str)]) {
    for (text, canonical) in cases {
        assert_eq!(plan(text).to_string(), *canonical, "{text}");
        assert_eq!(plan(canonical), plan(text), "{text}");
    }
}

#[test]
fn matches_are_written_back_in_one_order_and_form() {
    written(&[
        ("-> drop", "any -> drop"),
        ("any -> drop", "any -> drop"),
        ("tx psn=1 op=send -> drop", "tx op=send psn=0x1 -> drop"),
        (
            "syndrome=1 ecn=ce dst=::1 src=::2 ip=::3 -> drop",
            "any ip=::3 src=::2 dst=::1 ecn=ce syndrome=1 -> drop",
        ),
        (
            "len=3 pkt=4 msg=5 iter=6 psn=7 qp=8 part=only op=ack -> drop",
            "any op=ack part=only qp=8 psn=0x7 iter=6 msg=5 pkt=4 len=3 -> drop",
        ),
        (
            "op=SEND_ONLY|Rc-Write-First|0x1D -> drop",
            "any op=send-only|rc-write-first|0x1d -> drop",
        ),
        ("qp=0X2a -> drop", "any qp=0x2a -> drop"),
        ("psn=16..0x20 -> drop", "any psn=0x10..0x20 -> drop"),
        ("psn=16.. -> drop", "any psn=0x10.. -> drop"),
        ("psn=+4..8 -> drop", "any psn=+4..+8 -> drop"),
        ("psn=+0x4..+0x4 -> drop", "any psn=+4 -> drop"),
        ("psn=+4.. -> drop", "any psn=+4.. -> drop"),
        ("psn=%0x10 -> drop", "any psn=%16 -> drop"),
        ("len>0 -> drop", "any len=1.. -> drop"),
        ("len>=0 -> drop", "any len=0.. -> drop"),
        ("len<1 -> drop", "any len=0 -> drop"),
        ("len<=9 -> drop", "any len=0..9 -> drop"),
        ("ip=10.0.0.0/8 src=2001:DB8::/32 -> drop", "any ip=10.0.0.0/8 src=2001:db8::/32 -> drop"),
        ("ip=10.0.0.1/32 dst=::1/128 -> drop", "any ip=10.0.0.1 dst=::1 -> drop"),
        ("syndrome=0x60.. -> drop", "any syndrome=96.. -> drop"),
    ]);
}

#[test]
fn actions_are_written_back_in_their_order_and_without_defaults() {
    written(&[
        ("->dup=1,ce", "any -> dup, ce"),
        ("-> ce,dup=64", "any -> ce, dup=64"),
        ("-> delay=1500us", "any -> delay=1500us"),
        ("-> delay=1000us~0", "any -> delay=1ms"),
        ("-> delay=0~0.5ms", "any -> delay=0~500us"),
        ("-> delay=60s", "any -> delay=1m"),
        ("-> delay=24h", "any -> delay=24h"),
        ("-> delay=1.5h", "any -> delay=90m"),
        ("-> hold", "any -> hold=1"),
        ("-> hold=3/1000ms", "any -> hold=3"),
        ("-> hold=3/20ms", "any -> hold=3/20ms"),
        ("-> rate=1000mbit", "any -> rate=1gbit"),
        ("-> rate=2.5Gbit/256KiB", "any -> rate=2500mbit"),
        ("-> rate=10kbit/1MB", "any -> rate=10kbit/1000000"),
        ("-> corrupt", "any -> corrupt=any"),
        ("-> corrupt=header", "any -> corrupt=header"),
        ("-> corrupt=icrc@0x3.7", "any -> corrupt=icrc@3.7"),
        ("-> truncate=0", "any -> truncate=0"),
        ("-> set:psn=+0x10", "any -> set:psn=+16"),
        ("-> set:va=0xffffffffffffffff", "any -> set:va=0xffffffffffffffff"),
        ("-> set:msn=-1, keep-icrc", "any -> set:msn=-1, keep-icrc"),
        ("-> answer:nak:0x1f", "any -> answer:nak:31"),
        ("-> answer:ack, pass", "any -> answer:ack, pass"),
        ("-> answer:cnp", "any -> answer:cnp"),
        ("-> mute=2s, stop", "any -> mute=2s, stop"),
        ("-> fix-icrc", "any -> fix-icrc"),
    ]);
}

#[test]
fn options_are_written_back_in_one_order_and_form() {
    written(&[
        (
            "a: -> drop quiet also then=a seed=0x7 until=2000ms from=1s count=3 every=2 skip=1 p=50%",
            "a: any -> drop p=0.5 skip=1 every=2 count=3 from=1s until=2s seed=7 then=a also quiet",
        ),
        ("-> drop ge=10%,0.3", "any -> drop ge=0.1,0.3,1,0"),
        ("-> drop ge=0,1,1%,0", "any -> drop ge=0,1,0.01,0"),
        ("-> drop p=1e-3", "any -> drop p=0.001"),
        ("-> drop p=-0", "any -> drop p=0"),
        ("-> drop p=100%", "any -> drop p=1"),
    ]);
}

#[test]
fn rules_are_separated_by_semicolons_and_ends_of_lines_and_comments_end_with_the_line() {
    let two = plan("tx -> drop; rx -> pass");
    for text in [
        "tx -> drop\nrx -> pass",
        "\n\n;tx -> drop;;\n;rx -> pass;\n",
        "# first\ntx -> drop # the ; of a comment separates nothing\nrx -> pass #",
        "tx->drop;rx->pass",
        "\ttx\t->\tdrop\r\nrx -> pass\r\n",
    ] {
        assert_eq!(plan(text), two, "{text:?}");
    }
}

/// Names begin with a letter, and have letters, digits, '-' and '_', at most 64 of them.
#[test]
fn names_of_rules() {
    let long = "a".repeat(64);
    for name in ["a", "Z9", "lost-rtu", "x_1", long.as_str()] {
        let text = format!("{name}: any -> drop");
        assert_eq!(plan(&text).to_string(), text);
    }
    let too_long = "a".repeat(65);
    for name in ["", "1a", "-a", "_a", "a.b", "ä", too_long.as_str()] {
        let error = error(&format!("{name}: any -> drop"));
        assert_eq!((error.line, error.column), (1, 1), "{name}");
        assert!(error.expected.starts_with("a name of at most 64 letters"), "{error}");
    }
}

/// What is said of a value that cannot be, by key; the place is that of the word.
#[test]
fn values_that_cannot_be() {
    let range = "a number N, or a range A..B or A..";
    let ordinal = "a number N from 1 on, or a range A..B or A.. from 1 on";
    let cases: [(&str, &[&str], &str); 15] = [
        ("iter", &["0", "0..2", "0.."], ordinal),
        ("msg", &["0"], ordinal),
        ("pkt", &["0x0"], ordinal),
        ("iter", &["", "x", "-1", "2..1", "..3", "1..2..3", "1.5"], range),
        ("msg", &["0x", "0xg", "18446744073709551616"], range),
        ("pkt", &["1..x", "+1"], range),
        ("syndrome", &["0b1", " "], range),
        (
            "len",
            &["<", ">", "<=x", ">=-1", "<0", ">18446744073709551615"],
            "a number behind <, <=, > or >=",
        ),
        ("part", &["", "Only", "all", "1"], "first, middle, last or only"),
        ("ecn", &["", "ect", "1", "CE"], "not-ect, ect0, ect1 or ce"),
        (
            "ip",
            &["", "192.0.2", "192.0.2.1/", "192.0.2.1/-1", "::1/129", "host", "::/0/0"],
            "an IP address such as 192.0.2.1 or 2001:db8::/32",
        ),
        ("src", &["10.0.0.0/33"], "an IP address such as 192.0.2.1 or 2001:db8::/32"),
        ("dst", &["[::1]"], "an IP address such as 192.0.2.1 or 2001:db8::/32"),
        (
            "psn",
            &["", "%", "%0", "%0x1000000", "+", "+x", "+5..+4", "0x1000000", "0x1000000..", "-1"],
            "a PSN such as 0x123 or 0x123..0x200, an offset from the first such as +4 or +4..+8, or %N for each N-th",
        ),
        (
            "qp",
            &["", "x", "0x1000000", "16777216", "-1"],
            "a queue pair number in hexadecimal such as 0x11, or a decimal index such as 0 for the first queue pair that \
             appears",
        ),
    ];
    for (key, values, expected) in cases {
        for value in values.iter().filter(|value| value.trim() == **value) {
            let sign = if value.starts_with(['<', '>']) { "" } else { "=" };
            let error = error(&format!("tx {key}{sign}{value} -> drop"));
            assert_eq!((error.line, error.column), (1, 4), "{key}{sign}{value}");
            assert_eq!(error.expected, expected, "{key}{sign}{value}");
            assert_eq!(error.found, format!("'{key}{sign}{value}'"));
        }
    }
}

#[test]
fn times_sizes_rates_and_shares_that_cannot_be() {
    let a_time = "a time with its unit, up to 24h, such as 500us, 10ms or 2s";
    for value in
        ["", "1", "ms", "1.ms", "1.0000000001s", "-1s", "24.1h", "1d", "1 s", "0x1s", "1e3s"]
    {
        let word = value.split(' ').next().expect("a word");
        let error = error(&format!("-> mute={word}"));
        assert_eq!((error.expected.as_str(), error.column), (a_time, 4), "{value}");
    }
    for value in ["", "0bit", "1", "1gbps", "bit", "-1bit", "99999999999gbit"] {
        let error = error(&format!("-> rate={value}"));
        assert!(error.expected.starts_with("a rate in bits per second"), "{value}: {error}");
    }
    for value in ["", "x", "1TB", "-1"] {
        let error = error(&format!("-> rate=1mbit/{value}"));
        assert_eq!(error.expected, "a size such as 1500, 64KiB or 1MB", "{value}");
    }
    for value in ["", "1.1", "101%", "-0.1", "NaN", "inf", "0,5", "%"] {
        let error = error(&format!("-> drop p={value}"));
        assert!(
            error.expected.starts_with("a probability from 0 to 1") || value == "0,5",
            "{value}: {error}"
        );
    }
    for value in ["", "1", "1,2", "0.1,0.1,0.1,0.1,0.1", "0.1,,0.1", "a,b"] {
        let error = error(&format!("-> drop ge={value}"));
        assert!(error.expected.starts_with("two to four probabilities"), "{value}: {error}");
    }
}

#[test]
fn an_error_names_line_and_column_behind_other_rules_comments_and_letters_of_any_script() {
    let cases = [
        ("tx -> drop\n  rx -> drp", 2, 9, "'drp'"),
        ("# ä\r\n\r\nä: tx -> drop", 3, 1, "'ä:'"),
        ("tx -> drop; rx -> drop; any -> x", 1, 32, "'x'"),
        ("tx -> drop # ü ; rx\nrx ->", 2, 6, "nothing"),
        ("tx\u{a0}-> drp", 1, 7, "'drp'"),
        ("tx op=send op=write -> drop", 1, 12, "'op=write'"),
        ("tx -> drop count=1 count=2", 1, 20, "'count=2'"),
        ("tx -> , drop", 1, 7, "','"),
        ("tx -> -> drop", 1, 7, "'->'"),
        ("tx -> drop ;; rx", 1, 17, "nothing"),
        ("a: tx -> drop then=b; b: tx -> drop then=c", 1, 42, "'c'"),
    ];
    for (text, line, column, found) in cases {
        let error = error(text);
        assert_eq!(
            (error.line, error.column, error.found.as_str()),
            (line, column, found),
            "{text}"
        );
        let start = format!("line {line}, column {column}: found {found}; expected ");
        assert!(error.to_string().starts_with(&start), "{error}");
    }
}

/// Whatever clashes with dropping, in either order.
#[test]
fn a_rule_that_drops_does_nothing_that_needs_the_packet_to_go_on() {
    for other in ["pass", "dup", "delay=1ms", "hold", "rate=1mbit"] {
        for text in [format!("-> drop, {other}"), format!("-> {other}, drop")] {
            let error = error(&text);
            let wanted = "an action that does not contradict 'drop' in the same rule";
            assert_eq!(error.expected, wanted, "{text}");
        }
    }
    for other in ["ce", "corrupt", "truncate=1", "set:psn=1", "answer:ack", "mute=1s", "stop"] {
        plan(&format!("-> drop, {other}"));
    }
}

#[test]
fn each_match_and_option_in_words() {
    let cases = [
        ("tx part=last", "Of packets that leave, last of their message: drop."),
        ("rx qp=0x11", "Of packets that arrive, to queue pair 0x11: drop."),
        ("qp=0", "Of packets of both directions, to queue pair no. 1 to appear: drop."),
        ("psn=3..4", "Of packets of both directions, PSN 0x3..0x4: drop."),
        ("psn=+2", "Of packets of both directions, PSN +2 from the first one: drop."),
        (
            "psn=%5",
            "Of packets of both directions, each PSN no. 5, counted from the first one: drop.",
        ),
        (
            "iter=2 pkt=3",
            "Of packets of both directions, the PSN seen for time no. 2, packet no. 3: drop.",
        ),
        ("len=1..", "Of packets of both directions, with 1.. bytes of payload: drop."),
        (
            "ip=::1 src=::2 dst=::3",
            "Of packets of both directions, from or to ::1, from ::2, to ::3: drop.",
        ),
        ("ecn=ce syndrome=96", "Of packets of both directions, ECN field ce, syndrome 96: drop."),
    ];
    for (matches, sentence) in cases {
        let plan = plan(&format!("{matches} -> drop"));
        assert_eq!(plan.sentences().collect::<Vec<_>>(), [sentence]);
    }
    let options = plan("a: -> drop ge=1%,20% skip=1 every=2 from=1s until=2s then=a quiet");
    let words = "Of packets of both directions: drop (in bursts: 1 % begin one, 20 % end it; not the first 1; \
                 one of 2; from 1s on; until 2s; then \"a\" begins; without events).";
    assert_eq!(options.sentences().collect::<Vec<_>>(), [words]);
}

#[test]
fn each_action_in_words() {
    let cases = [
        ("pass", "let pass"),
        ("dup=3", "add copies: 3"),
        ("delay=5ms", "delay by 5ms"),
        ("delay=5ms~1us", "delay by 5ms, more or less by up to 1us"),
        ("hold=2/3s", "hold until 2 others have passed, at most 3s"),
        ("rate=5mbit/1500", "send at 5mbit per second with 1500 bytes waiting at most"),
        ("ce", "mark \"congestion experienced\""),
        ("corrupt=header", "turn a bit of any byte round (header)"),
        ("corrupt=icrc@2.6", "turn bit 6 of byte 2 round (icrc)"),
        ("truncate=40", "cut to 40 bytes"),
        ("set:rkey=0x10", "set rkey to 0x10"),
        ("set:psn=-2, keep-icrc", "set psn to -2, and leave the ICRC as it was"),
        ("fix-icrc", "make the ICRC right"),
        ("answer:cnp", "send a CNP back"),
        ("answer:rnr:7", "answer in place of the receiver with rnr:7"),
        ("mute=1m", "drop, with all that follow between the same addresses for 1m"),
        ("stop", "end all rules"),
    ];
    for (action, words) in cases {
        let plan = plan(&format!("-> {action}"));
        let sentence = format!("Of packets of both directions: {words}.");
        assert_eq!(plan.sentences().collect::<Vec<_>>(), [sentence], "{action}");
    }
}

/// The same values in TOML: strings, numbers, booleans and lists where they make sense.
#[test]
fn toml_values_and_the_lines_that_they_stand_for() {
    let cases = [
        ("do = 'drop'", "any -> drop"),
        ("on = 'any'\nop = 'send|write'\ndo = ['ce', 'dup=2']", "any op=send|write -> ce, dup=2"),
        ("qp = 1\ndo = 'drop'", "any qp=1 -> drop"),
        ("qp = 0x1\ndo = 'drop'", "any qp=0x1 -> drop"),
        ("len = '>9'\ndo = 'drop'", "any len=10.. -> drop"),
        (
            "do = 'drop'\np = 0.25\nskip = 3\nalso = false\nquiet = true",
            "any -> drop p=0.25 skip=3 quiet",
        ),
        ("do = 'drop'\nge = [0.1, 0.5]", "any -> drop ge=0.1,0.5,1,0"),
        ("name = 'a'\ndo = 'drop'\nthen = 'a'\nfrom = '1s'", "a: any -> drop from=1s then=a"),
    ];
    for (toml, line) in cases {
        let read = Plan::from_toml(&format!("[[fault]]\n{toml}\n"));
        assert_eq!(read.expect(toml), plan(line), "{toml}");
    }
}

#[test]
fn toml_that_is_no_plan() {
    let cases = [
        ("", 1, 1, "a rule such as"),
        ("[fault]\ndo = 'drop'", 1, 2, "[[fault]], with two brackets"),
        ("fault = 1", 1, 1, "[[fault]], with two brackets"),
        ("fault = [1]", 1, 10, "a [[fault]] table"),
        ("[[rule]]\ndo = 'drop'", 1, 3, "[[fault]] tables and nothing else"),
        ("[[fault]]\nop = 'send'", 1, 1, "an action: drop"),
        ("[[fault]]\ndo = true", 2, 6, "a string or a number"),
        ("[[fault]]\ndo = 'drop'\nalso = 1", 3, 8, "true or false"),
        ("[[fault]]\ndo = ['ce', 'drp']", 2, 13, "an action: drop"),
        ("[[fault]]\ndo = 'drop'\non = 'up'", 3, 6, "tx, rx or any"),
        (
            "[[fault]]\nname = 'a'\ndo = 'ce'\n[[fault]]\nname = 'a'\ndo = 'ce'",
            5,
            8,
            "a name that no other rule has",
        ),
        ("[[fault]]\ndo = 'drop'\nthen = 'b'", 3, 8, "the name of a rule"),
        ("[[fault]]\ndo = 'drop'\ncount = -1", 3, 9, "a whole number from 1"),
        ("[[fault]]\ndo = 'drop'\ncount = 0b101", 3, 9, "a whole number from 1"),
        ("[[fault]]\ndo = 'drop'\ncount = 0o17", 3, 9, "a whole number from 1"),
    ];
    for (toml, line, column, expected) in cases {
        let error = Plan::from_toml(toml).expect_err(toml);
        assert_eq!((error.line, error.column), (line, column), "{toml}: {error}");
        assert!(error.expected.starts_with(expected), "{toml}: {error}");
    }
}

proptest! {
    /// Comments and white space between words mean nothing.
    #[test]
    fn white_space_between_words_means_nothing(
        gaps in prop::collection::vec("[ \t]{1,3}", 9), comment in "( #[^\n]{0,20})?",
    ) {
        let words = ["a:", "tx", "op=send", "len>3", "->", "delay=5ms", ",", "ce", "count=2"];
        let text: String = words.iter().zip(&gaps).flat_map(|(word, gap)| [*word, gap.as_str()]).collect();
        let plain = plan("a: tx op=send len>3 -> delay=5ms, ce count=2");
        prop_assert_eq!(plan(&format!("{text}{comment}")), plain);
    }

    /// An error lies in the text: its line and column are those of a character, or of the end.
    #[test]
    fn the_place_of_an_error_is_in_the_text(text in "[a-z0-9=:;>,#\n +.%~@/-]{0,60}") {
        if let Err(error) = text.parse::<Plan>() {
            let line = text.split('\n').nth(error.line - 1);
            prop_assert!(line.is_some_and(|line| error.column <= line.chars().count() + 1), "{}", error);
            prop_assert!(!error.expected.is_empty() && !error.found.is_empty());
        }
    }

    #[test]
    fn a_time_in_any_unit_is_the_same_time(us in 0u64..86_400_000_000) {
        let time = Duration::from_micros(us);
        let forms = [format!("{us}us"), format!("{}ns", us * 1000), format!("{}.{:03}ms", us / 1000, us % 1000)];
        let plans = forms.map(|form| plan(&format!("-> delay={form}")));
        prop_assert!(plans.windows(2).all(|pair| pair[0] == pair[1]), "{:?}", time);
    }
}
