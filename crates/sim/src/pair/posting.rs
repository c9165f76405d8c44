//! What the application posts.

use uroce_device::memory::{Lkey, Rkey};
use uroce_device::transport::{AddressVector, QpType, SendData, SendFlags, SendWr, UdDestination};

use super::completion::split;
use super::{Pair, Turn};
use crate::arena::{MAX_MESSAGE, Pieces, SOURCE, WORDS};
use crate::end::QKEY;
use crate::request::{Message, Mistake, Posted, Work};
use crate::violation::{Check, Invariant};
use crate::windows::WindowState;

/// Most requests of one turn.
const BURST: usize = 8;

impl Pair {
    /// A turn of the application at one end: receives, requests, and a pause.
    pub(super) fn act(&mut self, index: usize, turn: &mut Turn<'_>) -> Check {
        let depth = self.plan.caps.max_recv_wr as usize;
        self.has_acted = true;
        // An application that posts its receives late makes the peer meet RNR NAKs.
        if self.random.chance(80) {
            let posted = self.ends[index].post_receives(&self.plan, &mut self.random);
            posted.map_err(|what| (Invariant::Completions, what))?;
        }
        if self.random.chance(1) {
            self.ends[index].resize_cqs(&self.plan, &mut self.random);
            turn.coverage.count("completion queues that are resized at work");
        }
        for _ in 0..self.random.below(BURST) {
            let end = &self.ends[index];
            let room = self.plan.caps.max_send_wr as usize - end.sends.len();
            if end.left == 0 || room == 0 || self.has_mistake || !self.may_send(index) {
                break;
            }
            self.post(index, turn)?;
        }
        self.ends[index].wake_ns = Some(turn.now_ns + 1 + self.pause());
        let may_send = self.may_send(index);
        let end = &mut self.ends[index];
        let has_room = end.sends.len() < self.plan.caps.max_send_wr as usize;
        let has_requests = end.left > 0 && has_room && may_send && !self.has_mistake;
        if !has_requests && end.receives.len() == depth {
            end.wake_ns = None;
        }
        Ok(())
    }

    /// Time until the application acts again.
    pub(super) fn pause(&mut self) -> u64 {
        self.random.below(self.plan.pause_ns as usize) as u64
    }

    fn post(&mut self, index: usize, turn: &mut Turn<'_>) -> Check {
        let Some(mut posted) = self.draw(index, turn.now_ns) else { return Ok(()) };
        self.draw_mistake(index, &mut posted);
        if let Work::Bind { window } = posted.work
            && self.ends[index].windows.is_bound(window)
        {
            turn.coverage.count("a window of type 1 that moves");
        }
        self.draw_way(index, &mut posted, turn.now_ns);
        let end = &self.ends[index];
        let is_last = end.left == 1 || end.sends.len() + 1 == self.plan.caps.max_send_wr as usize;
        posted.is_signalled = self.plan.signal_all
            || is_last
            || posted.mistake.is_some()
            || self.random.chance(self.plan.signalled);
        self.hand_over(index, &posted)?;
        turn.coverage.count(posted.work.name());
        if let Some(mistake) = posted.mistake {
            turn.coverage.count(mistake.name());
        }
        let end = &mut self.ends[index];
        end.left -= 1;
        end.next_wr += 1;
        if posted.work.needs_receive() && posted.mistake.is_none() {
            let number = end.sent;
            end.sent += 1;
            let message = self.message_of(index, &posted, number);
            self.ends[1 - index].awaited.push_back(message);
        }
        self.ends[index].sends.push_back(posted);
        Ok(())
    }

    /// A request without a mistake; `None` if there is no memory for it now.
    fn draw(&mut self, index: usize, now_ns: u64) -> Option<Posted> {
        let service = self.plan.service;
        let length = self.length();
        let kind = match service {
            QpType::Ud => 0,
            QpType::Uc => self.random.below(12),
            // Type 2 windows serve the queue pair that binds them, and that of XRC serves nobody.
            QpType::XrcIni if self.plan.type_1_windows() == 0 => self.random.below(23),
            QpType::XrcIni => self.random.below(26),
            // Neither windows nor ATOMIC WRITE and FLUSH.
            QpType::Rc if self.has_model() => self.random.below(20),
            _ => self.random.below(27),
        };
        let number = self.ends[index].sent;
        // Messages of an unreliable service are told apart by their immediate data.
        let imm = (!service.is_reliable() || self.random.chance(30)).then_some(number);
        let (work, length) = match kind {
            0..6 => (Work::Send { imm }, length),
            6..12 => {
                let target = self.ends[1 - index].arena.take()?;
                (Work::Write { target, imm: imm.filter(|_| self.random.chance(40)) }, length)
            }
            12..16 => {
                let landing = self.ends[index].arena.take()?;
                let offset = self.random.below(SOURCE - length) as u32;
                (Work::Read { offset, landing }, length)
            }
            16..20 => (self.draw_atomic(index)?, 8),
            _ => self.draw_other(index, kind)?,
        };
        let pieces = if work.carries() { self.pieces(length) } else { vec![] };
        let wr_id = self.ends[index].next_wr;
        let (is_signalled, mistake) = (true, None);
        let (key, window, posted_ns) = (None, None, now_ns);
        Some(Posted { wr_id, work, is_signalled, mistake, pieces, length, key, window, posted_ns })
    }

    /// ATOMIC WRITE, FLUSH, and what concerns windows. `None` if no window is in the right state.
    fn draw_other(&mut self, index: usize, kind: usize) -> Option<(Work, usize)> {
        let (end, peer) = split(&mut self.ends, index);
        let random = &mut self.random;
        Some(match kind {
            20..22 => (Work::AtomicWrite { target: peer.arena.take()? }, 8),
            22 => (Work::Flush { offset: random.below(SOURCE / 2) as u32 }, random.range(1, 4096)),
            23..25 => (Work::Bind { window: end.windows.bindable(random)? }, 1),
            25 => match end.windows.idle(random)? {
                window if end.windows.is_type_1(window) => (Work::Unbind { window }, 0),
                window => (Work::Invalidate { window }, 0),
            },
            _ => {
                let window = peer.windows.idle(random)?;
                if peer.windows.is_type_1(window) {
                    return None;
                }
                (Work::SendInvalidate { window }, random.below(600))
            }
        })
    }

    /// The way to the peer's memory: through a window, or a region that is soon no more. Marks windows.
    fn draw_way(&mut self, index: usize, posted: &mut Posted, now_ns: u64) {
        let (end, peer) = split(&mut self.ends, index);
        match posted.work {
            Work::Bind { window } => end.windows.set_state(window, WindowState::Binding),
            Work::Unbind { window } | Work::Invalidate { window } => {
                end.windows.set_state(window, WindowState::Ending);
            }
            Work::SendInvalidate { window } => peer.windows.set_state(window, WindowState::Ending),
            _ => {}
        }
        let is_flush = matches!(posted.work, Work::Flush { .. });
        let may_be_empty = matches!(posted.work, Work::Write { .. } | Work::Read { .. });
        if posted.length == 0 && may_be_empty && self.random.chance(50) {
            // The key of an empty access is not looked at (C9-88); 0 is never one.
            posted.key = Some(Rkey(0));
            return;
        }
        if !self.plan.service.is_reliable()
            || posted.work.is_keyless()
            || posted.mistake.is_some()
            || is_flush
        {
            return;
        }
        if self.random.chance(30) {
            let Some(window) = peer.windows.bound(&mut self.random) else { return };
            peer.windows.retain(window);
            (posted.window, posted.key) = (Some(window), Some(peer.windows.rkey(window)));
            return;
        }
        self.draw_withdrawal(index, posted, now_ns);
    }

    fn draw_atomic(&mut self, index: usize) -> Option<Work> {
        let landing = self.ends[index].arena.take()?;
        let word = self.random.below(WORDS);
        if self.random.chance(50) {
            return Some(Work::FetchAdd { word, add: self.random.next() & 0xff, landing });
        }
        let known = self.ends[1 - index].arena.words[word];
        let compare = if self.random.chance(70) { known } else { 1 };
        Some(Work::CompareSwap { word, compare, swap: self.random.next(), landing })
    }

    /// Lengths around multiples of the path MTU, small ones, and any.
    fn length(&mut self) -> usize {
        let mtu = self.plan.mtu.bytes();
        let most = if self.plan.service == QpType::Ud { mtu } else { MAX_MESSAGE };
        let random = &mut self.random;
        if self.plan.full_packets {
            return random.range(1, (most / mtu).min(8)) * mtu;
        }
        let length = match random.below(10) {
            0..2 => random.below(9),
            2..6 => random.below(600),
            6..9 => (random.range(1, 8) * mtu + 1).saturating_sub(random.below(3)),
            _ => random.below(most + 1),
        };
        length.min(most)
    }

    /// Parts of the source, some of them empty, that are `length` bytes together.
    fn pieces(&mut self, length: usize) -> Pieces {
        let count = self.random.range(1, self.plan.caps.max_send_sge as usize);
        let mut rest = length;
        let mut pieces = Vec::with_capacity(count);
        for left in (0..count).rev() {
            let part = if left == 0 { rest } else { self.random.below(rest + 1) };
            pieces.push((self.random.below(SOURCE - part) as u32, part as u32));
            rest -= part;
        }
        pieces
    }

    fn draw_mistake(&mut self, index: usize, posted: &mut Posted) {
        let service = self.plan.service;
        if service == QpType::Ud || self.random.below(1000) >= self.plan.mistakes {
            return;
        }
        let is_send = matches!(posted.work, Work::SendInvalidate { .. });
        if posted.length == 0 || is_send || service == QpType::Uc && posted.work.is_keyless() {
            return;
        }
        let mistake = match self.random.below(3) {
            _ if matches!(posted.work, Work::Bind { .. }) => Mistake::Region,
            _ if posted.work.is_keyless() => Mistake::LocalKey,
            0 if matches!(posted.work, Work::Flush { .. }) => Mistake::Range,
            0 if service.is_reliable() => Mistake::LocalKey,
            1 => Mistake::Range,
            _ => Mistake::Key,
        };
        if mistake == Mistake::Key {
            let peer = &mut self.ends[1 - index];
            // Keys of windows that were invalidated are among those that there are.
            if peer.stale_keys.is_empty() || self.random.chance(30) {
                peer.make_stale_key();
            }
            // The keys that a window of type 1 has just lost are of most interest.
            let newest = if self.plan.type_1 > 0 { 2 } else { usize::MAX };
            let first = peer.stale_keys.len().saturating_sub(newest);
            let which = first + self.random.below(peer.stale_keys.len() - first);
            posted.key = Some(peer.stale_keys[which]);
        }
        posted.mistake = Some(mistake);
        // ADR 36: the parts that lie in the region are written before the first one that does not.
        let is_split = self.splits_writes
            && matches!(posted.work, Work::Write { imm: None, .. })
            && posted.length > self.plan.mtu.bytes();
        if mistake == Mistake::Range && is_split {
            self.ends[1 - index].arena.open_tail();
        }
        // UC loses the message, and tells nobody.
        self.has_mistake |= self.is_reliable();
    }

    /// Posts a request to the device.
    fn hand_over(&mut self, index: usize, posted: &Posted) -> Check {
        let (end, peer) = (&self.ends[index], &self.ends[1 - index]);
        let (va, rkey) = self.target(index, posted);
        let mut sges = match posted.work {
            _ if posted.work.carries() => end.arena.gather(&posted.pieces),
            Work::Read { landing, .. } => end.arena.scatter(landing, posted.length, &[5]),
            Work::FetchAdd { landing, .. } | Work::CompareSwap { landing, .. } => {
                end.arena.scatter(landing, 8, &[])
            }
            _ => vec![],
        };
        sges.truncate(self.plan.caps.max_send_sge as usize);
        if posted.mistake == Some(Mistake::LocalKey) {
            sges.iter_mut().for_each(|sge| sge.lkey = Lkey(sge.lkey.0 ^ 0xff));
        }
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, posted.is_signalled);
        flags.set(SendFlags::SOLICITED, posted.wr_id.is_multiple_of(5));
        flags.set(SendFlags::FENCE, posted.wr_id.is_multiple_of(7) && self.is_reliable());
        let inline = self.inline_bytes(index, posted);
        let parts = [inline.as_deref().unwrap_or_default()];
        let data = match inline {
            Some(_) => SendData::Inline(&parts),
            None => SendData::Sges(&sges),
        };
        let ud = (self.plan.service == QpType::Ud).then(|| UdDestination {
            av: AddressVector::new(end.nic.address(), peer.nic.address()),
            qpn: peer.qpn,
            qkey: QKEY,
        });
        let op = self.verb(index, posted, va, rkey);
        let wr = SendWr { wr_id: posted.wr_id, op, flags, data, ud, srqn: peer.srqn() };
        let refused = |error: String| {
            (Invariant::Completions, format!("a {} was refused: {error}", posted.work.name()))
        };
        end.post_send(&wr).map_err(refused)
    }

    /// Remote address and key of a request.
    fn target(&self, index: usize, posted: &Posted) -> (u64, Rkey) {
        let arena = &self.ends[1 - index].arena;
        let va = match posted.work {
            Work::Write { target, .. } | Work::AtomicWrite { target } => arena.addr(target),
            Work::Read { offset, .. } | Work::Flush { offset } => arena.source_addr(offset),
            Work::FetchAdd { word, .. } | Work::CompareSwap { word, .. } => arena.word_addr(word),
            _ => 0,
        };
        // Of a range that is too long, the first half is inside; a word is aligned.
        let is_aligned = matches!(posted.work, Work::AtomicWrite { .. });
        let inside =
            if is_aligned || posted.work.word().is_some() { 0 } else { posted.length as u64 / 2 };
        match posted.mistake {
            Some(Mistake::Range) if posted.wr_id.is_multiple_of(2) => {
                // The end of the range wraps at 2^64.
                (0u64.wrapping_sub(8.max(inside)), arena.rkey())
            }
            Some(Mistake::Range) => (arena.end_addr() - inside, arena.rkey()),
            _ => (va, posted.key.unwrap_or(arena.rkey())),
        }
    }

    /// The payload, for requests that carry it inline.
    fn inline_bytes(&self, index: usize, posted: &Posted) -> Option<Vec<u8>> {
        let fits = posted.length <= self.plan.caps.max_inline as usize;
        let carries = posted.work.carries();
        if !fits || !carries || posted.mistake.is_some() || !posted.wr_id.is_multiple_of(3) {
            return None;
        }
        let mut bytes = Vec::with_capacity(posted.length);
        self.ends[index].arena.copy_source(&posted.pieces, &mut bytes);
        Some(bytes)
    }

    fn message_of(&self, index: usize, posted: &Posted, number: u32) -> Message {
        let (mut imm, mut is_write, mut invalidates) = (None, false, None);
        match posted.work {
            Work::Write { imm: value, .. } => (imm, is_write) = (value, true),
            Work::Send { imm: value } => imm = value,
            Work::SendInvalidate { window } => {
                invalidates = Some(self.ends[1 - index].windows.rkey(window));
            }
            _ => {}
        }
        let (pieces, length) = (posted.pieces.clone(), posted.length);
        Message { number, pieces, length, imm, invalidates, is_write }
    }
}
