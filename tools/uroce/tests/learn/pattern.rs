//! What of an output must be as on the page.
//!
//! Everything, but for what varies from run to run:
//!
//! - numbers with a decimal point, numbers with a unit of time or of speed, whole numbers of six and more digits, and
//!   hexadecimal numbers of four and more digits (queue pairs, PSNs, keys, addresses) match any number of their kind;
//! - a port of five digits behind an address (`127.0.0.1.50123`) matches any such port;
//! - runs of blanks match runs of blanks, and runs of dashes runs of dashes;
//! - `...` matches any text in a line, and a line `...` any number of lines;
//! - a line of `uroce ladder` that tells how long nothing passed may be there or not, notes may be wrapped elsewhere, and the
//!   number of a packet may be another;
//! - between the lines of the page there may be packets that were sent again because a timer ran out, as they are on a busy
//!   machine, and the answers to them;
//! - where a command prints so many frames and no more (`--frames 1..8`, `dissect -c 2`), as many of the last lines may be missing as there are
//!   such packets before.

use std::collections::BTreeSet;

/// How much of a capture a command prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// So many frames; repetitions push others out.
    Frames,
}

impl Extent {
    pub fn of(command: &str) -> Self {
        let is_count = command.starts_with("uroce dissect ") && command.contains(" -c ");
        if is_count || command.contains(" --frames ") { Self::Frames } else { Self::Whole }
    }
}

/// How an output is compared with the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Line by line.
    Lines,
    /// By its words: when a machine takes other times than that of the page, a tail probe more or an acknowledgement less is
    /// no error of the page.
    Words,
}

/// Whether three quarters of the words that the page shows are in `actual`.
pub fn resembles(shown: &[String], actual: &[String]) -> bool {
    let (shown, actual) = (words(shown), words(actual));
    let found = shown.intersection(&actual).count();
    4 * found >= 3 * shown.len()
}

fn words(lines: &[String]) -> BTreeSet<&str> {
    let words = lines.iter().flat_map(|line| line.split(|letter: char| !letter.is_alphabetic()));
    words.filter(|word| word.len() >= 3).collect()
}

/// Whether `actual` is what the page shows.
pub fn matches(shown: &[String], actual: &[String], extent: Extent) -> bool {
    let pushed_out = (extent == Extent::Frames).then_some(0);
    lines_match(&normal_lines(shown), &normal_lines(actual), pushed_out)
}

/// Whether `actual` begins with what the page shows.
pub fn begins(shown: &[String], actual: &[String]) -> bool {
    let mut shown = normal_lines(shown);
    shown.push(ANY.to_owned());
    lines_match(&shown, &normal_lines(actual), None)
}

const ANY: &str = "...";
const REPETITIONS: [&str; 4] =
    ["tail probe", "local ACK timeout", "says the same again", "drop reason duplicate"];
const TIMES: [&str; 5] = ["ns", "us", "µs", "ms", "s"];
const SPEEDS: [&str; 4] = ["b/s", "kb/s", "Mb/s", "Gb/s"];

/// `pushed_out` lines may be missing at the end, because as many repetitions came before; `None` if none may.
fn lines_match(shown: &[String], actual: &[String], pushed_out: Option<usize>) -> bool {
    let one_more = || pushed_out.map(|lines| lines + 1);
    match (shown.split_first(), actual.split_first()) {
        (None, None) => true,
        (Some((first, rest)), _) if first == ANY => {
            lines_match(rest, actual, pushed_out)
                || !actual.is_empty() && lines_match(shown, &actual[1..], pushed_out)
        }
        (Some((first, rest)), Some((line, others))) => {
            line_matches(first, line) && lines_match(rest, others, pushed_out)
                || is_repetition(line) && lines_match(shown, others, one_more())
        }
        (None, Some((line, others))) => {
            is_repetition(line) && lines_match(shown, others, one_more())
        }
        (Some(_), None) => pushed_out.is_some_and(|lines| shown.len() <= lines),
    }
}

fn line_matches(shown: &str, actual: &str) -> bool {
    match shown.split_once(ANY) {
        None => shown == actual,
        Some((begin, rest)) => actual.strip_prefix(begin).is_some_and(|behind| {
            let ends = behind.char_indices().map(|(at, _)| at).chain([behind.len()]);
            ends.into_iter().any(|at| line_matches(rest.trim_start(), behind[at..].trim_start()))
        }),
    }
}

fn normal_lines(lines: &[String]) -> Vec<String> {
    let mut normal_lines: Vec<String> = Vec::new();
    for line in lines.iter().map(|line| normal(line)).filter(|line| !is_pause(line)) {
        match (line.strip_prefix(" | | "), normal_lines.last_mut()) {
            (Some(note), Some(last)) => *last += &format!(" {note}"),
            _ => normal_lines.push(line),
        }
    }
    while normal_lines.last().is_some_and(String::is_empty) {
        normal_lines.pop();
    }
    normal_lines
}

/// A packet that a timer sent again, or an answer to it.
fn is_repetition(line: &str) -> bool {
    REPETITIONS.iter().any(|remark| line.contains(remark)) && line.starts_with("# #")
}

/// A row of a ladder like `: ... 2.59 ms ... :`.
fn is_pause(line: &str) -> bool {
    line.trim() == ": ... # time ... :"
}

/// The line with a sign in place of what varies.
fn normal(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line.trim_end();
    if let Some(packet) = packet(rest) {
        text += "#";
        rest = packet;
    }
    while let Some(first) = rest.chars().next() {
        let (taken, sign) = match first {
            ' ' | '\t' => (run(rest, |c| c == ' ' || c == '\t'), " ".to_owned()),
            '-' if rest.starts_with("--") => (run(rest, |c| c == '-'), "--".to_owned()),
            _ if first.is_ascii_digit() => number(rest),
            _ if is_word(first) => word(run(rest, is_word), rest),
            _ => word(first.len_utf8(), rest),
        };
        text += &sign;
        rest = &rest[taken..];
    }
    text
}

/// A line of a packet, `  12  0.000123 ...`, behind its number.
fn packet(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let behind = &line[run(line, |letter| letter.is_ascii_digit() || letter == '.')..];
    let time = behind.strip_prefix(' ')?.trim_start();
    let seconds = &time[..run(time, |letter| letter.is_ascii_digit() || letter == '.')];
    let is_packet = behind.len() < line.len() && seconds.len() > 6 && seconds.contains('.');
    is_packet.then_some(behind)
}

fn word(length: usize, rest: &str) -> (usize, String) {
    (length, rest[..length].to_owned())
}

fn run(text: &str, belongs: impl Fn(char) -> bool) -> usize {
    text.find(|letter| !belongs(letter)).unwrap_or(text.len())
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Length of a number and its unit, and what stands for them.
fn number(rest: &str) -> (usize, String) {
    let length = run(rest, |letter| is_word(letter) || letter == '.');
    let digits = rest[..length].trim_end_matches('.');
    let length = digits.len();
    if let Some(hex) = digits.strip_prefix("0x") {
        let varies = hex.len() >= 4 && hex.chars().all(|digit| digit.is_ascii_hexdigit());
        return if varies { (length, "0x#".to_owned()) } else { word(length, rest) };
    }
    let figure = run(digits, |letter| letter.is_ascii_digit() || letter == '.');
    if let Some((taken, unit)) = unit(&rest[figure..]) {
        return (figure + taken, format!("# {unit}"));
    }
    if let Some((address, port)) = digits.rsplit_once('.').filter(|(address, _)| is_ipv4(address)) {
        return (length, if port.len() >= 5 { format!("{address}.#") } else { digits.to_owned() });
    }
    let points = digits.matches('.').count();
    let varies = figure == length && (points == 1 || points == 0 && length >= 6);
    if varies { (length, "#".to_owned()) } else { word(length, rest) }
}

fn is_ipv4(text: &str) -> bool {
    text.parse::<std::net::Ipv4Addr>().is_ok()
}

/// Length and kind of the unit at the beginning of `rest`.
fn unit(rest: &str) -> Option<(usize, &'static str)> {
    let blank = usize::from(rest.starts_with(' '));
    let length = run(&rest[blank..], |letter| is_word(letter) || letter == '/');
    let name = &rest[blank..blank + length];
    let kind = match name {
        _ if TIMES.contains(&name) => "time",
        _ if SPEEDS.contains(&name) => "speed",
        _ => return None,
    };
    Some((blank + length, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn is_same(shown: &str, actual: &str) -> bool {
        matches(&lines(shown), &lines(actual), Extent::Whole)
    }

    #[test]
    fn an_output_resembles_the_page_if_most_of_its_words_are_there() {
        let shown = lines("SEND Only AckReq 5\nACK msn, retransmission\n...");
        assert!(resembles(&shown, &lines("SEND Only 7\nACK msn retransmission, tail probe")));
        assert!(!resembles(&shown, &lines("SEND Only, ACK and no more")));
        assert!(!resembles(&shown, &[]));
    }

    #[test]
    fn what_varies_may_vary() {
        assert!(is_same("took 852 us of 64", "took 1.04 ms of 64"));
        assert!(is_same("qp 0x1ad59, 24.0 Mb/s", "qp 0x010fef, 3 Gb/s"));
        assert!(is_same("--fault-seed 6335803147076", "--fault-seed 98765432101"));
        assert!(is_same("a\n...\nb", "a\nx\ny\nb"));
        assert!(is_same("a ... z", "a b c z"));
        let again = "1 0.000001 a\n 2 0.000002 a tail probe\n   |   | ; 5 ms after\n 3 0.000003 b";
        assert!(is_same("1 0.000001 a\n 2 0.000009 b", again));
        assert!(is_same("1 0.000001 a\n...\n 3 0.000009 a tail probe ...\n...", again));
        assert!(is_same("a\n  :   ... 2.59 ms ...   :\nb", "a\nb"));
    }

    #[test]
    fn what_is_fixed_is_compared() {
        for (shown, actual) in [
            ("4 messages", "5 messages"),
            ("127.0.0.2", "127.0.0.3"),
            ("4096 bytes", "1024 bytes"),
            ("qkey 0x12", "qkey 0x13"),
            ("a\nb", "a"),
            ("a", "a\nb"),
            ("1 0.000001 a", "1 0.000001 b"),
            ("1 0.000001 a", "1 0.000001 a\n2 0.000002 NAK"),
            ("a ... z", "a b c"),
        ] {
            assert!(!is_same(shown, actual), "{shown:?} is not {actual:?}");
        }
    }

    #[test]
    fn repetitions_push_the_last_frames_out_one_for_one() {
        assert_eq!(Extent::of("uroce ladder x.pcapng --frames 1..3"), Extent::Frames);
        assert_eq!(Extent::of("uroce dissect x.pcapng -c 2"), Extent::Frames);
        assert_eq!(Extent::of("uroce rping -c -a 127.0.0.2"), Extent::Whole);
        let shown = lines("1 0.000001 a\n2 0.000002 b\n3 0.000003 c");
        let (again, other) =
            ("1 0.000001 a\n2 0.000002 a tail probe", "1 0.000001 a\n2 0.000002 b");
        let third = format!("{again}\n3 0.000003 b");
        for (actual, extent, is_same) in [
            (third.as_str(), Extent::Frames, true),
            (&third, Extent::Whole, false),
            (again, Extent::Frames, false),
            (other, Extent::Frames, false),
        ] {
            assert_eq!(matches(&shown, &lines(actual), extent), is_same, "{actual:?} {extent:?}");
        }
    }

    #[test]
    fn the_rest_of_an_output_may_follow_later() {
        assert!(begins(&lines("waiting"), &lines("waiting\nthen more")));
        assert!(!begins(&lines("waiting"), &lines("error")));
    }
}
