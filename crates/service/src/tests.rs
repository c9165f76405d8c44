//! A service on the in-process switch, with clients, sound ones and others.

mod claims;
mod departure;
mod hostile;
mod life;
mod link_life;
mod link_peers;
mod links;
mod many;
mod memory;
mod options;
mod traffic;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use uroce_datapath::{Datapath, LoopbackDatapath, LoopbackFabric, RedirectTarget, Route, RxPacket};
use uroce_wire::{Qpn, Slot};

use crate::{PortService, ServedDatapath, ServiceOptions};

/// The served address, and a host behind the switch.
const HERE: &str = "10.0.0.1:4791";
const THERE: &str = "10.0.0.2:4791";

const RC_SEND: u8 = 0x04;
const UD_SEND: u8 = 0x64;

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// A running service; dropping it ends it.
struct Running {
    fabric: LoopbackFabric,
    folder: PathBuf,
    options: ServiceOptions,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start() -> Self {
        Self::with(|_| ())
    }

    fn with(change: impl FnOnce(&mut ServiceOptions)) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("uroce-service-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let mut options = ServiceOptions {
            socket: Some(folder.join("socket")),
            mode: 0o600,
            slots: folder.join("slots"),
            users: vec![],
            per_user: 64,
            links: 32,
        };
        change(&mut options);
        let (fabric, stop) = (LoopbackFabric::new(), Arc::new(AtomicBool::new(false)));
        let mut running = Self { fabric, folder, options, stop, thread: None };
        running.resume();
        running
    }

    /// Starts it, or starts it again.
    fn resume(&mut self) {
        let inner = Box::new(self.fabric.attach(addr(HERE)).expect("free"));
        let mut service =
            PortService::new(vec![inner], gsi, (None, self.options.clone())).expect("a service");
        self.stop.store(false, Ordering::Relaxed);
        let stop = Arc::clone(&self.stop);
        self.thread = Some(std::thread::spawn(move || service.run(&stop).expect("no failure")));
    }

    fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("no panic");
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    /// A client; the service may have to close connections of this user before.
    fn client(&self) -> ServedDatapath {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            match ServedDatapath::open_at(&self.socket(), addr(HERE), false) {
                Ok(client) => return client,
                Err(error) => assert!(Instant::now() < end, "{error}"),
            }
        }
    }

    fn peer(&self) -> LoopbackDatapath {
        self.fabric.attach(addr(THERE)).expect("free")
    }

    /// Waits until a line of the status has this text.
    fn await_status(&self, text: &str) {
        let mut lines = String::new();
        for _ in 0..2000 {
            let status = crate::status(&self.socket()).expect("it answers");
            lines = status.iter().map(ToString::to_string).collect();
            if lines.contains(text) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("never {text:?}, but {lines}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.stop();
        }
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Stands for the parser of MADs: the byte behind the headers of a datagram says whom it is for.
fn gsi(rx: &RxPacket<'_>) -> RedirectTarget {
    match rx.payload[20] {
        b's' => RedirectTarget::Service(7),
        b'e' => RedirectTarget::Everyone,
        number => Slot::new(number).map_or(RedirectTarget::Here, RedirectTarget::Slot),
    }
}

/// A packet with so many bytes of payload, and room for its ICRC.
fn packet(opcode: u8, qpn: Qpn, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![opcode, 0, 0xff, 0xff, 0];
    bytes.extend(&qpn.get().to_be_bytes()[1..]);
    bytes.extend([0; 4]);
    bytes.extend(payload);
    bytes.extend([0; 4]);
    bytes
}

/// A datagram from a queue pair.
fn datagram(qpn: Qpn, from: Qpn, payload: &[u8]) -> Vec<u8> {
    let deth = [&[0; 5], &from.get().to_be_bytes()[1..]].concat();
    packet(UD_SEND, qpn, &[&deth, payload].concat())
}

fn commit(from: &mut dyn Datapath, to: &str, bytes: &[u8]) -> bool {
    let src = from.local();
    let route = Route { src, dst: addr(to), hop_limit: 64, traffic_class: 3 };
    let Some(space) = from.tx_space() else { return false };
    space[..bytes.len()].copy_from_slice(bytes);
    from.tx_commit(&route, bytes.len(), &mut |_, _| ());
    true
}

fn send(from: &mut dyn Datapath, to: &str, bytes: &[u8]) {
    assert!(commit(from, to, bytes), "there is room");
    from.flush().expect("sent");
}

/// What arrives within `time`, at most `count` packets.
fn receive_within(to: &mut dyn Datapath, count: usize, time: Duration) -> Vec<Vec<u8>> {
    let (mut got, end) = (vec![], Instant::now() + time);
    while got.len() < count && Instant::now() < end {
        let more = to.recv(count - got.len(), &mut |rx| got.push(rx.payload.to_vec()));
        if more.expect("connected") == 0 {
            std::thread::yield_now();
        }
    }
    got
}

fn receive(to: &mut dyn Datapath, count: usize) -> Vec<Vec<u8>> {
    let got = receive_within(to, count, Duration::from_secs(20));
    assert_eq!(got.len(), count);
    got
}

fn slot(of: &mut ServedDatapath) -> Slot {
    of.shared_port().expect("shared").slot()
}
