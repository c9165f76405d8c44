//! What both sides will post, and what memory must look like afterwards. The model executes every
//! request at once and in post order; it knows nothing of packets.

use uroce_memory::{Access, MwBind, MwType, Rkey, Sge};
use uroce_transport::{SendFlags, SendOp};

use super::rng::Rng;
use crate::harness::{MR_LEN, Node, Pair, QPNS};

/// Never written: the source of SENDs and WRITEs, and what READs read.
pub const SOURCE: usize = 200_000;
/// WRITEs go here.
pub const WRITES: std::ops::Range<usize> = SOURCE..280_000;
/// Eight words for atomics.
pub const WORDS: usize = WRITES.end;
/// Receives and READ results; every buffer has a canary behind it.
const LANDING: usize = 300_000;
const CANARY: u8 = 0xee;
const GAP: usize = 8;

/// A send work request.
#[derive(Debug, Clone)]
pub struct Posted {
    pub wr_id: u64,
    pub op: SendOp,
    pub flags: SendFlags,
    pub sges: Vec<Sge>,
    pub inline: Option<Vec<u8>>,
}

/// A receive work request and what it must report.
#[derive(Debug, Clone)]
pub struct Awaited {
    pub wr_id: u64,
    pub sges: Vec<Sge>,
    pub length: usize,
    pub imm: Option<u32>,
    pub invalidated: Option<u32>,
    pub write: bool,
}

/// One side's half.
pub struct Half {
    pub sends: Vec<Posted>,
    pub recvs: Vec<Awaited>,
    /// The whole region as it must be at the end.
    pub shadow: Vec<u8>,
    landing: usize,
    /// Keys of windows that the peer may invalidate.
    windows: Vec<Rkey>,
    /// What this side may bind and then invalidate.
    own_windows: Vec<OwnWindow>,
}

/// A window that its owner binds by posting.
#[derive(Clone, Copy)]
struct OwnWindow {
    bind: SendOp,
    rkey: Rkey,
    bound: bool,
}

pub struct Plan {
    pub halves: [Half; 2],
    mtu: usize,
    inline: usize,
    sges: usize,
}

impl Half {
    fn new(node: &mut Node, index: usize, rng: &mut Rng) -> Half {
        let mut shadow = vec![CANARY; MR_LEN];
        let source = rng.bytes(WRITES.end);
        shadow[..WRITES.end].copy_from_slice(&source);
        shadow[WORDS..WORDS + 64].copy_from_slice(&rng.bytes(64));
        node.fill(0, &shadow);
        let count = rng.below(4);
        let windows = (0..count).map(|_| bound_window(node, index)).collect();
        let count = rng.below(4);
        let own_windows = (0..count).map(|_| own_window(node)).collect();
        let landing = LANDING;
        Half { sends: vec![], recvs: vec![], shadow, landing, windows, own_windows }
    }

    /// Room for `length` bytes, if there is any left.
    fn land(&mut self, length: usize) -> Option<usize> {
        let at = self.landing;
        let next = (at + length + GAP).next_multiple_of(8);
        if next > MR_LEN {
            return None;
        }
        self.landing = next;
        Some(at)
    }
}

fn bound_window(node: &mut Node, index: usize) -> Rkey {
    let mw = node.mem.alloc_mw(node.pd, MwType::Type2B).unwrap();
    let new_rkey = Rkey((mw.rkey.0 & !0xff) | (mw.rkey.0.wrapping_add(1) & 0xff));
    let (mr, va, length) = (node.mr.lkey, node.va(WRITES.start), WRITES.len() as u64);
    let (pd, qpn, access) = (node.pd, QPNS[index], Access::REMOTE_WRITE);
    node.mem.bind_mw(&MwBind { mw: mw.id, mr, new_rkey, va, length, access, pd, qpn }).unwrap()
}

fn own_window(node: &mut Node) -> OwnWindow {
    let mw = node.mem.alloc_mw(node.pd, MwType::Type2B).unwrap();
    let rkey = Rkey((mw.rkey.0 & !0xff) | (mw.rkey.0.wrapping_add(1) & 0xff));
    let (mr, va, access) = (node.mr.lkey, node.va(0), Access::REMOTE_READ);
    let bind = SendOp::BindMw { mw: mw.id, new_rkey: rkey, mr, va, length: 64, access };
    OwnWindow { bind, rkey, bound: false }
}

impl Plan {
    pub fn new(pair: &mut Pair, rng: &mut Rng, count: usize) -> Plan {
        let [first, second] = &mut pair.nodes;
        let halves = [Half::new(first, 0, rng), Half::new(second, 1, rng)];
        let caps = pair.setup.caps;
        let mut plan = Plan {
            halves,
            mtu: pair.setup.mtu.bytes(),
            inline: caps.max_inline as usize,
            sges: caps.max_send_sge as usize,
        };
        for number in 0..count {
            // A target of XRC requests nothing.
            let from = if pair.setup.qp_type.is_xrc() { 0 } else { rng.below(2) };
            plan.draw(pair, from, number as u64, rng);
        }
        plan
    }

    fn length(&self, rng: &mut Rng) -> usize {
        match rng.below(20) {
            0..4 => rng.below(9),
            4..12 => rng.below(600),
            12..17 => (rng.range(1, 6) * self.mtu + 1).saturating_sub(rng.below(3)).min(20_000),
            _ => rng.below(20_000),
        }
    }

    fn draw(&mut self, pair: &Pair, from: usize, wr_id: u64, rng: &mut Rng) {
        let length = self.length(rng);
        match rng.below(20) {
            0..7 => self.send(pair, from, wr_id, length, rng),
            7..12 => self.write(pair, from, wr_id, length, rng),
            12..16 => self.read(pair, from, wr_id, length, rng),
            16..18 => self.atomic(pair, from, wr_id, rng),
            _ => self.rare(pair, from, wr_id, rng),
        }
    }

    fn flags(&self, rng: &mut Rng) -> SendFlags {
        let mut flags = SendFlags::empty();
        flags.set(SendFlags::SIGNALED, rng.chance(60));
        flags.set(SendFlags::FENCE, rng.chance(15));
        flags.set(SendFlags::SOLICITED, rng.chance(20));
        flags
    }

    /// `length` bytes at random places of the source, in one to a few pieces, or inline.
    fn source(
        &mut self,
        pair: &Pair,
        from: usize,
        length: usize,
        rng: &mut Rng,
    ) -> (Vec<Sge>, Option<Vec<u8>>, Vec<u8>) {
        if length <= self.inline && rng.chance(30) {
            let bytes = rng.bytes(length);
            return (vec![], Some(bytes.clone()), bytes);
        }
        let (mut sges, mut bytes) = (vec![], vec![]);
        for piece in split(length, self.sges, rng) {
            let at = rng.below(SOURCE - piece);
            sges.push(pair.nodes[from].sge(at, piece as u32));
            bytes.extend_from_slice(&self.halves[from].shadow[at..at + piece]);
        }
        (sges, None, bytes)
    }

    /// Places for `bytes`, which the model writes there at once.
    fn target(
        &mut self,
        pair: &Pair,
        at_node: usize,
        room: usize,
        bytes: &[u8],
        rng: &mut Rng,
    ) -> Option<Vec<Sge>> {
        let max = self.sges;
        let half = &mut self.halves[at_node];
        let (mut sges, mut bytes) = (vec![], bytes);
        for piece in split(room, max, rng) {
            let at = half.land(piece)?;
            sges.push(pair.nodes[at_node].sge(at, piece as u32));
            let take = piece.min(bytes.len());
            half.shadow[at..at + take].copy_from_slice(&bytes[..take]);
            bytes = &bytes[take..];
        }
        Some(sges)
    }

    fn push(&mut self, from: usize, posted: Posted) {
        self.halves[from].sends.push(posted);
    }

    fn send(&mut self, pair: &Pair, from: usize, wr_id: u64, length: usize, rng: &mut Rng) {
        let to = 1 - from;
        let (sges, inline, bytes) = self.source(pair, from, length, rng);
        let room = length + rng.below(20);
        let Some(target) = self.target(pair, to, room, &bytes, rng) else { return };
        let window = if rng.chance(30) { self.halves[to].windows.pop() } else { None };
        let imm = rng.chance(30).then(|| rng.next() as u32);
        let op = match (window, imm) {
            (Some(rkey), _) => SendOp::SendWithInvalidate(rkey),
            (None, Some(imm)) => SendOp::SendWithImm(imm),
            (None, None) => SendOp::Send,
        };
        self.await_message(to, target, length, imm.filter(|_| window.is_none()), window, false);
        let flags = self.flags(rng);
        self.push(from, Posted { wr_id, op, flags, sges, inline });
    }

    fn await_message(
        &mut self,
        to: usize,
        sges: Vec<Sge>,
        length: usize,
        imm: Option<u32>,
        window: Option<Rkey>,
        write: bool,
    ) {
        let recvs = &mut self.halves[to].recvs;
        let wr_id = 1_000_000 + recvs.len() as u64;
        let invalidated = window.map(|rkey| rkey.0);
        recvs.push(Awaited { wr_id, sges, length, imm, invalidated, write });
    }

    fn write(&mut self, pair: &Pair, from: usize, wr_id: u64, length: usize, rng: &mut Rng) {
        let to = 1 - from;
        let (sges, inline, bytes) = self.source(pair, from, length, rng);
        let at = WRITES.start + rng.below(WRITES.len() - length);
        self.halves[to].shadow[at..at + length].copy_from_slice(&bytes);
        let va = pair.nodes[to].va(at);
        let window = self.halves[to].windows.last().copied().filter(|_| rng.chance(30));
        let rkey = window.unwrap_or(pair.nodes[to].rkey());
        let imm = rng.next() as u32;
        let op = if rng.chance(35) {
            self.await_message(to, vec![], length, Some(imm), None, true);
            SendOp::WriteWithImm { va, rkey, imm }
        } else {
            SendOp::Write { va, rkey }
        };
        let flags = self.flags(rng);
        self.push(from, Posted { wr_id, op, flags, sges, inline });
    }

    fn read(&mut self, pair: &Pair, from: usize, wr_id: u64, length: usize, rng: &mut Rng) {
        let to = 1 - from;
        // Now and then longer than one READ REQUEST may be.
        let length = if rng.chance(1) { rng.range(125_000, 190_000) } else { length };
        let at = rng.below(SOURCE - length);
        let bytes = self.halves[to].shadow[at..at + length].to_vec();
        let Some(sges) = self.target(pair, from, length, &bytes, rng) else { return };
        let (va, rkey) = (pair.nodes[to].va(at), pair.nodes[to].rkey());
        let (op, flags) = (SendOp::Read { va, rkey }, self.flags(rng));
        self.push(from, Posted { wr_id, op, flags, sges, inline: None });
    }

    fn atomic(&mut self, pair: &Pair, from: usize, wr_id: u64, rng: &mut Rng) {
        let to = 1 - from;
        let at = WORDS + 8 * rng.below(8);
        let (va, rkey) = (pair.nodes[to].va(at), pair.nodes[to].rkey());
        let word = &mut self.halves[to].shadow[at..at + 8];
        let old = u64::from_ne_bytes(word.try_into().unwrap());
        let (op, new) = if rng.chance(50) {
            let add = rng.next() & 0xff;
            (SendOp::FetchAdd { va, rkey, add }, old.wrapping_add(add))
        } else {
            let (compare, swap) = (if rng.chance(70) { old } else { 1 }, rng.next());
            let new = if compare == old { swap } else { old };
            (SendOp::CompareSwap { va, rkey, compare, swap }, new)
        };
        let Some(at) = self.halves[from].land(8) else { return };
        self.halves[from].shadow[at..at + 8].copy_from_slice(&old.to_ne_bytes());
        self.halves[to].shadow[va_offset(pair, to, va)..][..8].copy_from_slice(&new.to_ne_bytes());
        let sges = vec![pair.nodes[from].sge(at, 8)];
        let flags = self.flags(rng);
        self.push(from, Posted { wr_id, op, flags, sges, inline: None });
    }

    /// ATOMIC WRITE, FLUSH, and what needs no packet.
    fn rare(&mut self, pair: &Pair, from: usize, wr_id: u64, rng: &mut Rng) {
        let to = 1 - from;
        let at = WRITES.start + 8 * rng.below(WRITES.len() / 8);
        let (va, rkey) = (pair.nodes[to].va(at), pair.nodes[to].rkey());
        let flags = self.flags(rng);
        let (mut sges, mut inline) = (vec![], None);
        let op = match rng.below(4) {
            0 => {
                let source;
                (sges, inline, source) = self.source(pair, from, 8, rng);
                self.halves[to].shadow[at..at + 8].copy_from_slice(&source);
                SendOp::AtomicWrite { va, rkey }
            }
            1 => SendOp::Flush { va, rkey, length: 8, placement: 1, selectivity: 0 },
            _ => match self.halves[from].own_windows.pop() {
                Some(window) if window.bound => SendOp::LocalInvalidate(window.rkey),
                Some(window) => {
                    let bound = OwnWindow { bound: true, ..window };
                    self.halves[from].own_windows.push(bound);
                    window.bind
                }
                None => return,
            },
        };
        self.push(from, Posted { wr_id, op, flags, sges, inline });
    }
}

fn va_offset(pair: &Pair, node: usize, va: u64) -> usize {
    (va - pair.nodes[node].va(0)) as usize
}

/// `length` as a sum of one to `max` parts, some of them zero.
fn split(length: usize, max: usize, rng: &mut Rng) -> Vec<usize> {
    let mut parts = vec![];
    let mut left = length;
    for _ in 1..rng.range(1, max) {
        let part = if rng.chance(10) { 0 } else { rng.below(left + 1) };
        parts.push(part);
        left -= part;
    }
    parts.push(left);
    parts
}
