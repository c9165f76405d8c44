//! Findings as rows.

use serde::Serialize;

use super::EndRow;
use crate::judge::{Finding, Severity};
use crate::printable::is_command;

/// Frames before the first and behind the last one of a finding that help to understand it.
const AROUND: u64 = 8;

/// Most frames between the first and the last one that a look shows.
const SPAN: u64 = 200;

/// One rule that one flow broke, or one event that needs explanation.
#[derive(Debug, Clone, Serialize)]
pub struct FindingRow {
    /// How much it matters.
    pub severity: Severity,
    /// Short name of the rule.
    pub rule: &'static str,
    /// Number of the rule in docs/conformance.md.
    pub id: &'static str,
    /// The finding in a few words.
    pub title: &'static str,
    /// What the rule means.
    pub meaning: &'static str,
    /// What to look at.
    pub advice: &'static str,
    /// What happened at the first instance, with its numbers.
    pub text: String,
    /// How often.
    pub count: u64,
    /// Numbers of the first frames.
    pub frames: Vec<u64>,
    /// Number of the last frame.
    pub last_frame: u64,
    /// Sender of the flow; `None` if it is about the capture.
    pub source: Option<EndRow>,
    /// Receiver of the flow.
    pub destination: Option<EndRow>,
    /// Command that draws what was around it; empty if it is about the capture.
    pub look: String,
}

impl FindingRow {
    /// The row of `finding` in the capture called `name`. `source` is the sender, if there is one.
    pub(super) fn new(finding: &Finding, name: &str, source: Option<EndRow>) -> Self {
        let flow = finding.flow;
        let destination =
            flow.map(|flow| EndRow::new(flow.destination, Some(flow.destination_qpn)));
        Self {
            severity: finding.rule.severity,
            rule: finding.rule.name,
            id: finding.rule.id,
            title: finding.rule.title,
            meaning: finding.rule.meaning,
            advice: finding.rule.advice,
            text: finding.text.clone(),
            count: finding.count,
            frames: finding.frames.clone(),
            last_frame: finding.last_frame,
            source: source.or(flow.map(|flow| EndRow::new(flow.source, None))),
            destination,
            look: destination.map_or_else(String::new, |end| look(finding, name, end)),
        }
    }
}

fn look(finding: &Finding, name: &str, end: EndRow) -> String {
    let first = finding.frames.first().copied().unwrap_or(1);
    let last = finding.last_frame.clamp(first, first.saturating_add(SPAN));
    let qpn = end.qpn.unwrap_or_default();
    let (from, to) = (first.saturating_sub(AROUND).max(1), last.saturating_add(AROUND));
    ladder_command(name, qpn, from, to)
}

/// The command that draws the frames `from` to `to` of a queue pair; empty for standard input, which
/// cannot be read again.
pub(super) fn ladder_command(name: &str, qpn: u32, from: u64, to: u64) -> String {
    if name == "-" {
        return String::new();
    }
    format!("uroce ladder {} --qp {qpn:#x} --frames {from}..{to}", quoted(name))
}

/// The name as one word of a shell, without characters that a terminal takes for commands.
fn quoted(name: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-/%+=:,@".contains(letter);
    if !name.is_empty() && name.chars().all(is_plain) {
        return name.to_owned();
    }
    if name.chars().any(is_command) {
        return format!("$'{}'", name.chars().map(escaped).collect::<String>());
    }
    format!("'{}'", name.replace('\'', "'\\''"))
}

/// A letter as it is written between `$'` and `'`.
fn escaped(letter: char) -> String {
    match letter {
        '\'' | '\\' => format!("\\{letter}"),
        _ if is_command(letter) => {
            let mut bytes = [0; 4];
            letter.encode_utf8(&mut bytes).bytes().map(|byte| format!("\\x{byte:02x}")).collect()
        }
        _ => letter.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        assert_eq!(quoted("a/b-1.pcap"), "a/b-1.pcap");
        assert_eq!(quoted("my file"), "'my file'");
        assert_eq!(quoted("it's; rm"), "'it'\\''s; rm'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("n\x1b[31m's\\x"), "$'n\\x1b[31m\\'s\\\\x'");
        assert_eq!(quoted("\u{202e}é"), "$'\\xe2\\x80\\xaeé'");
    }
}
