//! The way to the peer: neighbour and path MTU.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ipv6_mtu, set_ip_mtu_discover,
    set_ipv6_mtu_discover,
};
use uroce_link::{Neighbours, Resolution, Unreachable, interface_of};
use uroce_verbs::{DatapathChoice, Mtu};

use super::finding::Finding;
use super::subject::Subject;

/// How long a neighbour, or a router that finds a packet too large, may take to answer.
const PROBE_TIMEOUT: Duration = Duration::from_millis(1500);

/// A port without a listener: a host that got the packet says so by ICMP.
const DISCARD: u16 = 9;

/// Everything about the way from the subject to `peer`, for that datapath.
pub fn examine(subject: &Subject, peer: IpAddr, datapath: &DatapathChoice) -> Vec<Finding> {
    if peer.is_ipv4() != subject.address.is_ipv4() {
        let what = format!("{peer} and {} are of different IP versions", subject.address);
        return vec![Finding::problem("peer", what).repair("uroce devices")];
    }
    vec![neighbour(subject, peer, datapath), path_mtu(subject, peer)]
}

fn neighbour(subject: &Subject, peer: IpAddr, datapath: &DatapathChoice) -> Finding {
    let home = interface_of(subject.address);
    let opened = home.and_then(|home| Neighbours::open(subject.address, home));
    let mut neighbours = match opened {
        Ok(neighbours) => neighbours,
        Err(error) => return Finding::note("neighbour", format!("cannot ask: {error}")),
    };
    let end = Instant::now() + PROBE_TIMEOUT;
    loop {
        let (found, _) = neighbours.resolve(peer, Instant::now());
        match found {
            Resolution::Ready(hop) if hop.dst == [0; 6] => {
                return Finding::ok("neighbour", format!("{peer} needs none"));
            }
            Resolution::Ready(hop) => {
                let mac = hop.dst.map(|byte| format!("{byte:02x}")).join(":");
                return Finding::ok("neighbour", format!("packets to {peer} go to {mac}"));
            }
            Resolution::Unreachable(Unreachable::NotEthernet(index)) => {
                return without_frames(peer, index, datapath);
            }
            Resolution::Unreachable(why) => return unreachable(subject, peer, why),
            Resolution::Pending if Instant::now() > end => {
                return unreachable(subject, peer, "nobody answers ARP or neighbour discovery");
            }
            Resolution::Pending => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// A tunnel, say: the kernel sends there what a UDP socket is given. Only who writes frames himself cannot.
fn without_frames(peer: IpAddr, index: u32, datapath: &DatapathChoice) -> Finding {
    let needs_frames = matches!(datapath, DatapathChoice::Packet | DatapathChoice::Xdp(_));
    if needs_frames {
        let why = Unreachable::NotEthernet(index);
        return Finding::problem("neighbour", format!("cannot reach {peer}: {why}"))
            .repair(format!("uroce doctor --datapath udp --peer {peer}"));
    }
    let what = format!("{peer} needs none: interface {index} has no Ethernet frames");
    Finding::ok("neighbour", what)
}

fn unreachable(subject: &Subject, peer: IpAddr, why: impl std::fmt::Display) -> Finding {
    Finding::problem("neighbour", format!("cannot reach {peer}: {why}"))
        .repair(format!("ip route get {peer} from {}", subject.address))
}

fn path_mtu(subject: &Subject, peer: IpAddr) -> Finding {
    match Probe::new(subject, peer).and_then(|probe| probe.run(subject.interface.mtu)) {
        Ok(seen) => judge(subject.interface.mtu, peer, seen),
        Err(error) => {
            Finding::problem("path MTU", format!("no packet can be sent to {peer}: {error}"))
                .repair(format!("ip route get {peer} from {}", subject.address))
        }
    }
}

/// What a packet of the link's full size found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PathProbe {
    /// What the kernel now knows about the path, in bytes.
    mtu: usize,
    /// The peer said that the packet arrived.
    answered: bool,
}

fn judge(link: usize, peer: IpAddr, seen: PathProbe) -> Finding {
    let path = Mtu::largest_for_link(seen.mtu.min(link));
    let Some(path) = path else {
        let what = format!("{} bytes to {peer}; RoCE needs 336", seen.mtu);
        return Finding::problem("path MTU", what).repair(format!("tracepath -n {peer}"));
    };
    if Some(path) != Mtu::largest_for_link(link) {
        let what =
            format!("{} bytes to {peer}, {link} on our link: use {path} at both ends", seen.mtu);
        return Finding::problem("path MTU", what)
            .repair(format!("uroce pingpong rc -m {path} {peer}"));
    }
    let what = format!("{} bytes to {peer}: path MTU {path}", seen.mtu);
    if seen.answered {
        return Finding::ok("path MTU", format!("{what}, and a packet of that size arrived"));
    }
    Finding::note(
        "path MTU",
        format!("{what}, as far as known: {peer} does not say whether such packets arrive"),
    )
    .repair(format!("tracepath -n {peer}"))
}

/// A socket that sends full-size packets that may not be fragmented.
struct Probe {
    socket: UdpSocket,
    headers: usize,
}

impl Probe {
    fn new(subject: &Subject, peer: IpAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind((subject.address, 0))?;
        if peer.is_ipv4() {
            set_ip_mtu_discover(&socket, Ipv4PathMtuDiscovery::DO)?;
        } else {
            set_ipv6_mtu_discover(&socket, Ipv6PathMtuDiscovery::DO)?;
        }
        socket.connect(SocketAddr::new(peer, DISCARD))?;
        socket.set_read_timeout(Some(PROBE_TIMEOUT / 4))?;
        Ok(Probe { socket, headers: if peer.is_ipv4() { 20 + 8 } else { 40 + 8 } })
    }

    /// Sends packets of at most `link` bytes until one arrives, or all stays silent.
    fn run(&self, link: usize) -> io::Result<PathProbe> {
        let mut answered = false;
        // Each router on the way may have a smaller limit than the one before.
        for _ in 0..4 {
            let size = self.known()?.min(link).min(65_535) - self.headers;
            if let Err(error) = self.socket.send(&vec![0; size])
                && !is_about_size(&error)
            {
                return Err(error);
            }
            match self.socket.recv(&mut [0; 16]) {
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => answered = true,
                Err(error) if is_about_size(&error) => continue,
                Err(error) if error.kind() == ErrorKind::HostUnreachable => return Err(error),
                _ => {}
            }
            break;
        }
        Ok(PathProbe { mtu: self.known()?, answered })
    }

    /// What the kernel knows about the path, in bytes.
    fn known(&self) -> io::Result<usize> {
        let mtu = if self.headers == 28 { ip_mtu(&self.socket) } else { ipv6_mtu(&self.socket) };
        Ok(mtu.map(|mtu| mtu as usize)?.max(self.headers))
    }
}

fn is_about_size(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::MSGSIZE.raw_os_error())
}

#[cfg(test)]
mod tests {
    use super::super::finding::State;
    use super::*;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn state(link: usize, mtu: usize, answered: bool) -> State {
        judge(link, PEER, PathProbe { mtu, answered }).state
    }

    #[test]
    fn an_interface_without_frames_hinders_only_who_writes_frames() {
        for datapath in ["auto", "udp", "uring", "served"] {
            let found = without_frames(PEER, 7, &datapath.parse().expect("a name"));
            assert_eq!((found.state, &found.repair), (State::Ok, &None), "{datapath}");
            assert!(found.what.starts_with("10.0.0.2 needs none"), "{found}");
        }
        for datapath in ["packet", "xdp", "xdp-generic"] {
            let found = without_frames(PEER, 7, &datapath.parse().expect("a name"));
            assert_eq!(found.state, State::Problem, "{datapath}");
            let repair = found.repair.expect("a remedy");
            assert_eq!(repair, "uroce doctor --datapath udp --peer 10.0.0.2");
        }
    }

    #[test]
    fn a_path_is_judged_by_the_path_mtu_that_fits() {
        assert_eq!(state(1500, 1500, true), State::Ok);
        assert_eq!(state(1500, 1500, false), State::Note);
        assert_eq!(state(1500, 1450, true), State::Ok, "1024 still fits");
        assert_eq!(state(9000, 1500, true), State::Problem);
        assert_eq!(state(1500, 300, true), State::Problem);
        let smaller = judge(9000, PEER, PathProbe { mtu: 1500, answered: false });
        assert_eq!(smaller.repair.as_deref(), Some("uroce pingpong rc -m 1024 10.0.0.2"));
    }
}
