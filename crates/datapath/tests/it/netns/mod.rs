//! Two network namespaces with a wire between them, for the life of a test.
#![allow(dead_code, reason = "each test program uses what it needs")]

use std::io;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own. The namespace lives as long as the thread or a socket
/// that was opened in it.
pub struct Namespace {
    jobs: Sender<Job>,
    tid: i32,
}

impl Namespace {
    fn new() -> io::Result<Self> {
        let (jobs, work) = channel::<Job>();
        let (report, ready) = channel();
        std::thread::spawn(move || {
            // SAFETY: only the network namespace is left, which no other thread's descriptors need.
            let left = unsafe { unshare_unsafe(UnshareFlags::NEWNET) };
            let outcome = left.map(|()| gettid().as_raw_nonzero().get());
            if report.send(outcome).is_ok() {
                work.into_iter().for_each(|job| job());
            }
        });
        let tid = ready.recv().expect("the thread answers")?;
        Ok(Self { jobs, tid })
    }

    /// A namespace with its loopback interface up; `None`, with a word about it, when this process
    /// may not make namespaces.
    pub fn open() -> Option<Self> {
        match Self::new() {
            Ok(namespace) => {
                namespace.sh("ip link set lo up");
                Some(namespace)
            }
            Err(error) => {
                assert!(std::env::var_os("CI").is_none(), "no network namespace: {error}");
                eprintln!("skipped: needs the right to make network namespaces ({error})");
                None
            }
        }
    }

    /// Runs `job` in the namespace and returns what it returns.
    pub fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> T {
        let (report, result) = channel();
        let job: Job = Box::new(move || drop(report.send(job())));
        self.jobs.send(job).expect("the thread lives");
        result.recv().expect("the job did not panic")
    }

    /// Runs a command in the namespace and returns what it prints.
    pub fn sh(&self, line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let shown = line.to_owned();
        let output = self.run(move || Command::new(&words[0]).args(&words[1..]).output());
        let output = output.unwrap_or_else(|error| panic!("{shown}: {error}"));
        assert!(output.status.success(), "{shown}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command until it prints `expected`. The kernel does some things later: until it has
    /// noticed the other end of a wire it drops what is sent, and it is deaf to a new IPv6 address.
    fn wait_for(&self, line: &str, expected: &str) {
        let end = Instant::now() + Duration::from_secs(10);
        while !self.sh(line).contains(expected) {
            assert!(Instant::now() < end, "`{line}` never shows {expected:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Two namespaces and a veth pair: `wa` with the addresses 10.77.0.1 and fd77::1, `wb` with 10.77.0.2,
/// 10.77.0.3, fd77::2 and fd77::3.
pub struct Wire {
    pub a: Namespace,
    pub b: Namespace,
}

impl Wire {
    /// A wire of that MTU whose ends know each other's hardware addresses; `None`, with a word about
    /// it, when this process may not make namespaces.
    pub fn new(mtu: usize) -> Option<Self> {
        Self::with_queues(mtu, 1)
    }

    /// The same with so many queues at each end, which are used each way.
    pub fn with_queues(mtu: usize, queues: usize) -> Option<Self> {
        let wire = Self::link(mtu, queues)?;
        for ip in ["10.77.0.2", "10.77.0.3", "fd77::2", "fd77::3"] {
            wire.a.sh(&format!("ip neigh add {ip} lladdr 02:00:00:00:00:0b dev wa nud permanent"));
        }
        for ip in ["10.77.0.1", "fd77::1"] {
            wire.b.sh(&format!("ip neigh add {ip} lladdr 02:00:00:00:00:0a dev wb nud permanent"));
        }
        Some(wire)
    }

    /// A wire whose ends have to find each other first.
    pub fn without_neighbours(mtu: usize) -> Option<Self> {
        Self::link(mtu, 1)
    }

    fn link(mtu: usize, queues: usize) -> Option<Self> {
        let (a, b) = (Namespace::open()?, Namespace::open()?);
        let each = format!("mtu {mtu} numrxqueues {queues} numtxqueues {queues}");
        a.sh(&format!(
            "ip link add wa {each} address 02:00:00:00:00:0a type veth \
             peer name wb {each} address 02:00:00:00:00:0b netns {}",
            b.tid
        ));
        let ours = [(&a, "wa", &["1"][..]), (&b, "wb", &["2", "3"][..])];
        for (namespace, interface, _) in ours {
            namespace.sh(&format!("ip link set {interface} up"));
        }
        for (namespace, interface, hosts) in ours {
            namespace.wait_for(&format!("ip -o link show {interface}"), "state UP");
            for host in hosts {
                namespace.sh(&format!("ip addr add 10.77.0.{host}/24 dev {interface}"));
                namespace.sh(&format!("ip addr add fd77::{host}/64 dev {interface} nodad"));
                let local = format!("local fd77::{host} ");
                namespace.wait_for("ip -6 route show table local", &local);
            }
        }
        Some(Self { a, b })
    }
}
