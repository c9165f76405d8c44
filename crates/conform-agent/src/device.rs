//! The device under test: which one, and what it says about itself.

use std::ffi::{CStr, c_char, c_void};
use std::mem::zeroed;
use std::net::IpAddr;
use std::ptr::null_mut;

use thiserror::Error;
use uroce_conform::{Card, Extensions, VERSION};
use uroce_verbs_abi::{
    ibv_async_event, ibv_context, ibv_device, ibv_device_attr, ibv_gid, ibv_gid_entry,
    ibv_port_attr,
};
use uroce_wire::Gid;

use crate::library::{CmLibrary, Library, LibraryError, QueryGidEx, query_gid_ex};
use crate::slots::extensions;

/// The port that is used.
pub(crate) const PORT: u8 = 1;
/// `ibv_gid_entry::gid_type` of RoCE v2.
const ROCE_V2: u32 = 2;
/// No table of a port is longer than this.
const MAX_GIDS: i32 = 4096;

/// Which device and address to use; what is left open is chosen.
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Name of the RDMA device.
    pub device: Option<String>,
    /// Address of the GID.
    pub address: Option<IpAddr>,
    /// Place of the GID in the table of the port.
    pub gid_index: Option<u8>,
}

/// Why there is no device to test.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// libibverbs cannot be used.
    #[error(transparent)]
    Library(#[from] LibraryError),
    /// There is no such device.
    #[error("there is no RDMA device{wanted}; libibverbs knows {known}")]
    NoDevice {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// It cannot be opened, or does not answer.
    #[error("{device}: {call} failed: {error}")]
    Failed {
        /// Its name.
        device: String,
        /// What was tried.
        call: &'static str,
        /// How it failed.
        error: std::io::Error,
    },
    /// It has no address for RoCE v2.
    #[error("{device} has no RoCE v2 address{wanted}")]
    NoGid {
        /// Its name.
        device: String,
        /// What was asked for.
        wanted: String,
    },
}

/// An open device.
pub(crate) struct Device {
    pub(crate) library: Library,
    /// For connection management, or why there is none.
    pub(crate) cm: Result<CmLibrary, String>,
    pub(crate) context: *mut ibv_context,
    pub(crate) gid_index: u8,
    pub(crate) card: Card,
}

impl Device {
    /// Loads libibverbs and opens the device.
    pub(crate) fn open(choice: &Choice) -> Result<Device, DeviceError> {
        let library = Library::load()?;
        let (context, name) = open_named(&library, choice.device.as_deref())?;
        let failed = |call| {
            let device = name.clone();
            move || DeviceError::Failed { device, call, error: std::io::Error::last_os_error() }
        };
        let attr = query_device(&library, context).ok_or_else(failed("ibv_query_device"))?;
        let port = query_port(&library, context).ok_or_else(failed("ibv_query_port"))?;
        let (length, query_gid_ex) = (port.gid_tbl_len, query_gid_ex());
        let table = Table { library: &library, query_gid_ex, context, name: &name, length };
        let (gid_index, address) = table.choose(choice).ok_or_else(|| {
            let wanted = choice.address.map_or_else(String::new, |ip| format!(" {ip}"));
            DeviceError::NoGid { device: name.clone(), wanted }
        })?;
        do_not_block(context);
        let cm = CmLibrary::load().map_err(|error| error.to_string());
        let cm = cm.and_then(CmLibrary::usable);
        let no_cm = cm.as_ref().err().cloned();
        let extensions = extensions(context, attr.device_cap_flags, attr.atomic_cap);
        let card = Card { no_cm, extensions, ..card(&attr, &port, name, address) };
        Ok(Device { library, cm, context, gid_index, card })
    }

    /// The next asynchronous event: its kind, and the object that it is about. It is acknowledged.
    pub(crate) fn async_event(&self) -> Option<(u32, *mut c_void)> {
        // SAFETY: a null pointer and an integer.
        let mut event: ibv_async_event = unsafe { zeroed() };
        // SAFETY: an open device, and room for the answer. Its descriptor does not block.
        let got = unsafe { (self.library.ibv_get_async_event)(self.context, &raw mut event) } == 0;
        got.then(|| {
            let said = (event.event_type as u32, event.element);
            // SAFETY: the event, once.
            unsafe { (self.library.ibv_ack_async_event)(&raw mut event) };
            said
        })
    }
}

fn card(attr: &ibv_device_attr, port: &ibv_port_attr, device: String, address: IpAddr) -> Card {
    let small = |value: i32| u8::try_from(value.clamp(0, 255)).unwrap_or(0);
    Card {
        version: VERSION,
        device,
        firmware: text(&attr.fw_ver),
        vendor: (attr.vendor_id, attr.vendor_part_id),
        system: system(),
        address,
        mtu: small(port.active_mtu).clamp(1, 5),
        max_dest_rd_atomic: small(attr.max_qp_rd_atom),
        max_rd_atomic: small(attr.max_qp_init_rd_atom),
        atomics: attr.atomic_cap != 0,
        shared_queues: attr.max_srq > 0,
        no_cm: None,
        ack_delay: attr.local_ca_ack_delay,
        extensions: Extensions::default(),
    }
}

fn open_named(
    library: &Library,
    wanted: Option<&str>,
) -> Result<(*mut ibv_context, String), DeviceError> {
    // SAFETY: a null pointer stands for no counter.
    let list = unsafe { (library.ibv_get_device_list)(null_mut()) };
    let devices = names(library, list);
    let found = devices.iter().find(|(_, name)| wanted.is_none_or(|wanted| wanted == name));
    let opened = found.map(|(device, name)| {
        // SAFETY: an entry of the list, which is still there.
        (unsafe { (library.ibv_open_device)(*device) }, name.clone())
    });
    if !list.is_null() {
        // SAFETY: the list, once.
        unsafe { (library.ibv_free_device_list)(list) };
    }
    match opened {
        Some((context, name)) if context.is_null() => Err(DeviceError::Failed {
            device: name,
            call: "ibv_open_device",
            error: std::io::Error::last_os_error(),
        }),
        Some(opened) => Ok(opened),
        None => {
            let known: Vec<String> = devices.into_iter().map(|(_, name)| name).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let wanted = wanted.map_or_else(String::new, |name| format!(" {name}"));
            Err(DeviceError::NoDevice { wanted, known })
        }
    }
}

/// The entries of a list, which ends with a null pointer.
fn names(library: &Library, list: *mut *mut ibv_device) -> Vec<(*mut ibv_device, String)> {
    let mut found = Vec::new();
    for at in 0.. {
        // SAFETY: the list ends with a null pointer, and nothing behind that is looked at.
        let device = if list.is_null() { null_mut() } else { unsafe { *list.add(at) } };
        if device.is_null() {
            break;
        }
        // SAFETY: the name is a C string that lives as long as the list.
        let name = unsafe { CStr::from_ptr((library.ibv_get_device_name)(device)) };
        found.push((device, name.to_string_lossy().into_owned()));
    }
    found
}

fn query_device(library: &Library, context: *mut ibv_context) -> Option<ibv_device_attr> {
    // SAFETY: integers and characters.
    let mut attr: ibv_device_attr = unsafe { zeroed() };
    // SAFETY: an open device.
    (unsafe { (library.ibv_query_device)(context, &raw mut attr) } == 0).then_some(attr)
}

fn query_port(library: &Library, context: *mut ibv_context) -> Option<ibv_port_attr> {
    // SAFETY: integers.
    let mut attr: ibv_port_attr = unsafe { zeroed() };
    // SAFETY: an open device; the struct is at least as long as any that the function fills.
    (unsafe { (library.ibv_query_port)(context, PORT, &raw mut attr) } == 0).then_some(attr)
}

/// The GID table of the port.
struct Table<'l> {
    library: &'l Library,
    query_gid_ex: Option<QueryGidEx>,
    context: *mut ibv_context,
    name: &'l str,
    length: i32,
}

impl Table<'_> {
    /// The entry that was asked for; else the first of IPv4, else the first.
    fn choose(&self, choice: &Choice) -> Option<(u8, IpAddr)> {
        let entries: Vec<(u8, IpAddr)> = (0..self.length.clamp(0, MAX_GIDS))
            .filter_map(|index| Some((u8::try_from(index).ok()?, self.address(index)?)))
            .collect();
        let fits = |(index, address): &&(u8, IpAddr)| {
            choice.gid_index.is_none_or(|wanted| wanted == *index)
                && choice.address.is_none_or(|wanted| wanted == *address)
        };
        let is_v4 = |(_, address): &&(u8, IpAddr)| address.is_ipv4();
        let first = entries.iter().filter(fits).find(is_v4);
        first.or_else(|| entries.iter().find(fits)).copied()
    }

    /// The address of a RoCE v2 entry.
    fn address(&self, index: i32) -> Option<IpAddr> {
        let mut gid = ibv_gid { raw: [0; 16], align: [] };
        // SAFETY: an open device and room for one GID.
        let status =
            unsafe { (self.library.ibv_query_gid)(self.context, PORT, index, &raw mut gid) };
        let usable = status == 0 && !Gid::new(gid.raw).is_zero() && self.is_roce_v2(index);
        usable.then(|| gid.to_ip())
    }

    fn is_roce_v2(&self, index: i32) -> bool {
        let Some(query) = self.query_gid_ex else { return self.sysfs_says_v2(index) };
        // SAFETY: integers.
        let mut entry: ibv_gid_entry = unsafe { zeroed() };
        let place = index as u32;
        let size = size_of::<ibv_gid_entry>();
        // SAFETY: an open device, room for one entry, and its size.
        let status = unsafe { query(self.context, PORT.into(), place, &raw mut entry, 0, size) };
        status == 0 && entry.gid_type == ROCE_V2
    }

    fn sysfs_says_v2(&self, index: i32) -> bool {
        let folder = format!("/sys/class/infiniband/{}/ports/{PORT}/gid_attrs/types", self.name);
        std::fs::read_to_string(format!("{folder}/{index}"))
            .is_ok_and(|text| text.trim() == "RoCE v2")
    }
}

/// Events are asked for, not waited for.
fn do_not_block(context: *mut ibv_context) {
    // SAFETY: an open device.
    let descriptor = unsafe { (*context).async_fd };
    set_nonblocking(descriptor);
}

pub(crate) fn set_nonblocking(descriptor: i32) {
    // SAFETY: flags of a descriptor of our own.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK);
    }
}

fn system() -> String {
    // SAFETY: arrays of characters.
    let mut name: libc::utsname = unsafe { zeroed() };
    // SAFETY: room for the answer.
    unsafe { libc::uname(&raw mut name) };
    format!("{} {} {}", text(&name.sysname), text(&name.release), text(&name.machine))
}

/// Text up to the first zero.
fn text(characters: &[c_char]) -> String {
    let bytes: Vec<u8> =
        characters.iter().map(|c| *c as u8).take_while(|byte| *byte != 0).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}
