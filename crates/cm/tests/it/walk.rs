//! Random walks: two connection managers that call, accept, refuse, end and release at random,
//! over a wire that loses, doubles and reorders. A model that knows nothing of the states checks
//! what the applications are told. A failing case prints its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;
use uroce_cm::*;
use uroce_wire::{Psn, Qpn};

use crate::world::*;

/// One step of the application or of the wire.
#[derive(Debug, Clone)]
enum Step {
    Call {
        from_a: bool,
    },
    /// Decides on the `nth` exchange that waits for a decision.
    Decide {
        at_a: bool,
        nth: usize,
        yes: bool,
    },
    Disconnect {
        at_a: bool,
        nth: usize,
    },
    Release {
        at_a: bool,
        nth: usize,
    },
    FirstPacket {
        at_a: bool,
        nth: usize,
    },
    /// Something on the wire arrives, out of turn.
    Deliver {
        nth: usize,
    },
    Lose {
        nth: usize,
    },
    Double {
        nth: usize,
    },
    Wait {
        ms: u64,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let at = || (any::<bool>(), 0..8usize);
    let step = prop_oneof![
        3 => any::<bool>().prop_map(|from_a| Step::Call { from_a }),
        6 => (at(), 0..10u8).prop_map(|((at_a, nth), n)| Step::Decide { at_a, nth, yes: n > 1 }),
        2 => at().prop_map(|(at_a, nth)| Step::Disconnect { at_a, nth }),
        1 => at().prop_map(|(at_a, nth)| Step::Release { at_a, nth }),
        1 => at().prop_map(|(at_a, nth)| Step::FirstPacket { at_a, nth }),
        20 => (0..6usize).prop_map(|nth| Step::Deliver { nth }),
        3 => (0..6usize).prop_map(|nth| Step::Lose { nth }),
        3 => (0..6usize).prop_map(|nth| Step::Double { nth }),
        3 => (0..3_000u64).prop_map(|ms| Step::Wait { ms }),
    ];
    proptest::collection::vec(step, 1..150)
}

/// What one application believes of one exchange.
#[derive(Debug, Default, Clone)]
struct Belief {
    caller: bool,
    /// Waits for accept, reject or establish.
    to_decide: bool,
    link: Option<Link>,
    established: bool,
    over: bool,
    released: bool,
    exited: bool,
}

#[derive(Default)]
struct Application {
    beliefs: BTreeMap<CommId, Belief>,
}

impl Application {
    /// Checks that an event may come now, and takes it in.
    fn hear(&mut self, event: &Event) {
        let id = event.id();
        if let Event::Request { .. } = event {
            let belief = Belief { to_decide: true, ..Belief::default() };
            assert!(self.beliefs.insert(id, belief).is_none(), "one request per id");
            return;
        }
        let belief = self.beliefs.get_mut(&id).expect("an event of a known id");
        assert!(!belief.released, "B54: an event after the release: {event:?}");
        assert!(!belief.exited, "an event after the last one: {event:?}");
        match event {
            Event::Reply { link, .. } => {
                assert!(belief.caller && belief.link.is_none() && !belief.over);
                (belief.link, belief.to_decide) = (Some(*link), true);
            }
            Event::Established { .. } => {
                assert!(!belief.caller && !belief.established && !belief.over);
                assert!(belief.link.is_some(), "established without accept");
                belief.established = true;
            }
            Event::Rejected { .. } | Event::TimedOut { .. } => {
                assert!(!belief.established && !belief.over, "{event:?} of what stands");
                (belief.over, belief.to_decide) = (true, false);
            }
            Event::Disconnected { .. } => {
                assert!(!belief.over, "the end is told once");
                assert!(belief.link.is_some());
                (belief.over, belief.to_decide) = (true, false);
            }
            Event::TimewaitExit { .. } => belief.exited = true,
            other => panic!("no resolutions here: {other:?}"),
        }
    }

    fn nth(&self, nth: usize, wanted: impl Fn(&Belief) -> bool) -> Option<CommId> {
        let mut live = self.beliefs.iter().filter(|(_, belief)| wanted(belief) && !belief.released);
        let all: Vec<_> = live.by_ref().map(|(id, _)| *id).collect();
        all.get(nth % all.len().max(1)).copied()
    }
}

struct Walk {
    world: World,
    a: Application,
    b: Application,
    /// What is on its way: to A?, and what.
    wire: Vec<(bool, Outgoing)>,
    next_qpn: u32,
    trace: Vec<String>,
}

impl Walk {
    fn new() -> Walk {
        let mut world = World::new();
        for end in [&mut world.a, &mut world.b] {
            end.cm.listen(Duration::from_secs(1_000), SERVICE, 4).expect("free");
        }
        let (a, b) = (Application::default(), Application::default());
        Walk { world, a, b, wire: vec![], next_qpn: 0x100, trace: vec![] }
    }

    fn side(&mut self, a: bool) -> (&mut End, &mut Application) {
        if a { (&mut self.world.a, &mut self.a) } else { (&mut self.world.b, &mut self.b) }
    }

    /// A queue pair and its first PSN, which is derived from it so that both can be compared.
    fn fresh(&mut self) -> (Qpn, Psn) {
        self.next_qpn += 1;
        (Qpn::new(self.next_qpn), Psn::new(self.next_qpn * 7))
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Call { from_a } => self.call(from_a),
            Step::Decide { at_a, nth, yes } => self.decide(at_a, nth, yes),
            Step::Disconnect { at_a, nth } => self.disconnect(at_a, nth),
            Step::Release { at_a, nth } => self.release(at_a, nth),
            Step::FirstPacket { at_a, nth } => self.first_packet(at_a, nth),
            Step::Deliver { nth } => self.deliver(nth, false),
            Step::Double { nth } => self.deliver(nth, true),
            Step::Lose { nth } if !self.wire.is_empty() => {
                self.wire.remove(nth % self.wire.len());
            }
            Step::Lose { .. } => {}
            Step::Wait { ms } => self.wait(Duration::from_millis(ms)),
        }
        self.gather();
    }

    fn call(&mut self, from_a: bool) {
        let (qpn, psn) = self.fresh();
        let now = self.world.now;
        let (end, application) = self.side(from_a);
        let remote = if from_a { B } else { A };
        let call = Call { source_port: 9, max_retries: 3, ..Call::new(remote, SERVICE, qpn, psn) };
        let id = end.cm.connect(now, &call).expect("room");
        application.beliefs.insert(id, Belief { caller: true, ..Belief::default() });
    }

    fn decide(&mut self, at_a: bool, nth: usize, yes: bool) {
        let (qpn, psn) = self.fresh();
        let now = self.world.now;
        let (end, application) = self.side(at_a);
        let Some(id) = application.nth(nth, |belief| belief.to_decide) else { return };
        let belief = application.beliefs.get_mut(&id).expect("it is there");
        belief.to_decide = false;
        if !yes {
            end.cm.reject(now, id, RejReason::CONSUMER, &[]).expect("it waits");
            belief.over = true;
        } else if belief.caller {
            end.cm.establish(id, &[]).expect("it waits");
            belief.established = true;
        } else {
            let acceptance = Acceptance::new(qpn, psn);
            belief.link = Some(end.cm.link_with(id, &acceptance).expect("it waits"));
            end.cm.accept(now, id, &acceptance).expect("it waits");
        }
    }

    fn disconnect(&mut self, at_a: bool, nth: usize) {
        let now = self.world.now;
        let (end, application) = self.side(at_a);
        // The called side may end what it has accepted before the caller confirms it.
        let accepted =
            |belief: &Belief| belief.established || !belief.caller && belief.link.is_some();
        let Some(id) = application.nth(nth, |belief| accepted(belief) && !belief.over) else {
            return;
        };
        let stands = matches!(end.cm.state(id), Some(State::Established | State::RepSent));
        assert_eq!(end.cm.disconnect(now, id, &[]).is_ok(), stands);
    }

    fn release(&mut self, at_a: bool, nth: usize) {
        let now = self.world.now;
        let (end, application) = self.side(at_a);
        let Some(id) = application.nth(nth, |_| true) else { return };
        end.cm.release(now, id);
        application.beliefs.get_mut(&id).expect("it is there").released = true;
    }

    fn first_packet(&mut self, at_a: bool, nth: usize) {
        let (end, application) = self.side(at_a);
        let accepted = |belief: &Belief| !belief.caller && belief.link.is_some();
        if let Some(id) = application.nth(nth, accepted) {
            end.cm.handle_comm_est(id);
        }
    }

    fn deliver(&mut self, nth: usize, keep: bool) {
        if self.wire.is_empty() {
            return;
        }
        let place = nth % self.wire.len();
        let (to_a, mad) = if keep { self.wire[place] } else { self.wire.remove(place) };
        let now = self.world.now;
        let from = if to_a { B } else { A };
        self.side(to_a).0.receive(now, from, &mad.bytes);
    }

    fn wait(&mut self, time: Duration) {
        let until = self.world.now + time;
        while let Some(at) = self.world.next_deadline().filter(|at| *at <= until) {
            self.world.now = self.world.now.max(at);
            self.world.fire();
            self.gather();
        }
        self.world.now = until;
    }

    /// Takes up what both have said.
    fn gather(&mut self) {
        for a in [true, false] {
            let (end, application) = self.side(a);
            end.collect();
            let events: Vec<_> = end.events.drain(..).collect();
            events.iter().for_each(|event| application.hear(event));
            let sent: Vec<_> = std::iter::from_fn(|| end.cm.poll_transmit()).collect();
            self.trace.extend(events.iter().map(|event| format!("{a} {}", event.id())));
            self.trace.extend(
                sent.iter().map(|mad| format!("{a} {} {:x}", message(mad).name(), tid(mad))),
            );
            self.wire.extend(sent.into_iter().map(|mad| (!a, mad)));
        }
        self.links_agree();
    }

    /// A caller and the end that it found agree. (It may find an end that has given up since, and
    /// was called again: hence by the PSN of the called side, which each acceptance has its own.)
    fn links_agree(&self) {
        for (mine, theirs) in [(&self.a, &self.b), (&self.b, &self.a)] {
            let links = |application: &Application, caller| -> Vec<Link> {
                let role = application.beliefs.values().filter(|belief| belief.caller == caller);
                role.filter_map(|belief| belief.link).collect()
            };
            let called = links(theirs, false);
            for caller in links(mine, true) {
                let found = called.iter().find(|link| link.rq_psn == caller.sq_psn);
                let found = found.expect("a REP that was sent");
                assert_eq!(found.sq_psn, caller.rq_psn);
                assert_eq!(caller.max_rd_atomic, found.max_dest_rd_atomic);
                assert_eq!(caller.sq_psn, Psn::new(caller.remote_qpn.get() * 7));
            }
        }
    }

    /// The wire gets reliable and the applications decide, end and release everything: nothing
    /// may be left then (I10, I14).
    fn settle(&mut self) {
        for _ in 0..70 {
            while !self.wire.is_empty() {
                self.step(&Step::Deliver { nth: 0 });
            }
            for at_a in [true, false] {
                self.step(&Step::Decide { at_a, nth: 0, yes: true });
                self.step(&Step::Disconnect { at_a, nth: 0 });
            }
            self.step(&Step::Wait { ms: 3_000 });
        }
        self.world.nothing_is_left();
        for application in [&self.a, &self.b] {
            let silent = |belief: &&Belief| !(belief.over || belief.released);
            let forgotten: Vec<_> = application.beliefs.values().filter(silent).collect();
            assert!(forgotten.is_empty(), "never told how it ended: {forgotten:?}");
        }
    }
}

fn walk(steps: &[Step]) -> Vec<String> {
    let mut walk = Walk::new();
    steps.iter().for_each(|step| walk.step(step));
    walk.settle();
    walk.trace
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn applications_are_told_a_consistent_story_and_nothing_is_left(steps in steps()) {
        walk(&steps);
    }

    /// I13: the same steps, the same trace.
    #[test]
    fn walks_are_repeatable(steps in steps()) {
        prop_assert_eq!(walk(&steps), walk(&steps));
    }

    /// A22: arbitrary messages, some of which hit live ids, never panic and never make an
    /// application hear what the model forbids.
    #[test]
    fn a22_a23_arbitrary_messages_among_real_ones(
        steps in steps(),
        noise in proptest::collection::vec((any::<[u8; 32]>(), 0x10..=0x1au16, any::<u8>()), 0..60),
    ) {
        let mut walk = Walk::new();
        for (at, step) in steps.iter().enumerate() {
            walk.step(step);
            let Some((body, attribute, pick)) = noise.get(at) else { continue };
            let ids: BTreeSet<CommId> = walk.a.beliefs.keys().chain(walk.b.beliefs.keys()).copied().collect();
            let id = ids.iter().nth(usize::from(*pick) % ids.len().max(1)).copied().unwrap_or_default();
            let mut bytes = [0; MAD_LEN];
            bytes[..4].copy_from_slice(&[1, 7, 2, 3]);
            bytes[16..18].copy_from_slice(&attribute.to_be_bytes());
            bytes[24..56].copy_from_slice(body);
            bytes[28..32].copy_from_slice(&id.0.to_be_bytes());
            // From an address that is nobody's peer: nothing may change.
            let (before_a, before_b) = (walk.world.a.cm.len(), walk.world.b.cm.len());
            let now = walk.world.now;
            walk.world.a.receive(now, C, &bytes);
            walk.world.b.receive(now, C, &bytes);
            prop_assert_eq!((before_a, before_b), (walk.world.a.cm.len(), walk.world.b.cm.len()));
            while let Some(mad) = walk.world.a.cm.poll_transmit() {
                prop_assert!(mad.peer == C, "an answer to somebody else");
            }
            while let Some(mad) = walk.world.b.cm.poll_transmit() {
                prop_assert!(mad.peer == C, "an answer to somebody else");
            }
            // From the peer's own address, with the id of the receiver but not the peer's: a call that waits
            // for its first answer has no other id to go by, all others stand.
            let ids: Vec<(bool, CommId)> = walk.a.beliefs.keys().map(|id| (true, *id))
                .chain(walk.b.beliefs.keys().map(|id| (false, *id))).collect();
            let stands = |walk: &Walk, (at_a, id): &(bool, CommId)| {
                let cm = if *at_a { &walk.world.a.cm } else { &walk.world.b.cm };
                cm.state(*id).filter(|state| *state != State::ReqSent)
            };
            let before: Vec<_> = ids.iter().map(|id| stands(&walk, id)).collect();
            let waits = |cm: &Cm| cm.state(id) == Some(State::ReqSent);
            if !waits(&walk.world.a.cm) && !waits(&walk.world.b.cm) {
                walk.world.a.receive(now, B, &bytes);
                walk.world.b.receive(now, A, &bytes);
            }
            let after: Vec<_> = ids.iter().map(|id| stands(&walk, id)).collect();
            let moved = before.iter().zip(&after).any(|(before, after)| before.is_some() && before != after);
            prop_assert!(!moved, "{:?} {:?}", before, after);
            while walk.world.a.cm.poll_transmit().is_some() {}
            while walk.world.b.cm.poll_transmit().is_some() {}
        }
        walk.settle();
    }
}
