//! Records of peers that are right, nearly right, and something else.

use std::net::IpAddr;

use uroce_exchange::perftest::{self, Announced, Keys, Measured};
use uroce_exchange::pingpong::{self, Destination};
use uroce_wire::Gid;

fn gid(last: u8) -> Gid {
    Gid::from_ip(IpAddr::from([10, 77, 0, last]))
}

fn keys() -> Keys {
    let (lid, out_reads, qpn, psn, rkey) = (0, 16, 0xabcdef, 0x123456, 0xdead_beef);
    Keys { lid, out_reads, qpn, psn, rkey, vaddr: u64::MAX - 7, gid: gid(1), srqn: 0x77 }
}

fn destination() -> Destination {
    Destination { lid: 1, qpn: 0xff_ffff, psn: 0, gid: gid(2) }
}

#[test]
fn what_is_written_is_read_as_the_same() {
    assert_eq!(Keys::decode(&keys().encode()), Ok(keys()));
    assert_eq!(Destination::decode(&destination().encode()), Ok(destination()));
    for code in 1..=5 {
        assert_eq!(perftest::decode_mtu(perftest::mtu_record(code)), Ok(code));
    }
    assert_eq!(perftest::decode_version(&perftest::plain_version_record()).as_deref(), Ok("6.06"));
}

#[test]
fn a_record_that_lacks_its_end_is_refused_wherever_it_ends() {
    let whole = keys().encode();
    let text = whole.iter().rposition(|byte| *byte == b':').expect("it has fields");
    for end in 0..text - 8 {
        assert!(Keys::decode(&whole[..end]).is_err(), "{end} bytes");
    }
    let whole = destination().encode();
    for end in 0..pingpong::LEN - 1 {
        assert!(Destination::decode(&whole[..end]).is_err(), "{end} bytes");
    }
    assert!(Destination::decode(&whole[..pingpong::LEN - 1]).is_ok(), "without its NUL");
}

#[test]
fn a_byte_that_is_no_digit_is_refused_wherever_it_stands() {
    let right = keys().encode();
    for at in (0..Keys::LEN - 1).filter(|at| right[*at].is_ascii_hexdigit()) {
        for byte in [b' ', b'+', b'-', b'g', 0x80] {
            let mut wrong = right;
            wrong[at] = byte;
            let bad = Keys::decode(&wrong).expect_err("no digit");
            assert!(bad.expected.starts_with("a perftest record"), "{bad}");
        }
    }
    let right = destination().encode();
    for at in (0..pingpong::LEN - 1).filter(|at| right[*at].is_ascii_hexdigit()) {
        let mut wrong = right;
        wrong[at] = b'x';
        assert!(Destination::decode(&wrong).is_err(), "{at}");
    }
}

#[test]
fn a_field_with_a_digit_too_many_is_refused() {
    let text = String::from_utf8(keys().encode()[..Keys::LEN - 1].to_vec()).expect("text");
    let fields: Vec<&str> = text.trim_end_matches(':').split(':').collect();
    for wrong in 0..fields.len() {
        let mut longer: Vec<String> = fields.iter().map(ToString::to_string).collect();
        longer[wrong].insert(0, '0');
        let record = longer.join(":");
        assert!(Keys::decode(record.as_bytes()).is_err(), "field {wrong}");
    }
}

#[test]
fn a_failure_shows_the_beginning_of_what_came() {
    let bad = Keys::decode(&[b'A'; 4096]).expect_err("no record");
    assert_eq!(bad.found.len(), 120);
    let bad = Destination::decode(b"GET / HTTP/1.1\r\n").expect_err("no record");
    assert!(bad.to_string().contains("GET / HTTP/1.1"), "{bad}");
}

#[test]
fn a_version_has_digits_and_dots_only() {
    for wrong in [&b"6.06"[..], b"606\0", b"6.0a\0", b"\0", b"6 .06\0", b"\xff.1\0", b""] {
        assert!(perftest::decode_version(wrong).is_err(), "{wrong:?}");
    }
    assert_eq!(perftest::decode_version(b"5.96\0garbage").as_deref(), Ok("5.96"));
}

#[test]
fn what_is_announced_comes_back_whatever_it_is() {
    for (test, all, timed) in [(0, false, false), (0x3f, true, true), (1, false, true)] {
        let announced = Announced { test, all, timed, size: u32::MAX, count: 1 << 31 };
        let record = perftest::version_record(&announced);
        assert_eq!(Announced::decode(&record), Some(announced));
        assert_eq!(perftest::decode_version(&record).as_deref(), Ok("6.06"));
    }
    let mut other = perftest::version_record(&Announced {
        test: 1,
        all: false,
        timed: false,
        size: 1,
        count: 1,
    });
    *other.last_mut().expect("16 bytes") = 1;
    assert_eq!(Announced::decode(&other), None, "a later form");
}

#[test]
fn any_words_are_a_measurement() {
    for byte in [0, 0x7f, 0xff] {
        let words = [[byte; 8]; 5];
        assert_eq!(Measured::from_words(&words).words(), words);
    }
}
