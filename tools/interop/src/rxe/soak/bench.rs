//! The two ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::sleep;
use std::time::Duration;

use uroce_rxe_guest::addresses::{GUEST_V4, HOST_V4};
use uroce_rxe_guest::namespace::TAP;
use uroce_rxe_guest::script::tcp_listens;
use uroce_rxe_guest::{Guest, GuestConfig, Kernel, Output};
use uroce_testbed::error::{Error, Result};
use uroce_testbed::process::run;

use super::NAME;
use super::captures::Captures;
use super::report::{Sums, Taken};
use super::step::{Event, Step};
use crate::rxe::matrix::cell::Role;
use crate::rxe::matrix::command::serving_script;
use crate::rxe::matrix::near::{Process, Running, wait_until};
use crate::rxe::program::{self, ENTER, guest_line};

/// Rounds of a step, each of up to eight operations at either end.
const ROUNDS: u32 = 60;
/// Of a step whose programs do not come to their end.
const ENDLESS: u32 = 1_000_000;
const LIMIT: Duration = Duration::from_secs(180);
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
/// What a program prints when the first data is about to travel.
const MET: &str = "both ends have met";
/// From the meeting of the programs to what happens to them, and between two of these.
const PAUSE: Duration = Duration::from_millis(1500);
const LINK_DOWN: Duration = Duration::from_millis(300);
const LINK_MTU: &str = "ip link set eth0 mtu 5000; sleep 0.3; ip link set eth0 mtu 9000";

/// What the guest's kernel logs of a queue pair whose peer was killed, and of the clock of a machine that is emulated on a busy
/// host.
const EXPECTED: [&str; 4] = [
    "make_send_cqe: non-flush error status = 12",
    "clocksource: ",
    "TSC found unstable after boot",
    "hrtimer: interrupt took",
];

/// Our libraries here, and rxe in the guest.
pub struct Bench {
    guest: Guest,
    uroce: PathBuf,
    program: PathBuf,
    next_port: AtomicU16,
    captures: Option<Captures>,
}

impl Bench {
    /// Boots a guest with this kernel, and gives it `program`.
    ///
    /// # Errors
    /// It did not boot, or a file is missing.
    pub fn boot(
        kernel: Kernel,
        folder: &Path,
        program: &Path,
        captures: Option<Captures>,
    ) -> Result<Self> {
        let guest = Guest::boot(&GuestConfig { kernel, ipv6: false, ..GuestConfig::default() })?;
        program::give(&guest, program)?;
        guest.run("dmesg -c >/dev/null", COMMAND_LIMIT)?;
        let (uroce, next_port) = (folder.join("bin/uroce"), AtomicU16::new(24_000));
        Ok(Self { guest, uroce, program: program.to_owned(), next_port, captures })
    }

    /// The guest is gone, and no further step can be taken.
    pub fn is_over(&self) -> bool {
        self.guest.is_gone()
    }

    /// What the guest's kernel has logged since the start, of the level "warning" and above, but for what is expected.
    ///
    /// # Errors
    /// The guest is gone.
    pub fn warnings(&self) -> Result<String> {
        let text = self.guest.run("dmesg -r | grep '^<[0-4]>'", COMMAND_LIMIT)?.text;
        let unexpected = |line: &&str| !EXPECTED.iter().any(|known| line.contains(known));
        Ok(text.lines().filter(unexpected).fold(String::new(), |all, line| all + line + "\n"))
    }

    /// Takes a step to its end.
    ///
    /// # Errors
    /// What a program said, or that it did not end.
    pub fn take(&self, step: &Step) -> Result<Taken> {
        let (server, client) = self.start(step)?;
        await_meeting(if step.role == Role::Server { &server } else { &client })?;
        if step.is_fatal() {
            sleep(PAUSE);
            return survive(step, server, client);
        }
        for _ in 0..2 {
            self.disturb(step.event)?;
        }
        let client = client.wait(LIMIT).map_err(|error| {
            Error::new(format!("{error}\nthe server had printed:\n{}", server.text()))
        })?;
        let server = server.wait(LIMIT).map_err(|error| {
            Error::new(format!(
                "{error}\nthe client had ended with {}:\n{}",
                client.code, client.text
            ))
        })?;
        sums(&client, &server).ok_or_else(|| {
            Error::new(format!(
                "the client ended with {}:\n{}\nthe server with {}:\n{}",
                client.code, client.text, server.code, server.text
            ))
        })
    }

    /// The link goes down at our end of the guest's card: an rxe whose own interface is down flushes its queue pairs.
    fn disturb(&self, event: Event) -> Result<()> {
        match event {
            Event::LinkDown => {
                sleep(PAUSE);
                run(&mut self.guest.namespace().command(&["ip", "link", "set", TAP, "down"]))?;
                sleep(LINK_DOWN);
                run(&mut self.guest.namespace().command(&["ip", "link", "set", TAP, "up"]))
            }
            Event::LinkMtu => {
                sleep(PAUSE);
                self.guest.run(LINK_MTU, COMMAND_LIMIT).map(drop)
            }
            Event::Nothing | Event::KillOurs | Event::KillTheirs => Ok(()),
        }
    }

    fn start(&self, step: &Step) -> Result<(Running<'_>, Running<'_>)> {
        let port = self.next_port.fetch_add(1, Ordering::Relaxed);
        let rounds = if step.is_fatal() { ENDLESS } else { ROUNDS };
        let Step { transport, mtu, number, .. } = step;
        let atomic_write = u8::from(step.has_atomic_write());
        let rest = format!("{mtu} {transport} {rounds} {number} {atomic_write}");
        let gid = self.guest.gid_index(GUEST_V4.into())?;
        let theirs = guest_line(NAME, &format!("{port} {gid} {rest}"));
        let ours = format!("{} {port} 0 {rest}", self.program.display());
        if step.role == Role::Client {
            let script = serving_script(&theirs, &tcp_listens(port));
            let far = Running::Job(self.guest.spawn(&format!("{ENTER}{script}"))?);
            far.wait_announced()?;
            return Ok((far, Running::Process(self.near(&format!("{ours} {GUEST_V4}"), step)?)));
        }
        let mut near = self.near(&ours, step)?;
        wait_until(|| Ok(!near.runs() || self.guest.namespace().listens(port)))?;
        let far = self.guest.spawn(&format!("{ENTER}exec env {theirs} {HOST_V4}\n"))?;
        Ok((Running::Process(near), Running::Job(far)))
    }

    fn near(&self, line: &str, step: &Step) -> Result<Process> {
        let uroce = self.uroce.display();
        let line = format!("{uroce} run --device {HOST_V4} --datapath udp -- {line}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let mut command = self.guest.namespace().command_as_nobody(&[], &words);
        if let Some(rule) = step.wire.rules() {
            command.env("UROCE_FAULT", rule).env("UROCE_FAULT_SEED", step.number.to_string());
        }
        if let Some(captures) = &self.captures {
            command.env("UROCE_PCAP", captures.file(step));
        }
        Process::start(command, self.guest.folder().join("near"))
    }
}

/// Waits until our program has found the other one: before that, there is nothing to disturb, and nobody to notice a death.
fn await_meeting(ours: &Running<'_>) -> Result<()> {
    wait_until(|| Ok(ours.text().contains(MET)))
        .map_err(|error| Error::new(format!("{error}\nour program had printed:\n{}", ours.text())))
}

/// One of the programs is killed: the other one must notice, and end with a failure, not with wrong bytes.
fn survive(step: &Step, server: Running<'_>, client: Running<'_>) -> Result<Taken> {
    let we_die = step.event == Event::KillOurs;
    let (dies, lives) = match (we_die, step.role) {
        (true, Role::Server) | (false, Role::Client) => (server, client),
        _ => (client, server),
    };
    drop(dies);
    let output = lives.wait(LIMIT)?;
    let noticed = output.text.contains("is gone") || output.text.contains("ends with");
    match noticed && !output.text.contains("wrong:") {
        true => Ok(Taken::default()),
        false => Err(Error::new(format!(
            "the program that was left ended with {}:\n{}",
            output.code, output.text
        ))),
    }
}

/// Both ends did well.
fn sums(client: &Output, server: &Output) -> Option<Taken> {
    let of = |output: &Output| Sums::read(&output.text).filter(|_| output.code == 0);
    Some(Taken(vec![of(client)?, of(server)?]))
}
