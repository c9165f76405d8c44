//! Our device with an agent, and a tester, on two loopback addresses.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::netns::NetNs;
use uroce_testbed::workspace;

/// The token of the agents.
const TOKEN: &str = "xtask";
/// How long an agent may take to listen.
const START: Duration = Duration::from_secs(30);

/// Captures of kernel rxe that `uroce replay --to` plays to our device, with the same answers.
const REPLAYED: [&str; 3] = ["rc-send.pcap", "fetch-add.pcap", "write-lat.pcap"];

/// What is said about each case, by its name.
pub type Verdicts = BTreeMap<String, String>;

/// How our device is broken.
#[derive(Debug, Clone, Copy)]
pub enum Broken {
    /// By a rule of `--fault`.
    Fault(&'static str),
    /// By a mutation of the transport, which the program must have been built with.
    Mutation(&'static str),
}

/// Two addresses, and the program to run there.
pub struct Stage<'s> {
    pub(super) program: &'s Path,
    /// Where both run; our device uses AF_PACKET there. UDP sockets do not show the IPv4 identification: a device behind one
    /// cannot tell a wrong one.
    inside: Option<&'s NetNs>,
    pub(super) agent: String,
    pub(super) tester: String,
}

impl Stage<'_> {
    /// Two loopback addresses that no other run has, nor another stage of this one.
    pub fn new(program: &Path, number: usize) -> Stage<'_> {
        Stage::within(program, None, number)
    }

    /// The same in a namespace, if there is one.
    pub fn within<'s>(program: &'s Path, inside: Option<&'s NetNs>, number: usize) -> Stage<'s> {
        let [_, _, high, low] = std::process::id().to_be_bytes();
        let address = |host| format!("127.{}.{low}.{host}", 128 + high % 64);
        Stage { program, inside, agent: address(2 * number + 1), tester: address(2 * number + 2) }
    }

    /// Runs every case against our device as it is; `words` are options of the tester.
    ///
    /// # Errors
    /// It does not pass.
    pub fn sound(&self, words: &[&str]) -> Result<Vec<u8>> {
        let _agent = self.agent(None)?;
        let output = self.tester(words).output().context(|| "could not start uroce conform")?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        Err(Error::new(format!("uroce does not pass its own test ({})\n{text}", output.status)))
    }

    /// Runs cases, all if `only` names none, against our device broken on purpose.
    ///
    /// # Errors
    /// The run did not come to its end.
    pub fn broken(&self, broken: Broken, only: &[&str]) -> Result<Verdicts> {
        let _agent = self.agent(Some(broken))?;
        let mut tester = self.tester(&["--json"]);
        if !only.is_empty() {
            tester.args(["--robustness", "--performance"]);
        }
        tester.args(only.iter().flat_map(|case| ["--only", case]));
        let output = tester.output().context(|| "could not start uroce conform")?;
        verdicts(&output.stdout).map_err(|why| {
            let said = String::from_utf8_lossy(&output.stderr);
            Error::new(format!("{broken:?}: {why}\n{said}"))
        })
    }

    /// Captures that our device answers as the one of then did, and one that it does not when it is broken.
    ///
    /// # Errors
    /// It answers otherwise.
    pub fn replays(&self) -> Result<()> {
        let agent = self.agent(None)?;
        for capture in REPLAYED {
            self.replay(capture, 0)?;
        }
        drop(agent);
        let _agent = self.agent(Some(Broken::Fault("tx op=ack -> set:msn=77")))?;
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

    fn command(&self) -> Command {
        match self.inside {
            Some(namespace) => namespace.command(&[self.program]),
            None => Command::new(self.program),
        }
    }

    fn tester(&self, words: &[&str]) -> Command {
        let mut command = self.command();
        command.args(["conform", &self.agent, "--token", TOKEN, "--address", &self.tester]);
        command.args(words);
        command
    }

    /// An agent that listens.
    fn agent(&self, broken: Option<Broken>) -> Result<Running> {
        let mut command = self.command();
        let datapath = if self.inside.is_some() { "packet" } else { "udp" };
        command.args(["run", "--no-split-writes", "--datapath", datapath]);
        command.args(["--address", &self.agent]);
        match broken {
            None => &mut command,
            Some(Broken::Fault(rule)) => command.args(["--fault", rule, "--fault-seed", "1"]),
            Some(Broken::Mutation(name)) => command.env("UROCE_MUTATION", name),
        };
        command.arg("--").arg(self.program);
        command.args(["conform", "agent", "--token", TOKEN, "--listen", &self.agent]);
        if broken.is_some() {
            command.stderr(Stdio::null());
        }
        let child = command.stdout(Stdio::null()).spawn();
        let mut running = Running(child.context(|| "could not start uroce conform agent")?);
        let end = Instant::now() + START;
        while !self.listens(running.0.id()) {
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

    /// The agent's address and port are in the kernel's table for this process, in state LISTEN.
    fn listens(&self, process: u32) -> bool {
        let Ok(address) = self.agent.parse::<std::net::Ipv4Addr>() else { return false };
        let Ok(table) = std::fs::read_to_string(format!("/proc/{process}/net/tcp")) else {
            return false;
        };
        let wanted = format!("{:08X}:4858", u32::from_ne_bytes(address.octets()));
        table.lines().any(|line| line.contains(&wanted) && line.contains(" 0A "))
    }
}

/// The verdicts in a report as JSON, or why they are not those of a whole run.
fn verdicts(report: &[u8]) -> Result<Verdicts> {
    let report: Value = serde_json::from_slice(report).context(|| "the report is no JSON")?;
    if let Some(why) = report["ended_early"].as_str() {
        return Err(Error::new(format!("the run ended early: {why}")));
    }
    let cases = report["cases"].as_array().ok_or_else(|| Error::new("a report without cases"))?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Ok(cases.iter().map(|case| (text(&case["case"]), text(&case["verdict"]))).collect())
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
