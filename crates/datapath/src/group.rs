//! Multicast groups.

use std::io;
use std::net::{IpAddr, SocketAddr};

/// Refuses what is no multicast group of the IP version of `local`.
///
/// # Errors
///
/// EINVAL, with a sentence for a user.
pub fn check_group(local: &SocketAddr, group: &IpAddr) -> io::Result<()> {
    if group.is_multicast() && group.is_ipv4() == local.is_ipv4() {
        return Ok(());
    }
    let text = format!("{group} is not a multicast group that {} can join", local.ip());
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}
