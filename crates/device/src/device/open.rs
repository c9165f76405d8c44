//! Opening a device.

mod path;

use self::path::Path;
use super::{Device, Inner};
use crate::clock::Clock;
use crate::config::DeviceConfig;
use crate::driver::Driver;
use crate::engine::{Engine, Flight, IcrcCounts, Nic, Tables, Trains};
use crate::error::OpenError;
use crate::gid::guid_of;
use crate::gsi::{ACK_DELAY, GSI_SOURCE_PORT, Gsi};
use crate::interface::Interface;
use crate::limits::{DeviceLimits, IN_FLIGHT_BYTES, MAX_QP_IN_SLOT};
use crate::mcast::McastTable;
use crate::qp_table::QpTable;
use crate::report::Reporter;
use crate::resource::{Resource, ResourceKind};
use crate::shared::Shared;
use crate::timers::Timers;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use uroce_cm::Identity;
use uroce_datapath::{Datapath, LossyDatapath, PcapTap};
use uroce_memory::{MemLimits, MemTable};
use uroce_transport::Instant;
use uroce_wire::Mtu;

impl Device {
    /// Opens a device on an address of this machine (or on an in-process switch).
    ///
    /// # Errors
    /// [`OpenError`]; nothing stays behind.
    pub fn open(config: DeviceConfig) -> Result<Device, OpenError> {
        check_address(config.address)?;
        let Path { datapath, interface, notes } = path::open(&config)?;
        let local = datapath.local();
        let active_mtu = active_mtu(&interface)?;
        let datapath = record(lose(datapath, &config)?, &config, &interface.name)?;
        let caps = datapath.caps().clone();
        let limits = limits(config.limits, &*datapath);
        let guid = guid_of(&interface);
        let engine = build(datapath, local, (active_mtu, guid), seed(&config)?, limits);
        let shared = Arc::new(Shared::new(engine).map_err(no("event descriptor"))?);
        let driver = start_driver(&config, &shared, &interface)?;
        let about = about(&interface, local, caps.name);
        let reporter = start_reporter(&config, &shared, &about);
        tracing::info!(device = %interface.name, address = %local, datapath = caps.name, why = %notes.join("; "), "opened");
        Ok(Device(Arc::new(Inner {
            reporter,
            driver,
            shared,
            about,
            guid,
            interface,
            active_mtu,
            caps,
            datapath_choice_notes: notes,
            limits,
        })))
    }
}

fn check_address(address: IpAddr) -> Result<(), OpenError> {
    let broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if address.is_unspecified() || address.is_multicast() || broadcast {
        return Err(OpenError::NotUnicast(address));
    }
    Ok(())
}

/// Before the recording: a capture shows what the engine saw.
fn lose(
    datapath: Box<dyn Datapath>,
    config: &DeviceConfig,
) -> Result<Box<dyn Datapath>, OpenError> {
    if config.drop_received <= 0.0 {
        return Ok(datapath);
    }
    let seed =
        seed(config)?.iter().fold(0, |seed: u64, &byte| seed.rotate_left(8) ^ u64::from(byte));
    Ok(Box::new(LossyDatapath::new(datapath, config.drop_received, seed)))
}

fn record(
    datapath: Box<dyn Datapath>,
    config: &DeviceConfig,
    name: &str,
) -> Result<Box<dyn Datapath>, OpenError> {
    match &config.pcap {
        Some(file) => Ok(Box::new(PcapTap::with_name(datapath, file, name)?)),
        None => Ok(datapath),
    }
}

fn active_mtu(interface: &Interface) -> Result<Mtu, OpenError> {
    Mtu::largest_for_link(interface.mtu).ok_or_else(|| OpenError::LinkTooSmall {
        netdev: interface.netdev.clone(),
        mtu: interface.mtu,
    })
}

fn seed(config: &DeviceConfig) -> Result<[u8; 32], OpenError> {
    if let Some(seed) = config.seed {
        return Ok(seed);
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(OpenError::Random)?;
    Ok(seed)
}

/// A device that shares its address has fewer numbers for queue pairs.
fn limits(wanted: DeviceLimits, datapath: &dyn Datapath) -> DeviceLimits {
    match datapath.slot() {
        Some(_) => DeviceLimits { max_qp: wanted.max_qp.min(MAX_QP_IN_SLOT), ..wanted },
        None => wanted,
    }
}

/// Independent streams for keys, QPNs and communication ids: to see one says nothing about the
/// others.
fn split_seed(seed: [u8; 32]) -> [[u8; 32]; 3] {
    let mut rng = ChaCha20Rng::from_seed(seed);
    let mut streams = [[0; 32]; 3];
    streams.iter_mut().for_each(|stream| rng.fill_bytes(stream));
    streams
}

fn mem_limits(limits: &DeviceLimits) -> MemLimits {
    let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    MemLimits {
        max_pd: count(limits.max_pd),
        max_mr: count(limits.max_mr),
        max_mw: count(limits.max_mw),
        ..MemLimits::default()
    }
}

pub(crate) fn build(
    mut datapath: Box<dyn Datapath>,
    local: SocketAddr,
    (active_mtu, guid): (Mtu, u64),
    seed: [u8; 32],
    limits: DeviceLimits,
) -> Engine {
    let [keys, qpns, comm_ids] = split_seed(seed);
    let gsi_port = datapath.source_port(GSI_SOURCE_PORT);
    let slot = datapath.slot();
    let us = Identity {
        address: local.ip(),
        guid,
        ack_delay: ACK_DELAY,
        active_mtu: active_mtu.code(),
        slot,
    };
    let nic = Nic {
        local,
        slot,
        icrc_caps: datapath.caps().icrc,
        qps: QpTable::new(qpns, slot),
        timers: Timers::default(),
        flight: Flight::new(IN_FLIGHT_BYTES),
        trains: Trains::new(datapath.caps().segments > 1),
        ready: VecDeque::new(),
        patient: VecDeque::new(),
        tables: Tables::new(MemTable::new(keys, mem_limits(&limits))),
        mcast: McastTable::default(),
        icrc: IcrcCounts::default(),
        gsi: Gsi::new(us, gsi_port, comm_ids),
    };
    Engine {
        clock: Clock::new(),
        datapath,
        nic,
        limits,
        active_mtu,
        turned_at: Instant::ZERO,
        retry_at: None,
        thread_sleeps_until: 0,
    }
}

fn start_driver(
    config: &DeviceConfig,
    shared: &Arc<Shared>,
    interface: &Interface,
) -> Result<Option<Driver>, OpenError> {
    if !config.progress_thread {
        return Ok(None);
    }
    let driver = Driver::start(Arc::clone(shared), &interface.name);
    driver.map(Some).map_err(no("thread or descriptor"))
}

/// How the device is shown to others.
fn about(interface: &Interface, local: SocketAddr, datapath: &str) -> Resource {
    Resource::new(ResourceKind::Device)
        .with("name", &interface.name)
        .with("address", local.ip())
        .with("port", local.port())
        .with("netdev", &interface.netdev)
        .with("datapath", datapath)
}

/// A device that cannot be asked works all the same.
fn start_reporter(
    config: &DeviceConfig,
    shared: &Arc<Shared>,
    about: &Resource,
) -> Option<Reporter> {
    if !config.report {
        return None;
    }
    Reporter::start(Arc::clone(shared), about.clone())
        .inspect_err(|error| tracing::info!(%error, "others cannot ask what the device has"))
        .ok()
}

fn no(what: &'static str) -> impl FnOnce(io::Error) -> OpenError {
    move |source| OpenError::Resources { what, source }
}
