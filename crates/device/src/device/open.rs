//! Opening a device.

mod path;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use uroce_datapath::{Datapath, FaultCounters, FaultDatapath, IcrcTx, PcapTap, PcapWriter};
use uroce_host::fork;
use uroce_memory::mutation::mutated;
use uroce_wire::Mtu;

use self::path::Path;
pub use self::path::datapath_for_service;
use super::{Device, Inner};
use crate::async_events::AsyncEvents;
use crate::clock::Clock;
use crate::config::DeviceConfig;
use crate::driver::Driver;
use crate::engine::EngineBuilder;
use crate::engines::{Engines, Shared};
use crate::error::OpenError;
use crate::faults::Faults;
use crate::gid::guid_of;
use crate::interface::{Interface, fabric_interface};
use crate::limits::{DeviceLimits, MAX_ENGINES, MAX_QP_IN_SLOT};
use crate::local::EngineDatapath;
use crate::port_watch::PortWatch;
use crate::processor;
use crate::report::Reporter;
use crate::resource::{Resource, ResourceKind};

impl Device {
    /// Opens a device on an address of this machine (or on an in-process switch).
    ///
    /// # Errors
    /// [`OpenError`]; nothing stays behind.
    pub fn open(config: DeviceConfig) -> Result<Device, OpenError> {
        check_address(config.address)?;
        check_engines(&config)?;
        processor::learn();
        let path = path::open(&config)?;
        assemble(&config, path)
    }

    /// Opens a device on datapaths of the caller's, one for each engine, for simulations: with
    /// [`DeviceConfig::clock`] and without threads, everything happens in the caller's calls. It calls
    /// [`Device::drive`] when packets have arrived and at [`Device::poll_timeout`]. Several datapaths are
    /// those of a [`ChannelDatapath`](uroce_datapath::ChannelDatapath), so that an engine gets what is for it.
    /// What `config` says of datapath and engines does not count.
    ///
    /// # Errors
    /// [`OpenError`]; nothing stays behind.
    ///
    /// # Panics
    /// Without a datapath.
    pub fn open_on(
        config: &DeviceConfig,
        datapaths: Vec<Box<dyn Datapath>>,
    ) -> Result<Device, OpenError> {
        check_address(config.address)?;
        let first = datapaths.first().expect("a device has an engine");
        let mut interface = fabric_interface(config.address, first.caps().mtu);
        if let Some(name) = &config.name {
            interface.name.clone_from(name);
        }
        let note = "the datapath is that of the program which opened the device".to_owned();
        let datapaths = datapaths.into_iter().map(EngineDatapath::Other).collect();
        assemble(config, Path { datapaths, interface, note })
    }
}

/// A device with its engines and threads on datapaths that are open.
fn assemble(config: &DeviceConfig, path: Path) -> Result<Device, OpenError> {
    let Path { datapaths, interface, note } = path;
    let seed = seed(config)?;
    let faults = config.faults.as_ref().map(|faults| Arc::new(FaultCounters::new(faults.plan())));
    let mut datapaths = wrap(datapaths, config, &interface.name, faults.as_ref())?;
    let first = datapaths.first_mut().expect("a device has an engine");
    let (local, caps) = (first.local(), first.caps().clone());
    let has_slot = first.shared_port().is_some();
    let (active_mtu, guid) = (active_mtu(&interface)?, guid_of(&interface));
    let limits = limits(config.limits, has_slot, datapaths.len());
    let clock = Clock::new(config.clock.clone());
    let builder = EngineBuilder::new(local, (active_mtu, guid), seed, limits, clock)
        .split_writes(config.split_writes && config.faults.is_none());
    // Before the threads: an engine may have something for another one from its first packet on.
    let engines = Engines::new(start_engines(datapaths, &builder)?);
    let all = engines.all();
    let drivers = start_drivers(config, all, &interface)?;
    let about = about(&interface, local, caps.name, all.len());
    let reporter = start_reporter(config, all, &about, faults.clone(), &interface);
    tracing::info!(
        device = %interface.name, address = %local, datapath = caps.name, engines = all.len(),
        why = %note, "opened"
    );
    Ok(Device(Arc::new(Inner {
        reporter,
        drivers,
        engines,
        about,
        faults,
        guid,
        interface,
        active_mtu,
        caps,
        datapath_choice_note: note,
        limits,
        generation: fork::generation(),
    })))
}

fn check_engines(config: &DeviceConfig) -> Result<(), OpenError> {
    match config.engines.get() {
        1 => Ok(()),
        asked if asked > MAX_ENGINES => Err(OpenError::TooManyEngines(asked)),
        _ if config.port == 0 => Err(OpenError::EnginesWithoutPort),
        _ => Ok(()),
    }
}

/// Wraps each datapath as the configuration asks: recording, faults.
fn wrap(
    datapaths: Vec<EngineDatapath>,
    config: &DeviceConfig,
    name: &str,
    faults: Option<&Arc<FaultCounters>>,
) -> Result<Vec<EngineDatapath>, OpenError> {
    if config.pcap.is_none() && config.faults.is_none() {
        return Ok(datapaths);
    }
    let datapaths = datapaths.into_iter().enumerate().map(|(number, datapath)| {
        let (datapath, recorder) = with_pcap(datapath.into_dyn(), config, &name_of(name, number))?;
        let wrapped = match (&config.faults, faults) {
            (Some(rules), Some(counters)) => {
                with_faults(datapath, recorder, (rules, number), Arc::clone(counters))
            }
            _ => Ok(datapath),
        };
        wrapped.map(EngineDatapath::Other)
    });
    datapaths.collect()
}

/// Name of an engine of the device.
fn name_of(device: &str, number: usize) -> String {
    match number {
        0 => device.to_owned(),
        _ => format!("{device}/{number}"),
    }
}

fn check_address(address: IpAddr) -> Result<(), OpenError> {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || broadcast {
        return Err(OpenError::NotUnicast(address));
    }
    Ok(())
}

/// Faults are applied outside the recording, so that a capture also shows packets that are dropped
/// here.
fn with_faults(
    datapath: Box<dyn Datapath>,
    recorder: Option<PcapWriter>,
    (faults, engine): (&Faults, usize),
    counters: Arc<FaultCounters>,
) -> Result<Box<dyn Datapath>, OpenError> {
    if (*datapath).caps().icrc.tx == IcrcTx::Skip {
        return Err(OpenError::FaultsWithoutIcrc);
    }
    let seed = faults.seed_of(engine);
    let with_faults = FaultDatapath::new(datapath, faults.plan(), seed, counters);
    Ok(match recorder {
        Some(recorder) => Box::new(with_faults.recording(recorder)),
        None => Box::new(with_faults),
    })
}

/// The datapath, and what records to the same interface of the capture.
fn with_pcap(
    datapath: Box<dyn Datapath>,
    config: &DeviceConfig,
    name: &str,
) -> Result<(Box<dyn Datapath>, Option<PcapWriter>), OpenError> {
    let Some(file) = &config.pcap else {
        return Ok((datapath, None));
    };
    let tap = PcapTap::with_name(datapath, file, name)?;
    let writer = tap.writer().clone();
    Ok((Box::new(tap), Some(writer)))
}

fn active_mtu(interface: &Interface) -> Result<Mtu, OpenError> {
    Mtu::largest_for_link(interface.mtu).ok_or_else(|| OpenError::LinkTooSmall {
        netdev: interface.netdev.clone(),
        mtu: interface.mtu,
    })
}

fn seed(config: &DeviceConfig) -> Result<[u8; 32], OpenError> {
    if let Some(seed) = config.seed.filter(|_| !mutated("seed-ignored")) {
        return Ok(seed);
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(OpenError::Random)?;
    Ok(seed)
}

/// A device that shares its address has fewer numbers for queue pairs. Windows are bound on the data path of
/// one engine, and the others would not know.
fn limits(wanted: DeviceLimits, has_slot: bool, engines: usize) -> DeviceLimits {
    let most = if has_slot { engines * MAX_QP_IN_SLOT } else { wanted.max_qp };
    let max_mw = if engines > 1 { 0 } else { wanted.max_mw };
    DeviceLimits { max_qp: wanted.max_qp.min(most), max_mw, ..wanted }
}

fn start_engines(
    datapaths: Vec<EngineDatapath>,
    builder: &EngineBuilder,
) -> Result<Vec<Arc<Shared>>, OpenError> {
    let events = Arc::new(AsyncEvents::new().map_err(no("event descriptor"))?);
    let engines = (0..).zip(datapaths).map(|(number, datapath)| {
        let engine = builder.build(datapath, number);
        Shared::new(engine, Arc::clone(&events)).map(Arc::new).map_err(no("event descriptor"))
    });
    engines.collect()
}

/// A thread for each engine. Several of them have a processor each, as far as there are enough.
fn start_drivers(
    config: &DeviceConfig,
    engines: &[Arc<Shared>],
    interface: &Interface,
) -> Result<Vec<Driver>, OpenError> {
    if !config.progress_thread {
        return Ok(Vec::new());
    }
    let start = |(number, shared): (usize, &Arc<Shared>)| {
        let slot = shared.lock().nic.slot.filter(|_| engines.len() > 1);
        let processor = slot.map(|slot| usize::from(slot.get() - 1));
        let driver =
            Driver::start(Arc::clone(shared), &name_of(&interface.name, number), processor);
        driver.map_err(no("thread or descriptor"))
    };
    engines.iter().enumerate().map(start).collect()
}

/// Description of the device in reports.
fn about(interface: &Interface, local: SocketAddr, datapath: &str, engines: usize) -> Resource {
    Resource::new(ResourceKind::Device)
        .with("name", &interface.name)
        .with("address", local.ip())
        .with("port", local.port())
        .with("netdev", &interface.netdev)
        .with("datapath", datapath)
        .with("engines", engines)
}

/// Without a report socket the device works all the same.
fn start_reporter(
    config: &DeviceConfig,
    engines: &[Arc<Shared>],
    about: &Resource,
    faults: Option<Arc<FaultCounters>>,
    interface: &Interface,
) -> Option<Reporter> {
    if !config.report {
        return None;
    }
    Reporter::start(engines.to_vec(), about.clone(), faults, watch_port(interface))
        .inspect_err(|error| tracing::info!(%error, "others cannot ask what the device has"))
        .ok()
}

/// Without port events the device works all the same.
fn watch_port(interface: &Interface) -> Option<PortWatch> {
    if interface.is_of_process() {
        return None;
    }
    PortWatch::new(interface.clone())
        .inspect_err(|error| tracing::info!(%error, "there will be no events of the port"))
        .ok()
}

fn no(what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Resources { what, source }
}
