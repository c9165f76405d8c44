//! Asking the devices of all processes what they have.

use super::{PATIENCE, PREFIX};
use crate::resource::{Resource, ResourceKind};
use std::io::{self, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Instant;
use thiserror::Error;
use uroce_datapath::process::{self, Peer};

/// Bytes of one report: many times what the largest device has.
const LONGEST: usize = 256 * 1024 * 1024;
/// Bytes that are asked for at a time.
const PIECE: usize = 64 * 1024;

/// What one device of a process has.
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
    /// It answers its own user and root only.
    #[error("it belongs to user {0}; ask as that user, or as root")]
    OtherUser(u32),
    /// It is stopped, or something else has its name.
    #[error("no answer within {} s; is it stopped?", PATIENCE.as_secs())]
    NoAnswer,
    /// What it says is no report.
    #[error("what it says is no report")]
    NoReport,
    /// The system does not let us.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Asks every device in this network namespace what it has. Those that just went away are left out.
///
/// # Errors
/// When the system does not show its unix sockets (/proc/net/unix).
pub fn device_reports() -> io::Result<Vec<Result<DeviceReport, Silent>>> {
    let mut names = process::listeners(PREFIX)?;
    names.sort_by_cached_key(|name| {
        name.split('/').map(|n| n.parse().unwrap_or(0)).collect::<Vec<u32>>()
    });
    Ok(names.iter().filter_map(|name| ask(name).transpose()).collect())
}

/// `None`: it is not there any more.
fn ask(name: &str) -> Result<Option<DeviceReport>, Silent> {
    let silent = |reason| {
        let pid = name.split('/').next().unwrap_or_default().to_owned();
        Silent { pid, reason }
    };
    match connect(name) {
        Ok((stream, peer)) => read(stream, peer).map_err(silent),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(silent(error.into())),
    }
}

fn connect(name: &str) -> io::Result<(UnixStream, Peer)> {
    let address = SocketAddr::from_abstract_name(format!("{PREFIX}{name}"))?;
    let stream = UnixStream::connect_addr(&address)?;
    let peer = process::peer(&stream)?;
    Ok((stream, peer))
}

fn read(stream: UnixStream, peer: Peer) -> Result<Option<DeviceReport>, SilentReason> {
    let text = match take(stream) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(None),
        Err(error) => return Err(reason(error)),
    };
    let own = rustix::process::geteuid().as_raw();
    if text.is_empty() && own != 0 && own != peer.user {
        return Err(SilentReason::OtherUser(peer.user));
    }
    if text.is_empty() {
        return Ok(None);
    }
    let resources = parse(&text).ok_or(SilentReason::NoReport)?;
    let comm = std::fs::read_to_string(format!("/proc/{}/comm", peer.pid)).unwrap_or_default();
    let comm = comm.trim_end().to_owned();
    Ok(Some(DeviceReport { pid: peer.pid, user: peer.user, comm, resources }))
}

fn reason(error: io::Error) -> SilentReason {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => SilentReason::NoAnswer,
        _ => error.into(),
    }
}

/// Everything up to the end of the stream, if that comes in time.
fn take(mut stream: UnixStream) -> io::Result<String> {
    let end = Instant::now() + PATIENCE;
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    while bytes.len() < LONGEST {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut piece)? {
            0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            taken => bytes.extend_from_slice(&piece[..taken]),
        }
    }
    Err(io::ErrorKind::FileTooLarge.into())
}

/// Lines of a newer version that mean nothing here are left out.
fn parse(text: &str) -> Option<Vec<Resource>> {
    let resources: Vec<Resource> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let is_device = resources.first()?.kind() == ResourceKind::Device;
    is_device.then_some(resources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_begins_with_its_device() {
        let kinds = |text| {
            let list = parse(text)?;
            Some(list.iter().map(Resource::kind).collect::<Vec<_>>())
        };
        let (dev, qp) = (ResourceKind::Device, ResourceKind::Qp);
        assert_eq!(kinds("dev name uroce0\nqp lqpn 5\n"), Some(vec![dev, qp]));
        assert_eq!(kinds("dev name uroce0\ntunnel x y\nqp\n"), Some(vec![dev, qp]));
        assert_eq!(kinds("qp lqpn 5\n"), None);
        assert_eq!(kinds(""), None);
    }
}
