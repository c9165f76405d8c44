//! A datapath that notes what it is asked to do, and does what a test says.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard};

use rustix::event::{EventfdFlags, eventfd};
use uroce_datapath::{
    Caps, Datapath, DatapathStats, Flush, IcrcCaps, IcrcRx, IcrcTx, Recipient, Route, RxPacket,
    SharedPort,
};
use uroce_wire::Slot;

/// What a probe was asked, and what it is to answer.
#[derive(Debug, Default)]
pub struct State {
    pub calls: Vec<String>,
    /// Packets that were committed, and those of them that were flushed.
    pub committed: Vec<(Route, Vec<u8>)>,
    pub sent: Vec<(Route, Vec<u8>)>,
    /// Packets that fit until the next flush.
    pub room: usize,
    /// The next flushes take nothing.
    pub blocked: usize,
    /// The next flush fails.
    pub fails: bool,
}

/// See the module's documentation.
pub struct Probe {
    pub state: Arc<Mutex<State>>,
    caps: Caps,
    space: Vec<u8>,
}

impl Probe {
    pub fn new(room: usize) -> Self {
        let caps = Caps {
            name: "probe",
            mtu: 1234,
            tx_batch: 5,
            rx_batch: 6,
            icrc: IcrcCaps { rx: IcrcRx::Verify, tx: IcrcTx::Seal },
            segments: 7,
            in_place: 0,
            zero_copy: false,
            headers_visible: true,
            needs: "nothing",
        };
        let state = Arc::new(Mutex::new(State { room, ..State::default() }));
        Self { state, caps, space: vec![0; 5000] }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    fn note(&self, call: impl Into<String>) {
        self.state().calls.push(call.into());
    }
}

impl SharedPort for Probe {
    fn slot(&self) -> Slot {
        Slot::new(9).expect("a slot")
    }
    fn claim_service(&mut self, service: u64) -> io::Result<()> {
        self.note(format!("claim {service}"));
        Ok(())
    }
    fn release_service(&mut self, service: u64) {
        self.note(format!("release {service}"));
    }
}

impl Datapath for Probe {
    fn caps(&self) -> &Caps {
        &self.caps
    }
    fn local(&self) -> SocketAddr {
        ([10, 0, 0, 1], 4791).into()
    }
    fn source_port(&mut self, wanted: u16) -> u16 {
        self.note(format!("source_port {wanted}"));
        wanted ^ 1
    }
    fn tx_space(&mut self) -> Option<&mut [u8]> {
        let has_room = {
            let state = self.state();
            state.committed.len() < state.room
        };
        has_room.then_some(&mut self.space[..])
    }
    fn tx_commit(&mut self, route: &Route, len: usize, seal: &mut dyn FnMut(u16, &mut [u8])) {
        seal(77, &mut self.space[..len]);
        let packet = (*route, self.space[..len].to_vec());
        self.note(format!("commit {len}"));
        self.state().committed.push(packet);
    }
    fn tx_break(&mut self) {
        self.note("break");
    }
    fn tx_distrust(&mut self) {
        self.note("distrust");
    }
    fn tx_only_to(&mut self, recipient: Option<Recipient>) {
        self.note(format!("only to {:?}", recipient.map(|sole| sole.period)));
    }
    fn tx_in_place(&mut self, packets: usize) {
        self.note(format!("in place {packets}"));
    }
    fn tx_comment(&mut self, comment: &str) {
        self.note(format!("comment {comment}"));
    }
    fn flush(&mut self) -> io::Result<Flush> {
        self.note("flush");
        let mut state = self.state();
        if std::mem::take(&mut state.fails) {
            return Err(io::ErrorKind::NotConnected.into());
        }
        if state.blocked > 0 {
            state.blocked -= 1;
            return Ok(Flush { blocked: true, ..Flush::default() });
        }
        let taken = std::mem::take(&mut state.committed);
        let sent = taken.len();
        state.sent.extend(taken);
        Ok(Flush { sent, dropped: 0, blocked: false })
    }
    fn recv(&mut self, limit: usize, _: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        self.note(format!("recv {limit}"));
        Ok(0)
    }
    fn arm(&mut self) -> bool {
        self.note("arm");
        true
    }
    fn disarm(&mut self) {
        self.note("disarm");
    }
    fn poll_timeout(&self) -> Option<u64> {
        self.note("poll_timeout");
        Some(u64::MAX - 1)
    }
    fn waiter(&self) -> io::Result<OwnedFd> {
        self.note("waiter");
        Ok(eventfd(0, EventfdFlags::CLOEXEC)?)
    }
    fn join(&mut self, group: IpAddr) -> io::Result<()> {
        self.note(format!("join {group}"));
        Ok(())
    }
    fn leave(&mut self, group: IpAddr) -> io::Result<()> {
        self.note(format!("leave {group}"));
        Ok(())
    }
    fn shared_port(&mut self) -> Option<&mut dyn SharedPort> {
        self.note("shared_port");
        Some(self)
    }
    fn last_problem(&self) -> Option<String> {
        self.note("last_problem");
        Some("a problem".to_owned())
    }
    fn stats(&self) -> DatapathStats {
        self.note("stats");
        DatapathStats { rx_dropped: 3, tx_packets: 4, ..DatapathStats::default() }
    }
}
