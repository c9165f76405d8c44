//! `uroce conform` against ourselves, sound and broken on purpose.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::error::{Context, Error, Result};
use crate::{programs, workspace};

/// The token of the agents.
const TOKEN: &str = "xtask";
/// How long an agent may take to listen.
const START: Duration = Duration::from_secs(30);

/// Faults that are tried side by side.
const AT_A_TIME: usize = 5;

/// A fault in what our device sends or receives, and a case that must fail by it.
const BROKEN: &[(&str, &str)] = &[
    ("tx op=nak -> drop", "rc.responder.nak-once-per-gap"),
    ("tx op=nak -> dup", "rc.responder.nak-once-per-gap"),
    ("tx op=ack -> set:msn=77", "rc.responder.msn-counts"),
    ("tx op=ack -> corrupt=icrc", "rc.responder.send-only"),
    ("tx op=ack -> set:pkey=0x7fff", "rc.responder.ack-fields"),
    ("tx op=ack -> delay=4s", "rc.responder.send-only"),
    ("tx op=rnr -> drop", "rc.responder.rnr-send"),
    ("tx op=rnr -> set:syndrome=0x21", "rc.responder.rnr-send"),
    ("tx op=read-resp -> set:psn=5", "rc.responder.psn-wrap-in-read"),
    ("tx op=read-resp part=middle -> drop", "rc.responder.read-headers"),
    ("tx op=read-resp -> hold=1", "rc.responder.response-order"),
    ("rx op=ack -> drop", "rc.requester.coalesced-ack"),
    ("rx op=nak -> drop", "rc.requester.nak-mid"),
    ("tx op=cnp -> set:psn=5", "rc.responder.ce-gives-cnp"),
    ("rx op=write -> ce", "rc.responder.no-mark-no-cnp"),
    ("tx op=rej -> dup", "cm.responder.no-listener"),
    ("tx op=rep -> set:src_qp=7", "cm.responder.req-ok"),
    ("tx op=rep -> drop skip=1", "cm.responder.rep-resent"),
    ("tx op=drep -> drop skip=1", "cm.responder.dreq"),
    ("tx op=req -> drop skip=1", "cm.requester.req-resent"),
    ("tx op=rtu -> drop skip=1", "cm.requester.rep-duplicate"),
    ("rx op=mra -> drop", "cm.requester.mra-given"),
];

/// Captures of kernel rxe that `uroce replay --to` plays to our device, with the same answers.
const REPLAYED: [&str; 3] = ["rc-send.pcap", "fetch-add.pcap", "write-lat.pcap"];

/// Runs every case against our device, which must pass all, and some against it broken.
///
/// # Errors
/// A case fails that should not, or does not that should.
pub fn run() -> Result<()> {
    let (folder, _guard) = programs::install()?;
    let program = folder.join("bin/uroce");
    let first = stage(&program, 0);
    first.sound()?;
    first.replays()?;
    for (turn, some) in BROKEN.chunks(AT_A_TIME).enumerate() {
        at_once(&program, turn * AT_A_TIME, some)?;
    }
    println!("all cases pass against uroce, and {} faults are noticed", BROKEN.len());
    Ok(())
}

/// Tries some faults side by side: what they take is time to wait.
fn at_once(program: &Path, before: usize, some: &[(&str, &str)]) -> Result<()> {
    std::thread::scope(|scope| {
        let tries: Vec<_> = (before..)
            .zip(some)
            .map(|(at, (fault, case))| {
                scope.spawn(move || stage(program, at + 1).broken(fault, case))
            })
            .collect();
        tries.into_iter().try_for_each(|tried| {
            tried.join().unwrap_or_else(|_| Err(Error::new("a trial panicked")))
        })
    })
}

/// Two loopback addresses that no other run has, nor another stage of this one.
fn stage(program: &Path, number: usize) -> Stage<'_> {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    let address = |host| format!("127.{}.{low}.{host}", 128 + high % 64);
    Stage { program, agent: address(2 * number + 1), tester: address(2 * number + 2) }
}

struct Stage<'s> {
    program: &'s Path,
    agent: String,
    tester: String,
}

impl Stage<'_> {
    fn sound(&self) -> Result<()> {
        let _agent = self.agent(&[])?;
        let status = self.tester(&[]).status().context(|| "could not start uroce conform")?;
        match status.success() {
            true => Ok(()),
            false => Err(Error::new(format!("uroce does not pass its own test ({status})"))),
        }
    }

    /// Captures that our device answers as the one of then did, and one that it does not when it is broken.
    fn replays(&self) -> Result<()> {
        let agent = self.agent(&[])?;
        for capture in REPLAYED {
            self.replay(capture, 0)?;
        }
        drop(agent);
        let _agent = self.agent(&["--fault", "tx op=ack -> set:msn=77", "--fault-seed", "1"])?;
        self.replay(REPLAYED[0], 1)
    }

    fn replay(&self, capture: &str, wanted: i32) -> Result<()> {
        let file = workspace::root().join("pcaps").join(capture);
        let mut command = Command::new(self.program);
        command.arg("replay").arg(file).args(["--to", &self.agent, "--token", TOKEN]);
        command.args(["--address", &self.tester, "--only-differences"]);
        let output = command.output().context(|| "could not start uroce replay")?;
        if output.status.code() != Some(wanted) {
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            let what = format!("replay of {capture} --to: {}, not {wanted}", output.status);
            return Err(Error::new(format!("{what}\n{text}")));
        }
        println!("{capture} replayed to an agent: exit status {wanted}, as it should");
        Ok(())
    }

    fn broken(&self, fault: &str, case: &str) -> Result<()> {
        let _agent = self.agent(&["--fault", fault, "--fault-seed", "1"])?;
        let output = self.tester(&["--only", case]).output();
        let output = output.context(|| "could not start uroce conform")?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !text.starts_with("fail ") {
            return Err(Error::new(format!("{fault}: {case} does not fail:\n{text}")));
        }
        println!("{fault}: {case} fails, as it should");
        Ok(())
    }

    fn tester(&self, words: &[&str]) -> Command {
        let mut command = Command::new(self.program);
        command.args(["conform", &self.agent, "--token", TOKEN, "--address", &self.tester]);
        command.args(words);
        command
    }

    /// An agent that listens.
    fn agent(&self, words: &[&str]) -> Result<Running> {
        let mut command = Command::new(self.program);
        command.args(["run", "--address", &self.agent]).args(words).arg("--").arg(self.program);
        command.args(["conform", "agent", "--token", TOKEN, "--listen", &self.agent]);
        if !words.is_empty() {
            command.stderr(Stdio::null());
        }
        let child = command.stdout(Stdio::null()).spawn();
        let mut running = Running(child.context(|| "could not start uroce conform agent")?);
        let end = Instant::now() + START;
        let listens =
            || std::fs::read_to_string("/proc/net/tcp").is_ok_and(|text| self.is_in(&text));
        while !listens() {
            if let Ok(Some(status)) = running.0.try_wait() {
                return Err(Error::new(format!("uroce conform agent ended early ({status})")));
            }
            if Instant::now() > end {
                return Err(Error::new("uroce conform agent does not listen"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(running)
    }

    /// The agent's address and port, as the kernel writes them, in state LISTEN.
    fn is_in(&self, table: &str) -> bool {
        let Ok(address) = self.agent.parse::<std::net::Ipv4Addr>() else { return false };
        let wanted = format!("{:08X}:4858", u32::from_ne_bytes(address.octets()));
        table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A "))
    }
}

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
