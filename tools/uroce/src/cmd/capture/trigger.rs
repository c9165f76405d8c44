//! What makes a capture write its ring: signs of faults in the packets that pass.

use std::str::FromStr;
use uroce_analyze::{Dissector, DissectorConfig, Frame, Packet};
use uroce_wire::{NakCode, SyndromeKind};

/// A sign of a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trigger {
    /// A NAK of any kind but RNR.
    Nak,
    /// An RNR NAK: the responder had no receive posted.
    Rnr,
    /// A NAK that ends a queue pair.
    QpError,
}

impl FromStr for Trigger {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "nak" => Ok(Trigger::Nak),
            "rnr" => Ok(Trigger::Rnr),
            "qp-error" => Ok(Trigger::QpError),
            _ => Err("it is nak, rnr or qp-error".to_owned()),
        }
    }
}

/// Looks for signs of faults.
#[derive(Debug)]
pub struct Watch {
    triggers: Vec<Trigger>,
    dissector: Dissector,
}

impl Watch {
    /// Looks for these. `port`: UDP port of RoCEv2.
    pub fn new(triggers: &[Trigger], port: u16) -> Self {
        let dissector = Dissector::new(DissectorConfig { port });
        Watch { triggers: triggers.to_vec(), dissector }
    }

    /// What the first sign in the frame is, as a sentence, if there is one.
    pub fn handle_frame(&mut self, frame: &Frame<'_>) -> Option<String> {
        let Watch { triggers, dissector } = self;
        let mut found = None;
        dissector.dissect(frame, &mut |packet, _, _| {
            if found.is_none() {
                found = sign(triggers, packet);
            }
        });
        found
    }
}

fn sign(triggers: &[Trigger], packet: &Packet) -> Option<String> {
    let (trigger, name) = match packet.aeth?.syndrome.kind() {
        SyndromeKind::Rnr { .. } => (Trigger::Rnr, "RNR NAK".to_owned()),
        SyndromeKind::Nak(NakCode::PsnSequence) => (Trigger::Nak, nak(NakCode::PsnSequence)),
        SyndromeKind::Nak(code) if triggers.contains(&Trigger::Nak) => (Trigger::Nak, nak(code)),
        SyndromeKind::Nak(code) => (Trigger::QpError, nak(code)),
        _ => return None,
    };
    let said = || {
        let (from, to) = (packet.source_ip(), packet.destination_ip());
        let (qpn, psn) = (packet.bth.dest_qpn.get(), packet.bth.psn.get());
        format!("{name} for PSN {psn:#x} from {from} to {to} QP {qpn:#x}")
    };
    triggers.contains(&trigger).then(said)
}

fn nak(code: NakCode) -> String {
    format!("NAK ({})", code.name())
}
