//! How a device is opened.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU8;
use std::path::{Path, PathBuf};

use uroce_device::datapath::{LoopbackFabric, PcapFile};
use uroce_device::{
    DatapathChoice, Device, DeviceConfig, DeviceLimits, Faults, OpenError, ROCE_PORT,
};

use crate::context::Context;
use crate::device_list::{DeviceInfo, device_list};

/// Options of a device that is to be opened. Made by [`Context::builder`].
///
/// ```no_run
/// use uroce_verbs::{Context, Faults};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let context = Context::builder()
///     .address([10, 0, 0, 1]) // an address of this machine
///     .pcap("run.pcapng")
///     .fault(Faults::new("rx drop 1%".parse()?, None)?)
///     .open()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a builder opens nothing until open() is called"]
pub struct ContextBuilder {
    name: Option<String>,
    address: Option<IpAddr>,
    port: u16,
    datapath: DatapathChoice,
    faults: Option<Faults>,
    recording: Option<Recording>,
    progress_thread: bool,
    report: bool,
    seed: Option<[u8; 32]>,
    engines: NonZeroU8,
    split_writes: bool,
    limits: DeviceLimits,
}

/// Where packets are recorded: a path, or a [`PcapFile`] that several devices share.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Recording {
    /// A new file (pcapng), made when the device is opened.
    Path(PathBuf),
    /// An open file. Each device becomes an interface in it.
    File(PcapFile),
}

impl Default for ContextBuilder {
    fn default() -> Self {
        ContextBuilder {
            name: None,
            address: None,
            port: ROCE_PORT,
            datapath: DatapathChoice::Auto,
            faults: None,
            recording: None,
            progress_thread: true,
            report: true,
            seed: None,
            engines: NonZeroU8::MIN,
            split_writes: true,
            limits: DeviceLimits::default(),
        }
    }
}

impl Context {
    /// Opens a device of [`device_list`](crate::device_list) as [`Context::builder`] would with its
    /// address and nothing else.
    ///
    /// # Errors
    /// [`OpenError`]; its text says what to do.
    pub fn open(device: &DeviceInfo) -> Result<Context, OpenError> {
        Context::builder().name(&device.name).address(device.address).open()
    }

    /// Starts to describe how a device is opened; [`ContextBuilder::open`] opens it.
    pub fn builder() -> ContextBuilder {
        ContextBuilder::default()
    }
}

impl ContextBuilder {
    /// The device's address, which is its GID as well: one of [`device_list`], or any of 127.0.0.0/8. Default: the
    /// first address of [`device_list`] whose link is up.
    pub fn address(mut self, address: impl Into<IpAddr>) -> Self {
        self.address = Some(address.into());
        self
    }

    /// UDP port of the device and of all its peers. Default: [`ROCE_PORT`].
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// The device's name, for people. Default: the name in [`device_list`].
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// How packets travel. Default: [`DatapathChoice::Auto`], UDP sockets.
    pub fn datapath(mut self, choice: DatapathChoice) -> Self {
        self.datapath = choice;
        self
    }

    /// Packets travel on an in-process switch instead of through the kernel. The address need not
    /// exist on the machine.
    pub fn loopback(mut self, fabric: &LoopbackFabric) -> Self {
        self.datapath = DatapathChoice::Loopback(fabric.clone());
        self
    }

    /// Makes faults on purpose in what is sent and in what arrives: `Faults::new("rx drop 1%".parse()?, None)?`
    /// loses one of a hundred received packets. Packets need an ICRC for that, which those of
    /// [`LoopbackFabric::without_icrc`] have not. Default: none.
    pub fn fault(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// Records every packet, both ways, for Wireshark: to a path, or to a [`PcapFile`] shared with
    /// other devices. Default: no recording.
    pub fn pcap(mut self, to: impl Into<Recording>) -> Self {
        self.recording = Some(to.into());
        self
    }

    /// Whether a thread answers peers while the program neither posts nor polls. Default: yes.
    pub fn progress_thread(mut self, wanted: bool) -> Self {
        self.progress_thread = wanted;
        self
    }

    /// Whether other processes of the user, and root, may ask what objects the device has (`uroce res`). If so, a
    /// thread of the device answers those processes. Default: yes.
    pub fn report(mut self, wanted: bool) -> Self {
        self.report = wanted;
        self
    }

    /// How many parts the device has that work side by side, each with a lock, a socket and a thread of its
    /// own; at most 64, and with the datapath `xdp` at most as many as the interface has receive queues.
    /// [`Context::create_cq_on`] chooses one, for the CQ and its queue pairs. A device with several has no
    /// memory windows. Default: 1.
    pub fn engines(mut self, engines: NonZeroU8) -> Self {
        self.engines = engines;
        self
    }

    /// Whether a WRITE of several packets, up to 64 KiB, may leave as a WRITE ONLY for each packet, which is up to six times as fast
    /// on datapaths with GSO. If not, it leaves as FIRST, MIDDLE and LAST, as from a NIC. Default: yes.
    pub fn split_writes(mut self, wanted: bool) -> Self {
        self.split_writes = wanted;
        self
    }

    /// How many objects of which size the device allows. Default: `DeviceLimits::default()`.
    pub fn limits(mut self, limits: DeviceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Makes keys and queue pair numbers reproducible. For tests only: known keys can be guessed by
    /// peers (A6, A8). Default: a seed from the operating system.
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Opens the device.
    ///
    /// # Errors
    /// [`OpenError`]: no interface has the address, the port is taken, the pcap file cannot be written,
    /// ... The text says what to do.
    pub fn open(self) -> Result<Context, OpenError> {
        let pcap = match self.recording {
            Some(Recording::Path(path)) => Some(PcapFile::create(path)?),
            Some(Recording::File(file)) => Some(file),
            None => None,
        };
        let device = Device::open(DeviceConfig {
            name: self.name,
            address: self.address.unwrap_or_else(first_address),
            port: self.port,
            datapath: self.datapath,
            faults: self.faults,
            pcap,
            progress_thread: self.progress_thread,
            report: self.report,
            seed: self.seed,
            clock: None,
            engines: self.engines,
            split_writes: self.split_writes,
            limits: self.limits,
        })?;
        Ok(Context::new(device))
    }
}

fn first_address() -> IpAddr {
    let found = device_list().into_iter().find(|device| device.up);
    found.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |device| device.address)
}

impl From<&Path> for Recording {
    fn from(path: &Path) -> Self {
        Recording::Path(path.to_owned())
    }
}

impl From<PathBuf> for Recording {
    fn from(path: PathBuf) -> Self {
        Recording::Path(path)
    }
}

impl From<&PathBuf> for Recording {
    fn from(path: &PathBuf) -> Self {
        Recording::Path(path.clone())
    }
}

impl From<&str> for Recording {
    fn from(path: &str) -> Self {
        Recording::Path(path.into())
    }
}

impl From<PcapFile> for Recording {
    fn from(file: PcapFile) -> Self {
        Recording::File(file)
    }
}

impl From<&PcapFile> for Recording {
    fn from(file: &PcapFile) -> Self {
        Recording::File(file.clone())
    }
}
