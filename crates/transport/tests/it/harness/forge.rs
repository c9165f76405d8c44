//! Request packets made by hand for node 1, whose next expected PSN is [`EPSN`] in a fresh pair,
//! and what node 1 answers.

use uroce_memory::Rkey;
use uroce_transport::*;
use uroce_wire::{
    AtomicEth, Bth, Deth, DropReason, Feth, HeaderWriter, Ieth, ImmDt, Opcode, Psn, Qpn, Reth,
    Service, XrcEth,
};

use super::{MR_LEN, Pair, QPNS, Seen, cx};

/// First PSN that node 1 expects from node 0.
pub const EPSN: u32 = 0x100;
/// Syndromes.
pub const ACK: u8 = 0x1f;
pub const NAK_SEQUENCE: u8 = 0x60;
pub const NAK_INVALID: u8 = 0x61;
pub const NAK_ACCESS: u8 = 0x62;
pub const NAK_OPERATIONAL: u8 = 0x63;

/// How a queue pair is asked for its next packet.
type Poll = fn(&mut QueuePair, Instant, &mut [u8], &mut Context<'_>) -> Option<Transmit>;

/// A packet in the making.
#[derive(Debug, Clone)]
pub struct Forged {
    pub bth: Bth,
    pub srqn: Option<u32>,
    pub deth: Option<Deth>,
    pub feth: Option<Feth>,
    pub reth: Option<Reth>,
    pub atomic: Option<AtomicEth>,
    pub imm: Option<u32>,
    pub inv: Option<u32>,
    pub payload: Vec<u8>,
    /// Pad bytes and pad count; by default what the payload needs.
    pub pad: Option<u8>,
}

impl Forged {
    pub fn new(opcode: Opcode, psn: u32) -> Forged {
        Forged {
            bth: Bth::new(opcode, Qpn::new(QPNS[1]), Psn::new(psn)),
            srqn: None,
            deth: None,
            feth: None,
            reth: None,
            atomic: None,
            imm: None,
            inv: None,
            payload: vec![],
            pad: None,
        }
    }

    /// Any SEND or WRITE packet with this payload, asking for an ACK.
    pub fn data(opcode: Opcode, psn: u32, payload: &[u8]) -> Forged {
        Forged { payload: payload.to_vec(), ..Forged::new(opcode, psn) }.ack_req()
    }

    pub fn send(psn: u32, payload: &[u8]) -> Forged {
        Forged::data(Opcode::RC_SEND_ONLY, psn, payload)
    }

    pub fn write(psn: u32, va: u64, rkey: Rkey, payload: &[u8]) -> Forged {
        let length = payload.len() as u32;
        Forged::data(Opcode::RC_WRITE_ONLY, psn, payload).reth(va, rkey, length)
    }

    pub fn read(psn: u32, va: u64, rkey: Rkey, length: u32) -> Forged {
        Forged::new(Opcode::RC_READ_REQUEST, psn).reth(va, rkey, length).ack_req()
    }

    pub fn fetch_add(psn: u32, va: u64, rkey: Rkey, add: u64) -> Forged {
        let atomic = Some(AtomicEth { va, rkey: rkey.0, swap_add: add, compare: 0 });
        Forged { atomic, ..Forged::new(Opcode::RC_FETCH_ADD, psn) }.ack_req()
    }

    pub fn compare_swap(psn: u32, va: u64, rkey: Rkey, compare: u64, swap: u64) -> Forged {
        let atomic = Some(AtomicEth { va, rkey: rkey.0, swap_add: swap, compare });
        Forged { atomic, ..Forged::new(Opcode::RC_COMPARE_SWAP, psn) }.ack_req()
    }

    pub fn atomic_write(psn: u32, va: u64, rkey: Rkey, length: u32, payload: &[u8]) -> Forged {
        Forged::data(Opcode::RC_ATOMIC_WRITE, psn, payload).reth(va, rkey, length)
    }

    pub fn flush(psn: u32, va: u64, rkey: Rkey, length: u32, kind: (u8, u8)) -> Forged {
        let feth = Some(Feth { placement: kind.0, selectivity: kind.1 });
        Forged { feth, ..Forged::new(Opcode::RC_FLUSH, psn) }.reth(va, rkey, length).ack_req()
    }

    pub fn send_inv(psn: u32, rkey: Rkey, payload: &[u8]) -> Forged {
        Forged { inv: Some(rkey.0), ..Forged::data(Opcode::RC_SEND_ONLY_INV, psn, payload) }
    }

    pub fn ud(qkey: u32, payload: &[u8]) -> Forged {
        let deth = Some(Deth { qkey, src_qpn: Qpn::new(QPNS[0]) });
        let payload = payload.to_vec();
        Forged { deth, payload, ..Forged::new(Opcode::UD_SEND_ONLY, 0) }
    }

    /// The same operation of XRC, for the SRQ with this number.
    pub fn xrc(mut self, srqn: u32) -> Forged {
        self.bth.opcode = self.bth.opcode.of_service(Service::Xrc);
        self.srqn = Some(srqn);
        self
    }

    pub fn reth(mut self, va: u64, rkey: Rkey, length: u32) -> Forged {
        self.reth = Some(Reth { va, rkey: rkey.0, length });
        self
    }

    pub fn imm(mut self, imm: u32) -> Forged {
        self.imm = Some(imm);
        self
    }

    pub fn ack_req(mut self) -> Forged {
        self.bth.ack_req = true;
        self
    }

    pub fn no_ack(mut self) -> Forged {
        self.bth.ack_req = false;
        self
    }

    pub fn solicited(mut self) -> Forged {
        self.bth.solicited = true;
        self
    }

    pub fn pad(mut self, pad: u8) -> Forged {
        self.pad = Some(pad);
        self
    }

    /// The bytes behind UDP, with zeros for the ICRC.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bth = self.bth;
        bth.pad = self.pad.unwrap_or(self.payload.len().wrapping_neg() as u8 & 3);
        let mut head = [0u8; 128];
        let mut writer = HeaderWriter::new(&mut head);
        writer.put(&bth).unwrap();
        if let Some(srqn) = self.srqn {
            writer.put(&XrcEth { srqn }).unwrap();
        }
        if let Some(deth) = &self.deth {
            writer.put(deth).unwrap();
        }
        if let Some(feth) = &self.feth {
            writer.put(feth).unwrap();
        }
        if let Some(reth) = &self.reth {
            writer.put(reth).unwrap();
        }
        if let Some(atomic) = &self.atomic {
            writer.put(atomic).unwrap();
        }
        if let Some(imm) = self.imm {
            writer.put(&ImmDt(imm)).unwrap();
        }
        if let Some(inv) = self.inv {
            writer.put(&Ieth(inv)).unwrap();
        }
        let length = writer.len();
        let mut bytes = head[..length].to_vec();
        bytes.extend_from_slice(&self.payload);
        bytes.resize(bytes.len() + usize::from(bth.pad) + 4, 0);
        bytes
    }
}

/// Makes a request for an address and a key.
pub type Forge = fn(u64, Rkey) -> Forged;

/// What an answer says, for comparing: opcode name, PSN, syndrome.
pub type Said = (&'static str, u32, Option<u8>);

pub fn said(seen: &[Seen]) -> Vec<Said> {
    seen.iter().map(|s| (s.name(), s.psn, s.syndrome())).collect()
}

/// An ACK, NAK or RNR NAK.
pub fn acknowledge(psn: u32, syndrome: u8) -> Vec<Said> {
    vec![("RC_ACKNOWLEDGE", psn, Some(syndrome))]
}

/// MSNs of the answers that carry one.
pub fn msns(seen: &[Seen]) -> Vec<u32> {
    seen.iter().filter_map(|s| s.packet().aeth()).map(|aeth| aeth.msn).collect()
}

/// Payload of READ responses, joined.
pub fn payloads(seen: &[Seen]) -> Vec<u8> {
    seen.iter().flat_map(|s| s.packet().payload().to_vec()).collect()
}

/// A pair whose peer is in the middle of a SEND (`FIRST` has PSN [`EPSN`]) or WRITE of 768 bytes.
pub fn in_the_middle_of(write: bool) -> Pair {
    let mut pair = Pair::rc();
    let (va, rkey) = pair.target(0);
    pair.post(1, 4096, 4096);
    let first = if write {
        Forged::data(Opcode::RC_WRITE_FIRST, EPSN, &[1; 256]).reth(va, rkey, 768)
    } else {
        Forged::data(Opcode::RC_SEND_FIRST, EPSN, &[1; 256])
    };
    assert_eq!(pair.reply(&first), acknowledge(EPSN, ACK));
    pair
}

impl Pair {
    /// Delivers a packet to node 1 and collects nothing.
    pub fn give(&mut self, forged: &Forged) {
        self.receive(1, &forged.bytes(), 0);
    }

    /// Delivers a packet to node 1 and takes everything it answers off its hands.
    pub fn hit(&mut self, forged: &Forged) -> Vec<Seen> {
        self.give(forged);
        self.collect()
    }

    /// Like [`Pair::hit`], in the form for comparing.
    pub fn reply(&mut self, forged: &Forged) -> Vec<Said> {
        said(&self.hit(forged))
    }

    /// Takes the next packet that node 1 wants to send; it is not delivered.
    pub fn next_answer(&mut self) -> Option<Seen> {
        self.next_packet(QueuePair::poll_transmit)
    }

    /// Like [`Pair::next_answer`], where an ACK that could leave together with a request waits for one.
    pub fn next_pressing(&mut self) -> Option<Seen> {
        self.next_packet(QueuePair::poll_pressing)
    }

    fn next_packet(&mut self, poll: Poll) -> Option<Seen> {
        let mut out = vec![0u8; limits::MAX_PACKET];
        let (now, node) = (self.now, &mut self.nodes[1]);
        let sent = poll(&mut node.qp, now, &mut out, cx!(node))?;
        let bytes = out[..sent.len].to_vec();
        let packet = uroce_wire::Packet::parse(&bytes).expect("a packet that can be parsed");
        let (opcode, psn) = (packet.bth.opcode, packet.bth.psn.get());
        Some(Seen { at: now, from: 1, opcode, psn, bytes, path: sent.path })
    }

    pub fn collect(&mut self) -> Vec<Seen> {
        std::iter::from_fn(|| self.next_answer()).collect()
    }

    /// Lets time pass for node 1; what it sends by itself then.
    pub fn after(&mut self, ns: u64) -> Vec<Said> {
        self.now = self.now.add_ns(ns);
        self.nodes[1].serve_timer(self.now);
        said(&self.collect())
    }

    /// Address and key of node 1's region.
    pub fn target(&self, offset: usize) -> (u64, Rkey) {
        (self.nodes[1].va(offset), self.nodes[1].rkey())
    }

    /// Posts a receive of `length` bytes at `offset` of node 1's region.
    pub fn post(&mut self, wr_id: u64, offset: usize, length: u32) {
        let sge = self.nodes[1].sge(offset, length);
        self.nodes[1].recv(wr_id, &[sge]).unwrap();
    }

    /// All of node 1's memory.
    pub fn memory(&self) -> Vec<u8> {
        self.nodes[1].bytes(0, MR_LEN)
    }

    pub fn state(&self) -> QpState {
        self.nodes[1].qp.state()
    }

    pub fn expected(&self) -> u32 {
        self.nodes[1].qp.attr().rq_psn
    }

    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.nodes[1].dropped(reason)
    }

    /// Receive completions of node 1 as (wr_id, status).
    pub fn received(&mut self) -> Vec<(u64, WcStatus)> {
        self.nodes[1].recvs().iter().map(|wc| (wc.wr_id, wc.status)).collect()
    }

    /// All events of node 1.
    pub fn events(&mut self) -> Vec<AsyncEvent> {
        std::iter::from_fn(|| self.nodes[1].event()).collect()
    }

    /// Sends both QPs through RESET and connects them again.
    pub fn reconnect(&mut self) {
        for index in 0..2 {
            self.nodes[index].enter_state(QpState::Reset).unwrap();
        }
        self.connect();
    }
}
