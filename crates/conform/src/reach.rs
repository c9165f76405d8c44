//! Whether packets pass between the tester and the NIC under test, before a case is judged by packets that do not come.

use std::time::Duration;

use crate::performance::Stream;
use crate::{AgentLink, Bench, Card, Patience, Qp, Request, Stop, Wire};

/// Requests that are sent one after the other.
const REQUESTS: u32 = 100;
/// How long they may take in all: each that is lost takes the time of a retry.
const TIME: Duration = Duration::from_secs(3);

/// Sends empty WRITEs to a queue pair of the agent and looks how many must be sent again. Returns a sentence if some must:
/// verdicts of such a run are doubtful. A NIC that answers them wrongly is left to the cases.
///
/// # Errors
/// Neither they nor a READ draw a packet, or the agent cannot make a queue pair: a sentence about it.
pub fn reach(
    wire: &mut dyn Wire,
    agent: &mut dyn AgentLink,
    card: &Card,
    patience: Patience,
) -> Result<Option<String>, String> {
    wire.begin("link");
    let bench = Bench::new(wire, agent, card, patience, 0);
    let found = tried(&bench);
    match found {
        Ok(lossy) => Ok(lossy),
        Err(Stop::Fail(why) | Stop::NotApplicable(why) | Stop::Broken(why) | Stop::Lost(why)) => {
            Err(why)
        }
    }
}

fn tried(b: &Bench<'_>) -> Result<Option<String>, Stop> {
    b.ask(&Request::Clear)?;
    let q = b.rc().open()?;
    let mut stream = Stream::of_messages(&q, vec![q.write(0)]);
    let end = stream.now() + TIME;
    let mut outcome = Ok(());
    for _ in 0..REQUESTS {
        if outcome.is_err() || stream.now() >= end {
            break;
        }
        outcome = stream.pass(1, 1, Duration::MAX);
    }
    if let (Err(Stop::Fail(_)), 0) = (&outcome, stream.received()) {
        return answers_reads(b, &b.rc().open()?).map(|()| None);
    }
    let (sent, again) = (stream.sent(), stream.again());
    match outcome {
        Ok(()) if again > 0 => Ok(Some(format!(
            "of {sent} requests that were sent before the first case {again} drew no answer in time: packets are lost between \
             the two machines, and so a case may fail that should pass"
        ))),
        Ok(()) | Err(Stop::Fail(_)) => Ok(None),
        Err(stop) => Err(stop),
    }
}

fn answers_reads(b: &Bench<'_>, q: &Qp<'_, '_>) -> Result<(), Stop> {
    let mut stream = Stream::of_requests(q, q.read(16), 1);
    match stream.pass(1, 1, Duration::MAX) {
        Err(Stop::Fail(_)) if stream.received() == 0 => Err(Stop::Lost(format!(
            "no packet comes back from {}: its agent answers by TCP, and its NIC neither WRITEs nor READs",
            b.card().address
        ))),
        Ok(()) | Err(Stop::Fail(_)) => Ok(()),
        Err(stop) => Err(stop),
    }
}

#[cfg(test)]
mod tests {
    use uroce_wire::{Opcode, Psn};

    use super::*;
    use crate::fake::{FakeAgent, FakeWire, card, incoming};
    use crate::{Incoming, Packet};

    fn tried_with(answer: fn(&[u8]) -> Option<Incoming>) -> Result<Option<String>, String> {
        let mut wire = FakeWire { answer: Some(answer), ..FakeWire::default() };
        reach(&mut wire, &mut FakeAgent::default(), &card(), Patience::default())
    }

    fn said(opcode: Opcode, qpn: u32, psn: Psn) -> Option<Incoming> {
        let packet = Packet::new(opcode, qpn, psn, vec![]);
        let bytes = [packet.covered(), vec![0; 4]].concat();
        Some(Incoming { bytes, ..incoming(opcode, 0) })
    }

    fn psn(sent: &[u8]) -> Psn {
        uroce_wire::Packet::parse(sent).expect("well formed").bth.psn
    }

    #[test]
    fn a_way_that_loses_packets_is_told_from_one_that_does_not() {
        let whole = |sent: &[u8]| said(Opcode::RC_ACKNOWLEDGE, 0x10_0001, psn(sent));
        assert_eq!(tried_with(whole), Ok(None));
        thread_local! { static COUNT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) }; }
        let once = |sent: &[u8]| {
            COUNT.set(COUNT.get() + 1);
            said(Opcode::RC_ACKNOWLEDGE, 0x10_0001, psn(sent))
                .filter(|_| !COUNT.get().is_multiple_of(20))
        };
        let told = tried_with(once).expect("it answers").expect("a sentence");
        assert!(told.contains("5 drew no answer"), "{told}");
    }

    #[test]
    fn who_answers_nothing_is_no_peer_to_judge() {
        let why = tried_with(|_| None).expect_err("nothing comes");
        assert!(why.contains("no packet comes back from 192.0.2.1"), "{why}");
        // ACKs are lost, and responses come.
        let reads = |sent: &[u8]| {
            let read = uroce_wire::Packet::parse(sent).ok()?.bth;
            let is_read = read.opcode == Opcode::RC_READ_REQUEST;
            said(Opcode::RC_READ_RESPONSE_ONLY, 0x10_0002, read.psn).filter(|_| is_read)
        };
        assert_eq!(tried_with(reads), Ok(None));
    }
}
