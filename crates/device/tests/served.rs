//! Processes of several users share an address by the service that holds its port, which is killed in the middle.

mod common;
#[path = "processes/life.rs"]
mod life;
#[path = "processes/member.rs"]
mod member;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use life::Life;
use member::{Member, ROLE, await_exchange, program, tell_exchange};
use rustix::net::{self, AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use uroce_device::{DatapathChoice, ROCE_PORT, datapath_for_service, gsi_redirect};
use uroce_service::{PortService, SOCKET_VARIABLE, ServiceOptions, status};

/// What makes the binary a service: its address.
const SERVICE: &str = "UROCE_TEST_SERVE_AT";

const ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 91, 29, 1));

/// Processes on the address.
const MEMBERS: usize = 20;

/// No test by itself: what the processes of the test run.
#[test]
fn a_member_does_what_it_is_told() {
    if let Ok(address) = std::env::var(ROLE) {
        Life::live(address.parse().expect("an address"));
    }
}

/// No test by itself: the process that holds the port.
#[test]
fn the_service_serves() {
    let Ok(address) = std::env::var(SERVICE) else { return };
    let local = SocketAddr::new(address.parse().expect("an address"), ROCE_PORT);
    let inner = datapath_for_service(&DatapathChoice::Udp, local).expect("the port");
    let socket = uroce_service::socket_path();
    let slots = socket.with_extension("slots");
    let options = ServiceOptions {
        socket: Some(socket),
        mode: 0o666,
        slots,
        users: vec![],
        per_user: 64,
        links: 32,
    };
    let mut service =
        PortService::new(vec![inner], gsi_redirect, (None, options)).expect("a service");
    service.run(&AtomicBool::new(false)).expect("no failure");
}

/// The service as a process, killed with this value, and its folder.
struct Host {
    folder: PathBuf,
    service: Option<Child>,
}

impl Host {
    fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("uroce-served-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder, open).expect("ours");
        let mut host = Self { folder, service: None };
        host.resume();
        host
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("socket")
    }

    fn resume(&mut self) {
        let mut command = program();
        command.args(["--exact", "the_service_serves"]).env(SERVICE, ADDRESS.to_string());
        command.env(SOCKET_VARIABLE, self.socket()).stdout(Stdio::null());
        self.service = Some(command.spawn().expect("a process"));
        let end = Instant::now() + Duration::from_secs(20);
        while status(&self.socket()).is_err() {
            assert!(Instant::now() < end, "it does not start");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn kill(&mut self) {
        let mut service = self.service.take().expect("it runs");
        service.kill().expect("it lives");
        service.wait().expect("its status");
    }

    /// A process of that user, or of ours if this one may not become another.
    fn member(&self, user: Option<u32>) -> Member {
        let mut command = program();
        command.env(SOCKET_VARIABLE, self.socket());
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        Member::start(ADDRESS, &mut command)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        if self.service.is_some() {
            self.kill();
        }
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// Whether processes of other users can be started here.
fn may_change_user() -> bool {
    let mut command: Command = program();
    let outcome = command.arg("--list").stdout(Stdio::null()).uid(1001).gid(1001).status();
    let may = outcome.is_ok_and(|status| status.success());
    println!(
        "processes of {}",
        if may { "three users" } else { "one user: others cannot be started here" }
    );
    may
}

fn pair(members: &mut [Member]) {
    for pair in members.chunks_exact_mut(2) {
        let names: Vec<_> = pair.iter_mut().map(|member| member.ask("names")).collect();
        for (member, peer) in pair.iter_mut().zip(names.iter().rev()) {
            member.tell(&format!("connect {} {}", peer[0], peer[1]));
        }
        pair.iter_mut().for_each(|member| assert_eq!(member.answer(), ["connected"]));
        for (member, peer) in pair.iter_mut().zip(names.iter().rev()) {
            member.tell(&format!("connect-xrc {} {} {} {}", peer[2], peer[3], peer[4], peer[5]));
        }
        pair.iter_mut().for_each(|member| assert_eq!(member.answer(), ["connected"]));
    }
}

/// Sends nonsense to the service, in one connection after the other.
fn disturb(socket: &Path, stop: &AtomicBool) {
    let name = SocketAddrUnix::new(socket).expect("short");
    for n in (0..=u8::MAX).cycle() {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let kind = SocketType::SEQPACKET;
        let Ok(client) = net::socket_with(AddressFamily::UNIX, kind, flags, None) else { continue };
        if net::connect(&client, &name).is_ok() {
            net::send(&client, &vec![n; usize::from(n) + 1], SendFlags::NOSIGNAL).ok();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn processes_of_several_users_share_an_address_and_outlive_the_service() {
    let mut host = Host::start();
    let users: &[Option<u32>] =
        if may_change_user() { &[Some(1001), Some(1002), None] } else { &[None] };
    let mut all: Vec<_> = (0..MEMBERS).map(|n| host.member(users[n % users.len()])).collect();
    let (stop, socket) = (AtomicBool::new(false), host.socket());
    std::thread::scope(|scope| {
        scope.spawn(|| disturb(&socket, &stop));
        pair(&mut all);
        tell_exchange(&mut all, "exchange-all");
        await_exchange(&mut all, 4);
        for name in ["datapath_rx_dropped", "drop_uc_out_of_sequence", "drop_bad_icrc"] {
            let counts: Vec<u64> =
                all.iter_mut().map(|member| member.number(&format!("counter {name}"))).collect();
            assert_eq!(counts.iter().sum::<u64>(), 0, "{name}: {counts:?}");
        }
        connect_by_service_id(&mut all);
        greet(&mut all);
        tell_exchange(&mut all, "exchange-rc");
        host.kill();
        host.resume();
        await_exchange(&mut all, 1);
        tell_exchange(&mut all, "exchange-rc");
        await_exchange(&mut all, 1);
        // All have their places again: nothing is lost, not even of what is never sent twice.
        tell_exchange(&mut all, "exchange-all");
        await_exchange(&mut all, 4);
        // A claim outlives the service, too.
        assert_eq!(all[1].ask("listen 7001")[0], "refused:");
        all.remove(0).kill();
        all.remove(0).kill();
        tell_exchange(&mut all, "exchange-rc");
        await_exchange(&mut all, 1);
        stop.store(true, Ordering::Relaxed);
    });
}

fn connect_by_service_id(all: &mut [Member]) {
    assert_eq!(all[0].ask("listen 7001"), ["listens"]);
    for caller in 1..4 {
        let (listener, callers) = all.split_at_mut(1);
        let (listener, caller) = (&mut listener[0], &mut callers[caller - 1]);
        caller.tell("call 7001");
        let pid = listener.ask("answer");
        assert_eq!(caller.answer(), pid, "connected to the process that listens");
        caller.tell("hang-up");
        assert_eq!(listener.ask("hang-up"), ["ended"]);
        assert_eq!(caller.answer(), ["ended"]);
    }
}

fn greet(all: &mut [Member]) {
    let group = "239.91.29.1";
    for member in &mut all[..5] {
        assert_eq!(member.ask(&format!("join {group}")), ["joined"]);
    }
    assert_eq!(all[5].ask(&format!("shout {group}")), ["shouted"]);
    for member in &mut all[..5] {
        assert_eq!(member.ask("greeting"), ["heard"]);
    }
}
