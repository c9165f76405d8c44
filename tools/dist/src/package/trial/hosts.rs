//! Two hosts: network namespaces with an Ethernet link between them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::netns::NetNs;
use uroce_testbed::process::{describe, stdout_of};

use crate::package::root::Root;

/// The interface of each of them.
const INTERFACE: &str = "roce0";
/// Their addresses.
const ADDRESSES: [&str; 2] = ["10.47.91.1", "10.47.91.2"];
/// Where servers wait for clients.
const PORT: u16 = 18_515;
/// The longest that a program may take.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);
/// Most runs of a pair that fails: programs have time-outs of their own, which a busy machine exceeds.
const TRIES: usize = 3;
/// Programs between the two, whose client gets the address of the server behind these words.
const PAIRS: [&[&str]; 3] = [
    &["pingpong", "rc"],
    &["run", "--", "ibv_rc_pingpong", "-g", "1"],
    &["run", "--", "ib_write_bw", "-F", "-x", "1"],
];

/// The two.
#[derive(Debug)]
pub struct Hosts {
    server: NetNs,
    client: NetNs,
}

impl Hosts {
    /// Makes them.
    ///
    /// # Errors
    /// Not root.
    pub fn set_up() -> Result<Self> {
        let hosts = Self { server: NetNs::create("package")?, client: NetNs::create("package")? };
        let peer = hosts.client.name();
        hosts
            .server
            .ip(&format!("link add {INTERFACE} type veth peer name {INTERFACE} netns {peer}"))?;
        for (host, address) in [&hosts.server, &hosts.client].into_iter().zip(ADDRESSES) {
            host.ip(&format!("address add {address}/24 dev {INTERFACE}"))?;
            host.ip(&format!("link set {INTERFACE} up"))?;
        }
        Ok(hosts)
    }

    /// Runs `ibv_devinfo` and every pair as an ordinary user; returns what was run.
    ///
    /// # Errors
    /// One of them failed.
    pub fn run_programs(&self, root: &Root, prefix: &str) -> Result<String> {
        let at = |host: &NetNs, address: &str, words: &[&str]| {
            let device: &[&str] = match words[0] {
                "run" => &["run", "--device", address],
                command => &[command, "--address", address],
            };
            root.command(host, prefix, &[device, &words[1..]].concat())
        };
        // The kernel reports an interface as running a moment after it is up.
        let deadline = Instant::now() + PROGRAM_TIMEOUT;
        let mut devinfo = at(&self.client, ADDRESSES[1], &["run", "--", "ibv_devinfo"]);
        while !stdout_of(&mut devinfo)?.contains("PORT_ACTIVE") {
            if Instant::now() > deadline {
                return Err(Error::new("ibv_devinfo shows no active port"));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        for words in PAIRS {
            let mut outcome = Ok(());
            for _ in 0..TRIES {
                outcome = self.run_pair(words, &at);
                match &outcome {
                    Ok(()) => break,
                    Err(error) => println!("again   {}: {error}", words.join(" ")),
                }
            }
            outcome?;
        }
        Ok("ran ibv_devinfo, pingpong, ibv_rc_pingpong and ib_write_bw".to_owned())
    }

    fn run_pair(
        &self,
        words: &[&str],
        at: &impl Fn(&NetNs, &str, &[&str]) -> Command,
    ) -> Result<()> {
        let mut server = ServerProcess::start(&mut at(&self.server, ADDRESSES[0], words))?;
        server.wait_until(|| self.server.listens(PORT))?;
        stdout_of(&mut at(&self.client, ADDRESSES[1], &[words, &[ADDRESSES[0]]].concat()))?;
        server.end()
    }
}

/// A server, ended with everything that it has started.
struct ServerProcess {
    child: Child,
    line: String,
    started: Instant,
    _guard: Guard,
}

impl ServerProcess {
    fn start(command: &mut Command) -> Result<Self> {
        use std::os::unix::process::CommandExt as _;
        let line = describe(command);
        let child = command.process_group(0).stdout(Stdio::null()).spawn();
        let child = child.context(|| format!("could not start `{line}`"))?;
        let _guard = Guard::new(Leftover::Group(child.id()));
        Ok(Self { child, line, started: Instant::now(), _guard })
    }

    fn wait_until(&mut self, mut happened: impl FnMut() -> bool) -> Result<()> {
        while !happened() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(Error::new(format!("`{}` ended ({status})", self.line)));
            }
            if self.started.elapsed() > PROGRAM_TIMEOUT {
                return Err(Error::new(format!("`{}` hangs", self.line)));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    fn end(mut self) -> Result<()> {
        let mut status = None;
        let deadline = Instant::now() + PROGRAM_TIMEOUT;
        while status.is_none() && Instant::now() < deadline {
            status = self.child.try_wait().context(|| "could not wait")?;
            std::thread::sleep(Duration::from_millis(20));
        }
        match status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(Error::new(format!("`{}` failed ({status})", self.line))),
            None => Err(Error::new(format!("`{}` hangs", self.line))),
        }
    }
}
