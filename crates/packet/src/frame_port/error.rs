//! Why an interface cannot be opened frame by frame.

use std::io;

use rustix::io::Errno;

/// Why a [`FramePort`](super::FramePort) could not be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FramePortError {
    /// The process may not open raw sockets.
    #[error(
        "this process lacks CAP_NET_RAW, which raw sockets need: run it as root, or give it the capability with `sudo \
         setpriv --reuid=$USER --regid=$(id -g) --init-groups --inh-caps=+net_raw --ambient-caps=+net_raw COMMAND`"
    )]
    NotPermitted,
    /// There is no such interface.
    #[error("this machine has no interface {0:?}: `ip link` lists those there are")]
    NoInterface(String),
    /// It has no Ethernet frames.
    #[error("the interface {0} has no Ethernet frames: name an Ethernet interface")]
    NotEthernet(String),
    /// Anything else.
    #[error("{what} failed for {interface}: {source}; this needs Linux 4.20 or later")]
    System {
        /// What was tried.
        what: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl FramePortError {
    /// The sentence for a kernel's answer.
    pub(super) fn explain(what: &'static str, interface: &str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted,
            _ => Self::System { what, interface: interface.to_owned(), source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_is_named_with_the_command_that_gives_it() {
        let text = FramePortError::explain("a raw socket", "eth0", Errno::PERM.into()).to_string();
        assert!(text.contains("CAP_NET_RAW") && text.contains("--ambient-caps=+net_raw"), "{text}");
        let text = FramePortError::explain("a raw socket", "eth0", Errno::NODEV.into()).to_string();
        assert!(text.contains("a raw socket failed for eth0"), "{text}");
    }
}
