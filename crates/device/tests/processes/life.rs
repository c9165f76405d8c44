//! What a member does.

use std::cell::Cell;
use std::io::BufRead;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use uroce_device::cm::{Acceptance, Call, CommId, PortSpace, ServiceId};
use uroce_device::memory::Sge;
use uroce_device::transport::{
    AddressVector, QpAttr, QpAttrMask as M, QpState, QpType, RecvWr, SendData, SendFlags, SendOp,
    SendWr, SrqAttr, SrqId, WcOpcode, XrcSrq,
};
use uroce_device::wire::{Mtu, Psn, Qpn};
use uroce_device::{CmChannel, CmEventKind, DeviceConfig, ResourceKind};

use super::common::{Buffer, Node, assert_ok, pattern};
use super::member::say;

/// Messages of one round, on each queue pair.
pub const ROUND: usize = 50;
const SIZE: usize = 1500;
/// Where what is sent lies in the buffer.
const SENT: usize = 0;
/// Bytes in front of a received datagram.
const GRH: usize = 40;
/// 4.2 s: longer than any pause of a process on a busy machine.
const TIMEOUT: u8 = 20;

/// Services of a member with a peer: RC, UC, XRC and UD.
const SERVICES: usize = 4;
const CHILD_TIMEOUT: Duration = Duration::from_secs(60);

/// An XRC initiator, and a target with a shared receive queue for what comes the other way.
struct XrcEnds {
    initiator: Qpn,
    target: Qpn,
    srq: SrqId,
    /// The number by which the peer names the receive queue.
    number: u32,
    /// That of the peer, and its queue pair for datagrams.
    remote: Cell<(u32, u32)>,
}

impl XrcEnds {
    fn new(node: &Node) -> Self {
        let device = &node.device;
        let event_cq = device.create_cq(1, None, 0).expect("a CQ");
        let xrcd = device.xrc().open(node.pd, event_cq).expect("a domain");
        let attr = SrqAttr { max_wr: 2 * ROUND as u32, max_sge: 1, limit: 0 };
        let of_domain = XrcSrq { xrcd, cq: node.cq };
        let srq = device.xrc().create_srq(node.pd, of_domain, &attr).expect("an SRQ");
        Self {
            initiator: node.qp(QpType::XrcIni),
            target: device.xrc().create_target(xrcd).expect("a target"),
            srq,
            number: device.srq_number(srq).expect("a number"),
            remote: Cell::new((0, 0)),
        }
    }
}

pub struct Life {
    node: Node,
    buffer: Buffer,
    rc: Qpn,
    uc: Qpn,
    ud: Qpn,
    xrc: XrcEnds,
    channel: CmChannel,
    call: Option<CommId>,
}

impl Life {
    fn begin(address: IpAddr) -> Life {
        let node = Node::open(DeviceConfig::new(address));
        let buffer = node.buffer((1 + SERVICES * ROUND) * 2048);
        let [rc, uc, ud] = [QpType::Rc, QpType::Uc, QpType::Ud].map(|kind| node.qp(kind));
        node.activate_ud(ud);
        let xrc = XrcEnds::new(&node);
        let channel = CmChannel::new().expect("an eventfd");
        Life { node, buffer, rc, uc, ud, xrc, channel, call: None }
    }

    /// Does what it is told until there is nobody to tell it.
    pub fn live(address: IpAddr) {
        let mut life = Life::begin(address);
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("a pipe");
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u32>().expect("a number");
            match words[0] {
                "names" => life.say_names(),
                "connect" => life.connect(address, Qpn::new(number(1)), Qpn::new(number(2))),
                "connect-xrc" => {
                    life.connect_xrc(address, [number(1), number(2), number(3), number(4)])
                }
                "exchange" => life.exchange(number(1) as u8, number(2) as u8, 2),
                "exchange-all" => life.exchange(number(1) as u8, number(2) as u8, SERVICES),
                "exchange-rc" => life.exchange(number(1) as u8, number(2) as u8, 1),
                "counter" => say(life.node.counter(words[1])),
                "join" => life.join(words[1].parse().expect("an address")),
                "shout" => life.shout(words[1].parse().expect("an address")),
                "listen" => life.listen(number(1) as u16),
                "call" => life.call(address, number(1) as u16),
                "greeting" => life.greeting(),
                "answer" => life.answer(),
                "hang-up" => life.hang_up(),
                order => panic!("no such order: {order}"),
            }
        }
    }

    /// Where message `index` of a round arrives.
    fn place(&self, kind: usize, index: usize) -> u64 {
        ((1 + kind * ROUND + index) * 2048) as u64
    }

    fn say_names(&self) {
        let Life { rc, uc, ud, xrc, .. } = self;
        let all = [*rc, *uc, xrc.initiator, xrc.target, *ud];
        let [rc, uc, initiator, target, ud] = all.map(Qpn::get);
        say(format_args!("{rc} {uc} {initiator} {target} {} {ud}", xrc.number));
    }

    /// Ours is connected with the peer's target, and ours is that of its initiator.
    fn connect_xrc(&self, address: IpAddr, [initiator, target, number, ud]: [u32; 4]) {
        let ends = [
            (QpType::XrcIni, self.xrc.initiator, target),
            (QpType::XrcTgt, self.xrc.target, initiator),
        ];
        for (kind, ours, theirs) in ends {
            let attr = QpAttr {
                av: Some(AddressVector::new(address, address)),
                path_mtu: Mtu::M1024,
                dest_qpn: theirs,
                timeout: TIMEOUT,
                retry_cnt: 7,
                rnr_retry: 7,
                min_rnr_timer: 1,
                ..QpAttr::default()
            };
            for (from, to) in [
                (QpState::Reset, QpState::Init),
                (QpState::Init, QpState::Rtr),
                (QpState::Rtr, QpState::Rts),
            ] {
                self.node.step(ours, &attr, to, M::required(kind, from, to));
            }
        }
        self.xrc.remote.set((number, ud));
        self.post_xrc_receives();
        self.post_datagram_receives();
        say("connected");
    }

    fn post_datagram_receives(&self) {
        for index in 0..ROUND {
            let sge = self.buffer.sge(self.place(3, index), (GRH + SIZE) as u32);
            self.node.recv(self.ud, index as u64, &[sge]);
        }
    }

    /// Posts message `wr_id` of a round on the service of that number.
    fn post(&self, kind: usize, wr_id: u64, sge: Sge) {
        let (number, ud) = self.xrc.remote.get();
        match kind {
            0 => self.node.send(self.rc, wr_id, SendOp::Send, &[sge]),
            1 => self.node.send(self.uc, wr_id, SendOp::Send, &[sge]),
            2 => {
                let (flags, data) = (SendFlags::SIGNALED, SendData::Sges(&[sge]));
                let srqn = Some(number);
                let wr = SendWr { wr_id, op: SendOp::Send, flags, data, ud: None, srqn };
                self.node.device.post_send(self.xrc.initiator, &[wr]).expect("posted");
            }
            _ => {
                let to = (self.node.device.address(), Qpn::new(ud), super::common::QKEY);
                self.node.send_ud(self.ud, wr_id, to, &[sge]);
            }
        }
    }

    fn post_xrc_receives(&self) {
        for index in 0..ROUND {
            let sge = self.buffer.sge(self.place(2, index), SIZE as u32);
            let recv = RecvWr { wr_id: index as u64, sges: &[sge] };
            self.node.device.post_srq_recv(self.xrc.srq, &[recv]).expect("room");
        }
    }

    fn connect(&self, address: IpAddr, rc: Qpn, uc: Qpn) {
        self.node.connect_with(self.rc, address, rc, Mtu::M1024, TIMEOUT);
        self.node.connect_uc(self.uc, address, uc);
        self.post_receives(2);
        say("connected");
    }

    fn post_receives(&self, kinds: usize) {
        for (kind, qpn) in [self.rc, self.uc].into_iter().enumerate().take(kinds) {
            for index in 0..ROUND {
                let sge = self.buffer.sge(self.place(kind, index), SIZE as u32);
                self.node.recv(qpn, (kind * ROUND + index) as u64, &[sge]);
            }
        }
    }

    /// Sends a round to the peer, and takes one from it; `theirs` is what its messages look like. The
    /// first `kinds` of RC, UC, XRC and UD take part.
    fn exchange(&self, ours: u8, theirs: u8, kinds: usize) {
        self.buffer.write(SENT, &pattern(SIZE, ours));
        let sge = self.buffer.sge(SENT as u64, SIZE as u32);
        for wr_id in 0..ROUND as u64 {
            (0..kinds).for_each(|kind| self.post(kind, wr_id, sge));
        }
        let arrived = self.wait_for(2 * kinds * ROUND, kinds * ROUND);
        for index in 0..kinds * ROUND {
            let head = if index < 3 * ROUND { 0 } else { GRH };
            let at = self.place(0, index) as usize + head;
            assert_eq!(self.buffer.bytes(at, SIZE), pattern(SIZE, theirs), "message {index}");
        }
        self.post_receives(kinds);
        if kinds == SERVICES {
            self.post_xrc_receives();
            self.post_datagram_receives();
        }
        say(arrived);
    }

    /// Waits for completions; returns how many of them are receives.
    fn wait_for(&self, all: usize, receives: usize) -> usize {
        let (begin, mut got, mut received) = (Instant::now(), 0, 0);
        while got < all {
            let done = self.node.poll();
            assert_ok(&done);
            got += done.len();
            received += done.iter().filter(|wc| wc.opcode == WcOpcode::Recv).count();
            assert!(
                begin.elapsed() < CHILD_TIMEOUT,
                "{got} of {all}, {received} of {receives} received; {}",
                self.story()
            );
            if done.is_empty() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        received
    }

    /// What the device has counted, and its queue pairs.
    fn story(&self) -> String {
        let counters = self.node.device.counters();
        let counted: Vec<_> = counters.into_iter().filter(|(_, count)| *count > 0).collect();
        let resources = self.node.device.resources();
        let qps = resources.iter().filter(|found| found.kind() == ResourceKind::Qp);
        let qps: Vec<_> = qps.map(ToString::to_string).collect();
        format!("{counted:?}; {qps:?}")
    }

    /// Whether receives for datagrams of the peer are posted.
    fn takes_datagrams(&self) -> bool {
        self.xrc.remote.get() != (0, 0)
    }

    fn join(&self, group: IpAddr) {
        if !self.takes_datagrams() {
            self.node.recv(self.ud, 7, &[self.buffer.sge(self.place(0, 0), 2000)]);
        }
        self.node.device.attach_mcast(self.ud, group).expect("joined");
        say("joined");
    }

    fn shout(&self, group: IpAddr) {
        self.buffer.write(SENT, &pattern(64, 77));
        let sge = self.buffer.sge(SENT as u64, 64);
        self.node.send_ud(self.ud, 8, (group, Qpn::MULTICAST, super::common::QKEY), &[sge]);
        self.wait_for(1, 0);
        say("shouted");
    }

    fn greeting(&self) {
        self.wait_for(1, 1);
        let place = if self.takes_datagrams() { self.place(3, 0) } else { self.place(0, 0) };
        let heard = self.buffer.bytes(place as usize + GRH, 64);
        assert_eq!(heard, pattern(64, 77));
        if self.takes_datagrams() {
            self.node.recv(self.ud, 7, &[self.buffer.sge(place, (GRH + SIZE) as u32)]);
        }
        say("heard");
    }

    fn listen(&self, port: u16) {
        let service = ServiceId::new(PortSpace::Tcp, port);
        match self.node.device.cm().listen(service, 4, &self.channel, 0) {
            Ok(()) => say("listens"),
            Err(error) => say(format_args!("refused: {error}")),
        }
    }

    /// The next event; the end of an earlier connection's TIMEWAIT may come at any time.
    fn event(&self) -> (CommId, CmEventKind) {
        loop {
            let event =
                self.channel.next_event(Some(CHILD_TIMEOUT)).expect("poll").expect("an event");
            if event.kind != CmEventKind::TimewaitExit {
                return (event.id, event.kind);
            }
        }
    }

    /// Calls, and waits until the connection stands.
    fn call(&mut self, address: IpAddr, port: u16) {
        let qpn = self.node.qp(QpType::Rc);
        let service = ServiceId::new(PortSpace::Tcp, port);
        let call = Call::new(address, service, qpn, Psn::new(1));
        let id = self.node.device.cm().connect(&call, &self.channel, 0).expect("a call");
        self.call = Some(id);
        match self.event() {
            (_, CmEventKind::Established { private_data, .. }) => {
                let text = String::from_utf8_lossy(&private_data);
                say(text.trim_end_matches('\0'));
            }
            (_, other) => say(format_args!("{other:?}")),
        }
    }

    /// Accepts one call, naming the own process, and waits until it is confirmed.
    fn answer(&mut self) {
        let (id, kind) = self.event();
        assert!(matches!(kind, CmEventKind::ConnectRequest(_)), "{kind:?}");
        let qpn = self.node.qp(QpType::Rc);
        let mut acceptance = Acceptance::new(qpn, Psn::new(2));
        acceptance.private_data = std::process::id().to_string().into_bytes();
        self.node.device.cm().accept(id, &acceptance).expect("accepted");
        let (_, kind) = self.event();
        assert!(matches!(kind, CmEventKind::Established { .. }), "{kind:?}");
        say(std::process::id());
    }

    /// Ends the call, or waits until the other side does.
    fn hang_up(&mut self) {
        if let Some(id) = self.call.take() {
            self.node.device.cm().disconnect(id, &[]).expect("it stands");
        }
        let (_, kind) = self.event();
        assert!(matches!(kind, CmEventKind::Disconnected { .. }), "{kind:?}");
        say("ended");
    }
}
