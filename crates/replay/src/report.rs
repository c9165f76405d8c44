//! What a replay found.

use serde::Serialize;
use uroce_fault::RuleReport;
use uroce_wire::SyndromeKind;

use crate::answer::Answer;
use crate::recording::Side;
use crate::{Recording, Setup};

/// How an answer of then stands to one of now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mark {
    /// Both say the same.
    Equal,
    /// They are about the same PSN, and say different things.
    Differs,
    /// The device of now does not answer this.
    OnlyThen,
    /// The device of then did not answer this.
    OnlyNow,
    /// A plain ACK that the other side did not send, because another answer acknowledges more, or a sequence
    /// NAK whose packet came before the other side answered. No difference.
    Covered,
    /// An answer to one of the last packets: the capture or the connection may have ended before it. No difference.
    BehindTheEnd,
}

impl Mark {
    /// It makes the verdict "differs".
    pub const fn is_difference(self) -> bool {
        matches!(self, Self::Differs | Self::OnlyThen | Self::OnlyNow)
    }
}

/// A field that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The opcode.
    Opcode,
    /// The syndrome of the AETH.
    Syndrome,
    /// The MSN.
    Msn,
    /// Bytes of payload.
    Length,
    /// The payload, or the result of an atomic.
    Data,
}

impl Difference {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opcode => "opcode",
            Self::Syndrome => "syndrome",
            Self::Msn => "MSN",
            Self::Length => "length",
            Self::Data => "data",
        }
    }
}

/// An answer as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// Name of the opcode.
    pub opcode: &'static str,
    /// PSN.
    pub psn: u32,
    /// Syndrome; a READ response in the middle has none.
    pub syndrome: Option<u8>,
    /// What the syndrome says.
    pub meaning: Option<String>,
    /// MSN, counted as in the recording.
    pub msn: Option<u32>,
    /// Bytes of payload.
    pub length: u32,
}

impl Shown {
    pub(crate) fn of(answer: &Answer, msn_offset: u32) -> Self {
        Self {
            opcode: answer.info.name,
            psn: answer.psn.get(),
            syndrome: answer.aeth.map(|aeth| aeth.syndrome.0),
            meaning: answer.syndrome().map(meaning),
            msn: answer.aeth.map(|aeth| (aeth.msn + msn_offset) & 0xff_ffff),
            length: answer.length,
        }
    }
}

fn meaning(kind: SyndromeKind) -> String {
    match kind {
        SyndromeKind::Ack { credits: 31 } => "ACK".to_owned(),
        SyndromeKind::Ack { credits } => format!("ACK, credit code {credits}"),
        SyndromeKind::Rnr { timer } => format!("RNR NAK, timer code {timer}"),
        SyndromeKind::Nak(code) => format!("NAK: {}", code.name()),
        SyndromeKind::ReservedNak(code) => format!("NAK of reserved code {code}"),
        SyndromeKind::Reserved(syndrome) => format!("reserved syndrome {syndrome:#04x}"),
    }
}

/// An answer of then, of now, or both.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    #[serde(skip)]
    pub(crate) position: u64,
    /// Nanoseconds since the first packet: of the recorded answer, else of the request that is answered.
    #[serde(rename = "time_ns")]
    pub time: u64,
    /// Frame of the recorded answer, else of the request.
    pub frame: u64,
    /// How the two stand to each other.
    pub mark: Mark,
    /// What was answered then.
    pub then: Option<Shown>,
    /// What is answered now.
    pub now: Option<Shown>,
    /// What differs.
    pub differences: Vec<Difference>,
}

/// How often each mark was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    /// [`Mark::Equal`].
    pub equal: u64,
    /// [`Mark::Differs`].
    pub differs: u64,
    /// [`Mark::OnlyThen`].
    pub only_then: u64,
    /// [`Mark::OnlyNow`].
    pub only_now: u64,
    /// [`Mark::Covered`].
    pub covered: u64,
    /// [`Mark::BehindTheEnd`].
    pub behind_the_end: u64,
}

impl Counts {
    pub(crate) fn of(lines: &[Line]) -> Self {
        let mut counts = Self::default();
        for line in lines {
            *match line.mark {
                Mark::Equal => &mut counts.equal,
                Mark::Differs => &mut counts.differs,
                Mark::OnlyThen => &mut counts.only_then,
                Mark::OnlyNow => &mut counts.only_now,
                Mark::Covered => &mut counts.covered,
                Mark::BehindTheEnd => &mut counts.behind_the_end,
            } += 1;
        }
        counts
    }
}

/// Data of READ responses and results of atomics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Data {
    /// As recorded.
    pub same: u64,
    /// Others. The application may have changed the memory.
    pub other: u64,
}

/// Whether the device of now answers as the one of then did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Same,
    /// It does not.
    Differs,
}

/// One end, as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct End {
    /// Address.
    pub address: String,
    /// Queue pair, if it is known.
    pub qpn: Option<u32>,
}

impl End {
    fn of(side: &Side) -> Self {
        Self { address: side.address.to_string(), qpn: side.qpn.map(uroce_wire::Qpn::get) }
    }
}

/// What the queue pair was given, as far as it is of interest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Given {
    /// First PSN.
    pub first_psn: u32,
    /// Path MTU in bytes.
    pub path_mtu: usize,
    /// Memory regions.
    pub regions: usize,
    /// Their bytes.
    pub memory: u64,
}

/// When the queue pair answers. A capture does not show which requests were taken in together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Turns {
    /// After each request.
    #[default]
    Each,
    /// Where the recording has answers.
    Together,
    /// When it chose to: it is another device, on a wire.
    Peer,
}

/// What became of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Played {
    pub turns: Turns,
    pub requests: u64,
    pub lost: u64,
    pub not_admitted: u64,
}

/// Requests that were played, and those that were not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Requests {
    /// Given to the queue pair.
    pub played: u64,
    /// Of these, cut by a snap length: zeros stand for what is missing.
    pub cut: u64,
    /// Of these, not taken in: not a packet of this connection.
    pub not_admitted: u64,
    /// Not given to it: their ICRC is wrong.
    pub damaged: u64,
    /// Not given to it: a fault rule took them away before the responder got them.
    pub taken_away: u64,
    /// Not given to it: lost between the capture and the responder.
    pub lost: u64,
    /// Packets that are beyond the limits of a replay, or without their headers.
    pub left_out: u64,
}

/// What a rule of the faults between the recording and the queue pair did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleOutcome {
    /// Its name; its number from 1 if it has none.
    pub name: String,
    /// Its text.
    pub rule: String,
    /// Packets that it was about.
    pub matched: u64,
    /// Packets to which it did something.
    pub applied: u64,
    /// Packets that it took, but could do nothing to.
    pub not_applied: u64,
    /// Why, the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<RuleReport<'_>> for RuleOutcome {
    fn from(report: RuleReport<'_>) -> Self {
        Self {
            name: report.name.to_owned(),
            rule: report.text.to_owned(),
            matched: report.matched,
            applied: report.applied,
            not_applied: report.not_applied,
            reason: report.reason.map(|reason| reason.to_string()),
        }
    }
}

/// What a replay found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The end that sent the requests.
    pub requester: End,
    /// Whose place the queue pair of now took.
    pub responder: End,
    /// What the queue pair was given.
    pub setup: Given,
    /// The requests.
    pub requests: Requests,
    /// When the queue pair answered.
    pub turns: Turns,
    /// The MSN of then was ahead by so much: the capture began within the conversation.
    pub msn_offset: u32,
    /// Times that the requester began again, with other PSNs.
    pub restarts: u64,
    /// The rules that packets met between the recording and the queue pair.
    pub faults: Vec<RuleOutcome>,
    /// All answers, in the order of the recording.
    pub answers: Vec<Line>,
    /// How many of each kind.
    pub counts: Counts,
    /// Data, which are not compared unless that is asked for.
    pub data: Data,
    /// Whether the answers are the same.
    pub verdict: Verdict,
}

impl Report {
    /// Answers that are not the same.
    pub fn differences(&self) -> u64 {
        self.counts.differs + self.counts.only_then + self.counts.only_now
    }

    pub(crate) fn new(
        recording: &Recording,
        setup: &Setup,
        played: Played,
        msn_offset: u32,
        answers: Vec<Line>,
        counts: Counts,
        data: Data,
    ) -> Self {
        let count = |test: fn(&crate::Request) -> bool| {
            recording.requests.iter().filter(|request| test(request)).count() as u64
        };
        let differs = answers.iter().any(|line| line.mark.is_difference());
        Self {
            requester: End::of(&recording.requester),
            responder: End::of(&recording.responder),
            setup: Given {
                first_psn: setup.first_psn.get(),
                path_mtu: setup.path_mtu.bytes(),
                regions: setup.regions.len(),
                memory: setup.regions.iter().map(|region| region.length).sum(),
            },
            requests: Requests {
                played: played.requests,
                lost: played.lost,
                cut: count(|request| request.is_cut),
                not_admitted: played.not_admitted,
                damaged: recording.damaged,
                taken_away: recording.taken_away,
                left_out: recording.left_out,
            },
            turns: played.turns,
            msn_offset,
            restarts: recording.restarts,
            faults: Vec::new(),
            answers,
            counts,
            data,
            verdict: if differs { Verdict::Differs } else { Verdict::Same },
        }
    }
}
