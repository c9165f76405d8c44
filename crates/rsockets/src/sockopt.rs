//! Options and flags of sockets.

use std::sync::atomic::Ordering;

use libc::{c_int, c_long};
use uroce_ibverbs::errno::{Errno, NOT_SUPPORTED};

use crate::fd_table::{Handle, Known};

impl Handle {
    /// Sets an option whose value is an int. Sizes count for connections that are made later.
    ///
    /// # Errors
    /// ENOPROTOOPT: there is no such option; EINVAL: not with this value.
    pub fn set_option(&self, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
        if (level, name) == (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) {
            self.set_only_family(value != 0)?;
        }
        let mut done = Ok(());
        self.any().with_options(&mut |options| done = options.set(level, name, value));
        done
    }

    /// A server may have a socket of each family on one port.
    fn set_only_family(&self, only: bool) -> Result<(), Errno> {
        match &self.0 {
            Known::Stream(socket) => socket.state_as_it_was().id.set_only_family(only),
            Known::Datagram(socket) => socket.state_as_it_was().set_only_family(only),
        }
    }

    /// The value of an option that is an int.
    ///
    /// # Errors
    /// ENOPROTOOPT: there is no such option.
    pub fn option(&self, level: c_int, name: c_int) -> Result<c_int, Errno> {
        self.any().option(level, name)
    }

    /// SO_LINGER: seconds, if it is on.
    pub fn set_linger(&self, seconds: Option<c_int>) {
        self.any().with_options(&mut |options| options.linger = seconds);
    }

    /// SO_LINGER: seconds, if it is on.
    pub fn linger(&self) -> Option<c_int> {
        let mut seconds = None;
        self.any().with_options(&mut |options| seconds = options.linger);
        seconds
    }

    /// rfcntl(3): F_GETFL and F_SETFL.
    ///
    /// # Errors
    /// EOPNOTSUPP: another command.
    pub fn fcntl(&self, command: c_int, argument: c_long) -> Result<c_int, Errno> {
        match command {
            libc::F_GETFL => {
                let nonblocking = self.any().nonblocking().load(Ordering::Relaxed);
                let nonblocking = if nonblocking { libc::O_NONBLOCK } else { 0 };
                Ok(libc::O_RDWR | nonblocking)
            }
            libc::F_SETFL => {
                let nonblocking = argument & c_long::from(libc::O_NONBLOCK) != 0;
                self.any().nonblocking().store(nonblocking, Ordering::Relaxed);
                Ok(0)
            }
            _ => Err(NOT_SUPPORTED),
        }
    }
}
