//! Running cases.

use std::time::Duration;

use crate::bench::Finished;
use crate::{
    AgentLink, Bench, Card, Case, Entry, Figures, Outcome, Patience, Request, Stop, Takes, Verdict,
    Wire, cases,
};

/// How often a failed case is tried again, to tell a broken rule from packets that were lost.
const SECOND_LOOKS: u32 = 2;
/// How much longer silence must last then: a peer may be slow.
const SECOND_SILENCE: u32 = 8;
/// Numbers of queue pairs, calls and the like that a case may use.
pub(crate) const NUMBERS: u32 = 256;

/// Which cases run, and how.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Parts of identifiers; a case runs if it has one of them. None: all run.
    pub only: Vec<String>,
    /// How often each runs; 0 counts as 1.
    pub repeat: u32,
    /// How long a case waits.
    pub patience: Patience,
    /// Distinguishes this run from earlier ones: communication ids and queue pairs of calls follow from it.
    pub run: u32,
    /// Robustness cases run as well.
    pub robustness: bool,
    /// Performance cases run as well.
    pub performance: bool,
}

impl Selection {
    /// The cases that it names, in their order.
    pub fn cases(&self) -> Vec<&'static Case> {
        let named = |case: &&Case| {
            self.only.is_empty() || self.only.iter().any(|part| case.id.contains(part.as_str()))
        };
        let asked = |case: &&Case| {
            (self.robustness || !case.is_robustness())
                && (self.performance || !case.is_performance())
        };
        cases::all().filter(named).filter(asked).collect()
    }
}

/// What became of a case.
#[derive(Debug, Clone)]
pub struct CaseReport {
    /// It.
    pub case: &'static Case,
    /// What is said about it.
    pub verdict: Verdict,
    /// What was measured beside.
    pub recorded: Vec<String>,
    /// What passed in the run that decided.
    pub transcript: Vec<Entry>,
    /// What was measured, of a performance case that came to its end.
    pub figures: Option<Figures>,
    /// How long it took, with all repetitions.
    pub time: Duration,
}

impl CaseReport {
    /// The rule is not kept.
    pub fn failed(&self) -> bool {
        matches!(self.verdict, Verdict::Fail(_))
    }
}

/// What became of a run.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was tested.
    pub card: Card,
    /// Case by case.
    pub cases: Vec<CaseReport>,
    /// Why the run ended early, if it did.
    pub lost: Option<String>,
    /// What the tester could not do, and why: the cases that need it are not applicable.
    pub without: Option<String>,
}

impl Report {
    /// How many cases ended with this word.
    pub fn count(&self, word: &str) -> usize {
        self.cases.iter().filter(|report| report.verdict.word() == word).count()
    }
}

/// Runs the selected cases; `shown` is called after each and says whether to go on.
pub fn run(
    selection: &Selection,
    wire: &mut dyn Wire,
    agent: &mut dyn AgentLink,
    card: &Card,
    shown: &mut dyn FnMut(&CaseReport) -> bool,
) -> Report {
    let without = without(wire, card);
    let mut report = Report { card: card.clone(), cases: Vec::new(), lost: None, without };
    let mut trial =
        Trial { patience: selection.patience, wire, agent, card, seed: 0, run: selection.run };
    for case in selection.cases() {
        let Ran { report: done, lost } = trial.case(case, selection.repeat);
        let go_on = shown(&done);
        report.cases.push(done);
        report.lost = match lost {
            Some(why) => Some(format!("{}: {why}", case.id)),
            None if !go_on => Some("interrupted".to_owned()),
            None => continue,
        };
        break;
    }
    report
}

/// What a tester on this wire cannot do with this NIC.
pub fn without(wire: &mut dyn Wire, card: &Card) -> Option<String> {
    let why = wire.frame_ends(card.address).err()?;
    Some(format!("tested without frames of the tester's own: {why}"))
}

/// A case that has run.
struct Ran {
    report: CaseReport,
    /// The agent is gone, and why: nothing more can be run.
    lost: Option<String>,
}

/// What all cases of a run share.
struct Trial<'r> {
    patience: Patience,
    wire: &'r mut dyn Wire,
    agent: &'r mut dyn AgentLink,
    card: &'r Card,
    /// [`Selection::run`].
    run: u32,
    /// Numbers of queue pairs go on from case to case.
    seed: u32,
}

impl Trial<'_> {
    fn case(&mut self, case: &'static Case, repeat: u32) -> Ran {
        let start = self.wire.now();
        let patience = self.patience;
        let mut ran = self.once(case, patience);
        for _ in 1..repeat {
            let is_bad = matches!(ran.report.verdict, Verdict::Fail(_) | Verdict::Inconclusive(_));
            if is_bad || ran.lost.is_some() {
                break;
            }
            ran = self.once(case, patience);
        }
        if let Verdict::Fail(why) = &ran.report.verdict {
            match self.look_again(case) {
                Ok(None) => {}
                Ok(Some(doubt)) => {
                    ran.report.verdict = Verdict::Inconclusive(format!("{doubt}: {why}"));
                }
                // What it did first stands, and the packets that may have ended it are in the report.
                Err(lost) => ran.lost = Some(lost),
            }
        }
        ran.report.time = self.wire.now().saturating_sub(start);
        ran
    }

    /// Why a failure is not believed, if it does not come again; an error if the agent is gone.
    fn look_again(&mut self, case: &'static Case) -> Result<Option<String>, String> {
        let silence = self.patience.silence * SECOND_SILENCE;
        let patience = Patience { silence, ..self.patience };
        for _ in 0..SECOND_LOOKS {
            let Ran { report, lost } = self.once(case, patience);
            if let Some(lost) = lost {
                return Err(lost);
            }
            let doubt = match report.verdict {
                Verdict::Fail(_) => continue,
                Verdict::Pass | Verdict::Tolerated(_) => "failed once, and then not".to_owned(),
                Verdict::NotApplicable(why) | Verdict::Inconclusive(why) => {
                    format!("failed once, and could not be tried again ({why})")
                }
            };
            return Ok(Some(doubt));
        }
        Ok(None)
    }

    fn once(&mut self, case: &'static Case, patience: Patience) -> Ran {
        let overflows = self.wire.overflows();
        let mut ran = self.attempt(case, patience);
        let lost = self.wire.overflows() - overflows;
        if let (Verdict::Fail(why), 1..) = (&ran.report.verdict, lost) {
            ran.report.verdict = Verdict::Inconclusive(format!(
                "the tester's socket had no room for {lost} packets (net.core.rmem_max of this machine): {why}"
            ));
        }
        ran
    }

    fn attempt(&mut self, case: &'static Case, patience: Patience) -> Ran {
        self.seed = self.seed.wrapping_add(NUMBERS);
        let mut needed: Vec<Takes> = Vec::new();
        loop {
            self.wire.begin(case.id);
            let bench = Bench::new(self.wire, self.agent, self.card, patience, self.seed);
            let mut bench = bench.needing(needed.clone());
            bench.run = self.run;
            let outcome = bench.ask(&Request::Clear).and_then(|_| (case.run)(&bench));
            let Finished { transcript, tolerated, recorded, figures, needed: needs } =
                bench.finish();
            // It tried an operation that the stock program does not take: another one may.
            if matches!(outcome, Err(Stop::NotApplicable(_))) && needs != needed {
                needed = needs;
                continue;
            }
            let lost = match &outcome {
                Err(Stop::Lost(why)) => Some(why.clone()),
                _ => None,
            };
            let (verdict, time) = (verdict(outcome, tolerated), Duration::ZERO);
            let report = CaseReport { case, verdict, recorded, transcript, figures, time };
            return Ran { report, lost };
        }
    }
}

fn verdict(outcome: Outcome, tolerated: Option<String>) -> Verdict {
    match outcome {
        Ok(()) => tolerated.map_or(Verdict::Pass, Verdict::Tolerated),
        Err(Stop::Fail(why)) => Verdict::Fail(why),
        Err(Stop::NotApplicable(why)) => Verdict::NotApplicable(why),
        Err(Stop::Broken(why) | Stop::Lost(why)) => Verdict::Inconclusive(why),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use uroce_wire::{NakCode, Opcode, Syndrome};

    use super::*;
    use crate::fake::{FakeAgent, FakeWire, card, incoming};
    use crate::limits;
    use crate::{Incoming, Packet};

    fn ran(selection: &Selection, wire: &mut FakeWire, agent: &mut FakeAgent) -> Report {
        run(selection, wire, agent, &card(), &mut |_| true)
    }

    fn only(name: &str) -> Selection {
        Selection { only: vec![name.to_owned()], ..Selection::default() }
    }

    /// The cases that do not fail by a peer that sends nothing, with their verdicts.
    fn kept(card: &Card) -> Vec<(&'static str, Verdict)> {
        let (mut wire, mut agent) = (FakeWire::default(), FakeAgent::default());
        let all = Selection { robustness: true, performance: true, ..Selection::default() };
        let report = run(&all, &mut wire, &mut agent, card, &mut |_| true);
        assert_eq!((report.cases.len(), &report.lost), (cases::all().count(), &None));
        let reports = report.cases.into_iter();
        let kept = reports.filter(|done| !matches!(done.verdict, Verdict::Fail(_)));
        kept.map(|done| (done.case.id, done.verdict)).collect()
    }

    #[test]
    fn a_peer_that_sends_nothing_keeps_no_rule() {
        let able = kept(&card());
        let bare = kept(&Card { extensions: crate::Extensions::default(), ..card() });
        let not_there = |(_, verdict): &&(_, Verdict)| matches!(verdict, Verdict::NotApplicable(_));
        assert_eq!(bare.iter().filter(not_there).count(), bare.len(), "{bare:#?}");
        // This case is about devices that lack something.
        assert!(matches!(able[..], [("rc.responder.unsupported", _)]), "{able:#?}");
        assert!(bare.iter().all(|(id, _)| *id != able[0].0), "{bare:#?}");
    }

    #[test]
    fn robustness_cases_run_only_if_they_are_asked_for() {
        let asked = Selection { robustness: true, ..Selection::default() };
        let robust = |selection: &Selection| {
            selection.cases().iter().filter(|case| case.is_robustness()).count()
        };
        assert_eq!(robust(&only("robustness")), 0);
        assert!(robust(&asked) > 0);
    }

    #[test]
    fn performance_is_measured_only_if_it_is_asked_for() {
        let asked = Selection { performance: true, ..only("performance") };
        assert_eq!(only("performance").cases().len(), 0);
        assert_eq!(asked.cases().len(), 6);
        assert!(Selection::default().cases().iter().all(|case| !case.is_performance()));
    }

    #[test]
    fn an_agent_that_answers_with_too_few_bytes_ends_the_run() {
        let mut agent = FakeAgent { forgets_memory: true, ..FakeAgent::default() };
        let look = |b: &Bench<'_>| b.rc().open()?.app.untouched();
        let card = card();
        let mut wire = FakeWire::default();
        let bench = Bench::new(&mut wire, &mut agent, &card, Patience::default(), 0);
        assert!(matches!(look(&bench), Err(Stop::Lost(_))));
    }

    #[test]
    fn a_flood_ends_a_wait_and_then_the_case() {
        for (opcode, qpn) in [(Opcode::CNP, 0x10_0001), (Opcode::RC_ACKNOWLEDGE, 7)] {
            let flood = Some(incoming(opcode, qpn));
            let mut wire = FakeWire { flood, ..FakeWire::default() };
            let report = ran(&only("rc.responder.send-only"), &mut wire, &mut FakeAgent::default());
            assert!(matches!(report.cases[0].verdict, Verdict::Fail(_)), "{report:?}");
        }
    }

    /// An atomic draws a NAK in the form of an ATOMIC ACK.
    fn refuses_atomics(sent: &[u8]) -> Option<Incoming> {
        let request = uroce_wire::Packet::parse(sent).ok()?;
        request.atomic_eth()?;
        let nak = Packet::new(
            Opcode::RC_ATOMIC_ACKNOWLEDGE,
            0x10_0001 + NUMBERS,
            request.bth.psn,
            vec![],
        )
        .syndrome(Syndrome::nak(NakCode::InvalidRequest));
        let bytes = [nak.covered(), vec![0; 4]].concat();
        Some(Incoming { bytes, ..incoming(Opcode::RC_ATOMIC_ACKNOWLEDGE, 0) })
    }

    #[test]
    fn the_nak_of_an_atomic_may_be_an_atomic_ack_wherever_the_atomic_stands() {
        let mut wire = FakeWire { answer: Some(refuses_atomics), ..FakeWire::default() };
        let mut agent = FakeAgent { failed: true, ..FakeAgent::default() };
        let report = ran(&only("rc.responder.atomic-inside"), &mut wire, &mut agent);
        assert_eq!(report.cases[0].verdict, Verdict::Pass);
    }

    #[test]
    fn a_peer_that_is_slow_breaks_no_rule_and_keeps_none() {
        const SLOW: Case = Case {
            id: "rc.responder.slow",
            rules: "",
            candidates: &[],
            class: crate::Class::Must,
            sentence: "",
            run: |b| match b.patience().silence > Patience::default().silence {
                true => Ok(()),
                false => Err(Stop::Fail("its answer came late".to_owned())),
            },
        };
        let (mut wire, mut agent, card) = (FakeWire::default(), FakeAgent::default(), card());
        let patience = Patience::default();
        let mut trial =
            Trial { patience, wire: &mut wire, agent: &mut agent, card: &card, seed: 0, run: 0 };
        let Ran { report: done, lost } = trial.case(&SLOW, 1);
        assert!(matches!(done.verdict, Verdict::Inconclusive(_)), "{:?}", done.verdict);
        assert_eq!(lost, None);
    }

    /// A case that gives these outcomes, one after the other.
    fn outcomes(run: fn(&Bench<'_>) -> Outcome, wire: &mut FakeWire) -> Ran {
        let case = Case {
            id: "rc.responder.outcomes",
            rules: "",
            candidates: &[],
            class: crate::Class::Must,
            sentence: "",
            run,
        };
        let case: &'static Case = Box::leak(Box::new(case));
        let (mut agent, card, patience) = (FakeAgent::default(), card(), Patience::default());
        Trial { patience, wire, agent: &mut agent, card: &card, seed: 0, run: 0 }.case(case, 1)
    }

    fn is_first(b: &Bench<'_>) -> bool {
        b.patience().silence == Patience::default().silence
    }

    #[test]
    fn a_failure_stands_with_its_packets_where_the_agent_is_gone_afterwards() {
        let run = |b: &Bench<'_>| match is_first(b) {
            true => b.rc().open().and_then(|_| Err(Stop::Fail("its answer".to_owned()))),
            false => Err(Stop::Lost("the agent is gone".to_owned())),
        };
        let Ran { report, lost } = outcomes(run, &mut FakeWire::default());
        assert_eq!(report.verdict, Verdict::Fail("its answer".to_owned()));
        assert_eq!(lost.as_deref(), Some("the agent is gone"));
        assert!(!report.transcript.is_empty());
    }

    #[test]
    fn a_case_that_loses_the_agent_keeps_its_packets() {
        let run = |b: &Bench<'_>| b.rc().open().and_then(|_| Err(Stop::Lost("gone".to_owned())));
        let Ran { report, lost } = outcomes(run, &mut FakeWire::default());
        assert_eq!((report.verdict, lost.is_some()), (Verdict::Inconclusive("gone".into()), true));
        assert!(!report.transcript.is_empty());
    }

    #[test]
    fn what_a_second_look_could_not_tell_is_said() {
        let run = |b: &Bench<'_>| match is_first(b) {
            true => Err(Stop::Fail("its answer".to_owned())),
            false => Err(Stop::Broken("no room".to_owned())),
        };
        let Ran { report, .. } = outcomes(run, &mut FakeWire::default());
        let wanted = "failed once, and could not be tried again (no room): its answer";
        assert_eq!(report.verdict, Verdict::Inconclusive(wanted.to_owned()));
    }

    #[test]
    fn packets_that_the_tester_has_no_room_for_are_no_fault_of_the_peer() {
        let run = |b: &Bench<'_>| b.rc().open().and_then(|_| Err(Stop::Fail("gap".to_owned())));
        let mut wire = FakeWire { overflows_each: 3, ..FakeWire::default() };
        let Ran { report, .. } = outcomes(run, &mut wire);
        let Verdict::Inconclusive(why) = report.verdict else { panic!("{:?}", report.verdict) };
        assert!(why.contains("no room for 3 packets") && why.ends_with(": gap"), "{why}");
    }

    #[test]
    fn no_two_queue_pairs_of_a_run_have_the_same_number() {
        const CASE: Case = Case {
            id: "rc.responder.many",
            rules: "",
            candidates: &[],
            class: crate::Class::Must,
            sentence: "",
            run: |b| (0..limits::QUEUE_PAIRS).try_for_each(|_| b.rc().open().map(drop)),
        };
        let (mut wire, mut agent, card) = (FakeWire::default(), FakeAgent::default(), card());
        let patience = Patience::default();
        let mut trial =
            Trial { patience, wire: &mut wire, agent: &mut agent, card: &card, seed: 0, run: 0 };
        assert_eq!(trial.case(&CASE, 3).lost, None);
        let different: HashSet<u32> = agent.numbers.iter().copied().collect();
        assert_eq!((different.len(), agent.numbers.len()), (192, 192));
    }
}
