//! What is received from the interface, for all engines of a process.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use uroce_datapath::check_group;
use uroce_link::{Groups, PortSocket};

use crate::steering::{MAX_ADDRESSES, Steering};

/// The redirect program with its maps, and the socket that holds our port. Only the multicast
/// groups change later.
#[derive(Debug)]
pub(crate) struct RxFilters {
    // Dropped first, so that packets are the kernel's again before anything else ends.
    steering: Steering,
    port_socket: PortSocket,
    local: SocketAddr,
    joined: Mutex<Groups>,
    /// At least one group is joined.
    hears: AtomicBool,
}

impl RxFilters {
    pub(crate) fn new(steering: Steering, port_socket: PortSocket, local: SocketAddr) -> Self {
        Self {
            steering,
            port_socket,
            local,
            joined: Mutex::default(),
            hears: AtomicBool::new(false),
        }
    }

    fn joined(&self) -> MutexGuard<'_, Groups> {
        self.joined.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether any group is joined.
    #[inline]
    pub(crate) fn hears_groups(&self) -> bool {
        self.hears.load(Ordering::Relaxed)
    }

    /// Starts to receive packets to the group.
    pub(crate) fn join(&self, group: IpAddr) -> io::Result<()> {
        check_group(&self.local, &group)?;
        let mut joined = self.joined();
        if joined.contains(&group) {
            return Ok(());
        }
        self.steering.add(group).map_err(|error| match Errno::from_io_error(&error) {
            // The map of addresses is full; one place is our own.
            Some(Errno::TOOBIG) => too_many_groups(group),
            _ => error,
        })?;
        if let Err(error) = self.port_socket.join(group) {
            self.steering.remove(group)?;
            return Err(error);
        }
        joined.insert(group);
        self.hears.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Undoes [`join`](Self::join).
    pub(crate) fn leave(&self, group: IpAddr) -> io::Result<()> {
        let mut joined = self.joined();
        if !joined.remove(&group) {
            return Ok(());
        }
        self.hears.store(joined.iter().len() > 0, Ordering::Relaxed);
        self.steering.remove(group)?;
        self.port_socket.leave(group)
    }
}

fn too_many_groups(group: IpAddr) -> io::Error {
    let most = MAX_ADDRESSES - 1;
    let text = format!("{group} not joined: {most} multicast groups are the limit");
    io::Error::new(io::ErrorKind::QuotaExceeded, text)
}
