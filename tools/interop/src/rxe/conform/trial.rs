//! A run of `uroce conform` against a guest.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde::Deserialize;
use uroce_rxe_guest::addresses::{GUEST_V4, HOST_V4};
use uroce_rxe_guest::{Guest, GuestConfig, Job};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, stdout_of};

/// The token of the agent: no other host is on that wire.
const TOKEN: &str = "xtask";
/// How long the agent may take to start: it is read over the shared folder.
const START: Duration = Duration::from_secs(120);
/// Seconds that all cases may take.
const LIMIT: &str = "1200";
/// How often a case is run again that was inconclusive: then a host that was busy may be idle.
const AGAIN: u32 = 2;
/// How much longer silence lasts then.
const LONGER: u32 = 4;
/// Guests that are booted, one after the other, when cases stop the kernel.
const GUESTS: u32 = 6;

/// What the tester reports as JSON; fields that the page does not show are left out.
#[derive(Debug, Deserialize)]
pub struct Run {
    /// What was tested.
    pub peer: Peer,
    /// Why the run ended before its last case.
    pub ended_early: Option<String>,
    /// Case by case.
    pub cases: Vec<Case>,
}

/// What was tested.
#[derive(Debug, Deserialize)]
pub struct Peer {
    /// `Linux 6.12.107+deb13-amd64 x86_64`.
    pub system: String,
}

/// What became of a case.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// Its name.
    #[serde(rename = "case")]
    pub name: String,
    /// What it asks.
    pub rules: String,
    /// Must, should, or implementation-defined.
    pub class: String,
    /// `pass`, `fail`, ...
    pub verdict: String,
    /// Why.
    pub why: String,
    /// What was measured beside.
    pub recorded: Vec<String>,
}

impl Case {
    /// A case that stopped the kernel.
    fn stopped(case: &Listed, crash: &str) -> Self {
        Self {
            name: case.name.clone(),
            rules: case.rules.clone(),
            class: case.class.clone(),
            verdict: "fail".to_owned(),
            why: format!("the kernel stopped: {crash}"),
            recorded: Vec::new(),
        }
    }
}

/// What `uroce conform --list` prints.
#[derive(Debug, Deserialize)]
struct List {
    cases: Vec<Listed>,
}

/// A case before it runs.
#[derive(Debug, Deserialize)]
struct Listed {
    #[serde(rename = "case")]
    name: String,
    rules: String,
    class: String,
}

impl Run {
    /// The first two numbers of the kernel's version.
    pub fn version(&self) -> String {
        let release = self.peer.system.split(' ').nth(1).unwrap_or_default();
        release.splitn(3, '.').take(2).collect::<Vec<_>>().join(".")
    }

    /// Leaves out cases that are not among `names`: `--only` also selects those whose names contain one of them, and they
    /// may have run before the kernel stopped.
    fn keep_only(&mut self, names: &[String]) {
        self.cases.retain(|case| names.contains(&case.name));
    }

    /// How many cases ended so.
    pub fn count(&self, verdict: &str) -> usize {
        self.cases.iter().filter(|case| case.verdict == verdict).count()
    }
}

/// A kernel, and the program that tests it.
pub struct Trial {
    /// What to boot.
    pub config: GuestConfig,
    /// `uroce` on this host.
    pub program: PathBuf,
    /// The folder for the packets of each case, if they are kept.
    pub captures: Option<PathBuf>,
}

impl Trial {
    /// Runs the cases whose names contain one of `only`, all if it is empty. A case that stops the kernel has failed;
    /// those behind it run in a fresh guest.
    ///
    /// # Errors
    /// The agent or the tester did not run to its end, or the kernel stopped too often.
    pub fn run(&self, only: &[String], silence: Duration) -> Result<Run> {
        let names = self.names(only)?;
        let mut done: Vec<Case> = Vec::new();
        for _ in 0..GUESTS {
            let session = Session::start(self)?;
            let run = session.run(&names[done.len()..], silence)?;
            done.extend(run.cases);
            let Some(why) = run.ended_early else {
                return Ok(Run { cases: done, ..run });
            };
            let crash = session.crash().ok_or_else(|| Error::new(why.clone()))?;
            println!("{why}\n{crash}");
            let Some(name) = names.get(done.len()) else { return Err(Error::new(why)) };
            done.push(Case::stopped(name, &crash));
        }
        Err(Error::new(format!("the kernel stopped in {GUESTS} cases")))
    }

    /// The names of cases, in their order.
    fn names(&self, only: &[String]) -> Result<Vec<Listed>> {
        let mut command = command([&self.program]);
        command.args(["--json", "conform", "--list"]);
        command.args(only.iter().flat_map(|text| ["--only", text]));
        let text = stdout_of(&mut command)?;
        let list: List = serde_json::from_str(&text).context(|| "uroce conform --list")?;
        Ok(list.cases)
    }
}

/// An agent that listens in a guest.
struct Session<'t> {
    trial: &'t Trial,
    guest: Guest,
}

impl<'t> Session<'t> {
    fn start(trial: &'t Trial) -> Result<Self> {
        let guest = Guest::boot(&trial.config)?;
        println!("the guest is up, under {:?}", guest.accelerator());
        fs::copy(&trial.program, guest.share().join("uroce")).context(|| "could not copy uroce")?;
        Ok(Self { trial, guest })
    }

    /// Runs cases, and those again that were inconclusive.
    fn run(&self, cases: &[Listed], silence: Duration) -> Result<Run> {
        let agent = self.agent()?;
        let names: Vec<String> = cases.iter().map(|case| case.name.clone()).collect();
        let mut run = self.tester(&names, silence)?;
        run.keep_only(&names);
        if run.ended_early.is_none() {
            for case in run.cases.iter_mut().filter(|case| case.verdict == "inconclusive") {
                *case = self.again(case, silence * LONGER)?;
            }
        }
        drop(agent);
        Ok(run)
    }

    /// What the kernel said when it stopped; `None` if it runs.
    fn crash(&self) -> Option<String> {
        let console = fs::read(self.guest.folder().join("console")).ok()?;
        let console = String::from_utf8_lossy(&console);
        let line = console.lines().find(|line| line.contains("BUG: ") || line.contains("panic"))?;
        Some(line.split_once("] ").map_or(line, |(_, text)| text).to_owned())
    }

    fn again(&self, case: &Case, silence: Duration) -> Result<Case> {
        let mut latest = case.clone();
        for _ in 0..AGAIN {
            println!("again: {}: {}", case.name, latest.why);
            let run = self.tester(std::slice::from_ref(&case.name), silence)?;
            // The name may be part of another one's.
            let same = run.cases.into_iter().find(|other| other.name == case.name);
            latest = same.unwrap_or(latest);
            if latest.verdict != "inconclusive" {
                break;
            }
        }
        Ok(latest)
    }

    /// An agent that listens, with the guest's own libibverbs.
    fn agent(&self) -> Result<Job<'_>> {
        let script = format!("exec /mnt/share/uroce conform agent -d rxe0 --token {TOKEN}");
        let job = self.guest.spawn(&script)?;
        let end = Instant::now() + START;
        while !job.text().contains(TOKEN) {
            if Instant::now() > end {
                let text = job.text();
                return Err(Error::new(format!("uroce conform agent does not listen:\n{text}")));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(job)
    }

    fn tester(&self, only: &[String], silence: Duration) -> Result<Run> {
        let mut command = self.guest.namespace().command(&["timeout", LIMIT]);
        command.arg(&self.trial.program).args(["--json", "conform", &GUEST_V4.to_string()]);
        command.args(["--token", TOKEN, "--address", &HOST_V4.to_string()]);
        command.arg("--silence").arg(silence.as_millis().to_string());
        command.args(only.iter().flat_map(|text| ["--only", text]));
        if let Some(folder) = &self.trial.captures {
            // What ends with a slash is a folder to it.
            command.arg("--pcap").arg(folder.join(""));
        }
        let output = command.output().context(|| "could not start uroce conform")?;
        // It exits with 1 when rxe breaks a rule: that is what the page is about.
        parsed(&output.stdout).map_err(|error| {
            let words = String::from_utf8_lossy(&output.stderr).into_owned();
            Error::new(format!("uroce conform: {}: {error}\n{words}", output.status))
        })
    }
}

/// The report, if that is all that was printed.
fn parsed(text: &[u8]) -> Result<Run> {
    serde_json::from_slice(text).context(|| "its report")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read() {
        let text = r#"{"peer": {"device": "rxe0", "system": "Linux 6.12.107+deb13-amd64 x86_64"},
            "ended_early": null, "cases": [{"case": "a.b", "rules": "R1", "class": "must",
            "verdict": "pass", "why": "", "recorded": [], "seconds": 0.1}]}"#;
        let mut run = parsed(text.as_bytes()).expect("a report");
        assert_eq!((run.version(), run.count("pass")), ("6.12".to_owned(), 1));
        run.keep_only(&["a".to_owned()]);
        assert!(run.cases.is_empty(), "a.b is not a");
    }
}
