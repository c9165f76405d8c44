//! What makes a capture write its ring: signs of faults in the packets that pass.

use std::str::FromStr;

use uroce_analyze::judge::{Judge, Rule};
use uroce_analyze::track::{Annotation, RetransmissionCause, Role};
use uroce_analyze::{Dissector, DissectorConfig, Frame, Packet, Tracker, TrackerConfig};
use uroce_wire::NakCode;

/// A sign of a fault.
#[derive(Debug, Clone, Copy)]
pub enum Trigger {
    /// A NAK of any kind but RNR.
    Nak,
    /// An RNR NAK: the responder had no receive posted.
    Rnr,
    /// A request that is sent again after the local ACK timeout.
    Timeout,
    /// A request that is sent again, for any cause.
    Retransmission,
    /// A NAK that ends a queue pair.
    QpError,
    /// A rule of the protocol that is broken.
    Rule(&'static Rule),
}

impl FromStr for Trigger {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        if let Some(name) = word.strip_prefix("rule:") {
            return Rule::by_name(name)
                .map(Trigger::Rule)
                .ok_or_else(|| format!("no rule is called {name:?}; docs/findings.md lists them"));
        }
        match word {
            "nak" => Ok(Trigger::Nak),
            "rnr" => Ok(Trigger::Rnr),
            "timeout" => Ok(Trigger::Timeout),
            "retransmission" => Ok(Trigger::Retransmission),
            "qp-error" => Ok(Trigger::QpError),
            _ => Err("it is nak, rnr, timeout, retransmission, qp-error or rule:NAME".to_owned()),
        }
    }
}

impl Trigger {
    /// What it finds in the packet, in words.
    fn sign(&self, annotation: &Annotation) -> Option<String> {
        let again = annotation.retransmission.map(|again| again.cause);
        match (self, annotation.role) {
            (Trigger::Rnr, Role::RnrNak) => Some("RNR NAK".to_owned()),
            (Trigger::Nak, Role::Nak(code)) => Some(format!("NAK ({})", code.name())),
            (Trigger::QpError, Role::Nak(code)) if code != NakCode::PsnSequence => {
                Some(format!("NAK that ends a queue pair ({})", code.name()))
            }
            (Trigger::Timeout, _) if again == Some(RetransmissionCause::AckTimeout) => {
                Some("retransmission after a timeout".to_owned())
            }
            (Trigger::Retransmission, _) => {
                again.map(|cause| format!("retransmission ({})", cause.name()))
            }
            _ => None,
        }
    }
}

/// A rule, and how often it was broken so far.
#[derive(Debug)]
struct BrokenRule {
    rule: &'static Rule,
    instances: u64,
}

/// Looks for signs of faults.
#[derive(Debug)]
pub struct TriggerWatch {
    triggers: Vec<Trigger>,
    rules: Vec<BrokenRule>,
    dissector: Dissector,
    tracker: Tracker,
    judge: Judge,
}

impl TriggerWatch {
    /// Looks for these. `port`: UDP port of RoCEv2.
    pub fn new(triggers: &[Trigger], port: u16) -> Self {
        let rules = triggers.iter().filter_map(|trigger| match trigger {
            Trigger::Rule(rule) => Some(BrokenRule { rule, instances: 0 }),
            _ => None,
        });
        TriggerWatch {
            triggers: triggers.to_vec(),
            rules: rules.collect(),
            dissector: Dissector::new(DissectorConfig { port }),
            tracker: Tracker::new(TrackerConfig::default()),
            judge: Judge::new(),
        }
    }

    /// What the first sign in the frame is, as a sentence, if there is one.
    pub fn handle_frame(&mut self, frame: &Frame<'_>) -> Option<String> {
        let TriggerWatch { triggers, rules, dissector, tracker, judge } = self;
        let mut found = None;
        dissector.dissect(frame, &mut |packet, payload, _| {
            let annotation = tracker.handle_packet(packet, payload);
            let mut sign = triggers.iter().find_map(|trigger| trigger.sign(&annotation));
            if !rules.is_empty() {
                judge.handle_packet(packet, payload, &annotation, tracker);
                sign = rules.iter_mut().fold(sign, |sign, rule| sign.or(rule.look(judge)));
            }
            found = found.take().or(sign.map(|sign| sentence(&sign, packet)));
        });
        // The messages are not needed.
        while self.tracker.poll_message().is_some() {}
        found
    }
}

impl BrokenRule {
    /// In words, if it was broken again.
    fn look(&mut self, judge: &Judge) -> Option<String> {
        let before = std::mem::replace(&mut self.instances, judge.instances(self.rule));
        (self.instances > before).then(|| format!("rule {}", self.rule.name))
    }
}

fn sentence(sign: &str, packet: &Packet) -> String {
    let (from, to) = (packet.source_ip(), packet.destination_ip());
    let (qpn, psn) = (packet.bth.dest_qpn.get(), packet.bth.psn.get());
    format!("{sign}: PSN {psn:#x} from {from} to {to} QP {qpn:#x}")
}

#[cfg(test)]
mod tests {
    use uroce_analyze::CaptureReader;

    use super::*;

    /// The signs in a capture of this repository.
    fn signs(capture: &[u8], words: &str) -> Vec<String> {
        let triggers: Vec<Trigger> =
            words.split(',').map(|word| word.parse().expect("a trigger")).collect();
        let mut watch = TriggerWatch::new(&triggers, 4791);
        let mut reader = CaptureReader::new(capture).expect("a capture");
        let mut signs = Vec::new();
        while let Some(frame) = reader.next_frame().expect("whole") {
            signs.extend(watch.handle_frame(&frame));
        }
        signs
    }

    const LOSS: &[u8] = include_bytes!("../../../../../pcaps/loss.pcap");

    #[test]
    fn naks_and_retransmissions_are_found() {
        let naks = signs(LOSS, "nak");
        assert_eq!(naks.len(), 5, "{naks:?}");
        assert!(naks[0].starts_with("NAK (PSN sequence error): PSN 0x"), "{naks:?}");
        let again = signs(LOSS, "retransmission");
        assert!(again.len() >= 32, "{again:?}");
        let timeouts = signs(LOSS, "timeout").len();
        assert!(timeouts > 0 && timeouts < again.len(), "{timeouts} of {}", again.len());
        assert_eq!(signs(LOSS, "qp-error,rnr"), [""; 0]);
    }

    #[test]
    fn a_rule_that_is_broken_is_found_once_for_each_time() {
        let wrong = {
            let mut bytes = LOSS.to_vec();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            bytes
        };
        let found = signs(&wrong, "rule:icrc-wrong");
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("rule icrc-wrong: PSN 0x"), "{found:?}");
    }

    #[test]
    fn unknown_words_list_the_known_ones() {
        let error = "flood".parse::<Trigger>().expect_err("unknown");
        assert!(error.contains("retransmission, qp-error"), "{error}");
        let error = "rule:flood".parse::<Trigger>().expect_err("unknown");
        assert!(error.contains("no rule is called"), "{error}");
    }
}
