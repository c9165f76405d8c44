//! Which addresses this host has, and the MTU of the interface behind one.

use std::ffi::{CStr, CString};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};

use crate::address::{self, Name};

/// One address of one interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Its netmask.
    pub mask: Option<IpAddr>,
    /// The interface is a loopback interface.
    pub loopback: bool,
}

/// All addresses of this host, in the kernel's order.
pub fn addresses() -> io::Result<Vec<Owner>> {
    let mut head: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs writes a list head to `head`, which freeifaddrs takes back below.
    if unsafe { libc::getifaddrs(&raw mut head) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut owners = Vec::new();
    let mut entry = head;
    while !entry.is_null() {
        // SAFETY: `entry` is an element of the list that getifaddrs made and that is not freed yet.
        let fields = unsafe { &*entry };
        owners.extend(owner(fields));
        entry = fields.ifa_next;
    }
    // SAFETY: `head` came from getifaddrs, is freed once, and no reference into it is left.
    unsafe { libc::freeifaddrs(head) };
    Ok(owners)
}

/// Number of the interface with that name.
pub fn index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the name ends with a zero byte and outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Name of the interface with that number; `None` if there is none any more.
pub fn name(index: u32) -> Option<String> {
    let mut name = [0 as libc::c_char; libc::IF_NAMESIZE];
    // SAFETY: the room is as long as any name of an interface with its zero byte.
    let found = unsafe { libc::if_indextoname(index, name.as_mut_ptr()) };
    let bytes: Vec<u8> = name.iter().map(|&c| c as u8).take_while(|&byte| byte != 0).collect();
    (!found.is_null()).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

/// The entry as our type; `None` when it is no IP address.
fn owner(entry: &libc::ifaddrs) -> Option<Owner> {
    let address = ip(entry.ifa_addr)?;
    // SAFETY: getifaddrs gives every entry a name that ends with a zero byte.
    let name = unsafe { CStr::from_ptr(entry.ifa_name) };
    Some(Owner {
        interface: name.to_string_lossy().into_owned(),
        address,
        mask: ip(entry.ifa_netmask),
        loopback: entry.ifa_flags & libc::IFF_LOOPBACK as u32 != 0,
    })
}

/// The IP address in a socket address that the C library owns.
fn ip(pointer: *const libc::sockaddr) -> Option<IpAddr> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: a non-null address in the list starts with its family.
    let family = unsafe { (*pointer).sa_family };
    let length = address::length_of(family)?;
    let mut name: Name = [0; address::NAME];
    // SAFETY: a socket address of this family is `length` bytes long, and `name` is not shorter.
    unsafe { std::ptr::copy_nonoverlapping(pointer.cast(), name.as_mut_ptr(), length) };
    address::decode(&name[..length]).map(|found: SocketAddr| found.ip())
}

/// MTU of the interface, in bytes; any socket serves to ask.
pub fn mtu(socket: impl AsFd, interface: &str) -> io::Result<usize> {
    // SAFETY: `ifreq` is plain bytes and integers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // What is cut could be the name of another interface.
    if interface.len() >= request.ifr_name.len() || interface.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as libc::c_char;
    }
    // SAFETY: SIOCGIFMTU reads the name from and writes the MTU to `request`, which outlives it.
    let result =
        unsafe { libc::ioctl(socket.as_fd().as_raw_fd(), libc::SIOCGIFMTU as _, &raw mut request) };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: after SIOCGIFMTU the kernel has filled this field of the union.
    let mtu = unsafe { request.ifr_ifru.ifru_mtu };
    Ok(usize::try_from(mtu).unwrap_or(0))
}
