//! From the wanted datapath to an open one, or one for each engine.

use std::net::SocketAddr;

use uroce_datapath::{ChannelDatapath, Datapath};
use uroce_packet::{PacketConfig, PacketDatapath};
use uroce_service::ServedDatapath;
use uroce_udp::{SlotDatapath, UdpConfig, UdpDatapath, UringDatapath};
use uroce_xdp::{XdpConfig, XdpDatapath};

use crate::config::DeviceConfig;
use crate::datapath_choice::DatapathChoice;
use crate::error::OpenError;
use crate::gsi_redirect::gsi_redirect;
use crate::interface::{Interface, fabric_interface, find_interface};
use crate::local::EngineDatapath;

/// A datapath for each engine.
type Datapaths = Vec<EngineDatapath>;

/// Why `auto` chose UDP, for users who look for a faster datapath.
const AUTO: &str = "udp: chosen by auto, since it works for every user, shares its address with other processes and \
                    obeys the host's firewall; packet, xdp and uring are used only when named (--datapath)";

/// The open datapaths, the interface they are on, and how they were chosen.
pub(super) struct Path {
    pub(super) datapaths: Datapaths,
    pub(super) interface: Interface,
    /// One sentence: which datapath it is, and why.
    pub(super) note: String,
}

/// Opens what the configuration asks for. A datapath that cannot be opened is an error: no other takes its place.
pub(super) fn open(config: &DeviceConfig) -> Result<Path, OpenError> {
    let served = service_of(config);
    let choice = if served.is_some() { &DatapathChoice::Served } else { &config.datapath };
    let (datapaths, mut interface) = open_one(choice, config)?;
    if let Some(name) = &config.name {
        interface.name.clone_from(name);
    }
    let note = match (&config.datapath, served) {
        (DatapathChoice::Auto, Some(inner)) => format!(
            "served: chosen by auto, since the service at {} serves this address, on its datapath {inner}",
            uroce_service::socket_path().display()
        ),
        (DatapathChoice::Auto, None) => AUTO.to_owned(),
        (named, _) => format!("{named}: named by whoever opened the device"),
    };
    Ok(Path { datapaths, interface, note })
}

/// The datapath of the service that serves the address, where `auto` is to find out.
fn service_of(config: &DeviceConfig) -> Option<&'static str> {
    let asked = matches!(config.datapath, DatapathChoice::Auto) && config.port != 0;
    let local = SocketAddr::new(config.address, config.port);
    asked.then(|| uroce_service::serves(&uroce_service::socket_path(), local)).flatten()
}

/// A datapath for a service that shares it among its clients ([`uroce_service::PortService`]). It has the address for
/// itself.
///
/// # Errors
/// [`OpenError`], as for a device.
pub fn datapath_for_service(
    choice: &DatapathChoice,
    local: SocketAddr,
) -> Result<Box<dyn Datapath>, OpenError> {
    super::check_address(local.ip())?;
    find_interface(local.ip())?;
    Ok(match choice {
        DatapathChoice::Auto | DatapathChoice::Udp => {
            Box::new(UdpDatapath::bind(&UdpConfig::new(local))?)
        }
        DatapathChoice::Uring => Box::new(UringDatapath::bind(&UdpConfig::new(local))?),
        DatapathChoice::Packet => Box::new(PacketDatapath::open(&PacketConfig::new(local))?),
        DatapathChoice::Xdp(mode) => {
            Box::new(XdpDatapath::open(&XdpConfig { mode: *mode, ..XdpConfig::new(local) })?)
        }
        DatapathChoice::Served | DatapathChoice::Loopback(_) => {
            return Err(OpenError::NotForService(choice.name()));
        }
    })
}

fn open_one(
    choice: &DatapathChoice,
    config: &DeviceConfig,
) -> Result<(Datapaths, Interface), OpenError> {
    let local = SocketAddr::new(config.address, config.port);
    let on_netdev = || find_interface(config.address);
    match choice {
        DatapathChoice::Auto | DatapathChoice::Udp => {
            let interface = on_netdev()?;
            let open = || Ok(SlotDatapath::udp(&UdpConfig::new(local), gsi_redirect)?);
            Ok((for_each_engine(config, open)?, interface))
        }
        DatapathChoice::Uring => {
            let interface = on_netdev()?;
            let open = || Ok(SlotDatapath::uring(&UdpConfig::new(local), gsi_redirect)?);
            Ok((for_each_engine(config, open)?, interface))
        }
        DatapathChoice::Packet => {
            let interface = on_netdev()?;
            let datapaths =
                PacketDatapath::open_several(&PacketConfig::new(local), config.engines)?;
            Ok((with_engine_channels(datapaths)?, interface))
        }
        DatapathChoice::Xdp(mode) => {
            let interface = on_netdev()?;
            let xdp = XdpConfig { mode: *mode, ..XdpConfig::new(local) };
            Ok((with_engine_channels(XdpDatapath::open_several(&xdp, config.engines)?)?, interface))
        }
        DatapathChoice::Served => {
            let interface = on_netdev()?;
            // Faults and captures are made of packets with an ICRC.
            let seals = config.faults.is_some() || config.pcap.is_some();
            let open = || Ok(ServedDatapath::open(local, seals)?);
            Ok((for_each_engine(config, open)?, interface))
        }
        DatapathChoice::Loopback(_) if config.engines.get() > 1 => {
            Err(OpenError::OneEngineOnly(choice.name()))
        }
        DatapathChoice::Loopback(fabric) => {
            let datapath = fabric.attach(local)?;
            let interface = fabric_interface(config.address, datapath.caps().mtu);
            Ok((vec![EngineDatapath::Local(Box::new(datapath))], interface))
        }
    }
}

/// Each engine looks like one of several processes on the address.
fn for_each_engine<D: Datapath + 'static>(
    config: &DeviceConfig,
    open: impl Fn() -> Result<D, OpenError>,
) -> Result<Datapaths, OpenError> {
    let engines = 0..config.engines.get();
    engines.map(|_| Ok(EngineDatapath::Other(Box::new(open()?)))).collect()
}

/// Engines on datapaths that one process has for itself hand over to each other what belongs to another one.
fn with_engine_channels<D: Datapath + 'static>(
    mut datapaths: Vec<D>,
) -> Result<Datapaths, OpenError> {
    if datapaths.len() == 1 {
        return Ok(vec![EngineDatapath::Other(Box::new(datapaths.remove(0)))]);
    }
    let shares = ChannelDatapath::connect(datapaths, gsi_redirect);
    let shares = shares.map_err(|source| OpenError::Resources { what: "descriptor", source })?;
    Ok(shares.into_iter().map(|share| EngineDatapath::Other(Box::new(share))).collect())
}
