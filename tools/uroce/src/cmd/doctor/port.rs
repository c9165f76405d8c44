//! Who has RoCE's UDP port, and whether kernel rxe is there.

use super::finding::Finding;
use super::subject::Subject;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::path::Path;

/// The port, then rxe.
pub fn examine(subject: &Subject) -> Vec<Finding> {
    let links = rxe_links(Path::new("/sys/class/infiniband"));
    vec![port(subject, &links), rxe(subject, &links)]
}

fn port(subject: &Subject, links: &[RxeLink]) -> Finding {
    let (address, port) = (subject.address, subject.port);
    let place = format!("UDP {port} on {address}");
    let error = match UdpSocket::bind((address, port)) {
        Ok(_) => return Finding::ok("port", format!("{place} is free")),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::AddrInUse {
        return Finding::problem("port", format!("{place} cannot be opened: {error}"));
    }
    match owner(address, port) {
        Owner::Kernel => {
            let taken = Finding::problem("port", format!("{place} is taken by the kernel (rxe)"));
            match links.first() {
                Some(link) => taken.repair(link.removal()),
                None => taken.repair("sudo rmmod rdma_rxe"),
            }
        }
        Owner::Process(pid, name) => {
            Finding::problem("port", format!("{place} is taken by {name}, process {pid}"))
                .repair(format!("kill {pid}"))
        }
        Owner::Unseen => Finding::problem(
            "port",
            format!("{place} is taken by a process that this user may not see"),
        )
        .repair(format!("sudo ss -lunp 'sport = :{port}'")),
    }
}

/// Who has a port.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Owner {
    Kernel,
    Process(u32, String),
    Unseen,
}

fn owner(address: IpAddr, port: u16) -> Owner {
    // A socket for all IPv6 addresses takes the port of the IPv4 ones as well.
    let tables = ["/proc/net/udp", "/proc/net/udp6"].map(fs::read_to_string);
    let mut lines = tables.iter().flatten().flat_map(|table| table.lines());
    match lines.find_map(|line| socket(line, address, port)) {
        None => Owner::Unseen,
        Some(0) => Owner::Kernel,
        Some(inode) => {
            process_with(inode).map_or(Owner::Unseen, |(pid, name)| Owner::Process(pid, name))
        }
    }
}

/// The inode of the socket in a line of /proc/net/udp, if it takes the port of `address`. A socket of
/// the kernel has none, which is 0.
fn socket(line: &str, address: IpAddr, port: u16) -> Option<u64> {
    let mut words = line.split_whitespace().skip(1);
    let (ip, hex_port) = words.next()?.split_once(':')?;
    let inode = words.nth(7)?.parse().ok()?;
    let ip = hex_address(ip)?;
    let covers = ip == address || ip.is_unspecified();
    (covers && u16::from_str_radix(hex_port, 16) == Ok(port)).then_some(inode)
}

/// An address as /proc/net shows it: 32-bit words in the byte order of the machine.
fn hex_address(text: &str) -> Option<IpAddr> {
    let word = |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok();
    let words: Option<Vec<u32>> = (0..text.len()).step_by(8).map(word).collect();
    let bytes: Vec<u8> = words?.into_iter().flat_map(u32::to_ne_bytes).collect();
    if let Ok(v4) = <[u8; 4]>::try_from(&bytes[..]) {
        return Some(Ipv4Addr::from(v4).into());
    }
    <[u8; 16]>::try_from(&bytes[..]).ok().map(|v6| Ipv6Addr::from(v6).into())
}

/// The process that has the socket open, among those that this user may look into.
fn process_with(inode: u64) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |pid: &u32| {
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        descriptors
            .filter_map(|entry| fs::read_link(entry.path()).ok())
            .any(|target| target.as_os_str() == wanted.as_str())
    };
    let pid = pids.into_iter().find(has)?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, name.trim().to_owned()))
}

/// A device of kernel rxe.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RxeLink {
    name: String,
    netdev: String,
}

impl RxeLink {
    fn removal(&self) -> String {
        format!("sudo rdma link delete {}", self.name)
    }
}

/// Software devices of the kernel: those that have a `parent`, the interface they are on.
fn rxe_links(class: &Path) -> Vec<RxeLink> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let link = |entry: fs::DirEntry| {
        let netdev = fs::read_to_string(entry.path().join("parent")).ok()?;
        let name = entry.file_name().into_string().ok()?;
        Some(RxeLink { name, netdev: netdev.trim().to_owned() })
    };
    entries.filter_map(link).collect()
}

fn rxe(subject: &Subject, links: &[RxeLink]) -> Finding {
    let loaded = Path::new("/sys/module/rdma_rxe").exists();
    if let Some(link) = links.iter().find(|link| link.netdev == subject.netdev()) {
        return Finding::problem(
            "kernel rxe",
            format!("{} is on {}: both answer the same peers", link.name, link.netdev),
        )
        .repair(link.removal());
    }
    match (loaded, links) {
        (false, _) => Finding::ok("kernel rxe", "not loaded"),
        (true, []) => Finding::ok("kernel rxe", "loaded, without a device"),
        (true, [first, ..]) => Finding::note(
            "kernel rxe",
            format!("{} is on {}; it takes UDP 4791 on every address", first.name, first.netdev),
        )
        .repair(first.removal()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
  123: 0100007F:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 98765 2 0000000000000000 0
  124: 00000000:12B8 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 0 2 0000000000000000 0
";

    fn find(address: &str, port: u16) -> Option<u64> {
        let address = address.parse().expect("an address");
        TABLE.lines().find_map(|line| socket(line, address, port))
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_are_found_by_address_and_port() {
        assert_eq!(find("127.0.0.1", 4791), Some(98765));
        assert_eq!(find("127.0.0.2", 4791), None);
        assert_eq!(find("10.0.0.1", 4792), Some(0), "bound to all addresses, by the kernel");
        let v6 = "00000000000000000000000001000000";
        assert_eq!(hex_address(v6), "::1".parse().ok());
        assert_eq!(hex_address("0100007"), None);
        assert_eq!(hex_address("äöü00000"), None);
    }

    #[test]
    fn the_process_that_has_a_port_is_named() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let local = socket.local_addr().expect("its address");
        match owner(local.ip(), local.port()) {
            Owner::Process(pid, name) => {
                assert_eq!(pid, std::process::id());
                assert!(!name.is_empty());
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn devices_of_the_kernel_are_listed_with_their_interface() {
        let class = std::env::temp_dir().join(format!("uroce-doctor-{}", std::process::id()));
        fs::create_dir_all(class.join("rxe0")).expect("a folder");
        fs::create_dir_all(class.join("mlx5_0")).expect("a folder");
        fs::write(class.join("rxe0/parent"), "eth0\n").expect("a file");
        let links = rxe_links(&class);
        fs::remove_dir_all(&class).expect("ours");
        assert_eq!(links, [RxeLink { name: "rxe0".to_owned(), netdev: "eth0".to_owned() }]);
        assert_eq!(links[0].removal(), "sudo rdma link delete rxe0");
        assert_eq!(rxe_links(Path::new("/no/such/folder")), []);
    }
}
