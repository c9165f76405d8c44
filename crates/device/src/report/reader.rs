//! Asking the devices of all processes what they have.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use thiserror::Error;
use uroce_host::process::{self, Peer};

use super::{ANSWER_TIMEOUT, PREFIX};
use crate::resource::{Resource, ResourceKind, harmless};

/// Bytes of one report: what a device with all of its queue pairs has.
const LONGEST: usize = 16 * 1024 * 1024;
/// Bytes of all reports together.
const MOST_BYTES: usize = 4 * LONGEST;
/// Values of all reports together.
const MOST_VALUES: usize = 4 << 20;
/// Devices that are asked at a time: each takes a descriptor.
const AT_ONCE: usize = 256;
/// How long all of them are waited for, however many there are.
const ALL_ANSWERS_TIMEOUT: Duration = Duration::from_secs(8);
/// How long one look at those that have not answered takes at most.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes that are asked for at a time.
const PIECE: usize = 64 * 1024;

/// Objects of one device of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceReport {
    /// The process; 0 if it is in a PID namespace that ours does not see.
    pub pid: u32,
    /// The user of the process.
    pub user: u32,
    /// The name of the program, as the kernel knows it; empty if that is not to be known.
    pub comm: String,
    /// The device first, its counters, then the objects, sort by sort.
    pub resources: Vec<Resource>,
}

/// A device that could not be asked.
#[derive(Debug, Error)]
#[error("process {pid} does not tell what it has: {reason}")]
pub struct Silent {
    /// The process that it says it is of.
    pub pid: String,
    /// Why not.
    pub reason: SilentReason,
}

/// Why a device could not be asked.
#[derive(Debug, Error)]
pub enum SilentReason {
    /// The process answers its own user and root only.
    #[error("it belongs to user {0}; ask as that user, or as root")]
    OtherUser(u32),
    /// The process is stopped, or something else has its name.
    #[error("no answer within {} s; is it stopped?", ANSWER_TIMEOUT.as_secs())]
    NoAnswer,
    /// The answer is no report.
    #[error("what it says is no report")]
    NoReport,
    /// The system does not let us.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Asks every device in this network namespace what it has, all at once, those of this user first. Those that just
/// went away are left out.
///
/// # Errors
/// When the system does not show its unix sockets (/proc/net/unix).
pub fn device_reports() -> io::Result<Vec<Result<DeviceReport, Silent>>> {
    let mut names: Vec<(u32, u32)> =
        process::listeners(PREFIX)?.iter().filter_map(|name| numbers(name)).collect();
    names.sort_unstable();
    names.dedup();
    let last = Instant::now() + ALL_ANSWERS_TIMEOUT;
    let mut room = Room { bytes: MOST_BYTES, values: MOST_VALUES };
    let mut asked = Vec::new();
    for some in names.chunks(AT_ONCE) {
        let end = (Instant::now() + ANSWER_TIMEOUT).min(last);
        asked.extend(ask(some, end, &mut room));
    }
    asked.sort_by_key(|asked| (asked.is_foreign(), asked.name));
    Ok(asked.into_iter().filter_map(|asked| asked.report(&mut room).transpose()).collect())
}

/// Process and device of a name; any other name is none that we give.
fn numbers(name: &str) -> Option<(u32, u32)> {
    let (pid, device) = name.split_once('/')?;
    let numbers = (pid.parse().ok()?, device.parse().ok()?);
    (format!("{}/{}", numbers.0, numbers.1) == name).then_some(numbers)
}

/// What may still be read: any process can have any number of names, and send anything under each.
struct Room {
    bytes: usize,
    values: usize,
}

/// A device that was asked.
struct Asked {
    name: (u32, u32),
    peer: Option<Peer>,
    stream: Option<UnixStream>,
    /// The answer, or an error that is worth reporting.
    said: Result<Vec<u8>, SilentReason>,
    /// The process has ended.
    gone: bool,
}

/// Asks these devices, and waits for what they say up to `end`.
fn ask(names: &[(u32, u32)], end: Instant, room: &mut Room) -> Vec<Asked> {
    let mut all: Vec<Asked> = names.iter().map(|name| Asked::new(*name)).collect();
    loop {
        all.iter_mut().filter(|asked| asked.waits()).for_each(|asked| asked.go_on(room));
        let now = Instant::now();
        if !all.iter().any(Asked::waits) || now >= end {
            return all;
        }
        sleep_until_readable(&all, LOOK.min(end - now));
    }
}

/// Processes whose backlog is full have no descriptor to wait for, so the wait is short.
fn sleep_until_readable(all: &[Asked], most: Duration) {
    let streams =
        all.iter().filter(|asked| asked.waits()).filter_map(|asked| asked.stream.as_ref());
    let mut polled: Vec<_> = streams.map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    let most = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
    // An interrupted sleep is only shorter.
    let _ = poll(&mut polled, Some(&most));
}

impl Asked {
    fn new(name: (u32, u32)) -> Asked {
        Asked { name, peer: None, stream: None, said: Ok(Vec::new()), gone: false }
    }

    /// Neither at its end nor known not to answer.
    fn waits(&self) -> bool {
        !self.gone && self.said.is_ok() && (self.stream.is_some() || self.peer.is_none())
    }

    /// True if the process is of another user.
    fn is_foreign(&self) -> bool {
        self.peer.is_none_or(|peer| peer.user != geteuid().as_raw())
    }

    /// Connects, or reads what is there. Nothing here waits.
    fn go_on(&mut self, room: &mut Room) {
        let done = if self.stream.is_none() { self.connect() } else { self.read(room) };
        match done.map_err(|error| (error.kind(), error)) {
            Ok(()) | Err((io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted, _)) => {}
            Err((io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset, _)) => {
                self.gone = true
            }
            Err((_, error)) => (self.said, self.stream) = (Err(error.into()), None),
        }
    }

    fn connect(&mut self) -> io::Result<()> {
        let (pid, device) = self.name;
        let name = SocketAddrUnix::new_abstract_name(format!("{PREFIX}{pid}/{device}").as_bytes())?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // EAGAIN: the backlog is full, of a stopped process or of one that wants us to block.
        net::connect(&socket, &name)?;
        let peer = process::peer(&socket)?;
        self.peer = Some(peer);
        let own = geteuid();
        if !own.is_root() && own.as_raw() != peer.user {
            self.said = Err(SilentReason::OtherUser(peer.user));
            return Ok(());
        }
        self.stream = Some(socket.into());
        Ok(())
    }

    fn read(&mut self, room: &mut Room) -> io::Result<()> {
        let (Some(stream), Ok(said)) = (&mut self.stream, &mut self.said) else { return Ok(()) };
        let mut piece = vec![0; PIECE];
        loop {
            let taken = stream.read(&mut piece)?;
            if taken == 0 {
                self.stream = None;
                return Ok(());
            }
            if said.len() + taken > LONGEST || taken > room.bytes {
                room.bytes += said.len();
                return Err(io::ErrorKind::FileTooLarge.into());
            }
            room.bytes -= taken;
            said.extend_from_slice(&piece[..taken]);
        }
    }

    /// `None`: it is not there any more.
    fn report(self, room: &mut Room) -> Result<Option<DeviceReport>, Silent> {
        let pid = self.name.0;
        let silent = |reason| Silent { pid: pid.to_string(), reason };
        if self.gone {
            return Ok(None);
        }
        let waits = self.waits();
        let said = self.said.map_err(silent)?;
        let (Some(peer), false) = (self.peer, waits) else {
            return Err(silent(SilentReason::NoAnswer));
        };
        if said.is_empty() {
            return Ok(None);
        }
        let resources = parse(&String::from_utf8_lossy(&said), room)
            .ok_or_else(|| silent(SilentReason::NoReport))?;
        let comm = std::fs::read(format!("/proc/{}/comm", peer.pid)).unwrap_or_default();
        let comm = String::from_utf8_lossy(&comm);
        let words: Vec<String> = comm.trim_end().split(' ').map(harmless).collect();
        Ok(Some(DeviceReport { pid: peer.pid, user: peer.user, comm: words.join(" "), resources }))
    }
}

/// The objects of a report with at most so many values.
pub(crate) fn read_lines(text: &str, values: usize) -> Option<Vec<Resource>> {
    parse(text, &mut Room { bytes: 0, values })
}

/// Lines of a newer version that mean nothing here are left out.
fn parse(text: &str, room: &mut Room) -> Option<Vec<Resource>> {
    let mut resources: Vec<Resource> = Vec::new();
    for line in text.lines() {
        let values = 1 + line.split_ascii_whitespace().count() / 2;
        room.values = room.values.checked_sub(values)?;
        resources.extend(line.parse::<Resource>().ok());
    }
    let is_device = resources.first()?.kind() == ResourceKind::Device;
    is_device.then_some(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_begins_with_its_device() {
        let kinds = |text| {
            let list = parse(text, &mut Room { bytes: 0, values: 100 })?;
            Some(list.iter().map(Resource::kind).collect::<Vec<_>>())
        };
        let (dev, qp) = (ResourceKind::Device, ResourceKind::Qp);
        assert_eq!(kinds("dev name uroce0\nqp lqpn 5\n"), Some(vec![dev, qp]));
        assert_eq!(kinds("dev name uroce0\ntunnel x y\nqp\n"), Some(vec![dev, qp]));
        assert_eq!(kinds("qp lqpn 5\n"), None);
        assert_eq!(kinds(""), None);
    }

    #[test]
    fn a60_a_report_of_endless_objects_is_none() {
        let mut room = Room { bytes: 0, values: 1000 };
        assert_eq!(parse(&format!("dev name x\n{}", "pd\n".repeat(2000)), &mut room), None);
        assert_eq!(parse(&format!("dev name x\n{}", "\n".repeat(2000)), &mut room), None);
    }

    #[test]
    fn a60_only_names_that_we_give_are_asked() {
        assert_eq!(numbers("17/0"), Some((17, 0)));
        for bad in ["", "17", "17/", "/0", "017/0", "+17/0", "17/0/0", "x/0", "99999999999/0"] {
            assert_eq!(numbers(bad), None, "{bad}");
        }
    }

    /// A listener under a name of our kind, with no thread behind it.
    fn silent(device: u32, backlog: i32) -> std::os::fd::OwnedFd {
        let name = format!("{PREFIX}{}/{device}", std::process::id());
        let name = SocketAddrUnix::new_abstract_name(name.as_bytes()).expect("short");
        let flags = SocketFlags::CLOEXEC;
        let socket =
            net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).expect("unix");
        net::bind(&socket, &name).expect("free");
        net::listen(&socket, backlog).expect("bound");
        socket
    }

    #[test]
    fn a60_many_that_say_nothing_are_waited_for_together() {
        let mut listeners: Vec<_> = (60_000..60_040).map(|device| silent(device, 8)).collect();
        // A backlog that is full: a blocking connect would never return.
        listeners.push(silent(60_040, 0));
        let full = Asked::new((std::process::id(), 60_040));
        let waiting: Vec<_> = std::iter::repeat_with(|| {
            let mut asked = Asked::new(full.name);
            asked.connect().map(|()| asked)
        })
        .take(10)
        .collect();
        assert!(waiting.iter().any(|connected| connected.is_err()), "the backlog is full");
        let names: Vec<_> = (60_000..=60_040).map(|device| (std::process::id(), device)).collect();
        let mut room = Room { bytes: MOST_BYTES, values: MOST_VALUES };
        let asked = ask(&names, Instant::now(), &mut room);
        assert!(asked.iter().all(Asked::waits), "one look is at all of them");
        drop(asked);
        let reports = device_reports().expect("shown");
        let own = std::process::id().to_string();
        let silent = reports.iter().filter(|report| {
            matches!(report, Err(Silent { pid, reason: SilentReason::NoAnswer }) if *pid == own)
        });
        assert_eq!(silent.count(), listeners.len());
    }
}
