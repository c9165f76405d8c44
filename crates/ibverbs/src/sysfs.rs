//! What programs read about a device below /sys/class/infiniband, although the kernel has no such
//! device.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use libc::{c_char, c_int};
use uroce_device::limits::GID_TABLE_LEN;
use uroce_device::{DeviceLimits, Interface, PortAttr, PortState};

use crate::abi::{IBV_NODE_CA, IBV_PORT_ACTIVE, IBV_PORT_CM_SUP, IBV_PORT_DOWN};
use crate::return_value::value;
use crate::{settings, sysfs_counters};

/// Where the kernel shows RDMA devices.
pub const CLASS: &str = "/sys/class/infiniband";

/// The files of one device: path below its folder, and contents without the newline at the end.
pub fn files(interface: &Interface) -> Vec<(String, String)> {
    let attr = interface.device_attr(DeviceLimits::default(), settings::engines());
    let guid = guid_text(attr.node_guid);
    let mut files: Vec<(String, String)> = [
        ("board_id", "uroce".to_owned()),
        ("fw_ver", attr.fw_ver.to_owned()),
        ("hca_type", "uroce".to_owned()),
        ("hw_rev", format!("{:#x}", attr.hw_ver)),
        ("node_desc", interface.name.clone()),
        ("node_guid", guid.clone()),
        ("node_type", format!("{IBV_NODE_CA}: CA")),
        ("sys_image_guid", guid),
        ("device/numa_node", "-1".to_owned()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into();
    if let Some(port) = interface.port_attr() {
        files.extend(port_files(interface, &port));
    }
    files
}

fn port_files(interface: &Interface, port: &PortAttr) -> Vec<(String, String)> {
    let (state, phys_state) = match port.state {
        PortState::Active => (format!("{IBV_PORT_ACTIVE}: ACTIVE"), "5: LinkUp"),
        PortState::Down => (format!("{IBV_PORT_DOWN}: DOWN"), "3: Disabled"),
    };
    let mut files: Vec<(String, String)> = [
        ("state", state),
        ("phys_state", phys_state.to_owned()),
        ("link_layer", "Ethernet".to_owned()),
        ("rate", rate_text(port)),
        ("lid", "0x0".to_owned()),
        ("lid_mask_count", "0".to_owned()),
        ("sm_lid", "0x0".to_owned()),
        ("sm_sl", "0".to_owned()),
        ("cap_mask", format!("{IBV_PORT_CM_SUP:#010x}")),
        ("pkeys/0", "0xffff".to_owned()),
    ]
    .map(|(name, text)| (format!("ports/1/{name}"), text))
    .into();
    files.extend(sysfs_counters::names().map(|name| (format!("ports/1/{name}"), "0".to_owned())));
    for index in 0..GID_TABLE_LEN {
        if let Some(gid) = interface.gid(index) {
            let text = std::net::Ipv6Addr::from(*gid.bytes());
            let groups = text.segments().map(|group| format!("{group:04x}")).join(":");
            files.push((format!("ports/1/gids/{index}"), groups));
            files.push((format!("ports/1/gid_attrs/types/{index}"), "RoCE v2".to_owned()));
            files.push((format!("ports/1/gid_attrs/ndevs/{index}"), interface.netdev.clone()));
        }
    }
    files
}

/// `0123:4567:89ab:cdef`.
fn guid_text(guid: u64) -> String {
    [48, 32, 16, 0].map(|shift| format!("{:04x}", guid >> shift & 0xffff)).join(":")
}

/// As `40 Gb/sec (4X QDR)`: lanes times the speed of one.
fn rate_text(port: &PortAttr) -> String {
    let lanes: u32 = if port.active_width == 2 { 4 } else { 1 };
    let (tenths, name) = match port.active_speed {
        1 => (25, "SDR"),
        4 => (100, "QDR"),
        32 => (250, "EDR"),
        64 => (500, "HDR"),
        128 => (1000, "NDR"),
        _ => (2000, "XDR"),
    };
    let total = lanes * tenths;
    let fraction =
        if total.is_multiple_of(10) { String::new() } else { format!(".{}", total % 10) };
    format!("{}{fraction} Gb/sec ({lanes}X {name})", total / 10)
}

/// The contents of a file below [`CLASS`] that stands for a device of ours.
fn answer(path: &Path) -> Option<String> {
    let below = path.strip_prefix(CLASS).ok()?;
    let device = below.components().next()?.as_os_str();
    let interface = settings::devices().into_iter().find(|found| device == found.name.as_str())?;
    let wanted = below.strip_prefix(device).ok()?;
    let (_, text) = files(&interface).into_iter().find(|(name, _)| Path::new(name) == wanted)?;
    Some(sysfs_counters::value(below).map_or(text, |value| value.to_string()))
}

/// `ibv_read_sysfs_file`: the contents of a file without the newline at the end; the number of bytes,
/// or -1. Programs and librdmacm read files of the kernel through it, too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ibv_read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    value(-1, || {
        if folder.is_null() || file.is_null() || buffer.is_null() {
            return -1;
        }
        // SAFETY: strings that end with 0, as the manual page asks.
        let path = unsafe { path_of(folder).join(path_of(file)) };
        let text = answer(&path).or_else(|| std::fs::read_to_string(&path).ok());
        let Some(text) = text else { return -1 };
        let text = text.trim_end_matches('\n').as_bytes();
        if text.len() >= size {
            return -1;
        }
        // SAFETY: `size` bytes, as the program says, are at least one more than the text has.
        unsafe {
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buffer, text.len());
            *buffer.add(text.len()) = 0;
        }
        c_int::try_from(text.len()).unwrap_or(-1)
    })
}

/// # Safety
/// A string that ends with 0.
unsafe fn path_of(text: *const c_char) -> PathBuf {
    // SAFETY: the caller's promise.
    PathBuf::from(OsStr::from_bytes(unsafe { CStr::from_ptr(text) }.to_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_device_are_as_the_kernel_writes_them() {
        let lo = uroce_device::interface_of([127, 0, 0, 1].into()).expect("every machine has lo");
        let files = files(&lo);
        let text = |name: &str| {
            let found = files.iter().find(|(path, _)| path == name);
            found.map(|(_, text)| text.as_str())
        };
        assert_eq!(text("node_guid"), Some("0000:7fff:fe00:0001"));
        assert_eq!(text("ports/1/gids/0"), Some("0000:0000:0000:0000:0000:ffff:7f00:0001"));
        assert_eq!(text("ports/1/gid_attrs/types/1"), Some("RoCE v2"));
        assert_eq!(text("ports/1/gids/2"), None);
    }
}
