//! Network namespaces for the life of a test: of a thread, or with a name for `ip netns exec`.

mod named;
mod wire;

use std::io;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use rustix::thread::{UnshareFlags, gettid, unshare_unsafe};

pub use self::named::{Namespaces, inside, ip};
pub use self::wire::Wire;

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
