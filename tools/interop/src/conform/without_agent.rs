//! `uroce conform --no-agent` against perftest on our device.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process;

use super::stage::Stage;

/// The programs; one that is started again soon is there twice.
const SERVERS: [&str; 6] =
    ["ib_write_bw", "ib_write_bw", "ib_send_bw", "ib_send_bw", "ib_read_bw", "ib_atomic_bw"];
/// Some cases, with every program; all of them take longer, for each case waits for a program to start.
const SOME: [&str; 8] = [
    "rc.responder.send-only",
    "rc.responder.nak-",
    "rc.responder.rnr-next-packet",
    "rc.responder.duplicate-read",
    "rc.responder.key-",
    "rc.responder.middle-first",
    "rc.responder.read-headers",
    "rc.responder.atomic-nak-opcode",
];
/// How many of them need no agent.
const JUDGED: u64 = 13;
/// A fault of our device, and a case that fails by it.
const BROKEN: (&str, &str) = ("tx op=ack -> set:pkey=0x7fff", "rc.responder.ack-fields");

/// Our device passes cases that need no agent, and broken on purpose it does not.
///
/// # Errors
/// It does not pass, or another number of cases can be judged than before.
pub fn check(stage: &Stage<'_>) -> Result<()> {
    if process::find_program(SERVERS[0]).is_none() {
        println!("skipped conform --no-agent: there is no {} on this machine", SERVERS[0]);
        return Ok(());
    }
    let servers = Servers::start(stage, &[])?;
    let only: Vec<&str> = SOME.iter().flat_map(|case| ["--only", case]).collect();
    let output = servers.tester(&[&only[..], &["--json"]].concat()).output();
    let output = output.context(|| "could not start uroce conform")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let report: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| Error::new(format!("conform --no-agent: {error}\n{text}")))?;
    let count = |word: &str| report["counts"][word].as_u64().unwrap_or_default();
    let judged = count("pass") + count("tolerated");
    if !output.status.success() || judged != JUDGED {
        return Err(Error::new(format!(
            "conform --no-agent: {}, {judged} judged\n{text}",
            output.status
        )));
    }
    drop(servers);
    println!("{judged} cases are kept without an agent, {} need one", count("not applicable"));
    broken(stage)
}

fn broken(stage: &Stage<'_>) -> Result<()> {
    let (fault, case) = BROKEN;
    let servers = Servers::start(stage, &["--fault", fault, "--fault-seed", "1"])?;
    let output = servers.tester(&["--only", case]).output();
    let output = output.context(|| "could not start uroce conform")?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().any(|line| line.starts_with("fail ")) {
        true => Ok(()),
        false => {
            Err(Error::new(format!("{fault}: {case} does not fail without an agent:\n{text}")))
        }
    }
}

/// The servers of perftest, each started again when it ends.
struct Servers<'s> {
    stage: &'s Stage<'s>,
    loops: Vec<(Child, Guard)>,
    ports: Vec<u16>,
}

impl Servers<'_> {
    fn start<'s>(stage: &'s Stage<'s>, options: &[&str]) -> Result<Servers<'s>> {
        let ports = SERVERS.iter().map(|_| free_port()).collect::<Result<Vec<_>>>()?;
        let loops = SERVERS.iter().zip(&ports);
        let loops = loops.map(|(name, port)| again_and_again(stage, options, name, *port));
        Ok(Servers { stage, loops: loops.collect::<Result<_>>()?, ports })
    }

    fn tester(&self, words: &[&str]) -> Command {
        let Stage { program, agent, tester, .. } = self.stage;
        let mut command = Command::new(program);
        command.args(["conform", agent, "--address", tester]).args(words);
        for (name, port) in SERVERS.iter().zip(&self.ports) {
            command.arg("--no-agent").arg(format!("{name}:{port}"));
        }
        command
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        for (mut child, guard) in self.loops.drain(..) {
            drop(guard);
            // The group was ended just now.
            let _ = child.wait();
        }
    }
}

/// The loop that docs/conform/README.md tells users to run.
fn again_and_again(
    stage: &Stage<'_>,
    options: &[&str],
    name: &str,
    port: u16,
) -> Result<(Child, Guard)> {
    let mut command = Command::new(stage.program);
    command.args(["run", "--address", &stage.agent]).args(options);
    command.args(["--", "sh", "-c", &format!("while :; do {name} -p {port}; done")]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let child = command.spawn().context(|| format!("could not start {name}"))?;
    let guard = Guard::new(Leftover::Group(child.id()));
    Ok((child, guard))
}

/// A TCP port that is free now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0));
    let listener = listener.context(|| "no TCP port is free")?;
    Ok(listener.local_addr().context(|| "a socket has no address")?.port())
}
