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
        match trial.case(case, selection.repeat) {
            Ok(done) => {
                let go_on = shown(&done);
                report.cases.push(done);
                if !go_on {
                    report.lost = Some("interrupted".to_owned());
                    break;
                }
            }
            Err(why) => {
                report.lost = Some(format!("{}: {why}", case.id));
                break;
            }
        }
    }
    report
}

/// What a tester on this wire cannot do with this NIC.
pub fn without(wire: &mut dyn Wire, card: &Card) -> Option<String> {
    let why = wire.frame_ends(card.address).err()?;
    Some(format!("tested without frames of the tester's own: {why}"))
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
    fn case(&mut self, case: &'static Case, repeat: u32) -> Result<CaseReport, String> {
        let start = self.wire.now();
        let patience = self.patience;
        let mut report = self.once(case, patience)?;
        for _ in 1..repeat {
            if matches!(report.verdict, Verdict::Fail(_) | Verdict::Inconclusive(_)) {
                break;
            }
            report = self.once(case, patience)?;
        }
        if let Verdict::Fail(why) = &report.verdict
            && !self.fails_again(case)?
        {
            report.verdict = Verdict::Inconclusive(format!("failed once, and then not: {why}"));
        }
        report.time = self.wire.now().saturating_sub(start);
        Ok(report)
    }

    fn fails_again(&mut self, case: &'static Case) -> Result<bool, String> {
        let silence = self.patience.silence * SECOND_SILENCE;
        let patience = Patience { silence, ..self.patience };
        for _ in 0..SECOND_LOOKS {
            if !matches!(self.once(case, patience)?.verdict, Verdict::Fail(_)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn once(&mut self, case: &'static Case, patience: Patience) -> Result<CaseReport, String> {
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
            let verdict = verdict(outcome, tolerated)?;
            let time = Duration::ZERO;
            return Ok(CaseReport { case, verdict, recorded, transcript, figures, time });
        }
    }
}

fn verdict(outcome: Outcome, tolerated: Option<String>) -> Result<Verdict, String> {
    match outcome {
        Ok(()) => Ok(tolerated.map_or(Verdict::Pass, Verdict::Tolerated)),
        Err(Stop::Fail(why)) => Ok(Verdict::Fail(why)),
        Err(Stop::NotApplicable(why)) => Ok(Verdict::NotApplicable(why)),
        Err(Stop::Broken(why)) => Ok(Verdict::Inconclusive(why)),
        Err(Stop::Lost(why)) => Err(why),
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
        let done = trial.case(&SLOW, 1).expect("the agent answers");
        assert!(matches!(done.verdict, Verdict::Inconclusive(_)), "{:?}", done.verdict);
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
        trial.case(&CASE, 3).expect("the agent answers");
        let different: HashSet<u32> = agent.numbers.iter().copied().collect();
        assert_eq!((different.len(), agent.numbers.len()), (192, 192));
    }
}
