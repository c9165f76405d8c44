//! What a member does.

use std::io::BufRead;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use uroce_device::cm::{Acceptance, Call, CommId, PortSpace, ServiceId};
use uroce_device::transport::{
    AddressVector, QpAttr, QpAttrMask as M, QpState, QpType, SendOp, WcOpcode,
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
const CHILD_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Life {
    node: Node,
    buffer: Buffer,
    rc: Qpn,
    uc: Qpn,
    ud: Qpn,
    channel: CmChannel,
    call: Option<CommId>,
}

impl Life {
    fn begin(address: IpAddr) -> Life {
        let node = Node::open(DeviceConfig::new(address));
        let buffer = node.buffer(2 * (ROUND + 1) * 2048);
        let [rc, uc, ud] = [QpType::Rc, QpType::Uc, QpType::Ud].map(|kind| node.qp(kind));
        node.activate_ud(ud);
        let channel = CmChannel::new().expect("an eventfd");
        Life { node, buffer, rc, uc, ud, channel, call: None }
    }

    /// Does what it is told until there is nobody to tell it.
    pub fn live(address: IpAddr) {
        let mut life = Life::begin(address);
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("a pipe");
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u32>().expect("a number");
            match words[0] {
                "names" => say(format_args!("{} {}", life.rc.get(), life.uc.get())),
                "connect" => life.connect(address, Qpn::new(number(1)), Qpn::new(number(2))),
                "exchange" => life.exchange(number(1) as u8, number(2) as u8, 2),
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

    fn connect(&self, address: IpAddr, rc: Qpn, uc: Qpn) {
        self.node.connect_with(self.rc, address, rc, Mtu::M1024, TIMEOUT);
        self.connect_uc(address, uc);
        self.post_receives(2);
        say("connected");
    }

    fn connect_uc(&self, address: IpAddr, peer: Qpn) {
        let attr = QpAttr {
            av: Some(AddressVector::new(address, address)),
            path_mtu: Mtu::M1024,
            dest_qpn: peer.get(),
            ..QpAttr::default()
        };
        let rtr = M::AV | M::PATH_MTU | M::DEST_QPN | M::RQ_PSN;
        self.node.step(self.uc, &attr, QpState::Init, M::PKEY_INDEX | M::PORT | M::ACCESS_FLAGS);
        self.node.step(self.uc, &attr, QpState::Rtr, rtr);
        self.node.step(self.uc, &attr, QpState::Rts, M::SQ_PSN);
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
    /// first `kinds` of RC and UC take part.
    fn exchange(&self, ours: u8, theirs: u8, kinds: usize) {
        self.buffer.write(SENT, &pattern(SIZE, ours));
        let sge = self.buffer.sge(SENT as u64, SIZE as u32);
        let queues = [self.rc, self.uc];
        for wr_id in 0..ROUND as u64 {
            queues[..kinds]
                .iter()
                .for_each(|qpn| self.node.send(*qpn, wr_id, SendOp::Send, &[sge]));
        }
        let arrived = self.wait_for(2 * kinds * ROUND, kinds * ROUND);
        for index in 0..kinds * ROUND {
            let at = self.place(0, index) as usize;
            assert_eq!(self.buffer.bytes(at, SIZE), pattern(SIZE, theirs), "message {index}");
        }
        self.post_receives(kinds);
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

    fn join(&self, group: IpAddr) {
        self.node.recv(self.ud, 7, &[self.buffer.sge(self.place(0, 0), 2000)]);
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
        let heard = self.buffer.bytes(self.place(0, 0) as usize + GRH, 64);
        assert_eq!(heard, pattern(64, 77));
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
            (_, CmEventKind::Established { private_data }) => {
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
