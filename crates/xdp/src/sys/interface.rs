//! What the kernel knows of an interface.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use libc::c_char;

/// The ioctl for driver questions.
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 3;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// `struct ethtool_drvinfo`.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_channels`.
#[repr(C)]
struct Channels {
    command: u32,
    max_rx: u32,
    max_tx: u32,
    max_other: u32,
    max_combined: u32,
    rx: u32,
    tx: u32,
    other: u32,
    combined: u32,
}

/// Name of the driver; empty when it does not tell.
pub(crate) fn driver(socket: impl AsFd, interface: &str) -> String {
    let mut info = DriverInfo { command: ETHTOOL_GDRVINFO, driver: [0; 32], rest: [0; 160] };
    // SAFETY: the structure is the one of this command.
    if unsafe { ethtool(socket, interface, &mut info) }.is_err() {
        return String::new();
    }
    let end = info.driver.iter().position(|&byte| byte == 0).unwrap_or(info.driver.len());
    String::from_utf8_lossy(&info.driver[..end]).into_owned()
}

/// Receive queues in use; 1 when the driver does not tell.
pub(crate) fn receive_queues(socket: impl AsFd, interface: &str) -> u32 {
    let mut channels = Channels {
        command: ETHTOOL_GCHANNELS,
        max_rx: 0,
        max_tx: 0,
        max_other: 0,
        max_combined: 0,
        rx: 0,
        tx: 0,
        other: 0,
        combined: 0,
    };
    // SAFETY: the structure is the one of this command.
    match unsafe { ethtool(socket, interface, &mut channels) } {
        Ok(()) => channels.rx.saturating_add(channels.combined).max(1),
        Err(_) => 1,
    }
}

/// An ethtool command.
///
/// # Safety
///
/// `data` must be the structure of the command whose number is in its first word.
unsafe fn ethtool<T>(socket: impl AsFd, interface: &str, data: &mut T) -> io::Result<()> {
    // SAFETY: `ifreq` is plain bytes and integers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = request.ifr_name.len() - 1;
    if interface.len() > room {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
        *to = from as c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut *data).cast();
    let fd = socket.as_fd().as_raw_fd();
    // SAFETY: the kernel reads the name from `request` and writes to `data`, which is the command's
    // structure (the caller); both outlive the call.
    let result = unsafe { libc::ioctl(fd, SIOCETHTOOL as _, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lo_has_one_queue_and_a_long_name_none() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("socket");
        assert_eq!(receive_queues(&socket, "lo"), 1);
        assert_eq!(driver(&socket, "an-interface-with-a-long-name"), "");
    }
}
