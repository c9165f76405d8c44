//! Checks of connection management.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use uroce_cm::message::{Dreq, Rej, Rep, Req};
use uroce_cm::{Ari, CommId, Mad, MadError, Message, RejReason};
use uroce_wire::{Mtu, Qpn};

use super::finding::Ledger;
use super::flow_state::Agreed;
use super::rules::connection::{
    CM_MALFORMED, CM_NO_DREP, CM_NO_REPLY, CM_NO_RTU, CM_REFUSED_BY_APPLICATION, CM_REJECTED,
    CM_REPEATED,
};
use super::sight::Sight;
use super::unanswered::Retries;
use crate::Timestamp;
use crate::track::FlowKey;

/// Exchanges that are remembered.
const MAX_EXCHANGES: usize = 4096;
/// Silence behind a message after which no answer is expected any more.
const LONG: Duration = Duration::from_secs(10);

/// No sender repeats a message sooner: the network doubled it, or it was captured at several interfaces.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// A message that expects an answer.
#[derive(Debug, Clone, Copy)]
struct Asked {
    frame: u64,
    flow: usize,
    time: Timestamp,
    times: u32,
    /// Time between the last two of them.
    pause: Duration,
    is_answered: bool,
}

/// What a REQ said.
#[derive(Debug, Clone, Copy)]
struct Called {
    qpn: Qpn,
    mtu: u8,
    depth: u8,
    retries: u8,
    rnr_retries: u8,
}

/// One exchange, by the address and the id of the side that calls.
#[derive(Debug, Default, Clone, Copy)]
struct CmExchange {
    called: Option<Called>,
    request: Option<Asked>,
    reply: Option<Asked>,
    replied_qpn: Option<Qpn>,
    disconnect: Option<Asked>,
}

type Key = (IpAddr, IpAddr, CommId);

/// All exchanges of a capture.
#[derive(Debug, Default)]
pub(super) struct CmExchanges {
    exchanges: HashMap<Key, CmExchange>,
    agreed: HashMap<FlowKey, Agreed>,
    /// Flows that a message has just fixed values for.
    changed: Vec<FlowKey>,
    /// Flows that a DREQ has just closed.
    closed: Vec<FlowKey>,
}

impl Asked {
    fn again(before: Option<Self>, sight: &Sight<'_>, name: &str, ledger: &mut Ledger) -> Self {
        let packet = sight.packet;
        let Some(before) = before else {
            let (frame, time, flow) = (packet.frame, packet.time, sight.flow);
            return Self { frame, flow, time, times: 1, pause: LONG, is_answered: false };
        };
        let pause = packet.time.since(before.time);
        if pause < SHORTEST_PAUSE {
            return before;
        }
        sight.breaks(&CM_REPEATED, ledger, || {
            format!("{name} of frame {}, sent for time {}", before.frame, before.times + 1)
        });
        Self { times: before.times.saturating_add(1), time: packet.time, pause, ..before }
    }

    /// An answer may still be on its way behind the first repetition, until the time for the next one has come.
    fn is_given_up(&self, end: Timestamp) -> bool {
        let silence = end.since(self.time);
        !self.is_answered && (self.times > 2 || silence > LONG || silence >= self.pause)
    }
}

impl CmExchanges {
    /// What was fixed for a flow.
    pub(super) fn agreed(&self, flow: &FlowKey) -> Option<Agreed> {
        self.agreed.get(flow).copied()
    }

    /// Takes a flow whose values a message has just fixed: its queue pair begins anew.
    pub(super) fn poll_changed(&mut self) -> Option<FlowKey> {
        self.changed.pop()
    }

    /// Takes a flow that the message which was looked at last closes.
    pub(super) fn poll_closed(&mut self) -> Option<FlowKey> {
        self.closed.pop()
    }

    /// Looks at a management datagram.
    pub(super) fn check(&mut self, sight: &Sight<'_>, ledger: &mut Ledger) {
        if sight.packet.is_cut {
            return;
        }
        match Mad::parse(sight.payload) {
            Ok(mad) => self.handle(sight, &mad.message, ledger),
            // Other management classes are none of its business.
            Err(MadError::Class(_) | MadError::Length(_)) => {}
            Err(error) => sight.breaks(&CM_MALFORMED, ledger, || error.to_string()),
        }
    }

    fn handle(&mut self, sight: &Sight<'_>, message: &Message, ledger: &mut Ledger) {
        match message {
            Message::Req(req) => self.handle_req(sight, req, ledger),
            Message::Rep(rep) => self.handle_rep(sight, rep, ledger),
            Message::Rtu(rtu) => {
                // It answers a REP, which the capture of one direction does not have.
                self.answer(from(sight, rtu.local_comm_id));
                self.confirm(from(sight, rtu.local_comm_id));
            }
            Message::Mra(mra) => self.answer(to(sight, mra.remote_comm_id)),
            Message::Rej(rej) => self.handle_rej(sight, rej, ledger),
            Message::Dreq(dreq) => {
                self.close(sight, dreq);
                self.answer_disconnect(to(sight, dreq.remote_comm_id));
                if let Some(exchange) = self.exchange(from(sight, dreq.local_comm_id)) {
                    let asked = Asked::again(exchange.disconnect, sight, "DREQ", ledger);
                    exchange.disconnect = Some(asked);
                }
            }
            Message::Drep(drep) => self.answer_disconnect(to(sight, drep.remote_comm_id)),
            _ => {}
        }
    }

    fn handle_req(&mut self, sight: &Sight<'_>, req: &Req, ledger: &mut Ledger) {
        let Some(exchange) = self.exchange(from(sight, req.local_comm_id)) else { return };
        let again = exchange.called.is_some_and(|called| called.qpn == req.local_qpn);
        let before = exchange.request.filter(|_| again);
        if !again {
            *exchange = CmExchange::default();
        }
        exchange.request = Some(Asked::again(before, sight, "REQ", ledger));
        exchange.called = Some(Called {
            qpn: req.local_qpn,
            mtu: req.path_mtu,
            depth: req.responder_resources,
            retries: req.retry_count,
            rnr_retries: req.rnr_retry_count,
        });
    }

    fn handle_rep(&mut self, sight: &Sight<'_>, rep: &Rep, ledger: &mut Ledger) {
        let Some(exchange) = self.known(to(sight, rep.remote_comm_id)) else { return };
        if let Some(request) = exchange.request.as_mut() {
            request.is_answered = true;
        }
        let again = exchange.replied_qpn == Some(rep.qpn());
        let before = exchange.reply.filter(|_| again);
        exchange.reply = Some(Asked::again(before, sight, "REP", ledger));
        exchange.replied_qpn = Some(rep.qpn());
        if let (Some(called), false) = (exchange.called, again) {
            self.agree(sight, &called, rep);
        }
    }

    fn agree(&mut self, sight: &Sight<'_>, called: &Called, rep: &Rep) {
        let (passive, active) = (sight.packet.source_ip(), sight.packet.destination_ip());
        let bytes = Mtu::from_code(called.mtu).and_then(|mtu| u32::try_from(mtu.bytes()).ok());
        let there = FlowKey { source: active, destination: passive, destination_qpn: rep.qpn() };
        let back = FlowKey { source: passive, destination: active, destination_qpn: called.qpn };
        // Each end says how often the other one sends again behind RNR NAKs.
        let retries = |rnr| Retries { count: Some(called.retries), rnr: Some(rnr) };
        let (depth, from_there) = (rep.responder_resources, retries(rep.rnr_retry_count));
        self.fix(there, Agreed { mtu: bytes, depth, retries: from_there });
        let retries = retries(called.rnr_retries);
        self.fix(back, Agreed { mtu: bytes, depth: called.depth, retries });
    }

    /// A DREQ closes both directions. It names the queue pair of its receiver; that of its sender is known from
    /// REQ or REP.
    fn close(&mut self, sight: &Sight<'_>, dreq: &Dreq) {
        let (sender, receiver) = (sight.packet.source_ip(), sight.packet.destination_ip());
        let caller = self.exchanges.get(&from(sight, dreq.local_comm_id));
        let called = self.exchanges.get(&to(sight, dreq.remote_comm_id));
        let of_sender = caller
            .and_then(|exchange| exchange.called)
            .map(|called| called.qpn)
            .or_else(|| called.and_then(|exchange| exchange.replied_qpn));
        let there = Some((sender, receiver, dreq.remote_qpn));
        let back = of_sender.map(|qpn| (receiver, sender, qpn));
        let keys = [there, back].into_iter().flatten();
        self.closed.extend(keys.map(|(source, destination, destination_qpn)| FlowKey {
            source,
            destination,
            destination_qpn,
        }));
    }

    fn fix(&mut self, flow: FlowKey, agreed: Agreed) {
        if self.agreed.len() < MAX_EXCHANGES || self.agreed.contains_key(&flow) {
            self.agreed.insert(flow, agreed);
            self.changed.push(flow);
        }
    }

    fn handle_rej(&mut self, sight: &Sight<'_>, rej: &Rej, ledger: &mut Ledger) {
        self.answer(to(sight, rej.remote_comm_id));
        self.confirm(from(sight, rej.local_comm_id));
        let rule = match rej.reason {
            RejReason::CONSUMER => &CM_REFUSED_BY_APPLICATION,
            _ => &CM_REJECTED,
        };
        sight.breaks(rule, ledger, || Ari::of(rej).with(rej.reason));
    }

    fn answer(&mut self, key: Key) {
        if let Some(asked) = self.known(key).and_then(|exchange| exchange.request.as_mut()) {
            asked.is_answered = true;
        }
    }

    fn confirm(&mut self, key: Key) {
        if let Some(asked) = self.known(key).and_then(|exchange| exchange.reply.as_mut()) {
            asked.is_answered = true;
        }
    }

    fn answer_disconnect(&mut self, key: Key) {
        if let Some(asked) = self.known(key).and_then(|exchange| exchange.disconnect.as_mut()) {
            asked.is_answered = true;
        }
    }

    fn known(&mut self, key: Key) -> Option<&mut CmExchange> {
        self.exchanges.get_mut(&key)
    }

    fn exchange(&mut self, key: Key) -> Option<&mut CmExchange> {
        if self.exchanges.len() >= MAX_EXCHANGES && !self.exchanges.contains_key(&key) {
            return None;
        }
        Some(self.exchanges.entry(key).or_default())
    }

    /// At the end of the capture at `end`; `has_packets` tells whether a flow was seen.
    pub(super) fn conclude(
        &self,
        end: Timestamp,
        has_packets: impl Fn(&FlowKey) -> bool,
        ledger: &mut Ledger,
    ) {
        let mut exchanges: Vec<_> = self.exchanges.iter().collect();
        exchanges.sort_by_key(|(_, exchange)| exchange.request.map(|asked| asked.frame));
        for (&(active, passive, _), exchange) in exchanges {
            exchange.conclude(active, passive, end, &has_packets, ledger);
        }
    }
}

impl CmExchange {
    fn conclude(
        &self,
        active: IpAddr,
        passive: IpAddr,
        end: Timestamp,
        has_packets: impl Fn(&FlowKey) -> bool,
        ledger: &mut Ledger,
    ) {
        let given_up = |asked: &Asked| asked.is_given_up(end);
        if let Some(asked) = self.request.filter(given_up) {
            asked.tell(&CM_NO_REPLY, "REQ", ledger);
        }
        let flow = self.replied_qpn.map(|qpn| FlowKey {
            source: active,
            destination: passive,
            destination_qpn: qpn,
        });
        let has_data = flow.is_some_and(|flow| has_packets(&flow));
        if let Some(asked) = self.reply.filter(given_up).filter(|_| !has_data) {
            asked.tell(&CM_NO_RTU, "REP", ledger);
        }
        if let Some(asked) = self.disconnect.filter(given_up) {
            asked.tell(&CM_NO_DREP, "DREQ", ledger);
        }
    }
}

impl Asked {
    fn tell(&self, rule: &'static super::Rule, name: &str, ledger: &mut Ledger) {
        ledger.record(rule, Some(self.flow), self.frame, || {
            format!("{name} of frame {}, sent {} times", self.frame, self.times)
        });
    }
}

fn from(sight: &Sight<'_>, id: CommId) -> Key {
    (sight.packet.source_ip(), sight.packet.destination_ip(), id)
}

fn to(sight: &Sight<'_>, id: CommId) -> Key {
    (sight.packet.destination_ip(), sight.packet.source_ip(), id)
}
