//! `uroce serve` and the commands that show what it serves.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};
use uroce_testkit::namespace::{Namespaces, ip};

use crate::common::{PROGRAM, code, stderr, text, uroce};

/// A running service with its folder.
struct Service {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Service {
    fn start(address: &str) -> Self {
        Self::with(address, "default", "")
    }

    /// A service with further options; `tag` names its folder.
    fn with(address: &str, tag: &str, options: &str) -> Self {
        let folder = folder(&format!("it-{tag}"));
        let free = std::net::UdpSocket::bind((address, 0)).expect("loopback");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let mut command = uroce(&format!("serve {address} --roce-port {port} {options}"));
        command.env("UROCE_SERVE_SOCKET", folder.join("socket")).stderr(Stdio::null());
        let child = command.spawn().expect("the program was built");
        let service = Self { child, folder, port };
        let end = Instant::now() + Duration::from_secs(20);
        while service.run("serve --status").0 != 0 {
            assert!(Instant::now() < end, "it does not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        service
    }

    /// Exit status and text of a command beside the service.
    fn run(&self, words: &str) -> (i32, String) {
        let mut command = uroce(words);
        command.env("UROCE_SERVE_SOCKET", self.folder.join("socket"));
        let output = command.output().expect("the program was built");
        (code(&output), text(&output))
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

#[test]
fn a_service_is_shown_to_people_and_programs() {
    let service = Service::start("127.0.0.1");
    let port = service.port;
    let (_, lines) = service.run("serve --status");
    assert!(lines.starts_with(&format!("127.0.0.1:{port}: datapath udp, 0 clients")), "{lines}");
    let (status, json) = service.run("serve --status --json");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &value["version"]), (0, &1.into()));
    let address = &value["addresses"][0];
    assert_eq!((&address["address"], &address["port"]), (&"127.0.0.1".into(), &port.into()));
    assert_eq!((&address["datapath"], &address["clients"]), (&"udp".into(), &[(); 0][..].into()));
    for choice in ["", "--datapath served"] {
        let words = format!("devinfo --address 127.0.0.1 --roce-port {port} {choice} --json");
        let (status, json) = service.run(&words);
        assert_eq!(status, 0, "{json}");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        assert_eq!(value["devices"][0]["datapath"], "served", "{choice}");
    }
    let (status, json) = service.run("devinfo --address 127.0.0.1 --json");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((status, &value["devices"][0]["datapath"]), (0, &"udp".into()), "another port");
}

#[test]
fn an_address_that_is_given_twice_is_wrong_usage() {
    let output = uroce("serve 127.0.0.66 127.0.0.67 127.0.0.66").output().expect("built");
    assert_eq!(code(&output), 2, "{}", text(&output));
    assert!(text(&output).contains("127.0.0.66 is given twice"), "{}", text(&output));
}

#[test]
fn a_service_that_refuses_this_user_is_no_datapath_in_good_health() {
    let other = rustix::process::getuid().as_raw() + 1;
    let service = Service::with("127.0.0.1", "refuses", &format!("--allow-user {other}"));
    let words = format!("doctor --address 127.0.0.1 --roce-port {}", service.port);
    let (status, lines) = service.run(&words);
    let line = lines.lines().find(|line| line.starts_with("PROBLEM")).unwrap_or_default();
    assert!(status == 1 && line.contains("may not be a client (--allow-user)"), "{lines}");
}

#[test]
fn an_address_that_no_interface_lists_is_shown_if_it_is_served() {
    let service = Service::with("127.0.99.1", "unlisted", "");
    let port = service.port;
    let (status, lines) = service.run(&format!("devices --roce-port {port}"));
    let line = lines.lines().find(|line| line.contains("127.0.99.1")).unwrap_or_default();
    assert!(status == 0 && line.ends_with("127.0.99.1 (served by udp)"), "{lines}");
    for words in ["-d 127.0.99.1", "--address 127.0.99.1"] {
        let (status, lines) = service.run(&format!("devinfo -v {words} --roce-port {port}"));
        assert!(status == 0 && lines.contains("served"), "{lines}");
    }
    let (_, lines) = service.run("devices --roce-port 14793");
    assert!(!lines.contains("127.0.99.1"), "another port: {lines}");
}

/// Two clients of one service, with links between clients and without.
#[test]
fn clients_of_one_address_exchange_messages_with_and_without_links() {
    for links in [0, 32] {
        let service =
            Service::with("127.0.0.1", &format!("links-{links}"), &format!("--links {links}"));
        for transport in ["rc", "uc", "ud"] {
            let common = format!(
                "pingpong {transport} --address 127.0.0.1 --roce-port {} --datapath served -n 2000",
                service.port
            );
            let mut server = uroce(&common);
            server.env("UROCE_SERVE_SOCKET", service.folder.join("socket"));
            server.stdout(Stdio::null()).stderr(Stdio::null());
            let mut server = Ended(server.spawn().expect("it was built"));
            let (status, text) = service.run(&format!("{common} 127.0.0.1"));
            assert_eq!(status, 0, "{transport}, {links} links: {text}");
            assert!(server.0.wait().expect("ours").success(), "{transport}, {links} links");
        }
        let (_, json) = service.run("serve --status --json");
        let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let by_service = value["addresses"][0]["packets_between_clients"].as_u64();
        let by_service = by_service.expect("a number");
        // 2000 messages to and fro, three times; with links only what comes before them.
        assert_eq!(by_service > 6000, links == 0, "{by_service} by the service, {links} links");
    }
}

fn folder(tag: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("uroce-serve-{tag}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A process that is ended with this value.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_file_that_is_not_the_services_stays_as_it_is() {
    let folder = folder("files");
    let file = folder.join("notes");
    std::fs::write(&file, "important\n").expect("a file");
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let other = folder.join("socket");
    let (file_name, other) = (file.display(), other.display());
    for (options, why) in [
        (format!("--socket {file_name}"), "it is no socket"),
        (format!("--socket {other} --slots {file_name}"), "it is no file of slots"),
        (format!("--socket {other} --slots /dev/full"), "it is no file of slots"),
    ] {
        let mut command = uroce(&format!("serve 127.0.0.1 --roce-port {port} {options}"));
        let output = command.output().expect("the program was built");
        assert_eq!(code(&output), 3, "{options}");
        assert!(stderr(&output).contains(why), "{options}: {}", stderr(&output));
    }
    assert_eq!(std::fs::read(&file).expect("it is there"), b"important\n");
    for (socket, help) in [(&file, "nobody listens there"), (&folder.join("none"), "start one:")] {
        let mut command = uroce("serve --status");
        let output = command.env("UROCE_SERVE_SOCKET", socket).output().expect("built");
        assert!(code(&output) == 3 && stderr(&output).contains(help), "{}", stderr(&output));
    }
    std::fs::remove_dir_all(folder).expect("removed");
}

/// As a socket unit starts it: the socket is open before the service, which finds it as descriptor 3.
#[test]
fn the_socket_may_come_from_the_init_system() {
    let folder = folder("activated");
    let path = folder.join("unit.sock");
    let listener = Socket::new(Domain::UNIX, Type::SEQPACKET, None).expect("a socket");
    listener.bind(&SockAddr::unix(&path).expect("short")).expect("free");
    listener.listen(16).expect("bound");
    let script = "exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec \"$0\" serve 127.0.0.1 \
                  --roce-port $1";
    let free = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = free.local_addr().expect("bound").port();
    drop(free);
    let mut command = Command::new("sh");
    command.args(["-c", script, PROGRAM, &port.to_string()]).env_remove("UROCE_DATAPATH");
    command.stdin(Stdio::from(OwnedFd::from(listener))).stderr(Stdio::null());
    let service = Ended(command.spawn().expect("a shell"));
    // The connection waits until the service is there.
    let mut status = uroce("serve --status --json");
    let output = status.env("UROCE_SERVE_SOCKET", &path).output().expect("built");
    assert!(code(&output) == 0 && text(&output).contains(&port.to_string()), "{}", text(&output));
    let mut info = uroce(&format!("devinfo --address 127.0.0.1 --roce-port {port} -v"));
    let output = info.env("UROCE_SERVE_SOCKET", &path).output().expect("built");
    assert!(text(&output).contains("served: chosen by auto"), "{}", text(&output));
    let slots = folder.join("unit.slots");
    assert!(slots.exists(), "slots are written beside the socket that was handed over");
    drop(service);
    std::fs::remove_dir_all(folder).expect("removed");
}

#[test]
fn a_service_waits_a_moment_for_a_port_that_is_being_freed() {
    let folder = folder("freed");
    let socket = folder.join("serve.sock");
    let held = std::net::UdpSocket::bind("127.0.0.1:0").expect("loopback");
    let port = held.local_addr().expect("bound").port();
    let mut command = uroce(&format!("serve 127.0.0.1 --datapath udp --roce-port {port}"));
    command.env("UROCE_SERVE_SOCKET", &socket).stderr(Stdio::null());
    let mut service = Ended(command.spawn().expect("it was built"));
    std::thread::sleep(Duration::from_millis(300));
    assert!(service.0.try_wait().expect("ours").is_none() && !answers(&socket), "it waits");
    drop(held);
    uroce_testkit::wait_until("the port is free and served", || answers(&socket));
    drop(service);
    std::fs::remove_dir_all(folder).expect("removed");
}

/// Two namespaces with a wire between them, and a service at each end.
struct ServedWire {
    net: Namespaces,
    folder: PathBuf,
}

impl ServedWire {
    fn new() -> Option<Self> {
        let net = Namespaces::new(&["sa", "sb"], "serve")?;
        ip(&format!(
            "link add we netns {} type veth peer name we netns {}",
            net.name(0),
            net.name(1)
        ));
        for end in 0..2 {
            net.ip(end, &format!("addr add 10.86.0.{}/24 dev we", end + 1));
            net.ip(end, "link set we up");
        }
        Some(Self { net, folder: folder("wire") })
    }

    fn socket(&self, end: usize) -> PathBuf {
        self.folder.join(format!("{end}.sock"))
    }

    fn command(&self, end: usize, words: &str) -> Command {
        let mut command = self.net.command(end, PROGRAM);
        command.args(words.split_whitespace()).env("UROCE_SERVE_SOCKET", self.socket(end));
        command
    }

    fn serve(&self, end: usize, datapath: &str) -> Ended {
        let words = format!("serve 10.86.0.{} --datapath {datapath}", end + 1);
        let mut command = self.command(end, &words);
        let service = Ended(command.stderr(Stdio::null()).spawn().expect("it was built"));
        let end_of_wait = Instant::now() + Duration::from_secs(20);
        while !answers(&self.socket(end)) {
            assert!(Instant::now() < end_of_wait, "no service on {datapath}");
            std::thread::sleep(Duration::from_millis(5));
        }
        service
    }

    /// Messages to and fro between clients of the two services.
    fn exchange(&self, transport: &str) {
        let words = |end: usize| {
            format!("pingpong {transport} --address 10.86.0.{} --datapath served -n 100", end + 1)
        };
        let mut server = self.command(0, &words(0));
        let server = server.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = Ended(server.expect("it was built"));
        // Until it listens the client tries again.
        let output = self.command(1, &format!("{} 10.86.0.1", words(1))).output().expect("built");
        assert_eq!(code(&output), 0, "{transport}: {}", text(&output));
        assert!(server.0.wait().expect("ours").success(), "{transport}");
    }
}

fn answers(socket: &Path) -> bool {
    uroce_service::status(socket).is_ok()
}

impl Drop for ServedWire {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

#[test]
fn a_service_has_any_of_the_datapaths_below_it() {
    let Some(wire) = ServedWire::new() else { return };
    for datapath in ["udp", "uring", "packet", "xdp-generic"] {
        let _services = [wire.serve(0, datapath), wire.serve(1, datapath)];
        for transport in ["rc", "uc", "ud"] {
            wire.exchange(transport);
        }
    }
}
