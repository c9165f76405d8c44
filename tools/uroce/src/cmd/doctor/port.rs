//! Who has RoCE's UDP port, and whether kernel rxe is there.

use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;

use uroce_host::PortHolder;
use uroce_service::{serves, socket_path};
use uroce_udp::slots_taken;

use super::finding::Finding;
use super::subject::Subject;

/// The port, then rxe.
pub fn examine(subject: &Subject) -> Vec<Finding> {
    let links = rxe_links(Path::new("/sys/class/infiniband"));
    vec![port(subject, &links), rxe(subject, &links)]
}

fn port(subject: &Subject, links: &[RxeLink]) -> Finding {
    let (address, port) = (subject.address, subject.port);
    let place = format!("UDP {port} on {address}");
    let local = SocketAddr::new(address, port);
    let socket = socket_path();
    if let Some(inner) = serves(&socket, local) {
        let socket = socket.display();
        let text =
            format!("{place} is held for all users by the service at {socket} (datapath {inner})");
        return Finding::ok("port", text);
    }
    let error = match UdpSocket::bind((address, port)) {
        Ok(_) => return Finding::ok("port", format!("{place} is free")),
        Err(error) => error,
    };
    if error.kind() != ErrorKind::AddrInUse {
        return Finding::problem("port", format!("{place} cannot be opened: {error}"));
    }
    match PortHolder::of(&local) {
        PortHolder::Kernel => {
            let taken = Finding::problem("port", format!("{place} is taken by the kernel (rxe)"));
            match links.first() {
                Some(link) => taken.repair(link.removal()),
                None => taken.repair("sudo rmmod rdma_rxe"),
            }
        }
        PortHolder::Own { inode } => match (slots_taken(local), process_with(inode)) {
            (Ok(slots), _) if !slots.is_empty() => shared(&place, slots.len()),
            (_, Some((pid, name))) => {
                Finding::problem("port", format!("{place} is taken by {name}, process {pid}"))
                    .repair(format!("kill {pid}"))
            }
            (_, None) => unseen(&place, port),
        },
        PortHolder::Other { uid, .. } => Finding::problem(
            "port",
            format!("{place} is taken by user {uid}; only processes of one user share an address"),
        )
        .repair(format!("sudo ss -lunp 'sport = :{port}'")),
        _ => unseen(&place, port),
    }
}

/// Devices of this user are there, and one more may be.
fn shared(place: &str, processes: usize) -> Finding {
    let count =
        if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") };
    Finding::ok("port", format!("{place} is shared by {count} of this user"))
}

fn unseen(place: &str, port: u16) -> Finding {
    Finding::problem("port", format!("{place} is taken by a process that this user may not see"))
        .repair(format!("sudo ss -lunp 'sport = :{port}'"))
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
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn the_process_that_has_a_port_is_named() {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a socket");
        let local = socket.local_addr().expect("its address");
        let PortHolder::Own { inode } = PortHolder::of(&local) else { panic!("it is ours") };
        let (pid, name) = process_with(inode).expect("this process");
        assert_eq!(pid, std::process::id());
        assert!(!name.is_empty());
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
