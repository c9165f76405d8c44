//! The whole report in one sentence.

use serde::Serialize;

use super::{CaptureSummary, ConversationRow, FindingRow, FlowRow};
use crate::judge::Severity;
use crate::quantity::{count, percent};

/// How grave the gravest finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// There is none.
    Ok,
    /// It is worth knowing.
    Note,
    /// A sign of trouble.
    Warning,
    /// Something broke.
    Error,
}

impl From<Severity> for Grade {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Note => Self::Note,
            Severity::Warning => Self::Warning,
            Severity::Error => Self::Error,
        }
    }
}

/// The answer to "is it well?".
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// How grave the gravest finding is.
    pub severity: Grade,
    /// One or two sentences.
    pub sentence: String,
}

impl Verdict {
    /// What the parts of a report come to.
    pub(super) fn new(
        capture: &CaptureSummary,
        conversations: &[ConversationRow],
        findings: &[FindingRow],
    ) -> Self {
        if capture.packets() == 0 {
            return Self { severity: Grade::Warning, sentence: nothing(capture) };
        }
        let gravest = findings.iter().map(|finding| Grade::from(finding.severity)).max();
        let (repairs, lost) = (repairs(conversations), lost_for_good(conversations));
        let failed = conversations.iter().filter(|row| row.failure.is_some()).count() as u64;
        let first = findings.first().filter(|first| first.severity >= Severity::Warning);
        let what = match (first, failed) {
            (_, 1..) => format!("{} failed", count(failed, "conversation")),
            (Some(first), 0) => {
                format!("{}{}", first.title.trim_end_matches('.'), and_others(findings))
            }
            (None, 0) if repairs.is_some() || lost > 0 => "No queue pair failed".to_owned(),
            (None, 0) => "No fault found".to_owned(),
        };
        let (scope, omission) = match omission(capture) {
            Some(omission) => (" in what was analysed", format!(" {omission}")),
            None => ("", String::new()),
        };
        let severity = match (failed, &repairs) {
            (1.., _) => Grade::Error,
            (_, Some(_)) => gravest.unwrap_or(Grade::Ok).max(Grade::Note),
            _ => gravest.unwrap_or(Grade::Ok),
        };
        let is_well = scope.is_empty() && lost == 0;
        let severity = if is_well { severity } else { severity.max(Grade::Warning) };
        let mut repairs = repairs.unwrap_or_else(|| "nothing was sent again".to_owned());
        if lost > 0 {
            repairs +=
                &format!("; {} lost for good, nothing tells where", count(lost, "UC packet"));
        }
        let traffic = traffic(conversations);
        Self { severity, sentence: format!("{what}{scope}. {traffic}; {repairs}.{omission}") }
    }
}

/// Says that so many packets were not followed.
pub(crate) fn not_analysed(packets: u64) -> String {
    format!("Not analysed: {} of more flows than are followed.", count(packets, "packet"))
}

/// Says that so many packets are missing in the capture.
pub(crate) fn not_captured(packets: u64) -> String {
    format!("Not captured: {}, as the capture itself says.", count(packets, "packet"))
}

/// What the rest of the report does not know of; `None` if it knows all.
fn omission(capture: &CaptureSummary) -> Option<String> {
    let reason = capture.malformed_reason.as_deref().unwrap_or_default();
    let malformed = count(capture.malformed_frames, "malformed frame");
    let malformed = format!("Not readable: {malformed} ({reason}).");
    let parts = [
        (capture.untracked_packets, not_analysed(capture.untracked_packets)),
        (capture.malformed_frames, malformed),
        (capture.not_captured, not_captured(capture.not_captured)),
    ];
    let parts = parts.into_iter().filter(|(number, _)| *number > 0).map(|(_, text)| text);
    parts.reduce(|before, next| format!("{before} {next}"))
}

/// ` (and 2 more errors, 1 warning)` behind the first finding.
fn and_others(findings: &[FindingRow]) -> String {
    let others = |severity| {
        let all = findings.iter().skip(1).filter(|finding| finding.severity == severity);
        all.count() as u64
    };
    let (errors, warnings) = (others(Severity::Error), others(Severity::Warning));
    match (errors, warnings) {
        (0, 0) => String::new(),
        (0, warnings) => format!(" (and {})", count(warnings, "more warning")),
        (errors, 0) => format!(" (and {})", count(errors, "more error")),
        (errors, warnings) => {
            format!(" (and {}, {})", count(errors, "more error"), count(warnings, "warning"))
        }
    }
}

/// `40 messages in 1 conversation`
fn traffic(conversations: &[ConversationRow]) -> String {
    let messages = sum(conversations, |flow| flow.figures.messages);
    let conversations = count(conversations.len() as u64, "conversation");
    format!("{} in {conversations}", count(messages, "message"))
}

/// What was lost and sent again; `None` if nothing was.
fn repairs(conversations: &[ConversationRow]) -> Option<String> {
    let requests = sum(conversations, |flow| flow.figures.requests);
    let again = sum(conversations, |flow| flow.data_frames_retransmitted);
    let lost = sum(conversations, |flow| flow.figures.lost_before + flow.figures.lost_behind);
    let share = percent(again, requests).filter(|_| again > 0)?;
    let lost = if lost > 0 { format!("{} lost, ", count(lost, "packet")) } else { String::new() };
    Some(format!("{lost}{again} of {} sent again ({share})", count(requests, "request")))
}

/// Packets that were lost and that nobody sends again.
fn lost_for_good(conversations: &[ConversationRow]) -> u64 {
    let flows = conversations.iter().flat_map(|row| row.flows.iter().map(move |flow| (row, flow)));
    flows.map(|(row, flow)| row.lost_for_good(flow)).sum()
}

fn sum(conversations: &[ConversationRow], figure: impl Fn(&FlowRow) -> u64) -> u64 {
    conversations.iter().flat_map(|row| &row.flows).map(figure).sum()
}

/// Why there may be no RoCE in a capture.
fn nothing(capture: &CaptureSummary) -> String {
    if capture.malformed_frames > 0 {
        return "No RoCE packet can be read: every frame to its port is malformed.".to_owned();
    }
    if capture.iwarp_frames > 0 {
        return "No RoCE here: this is iWARP, RDMA over TCP.".to_owned();
    }
    "No RoCE packets. Network cards keep RoCE away from the host's own capture: capture on the RDMA \
     device (tcpdump -i mlx5_0), on a mirror port, or give the port if it is not 4791 (--roce-port)."
        .to_owned()
}
