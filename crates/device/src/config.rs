//! What a device is opened with.

use std::net::IpAddr;
use std::num::NonZeroU8;

use uroce_datapath::{LoopbackFabric, PcapFile};

use crate::clock::VirtualClock;
use crate::datapath_choice::DatapathChoice;
use crate::faults::Faults;
use crate::limits::DeviceLimits;

/// The UDP port of RoCEv2, assigned by IANA.
pub const ROCE_PORT: u16 = 4791;

/// Everything [`Device::open`](crate::Device::open) wants to know. Start from [`DeviceConfig::new`]
/// and change what differs.
#[derive(Debug, Clone)]
pub struct DeviceConfig {
    /// Device name; `None` takes the one that [`interfaces`](crate::interfaces) gives the address.
    pub name: Option<String>,
    /// The device's address, which is also its GID.
    pub address: IpAddr,
    /// UDP port of the device and of all its peers.
    pub port: u16,
    /// How packets travel.
    pub datapath: DatapathChoice,
    /// Faults to make, in what is sent and in what arrives. They need packets with an ICRC.
    pub faults: Option<Faults>,
    /// Records every packet, both ways.
    pub pcap: Option<PcapFile>,
    /// A thread that answers peers while the application does something else. Without it the
    /// device works only inside calls: posts, polls and `Device::drive`.
    pub progress_thread: bool,
    /// Other processes of the user, and root, may ask what the device has
    /// ([`device_reports`](crate::device_reports)); a thread answers them. The same thread raises the events of the port
    /// (`PortErr`, `PortActive`, `GidChange`): without it there are none.
    pub report: bool,
    /// Makes keys and QPNs reproducible, for tests only: with a known seed they are predictable
    /// (A6, A8). `None` draws one from the operating system.
    pub seed: Option<[u8; 32]>,
    /// The clock of the device, for tests; `None` is CLOCK_MONOTONIC. Delays that [`faults`](Self::faults) make keep
    /// to CLOCK_MONOTONIC, and a progress thread sleeps by it.
    pub clock: Option<VirtualClock>,
    /// How many parts the device has that work side by side, each with its own lock, socket and progress
    /// thread (docs/adr/016-engines.md): at most 64, with `xdp` at most as many as the interface has receive
    /// queues, and one with the switch in the process. The completion vector of a CQ chooses its engine; a queue
    /// pair is in that of its CQs.
    pub engines: NonZeroU8,
    /// Lets a WRITE of several packets, up to 64 KiB, leave as a WRITE ONLY for each packet on datapaths with GSO, which is up to
    /// six times as fast (docs/adr/036-split-writes.md). Without it, and with [`faults`](Self::faults), whose rules name parts of
    /// messages, it leaves as FIRST, MIDDLE and LAST.
    pub split_writes: bool,
    /// How many objects of which size.
    pub limits: DeviceLimits,
}

impl DeviceConfig {
    /// Port 4791 on the best datapath, with one engine and its progress thread, open to questions, a random seed, split WRITEs and
    /// rxe's limits.
    pub fn new(address: IpAddr) -> Self {
        DeviceConfig {
            name: None,
            address,
            port: ROCE_PORT,
            datapath: DatapathChoice::Auto,
            faults: None,
            pcap: None,
            progress_thread: true,
            report: true,
            seed: None,
            clock: None,
            engines: NonZeroU8::MIN,
            split_writes: true,
            limits: DeviceLimits::default(),
        }
    }

    /// A device on `address` of an in-process switch.
    pub fn loopback(address: IpAddr, fabric: &LoopbackFabric) -> Self {
        DeviceConfig { datapath: DatapathChoice::Loopback(fabric.clone()), ..Self::new(address) }
    }
}
