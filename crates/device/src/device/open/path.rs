//! From the wanted datapath to an open one, or one for each engine.

use crate::config::DeviceConfig;
use crate::datapath_choice::DatapathChoice;
use crate::error::OpenError;
use crate::gsi_addressee::gsi_addressee;
use crate::interface::{Interface, fabric_interface, interface_of};
use std::net::SocketAddr;
use uroce_datapath::{
    Datapath, LaneDatapath, PacketConfig, PacketDatapath, SlotDatapath, UdpConfig,
};
use uroce_xdp::{XdpConfig, XdpDatapath};

/// A datapath for each engine.
type Datapaths = Vec<Box<dyn Datapath>>;

/// The open datapaths, the interface they are on, and how they were chosen.
pub(super) struct Path<D = Datapaths> {
    pub(super) datapaths: D,
    pub(super) interface: Interface,
    /// One sentence each: what was passed over and why, then what was taken.
    pub(super) notes: Vec<String>,
}

/// Opens what the configuration asks for. A named datapath that cannot be opened is an error; only
/// [`DatapathChoice::Auto`] goes on to the next one.
pub(super) fn open(config: &DeviceConfig) -> Result<Path, OpenError> {
    let mut path = match &config.datapath {
        DatapathChoice::Auto => {
            first_that_opens(DatapathChoice::candidates(), |choice| open_one(choice, config))
        }
        named => open_one(named, config).map(|(datapaths, interface)| Path {
            datapaths,
            interface,
            notes: vec![format!("{named}: as asked for")],
        }),
    }?;
    if let Some(name) = &config.name {
        path.interface.name.clone_from(name);
    }
    Ok(path)
}

/// The first candidate that `open` can open. The error is that of the last, which asks for least.
fn first_that_opens<D>(
    candidates: &[DatapathChoice],
    open: impl Fn(&DatapathChoice) -> Result<(D, Interface), OpenError>,
) -> Result<Path<D>, OpenError> {
    let mut notes = Vec::new();
    let (last, better) = candidates.split_last().expect("there always is a last resort");
    for choice in better {
        match open(choice) {
            Ok((datapaths, interface)) => {
                notes.push(format!("{choice}: the fastest that works here"));
                return Ok(Path { datapaths, interface, notes });
            }
            Err(error) => notes.push(format!("{choice}: passed over: {error}")),
        }
    }
    let (datapaths, interface) = open(last)?;
    notes.push(format!("{last}: needs no privilege"));
    Ok(Path { datapaths, interface, notes })
}

fn open_one(
    choice: &DatapathChoice,
    config: &DeviceConfig,
) -> Result<(Datapaths, Interface), OpenError> {
    let local = SocketAddr::new(config.address, config.port);
    let on_netdev = || interface_of(config.address).ok_or(OpenError::NotLocal(config.address));
    match choice {
        DatapathChoice::Auto | DatapathChoice::Udp => {
            let interface = on_netdev()?;
            let open = || Ok(SlotDatapath::udp(&UdpConfig::new(local), gsi_addressee)?);
            Ok((for_each_engine(config, open)?, interface))
        }
        DatapathChoice::Uring => {
            let interface = on_netdev()?;
            let open = || Ok(SlotDatapath::uring(&UdpConfig::new(local), gsi_addressee)?);
            Ok((for_each_engine(config, open)?, interface))
        }
        DatapathChoice::Packet => {
            let interface = on_netdev()?;
            let datapaths =
                PacketDatapath::open_several(&PacketConfig::new(local), config.engines)?;
            Ok((with_lanes(datapaths)?, interface))
        }
        DatapathChoice::Xdp(mode) => {
            let interface = on_netdev()?;
            let xdp = XdpConfig { mode: *mode, ..XdpConfig::new(local) };
            Ok((with_lanes(XdpDatapath::open_several(&xdp, config.engines)?)?, interface))
        }
        DatapathChoice::Loopback(_) if config.engines.get() > 1 => {
            Err(OpenError::OneEngineOnly(choice.name()))
        }
        DatapathChoice::Loopback(fabric) => {
            let datapath = fabric.attach(local)?;
            let interface = fabric_interface(config.address, datapath.caps().mtu);
            Ok((vec![Box::new(datapath)], interface))
        }
    }
}

/// Each engine looks like one of several processes on the address.
fn for_each_engine<D: Datapath + 'static>(
    config: &DeviceConfig,
    open: impl Fn() -> Result<D, OpenError>,
) -> Result<Datapaths, OpenError> {
    let engines = 0..config.engines.get();
    engines.map(|_| Ok(Box::new(open()?) as Box<dyn Datapath>)).collect()
}

/// Engines on datapaths that one process has for itself hand over to each other what belongs to another one.
fn with_lanes<D: Datapath + 'static>(mut datapaths: Vec<D>) -> Result<Datapaths, OpenError> {
    if datapaths.len() == 1 {
        return Ok(vec![Box::new(datapaths.remove(0))]);
    }
    let shares = LaneDatapath::gather(datapaths, gsi_addressee);
    let shares = shares.map_err(|source| OpenError::Resources { what: "descriptor", source })?;
    Ok(shares.into_iter().map(|share| Box::new(share) as Box<dyn Datapath>).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};
    use uroce_datapath::LoopbackFabric;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    /// Opens only what is called `works`.
    fn try_two(works: &str) -> Result<Path<&'static str>, OpenError> {
        let two = [DatapathChoice::Loopback(LoopbackFabric::new()), DatapathChoice::Udp];
        first_that_opens(&two, |choice| match choice.name() {
            name if name == works => Ok((name, fabric_interface(HERE, 1500))),
            "udp" => Err(OpenError::NotLocal(HERE)),
            _ => Err(OpenError::NotUnicast(HERE)),
        })
    }

    #[test]
    fn the_first_that_opens_is_taken() {
        let path = try_two("loopback").expect("it works");
        assert_eq!(path.datapaths, "loopback");
        assert_eq!(path.notes, ["loopback: the fastest that works here"]);
    }

    #[test]
    fn what_was_passed_over_is_told_with_its_reason() {
        let path = try_two("udp").expect("the last resort");
        assert_eq!(path.datapaths, "udp");
        let reason = OpenError::NotUnicast(HERE);
        assert_eq!(
            path.notes,
            [format!("loopback: passed over: {reason}"), "udp: needs no privilege".to_owned()]
        );
    }

    #[test]
    fn when_nothing_opens_the_error_is_that_of_the_last_resort() {
        assert!(matches!(try_two("nothing"), Err(OpenError::NotLocal(HERE))));
    }
}
