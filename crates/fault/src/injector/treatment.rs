//! One packet and the rules that it meets.

use std::time::Duration;

use super::answer::answer;
use super::edit::{edit, refusal, repair};
use super::event::add_comment;
use super::matching::matches;
use super::store::NewPacket;
use super::{Facts, FaultEvent, FaultInjector, FlowKey, Origin, Refusal, Verdict, What};
use crate::packet_view::PacketView;
use crate::rule::Action;
use crate::{PacketMeta, Time};

/// Packets of one direction between two addresses are dropped until a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mute {
    pub rule: usize,
    pub until: Time,
    pub meta: PacketMeta,
}

impl Mute {
    fn covers(&self, meta: &PacketMeta) -> bool {
        let (own, other) = (&self.meta.flow, &meta.flow);
        self.meta.direction == meta.direction && own.src == other.src && own.dst == other.dst
    }
}

/// What the rules have decided about the current packet so far.
#[derive(Debug, Default)]
pub(super) struct Treatment {
    /// The packet with its changes; empty without any.
    bytes: Vec<u8>,
    meta: Option<PacketMeta>,
    pub comment: String,
    is_edited: bool,
    is_damaged: bool,
    pub is_dropped: bool,
    pub delay: Duration,
    pub hold: Option<u32>,
    pub copies: u32,
    /// The last rule that did something.
    rule: usize,
}

impl Treatment {
    pub(super) fn begin(&mut self, meta: &PacketMeta) {
        self.meta = Some(*meta);
        self.comment.clear();
        (self.is_edited, self.is_damaged, self.is_dropped) = (false, false, false);
        (self.delay, self.hold, self.copies) = (Duration::ZERO, None, 0);
    }

    pub(super) fn comment(&self) -> &str {
        &self.comment
    }

    /// The packet as it is by now.
    fn current<'a>(&'a self, original: &'a [u8]) -> &'a [u8] {
        if self.is_edited { &self.bytes } else { original }
    }

    fn copy(&mut self, original: &[u8]) {
        if !self.is_edited {
            self.bytes.clear();
            self.bytes.extend_from_slice(original);
            self.is_edited = true;
        }
    }

    fn waits(&self) -> bool {
        self.is_edited || self.hold.is_some() || !self.delay.is_zero()
    }
}

/// The packet that the rules look at.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub now: Time,
    pub meta: &'a PacketMeta,
    pub view: PacketView<'a>,
}

impl FaultInjector {
    /// All rules, one behind the other.
    pub(super) fn treat(&mut self, now: Time, meta: &PacketMeta, packet: &[u8]) -> Verdict {
        let subject = Subject { now, meta, view: PacketView::new(packet) };
        let facts = self.note(&subject);
        if !self.mutes.is_empty() && self.is_muted(&subject) {
            return Verdict::Dropped;
        }
        let direction = meta.direction.index();
        for at in 0..self.by_direction[direction].len() {
            let index = self.by_direction[direction][at];
            if !self.takes(index, &subject, &facts) || !self.apply(index, &subject) {
                continue;
            }
            if self.treatment.is_dropped || self.is_stopped || !self.rules[index].options.also {
                break;
            }
        }
        self.settle(&subject)
    }

    /// Remembers what later rules and packets need.
    fn note(&mut self, subject: &Subject<'_>) -> Facts {
        if !self.needs.history && !self.needs.peers {
            return Facts::default();
        }
        let facts = self.flows.note(subject.meta, &subject.view);
        if self.needs.peers {
            self.flows.learn_from_response(subject.meta, &subject.view);
            self.connections.note(subject.meta, &subject.view, &mut self.flows);
        }
        facts
    }

    fn is_muted(&mut self, subject: &Subject<'_>) -> bool {
        self.mutes.retain(|mute| subject.now < mute.until);
        let Some(mute) = self.mutes.iter().find(|mute| mute.covers(subject.meta)) else {
            return false;
        };
        let rule = mute.rule;
        self.states[rule].applied += 1;
        self.tell(rule, subject, What::Muted);
        true
    }

    /// True if a rule takes the packet.
    #[inline]
    fn takes(&mut self, index: usize, subject: &Subject<'_>, facts: &Facts) -> bool {
        let (rule, state) = (&self.rules[index], &mut self.states[index]);
        let matches = state.is_open(&rule.options, subject.now)
            && matches(&rule.matcher, subject.meta, &subject.view, facts);
        state.matched += u64::from(matches);
        matches && state.takes(&rule.options)
    }

    /// Does what a rule says; false if it cannot be done to this packet.
    fn apply(&mut self, index: usize, subject: &Subject<'_>) -> bool {
        let mut reply = None;
        for action in &self.rules[index].actions {
            let current = self.treatment.current(subject.view.bytes());
            let refused = match *action {
                Action::Mute(_) if self.mutes.len() >= self.mutes_max => {
                    Some(Refusal::TooManyMuted)
                }
                Action::Answer(kind) => {
                    match answer(kind, subject.meta, &subject.view, &self.flows) {
                        Ok(packet) => {
                            reply = Some((kind, packet));
                            None
                        }
                        Err(reason) => Some(reason),
                    }
                }
                ref action => refusal(action, current),
            };
            if let Some(reason) = refused {
                self.states[index].count_refused(reason);
                return false;
            }
        }
        self.treatment.rule = index;
        self.change_bytes(index, subject);
        self.decide(index, subject);
        if let Some((kind, packet)) = reply {
            self.reply(index, subject, kind, &packet);
        }
        self.count(index);
        true
    }

    fn count(&mut self, index: usize) {
        let is_done = self.states[index].count_applied(&self.rules[index].options);
        if let Some(successor) = self.successors[index].filter(|_| is_done) {
            self.states[successor].is_active = true;
        }
    }

    /// First the fields, whose ICRC is made right; then the damage, whose ICRC is not.
    fn change_bytes(&mut self, index: usize, subject: &Subject<'_>) {
        let has = |wanted: fn(&Action) -> bool| self.rules[index].actions.iter().any(wanted);
        let (sets, keeps) = (has(is_set), has(|action| *action == Action::KeepIcrc));
        let (damages, fixes) = (has(is_damage), has(|action| *action == Action::FixIcrc));
        self.edit_all(index, subject, is_set);
        if sets && !keeps {
            self.repair(subject);
        }
        self.edit_all(index, subject, is_damage);
        self.treatment.is_damaged |= damages || (sets && keeps);
        if fixes {
            self.repair(subject);
        }
        self.edit_all(index, subject, |action| *action == Action::Mark);
    }

    fn repair(&mut self, subject: &Subject<'_>) {
        self.treatment.copy(subject.view.bytes());
        repair(&mut self.treatment.bytes, subject.meta);
        self.treatment.is_damaged = false;
    }

    fn edit_all(&mut self, index: usize, subject: &Subject<'_>, wanted: fn(&Action) -> bool) {
        for at in 0..self.rules[index].actions.len() {
            let action = self.rules[index].actions[at];
            if !wanted(&action) {
                continue;
            }
            self.treatment.copy(subject.view.bytes());
            let Treatment { bytes, meta: Some(meta), .. } = &mut self.treatment else {
                return;
            };
            if let Some(what) = edit(&action, bytes, meta, &mut self.states[index]) {
                self.tell(index, subject, what);
            }
        }
    }

    /// The packet leaves the rules.
    fn settle(&mut self, subject: &Subject<'_>) -> Verdict {
        if self.treatment.is_dropped {
            return Verdict::Dropped;
        }
        let mut verdict = Verdict::Pass;
        if self.treatment.waits() {
            verdict = Verdict::Taken;
            if !self.keep(subject, Origin::Packet) {
                self.counters.no_room += 1;
                self.tell(self.treatment.rule, subject, What::NoRoom);
                return Verdict::Dropped;
            }
        }
        for _ in 0..self.treatment.copies {
            if !self.keep(subject, Origin::Copy) {
                self.counters.added_lost += 1;
            }
        }
        verdict
    }

    fn keep(&mut self, subject: &Subject<'_>, origin: Origin) -> bool {
        let treatment = &self.treatment;
        let packet = NewPacket {
            meta: treatment.meta.unwrap_or(*subject.meta),
            bytes: treatment.current(subject.view.bytes()),
            comment: &treatment.comment,
            origin,
            is_damaged: treatment.is_damaged,
        };
        let key = FlowKey::new(subject.meta, &subject.view);
        let hold = key.zip(treatment.hold);
        self.store.put(subject.now.saturating_add(treatment.delay), packet, hold)
    }

    /// An event and a comment, unless the rule is quiet.
    pub(super) fn tell(&mut self, index: usize, subject: &Subject<'_>, what: What) {
        if self.rules[index].options.quiet {
            return;
        }
        add_comment(&mut self.treatment.comment, what, &self.states[index].label);
        if self.events.len() >= self.events_max {
            self.events.pop_front();
            self.counters.events_lost += 1;
        }
        self.events.push_back(FaultEvent {
            time: subject.now,
            meta: *subject.meta,
            opcode: subject.view.opcode(),
            dest_qp: subject.view.dest_qp(),
            psn: subject.view.psn().map(|psn| psn.get()),
            rule: index,
            what,
        });
    }
}

fn is_set(action: &Action) -> bool {
    matches!(action, Action::Set { .. })
}

fn is_damage(action: &Action) -> bool {
    matches!(action, Action::Corrupt { .. } | Action::Truncate(_))
}
