//! Three hosts on a switch: network namespaces with veth links to a bridge.

use std::net::IpAddr;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use uroce_testkit::namespace::{Namespaces, inside, ip};
use uroce_xdp::{XdpConfig, XdpDatapath, XdpError, XdpMode};

/// The interface in each host.
pub const INTERFACE: &str = "e0";

/// Its MTU: room for path MTU 4096.
pub const MTU: usize = 9000;

static NEXT: AtomicU32 = AtomicU32::new(0);

/// See the module's documentation. Every host knows the hardware addresses of the others.
pub struct Lab {
    spaces: Namespaces,
}

/// Index of the namespace of the bridge, behind those of the hosts.
const SWITCH: usize = 3;

/// Why a test cannot run here, for a user; in CI it must.
pub fn skipped(needs: &str) -> bool {
    println!("skipped: needs {needs}");
    assert!(std::env::var_os("CI").is_none(), "CI has {needs}");
    true
}

/// True when namespaces cannot be made.
pub fn cannot_run() -> bool {
    !rustix::process::geteuid().is_root() && skipped("root")
}

/// What `open` gives once port, program and queues are free, or after three seconds: a command that another test
/// starts has copies of all descriptors until it executes, also of closed ones.
pub fn when_free<T>(mut open: impl FnMut() -> Result<T, XdpError>) -> Result<T, XdpError> {
    let end = Instant::now() + Duration::from_secs(3);
    loop {
        match open() {
            Err(
                XdpError::PortBusy(_) | XdpError::ProgramBusy { .. } | XdpError::QueueBusy { .. },
            ) if Instant::now() < end => {
                std::thread::sleep(Duration::from_millis(10));
            }
            opened => return opened,
        }
    }
}

impl Lab {
    /// A new lab.
    pub fn new() -> Self {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let spaces = Namespaces::new(&["h0", "h1", "h2", "sw"], &format!("xdp{number}"));
        let lab = Self { spaces: spaces.expect("the right to make namespaces") };
        lab.ip(&lab.switch(), "link add br0 type bridge mcast_snooping 0 forward_delay 0");
        lab.ip(&lab.switch(), &format!("link set br0 mtu {MTU} up"));
        (0..3).for_each(|host| lab.add_host(host));
        for host in 0..3 {
            lab.introduce(host);
        }
        lab
    }

    fn add_host(&self, host: usize) {
        let (name, switch) = (self.host(host), self.switch());
        // IPv6 addresses without a delay, and no packets of the host's own accord.
        self.inside(&name, || {
            for setting in ["accept_dad", "router_solicitations"] {
                let file = format!("/proc/sys/net/ipv6/conf/default/{setting}");
                std::fs::write(file, "0").expect("a setting of this namespace");
            }
        });
        let mac = mac(host);
        self.ip(
            &switch,
            &format!(
                "link add p{host} mtu {MTU} type veth peer name {INTERFACE} mtu {MTU} address {mac} \
                 netns {name}"
            ),
        );
        self.ip(&switch, &format!("link set p{host} master br0 up"));
        self.ip(&name, &format!("link set {INTERFACE} up"));
        self.ip(&name, &format!("addr add {}/24 dev {INTERFACE}", v4(host)));
        self.ip(&name, &format!("addr add {}/64 dev {INTERFACE} nodad", v6(host)));
    }

    /// Tells a host the hardware addresses of the others.
    fn introduce(&self, host: usize) {
        for other in (0..3).filter(|&other| other != host) {
            for address in [v4(other), v6(other)] {
                let entry =
                    format!("{address} lladdr {} dev {INTERFACE} nud permanent", mac(other));
                self.ip(&self.host(host), &format!("neigh replace {entry}"));
            }
        }
    }

    /// The namespace of the bridge; a sniffer there sees all that hosts send.
    pub fn switch(&self) -> String {
        self.spaces.name(SWITCH).to_owned()
    }

    /// The namespace of a host.
    pub fn host(&self, host: usize) -> String {
        self.spaces.name(host).to_owned()
    }

    /// `ip` in a namespace.
    pub fn ip(&self, namespace: &str, words: &str) {
        ip(&format!("-n {namespace} {words}"));
    }

    /// A command in a host; it must succeed.
    pub fn run(&self, host: usize, words: &[&str]) -> String {
        succeeded(&mut self.command(host, words))
    }

    /// A command in a host, for the caller to start.
    pub fn command(&self, host: usize, words: &[&str]) -> Command {
        let mut command = self.spaces.command(host, words[0]);
        command.args(&words[1..]);
        command
    }

    /// Runs `job` in a thread that is in the namespace.
    pub fn inside<T: Send + 'static>(
        &self,
        namespace: &str,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        inside(namespace, job)
    }

    /// A datapath on a host's address, in a mode.
    pub fn open(&self, host: usize, address: IpAddr, mode: XdpMode) -> XdpDatapath {
        let config = XdpConfig { mode, ..XdpConfig::new((address, 4791).into()) };
        self.open_soon(host, &config).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A datapath on a host, as soon as it is free: see [`when_free`].
    pub fn open_soon(&self, host: usize, config: &XdpConfig) -> Result<XdpDatapath, XdpError> {
        when_free(|| self.try_open(host, config.clone()))
    }

    /// A datapath on a host.
    pub fn try_open(&self, host: usize, config: XdpConfig) -> Result<XdpDatapath, XdpError> {
        self.inside(&self.host(host), move || XdpDatapath::open(&config))
    }

    /// Whether a program is attached to the host's interface.
    pub fn has_program(&self, host: usize) -> bool {
        let shown = self.run(host, &["ip", "link", "show", "dev", INTERFACE]);
        shown.contains("prog/xdp")
    }

    /// Whether no program is attached to the host's interface, now or within two seconds: a command
    /// that another test starts has copies of all descriptors for a moment, also of closed ones.
    pub fn loses_program(&self, host: usize) -> bool {
        let end = Instant::now() + Duration::from_secs(2);
        while self.has_program(host) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(10));
        }
        !self.has_program(host)
    }
}

/// IPv4 address of a host.
pub fn v4(host: usize) -> IpAddr {
    IpAddr::from([10, 77, 0, host as u8 + 1])
}

/// IPv6 address of a host.
pub fn v6(host: usize) -> IpAddr {
    IpAddr::from([0xfd77, 0, 0, 0, 0, 0, 0, host as u16 + 1])
}

fn mac(host: usize) -> String {
    format!("02:00:00:00:77:{:02x}", host + 1)
}

fn succeeded(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("start");
    let said = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&stdout).into_owned()
}
