//! Opening the device that the command line names, or the one that reaches the peer.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::num::NonZeroU8;

use uroce_host::BindError;
use uroce_verbs::{
    Context, DatapathChoice, DeviceInfo, Faults, Mtu, OpenError, PcapFile, device_list,
};

use crate::failure::Failure;
use crate::faults;
use crate::global::Global;

/// Opens devices with the options of the command line. All devices of the process share one
/// capture file.
#[derive(Debug, Clone)]
pub struct Nics {
    port: u16,
    wanted: Option<Wanted>,
    datapath: DatapathChoice,
    pcap: Option<PcapFile>,
    faults: Option<Faults>,
    /// Engines of each device.
    engines: NonZeroU8,
    /// Short WRITEs may leave as WRITE ONLYs.
    split_writes: bool,
}

#[derive(Debug, Clone)]
struct Wanted {
    name: Option<String>,
    address: IpAddr,
}

impl Nics {
    /// NICs that talk to other processes.
    ///
    /// # Errors
    /// Exit 3 for a device that does not exist, or a capture file that cannot be written; exit 2 for
    /// a datapath that ends within the process.
    pub fn towards_peers(global: &Global) -> Result<Nics, Failure> {
        Nics::new(global, global.datapath_to_peers()?)
    }

    /// NICs on `datapath`.
    ///
    /// # Errors
    /// Exit 3 for a device that does not exist, or a capture file that cannot be written.
    pub fn new(global: &Global, datapath: DatapathChoice) -> Result<Nics, Failure> {
        let wanted = match (&global.address, &global.ib_dev) {
            (Some(address), _) => Some(Wanted { name: None, address: *address }),
            (None, Some(name)) => Some(named(name)?),
            (None, None) => None,
        };
        let create = |path| PcapFile::create(path).map_err(Failure::environment);
        Ok(Nics {
            port: global.roce_port(),
            wanted,
            datapath,
            pcap: global.pcap.as_ref().map(create).transpose()?,
            faults: global.faults.clone(),
            engines: global.engines(),
            split_writes: !global.no_split_writes,
        })
    }

    /// The device that the user named, else the one on `fallback`.
    ///
    /// # Errors
    /// Exit 3.
    pub fn open(&self, fallback: IpAddr) -> Result<Context, Failure> {
        match self.open_named_now()? {
            Some(context) => Ok(context),
            None => self.open_on(fallback),
        }
    }

    /// The device that the user named, if any.
    ///
    /// # Errors
    /// Exit 3.
    pub fn open_named_now(&self) -> Result<Option<Context>, Failure> {
        let open = |wanted: &Wanted| self.open_at(wanted.name.as_deref(), wanted.address);
        self.wanted.as_ref().map(open).transpose()
    }

    /// The device that was `named`, else the one that reaches `peer`.
    ///
    /// # Errors
    /// Exit 3.
    pub fn or_towards(&self, named: Option<Context>, peer: IpAddr) -> Result<Context, Failure> {
        named.map_or_else(|| self.open_on(address_towards(peer)?), Ok)
    }

    /// A device on `address`, whatever the user named.
    ///
    /// # Errors
    /// Exit 3.
    pub fn open_on(&self, address: IpAddr) -> Result<Context, Failure> {
        self.open_at(None, address)
    }

    fn open_at(&self, name: Option<&str>, address: IpAddr) -> Result<Context, Failure> {
        let mut builder = Context::builder()
            .address(address)
            .port(self.port)
            .datapath(self.datapath.clone())
            .engines(self.engines)
            .split_writes(self.split_writes);
        if let Some(name) = name {
            builder = builder.name(name);
        }
        if let Some(file) = &self.pcap {
            builder = builder.pcap(file.clone());
        }
        if let Some(faults) = &self.faults {
            builder = builder.fault(faults.clone());
        }
        let context = builder.open().map_err(|error| unopened(address, self.port, &error))?;
        if let Some(faults) = &self.faults {
            faults::watch(faults, &context);
        }
        Ok(context)
    }
}

/// A peer must have an address that a GID can name.
///
/// # Errors
/// Exit 3 for a link-local one.
pub fn check_peer(peer: IpAddr) -> Result<(), Failure> {
    match peer {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Err(Failure::environment(format!(
            "{peer} is a link-local address, and a GID cannot name the link that it is of"
        ))
        .help("use another address of the peer, such as one of fd00::/8")),
        _ => Ok(()),
    }
}

/// The address of this machine from which packets to `peer` leave. For a peer on this machine it is
/// another loopback address than the peer's, since both cannot have one port of one address.
///
/// # Errors
/// Exit 3 without a route.
pub fn address_towards(peer: IpAddr) -> Result<IpAddr, Failure> {
    if let IpAddr::V4(v4) = peer
        && v4.is_loopback()
    {
        let [a, b, c, d] = v4.octets();
        let other = if d >= 254 { 1 } else { d.max(1) + 1 };
        return Ok(Ipv4Addr::new(a, b, c, other).into());
    }
    check_peer(peer)?;
    let any: SocketAddr = match peer {
        IpAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        IpAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    // No packet leaves: connecting a UDP socket only looks for the route.
    let local = UdpSocket::bind(any)
        .and_then(|socket| socket.connect((peer, 9)).and_then(|()| socket.local_addr()));
    match local {
        Ok(local) => Ok(local.ip().to_canonical()),
        Err(error) => Err(Failure::environment(format!("no route to {peer}: {error}")).help(
            "check `ip route get`, or name an address of this machine with --address; \
                 `uroce doctor --peer ADDRESS` looks at the whole way",
        )),
    }
}

/// The path MTU that the link towards `peer` carries; `None` if there is no route.
pub fn mtu_towards(peer: IpAddr) -> Option<Mtu> {
    let interface = uroce_device::interface_of(address_towards(peer).ok()?)?;
    Mtu::largest_for_link(interface.mtu)
}

/// All devices of this machine.
///
/// # Errors
/// Exit 3 when there are none.
pub fn all() -> Result<Vec<DeviceInfo>, Failure> {
    let devices = device_list();
    if devices.is_empty() {
        seen()?;
        return Err(Failure::environment("no network interface has an address")
            .help("give one an address with `ip addr add`, or set the loopback interface up"));
    }
    Ok(devices)
}

/// This process can see the network interfaces.
///
/// # Errors
/// Exit 3 if a sandbox hides them.
pub fn seen() -> Result<(), Failure> {
    uroce_device::interfaces_hidden().map_or(Ok(()), |error| Err(Failure::environment(error)))
}

/// This machine has a device on `address`.
///
/// # Errors
/// Exit 3 if not.
pub fn check_local(address: IpAddr) -> Result<(), Failure> {
    if uroce_device::interface_of(address).is_some() {
        return Ok(());
    }
    seen()?;
    Err(Failure::environment(OpenError::NotLocal(address))
        .help("`uroce devices` lists the addresses that a device can have"))
}

/// The device called `name`, or the one with that address, which may be any of 127.0.0.0/8.
///
/// # Errors
/// Exit 3.
pub fn find(name: &str) -> Result<DeviceInfo, Failure> {
    let devices = device_list();
    if devices.is_empty() {
        seen()?;
    }
    let found = match name.parse::<IpAddr>() {
        Ok(address) => uroce_device::interface_of(address),
        Err(_) => devices.iter().find(|device| device.name == name).cloned(),
    };
    found.ok_or_else(|| {
        let names: Vec<_> = devices.iter().map(|device| device.name.as_str()).collect();
        let by_variable = std::env::var("UROCE_DEVICE").is_ok_and(|value| value == name);
        let whence = if by_variable { ", which UROCE_DEVICE names" } else { "" };
        Failure::environment(format!("this machine has no device {name:?}{whence}"))
            .help(format!("`uroce devices` lists them: {}", names.join(", ")))
    })
}

/// Opens a device only to look at it: on a port that the kernel picks, since that must not get into
/// the way of a running one.
///
/// # Errors
/// Exit 3.
pub fn inspect(device: &DeviceInfo, datapath: DatapathChoice) -> Result<Context, Failure> {
    look_at(device, 0, datapath)
}

fn look_at(device: &DeviceInfo, port: u16, datapath: DatapathChoice) -> Result<Context, Failure> {
    let opened = Context::builder()
        .name(&device.name)
        .address(device.address)
        .port(port)
        .datapath(datapath)
        .progress_thread(false)
        .open();
    opened.map_err(|error| Failure::environment(format!("cannot open {}: {error}", device.name)))
}

/// The same on the datapath that the command line names. A service is asked for a place on the real port: that is how
/// `auto` finds it, and it takes nothing from programs that run.
///
/// # Errors
/// Exit 3.
pub fn inspect_on(device: &DeviceInfo, global: &Global) -> Result<Context, Failure> {
    let (datapath, local) = (global.datapath(), (device.address, global.roce_port()).into());
    let served = match &datapath {
        DatapathChoice::Auto => {
            uroce_service::serves(&uroce_service::socket_path(), local).is_some()
        }
        DatapathChoice::Served => true,
        _ => false,
    };
    look_at(device, if served { global.roce_port() } else { 0 }, datapath)
}

fn named(name: &str) -> Result<Wanted, Failure> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Ok(Wanted { name: None, address });
    }
    let device = find(name)?;
    Ok(Wanted { name: Some(device.name), address: device.address })
}

/// The failure of a device, or of a service, on that address.
pub fn unopened(address: IpAddr, port: u16, error: &OpenError) -> Failure {
    let failure = Failure::environment(format!(
        "cannot open a device on {address}, UDP port {port}: {error}"
    ));
    match error {
        OpenError::Bind(BindError::PortBusy { .. }) => failure.help(
            "what does not share this address needs it alone: choose a second one with --address \
             (127.0.0.2, ...) or another --roce-port at both ends",
        ),
        OpenError::NotLocal(local) if !local.is_loopback() => {
            failure.help("`uroce devices` lists the addresses that a device can have")
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Exit;

    #[test]
    fn the_second_end_on_one_machine_gets_its_own_address() {
        let home = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(address_towards(home).expect("lo").to_string(), "127.0.0.2");
        for last in ["127.0.0.254", "127.0.0.255"] {
            let last = last.parse().expect("an address");
            assert_eq!(address_towards(last).expect("lo").to_string(), "127.0.0.1");
        }
    }

    #[test]
    fn a_peer_by_its_link_local_address_is_told_what_is_wrong_with_it() {
        let peer = "fe80::1".parse().expect("an address");
        let failure = address_towards(peer).expect_err("no GID");
        assert!(failure.what.contains("a GID cannot name the link"), "{}", failure.what);
    }

    #[test]
    fn an_unknown_device_is_named_with_those_that_exist() {
        let failure = find("mlx5_0").expect_err("no such device");
        assert_eq!(failure.exit, Exit::Environment);
        assert!(failure.help.is_some_and(|help| help.contains("uroce0")));
    }

    #[test]
    fn every_loopback_address_is_a_device() {
        let found = find("127.99.0.1").expect("lo");
        assert_eq!(
            (found.address.to_string(), found.netdev),
            ("127.99.0.1".to_owned(), "lo".to_owned())
        );
        assert_eq!(find("192.0.2.1").expect_err("not here").exit, Exit::Environment);
    }
}
