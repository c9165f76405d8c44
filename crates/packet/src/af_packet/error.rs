//! Why the AF_PACKET datapath cannot be opened.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;
use uroce_host::BindError;

/// Why an AF_PACKET datapath could not be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The process may not open raw sockets.
    // Not setcap(8): the dynamic linker ignores LD_PRELOAD for a program that has capabilities by its file.
    #[error(
        "this process may not open AF_PACKET sockets: run it as root, give it the capability with `sudo setpriv \
         --reuid=$USER --regid=$(id -g) --init-groups --inh-caps=+net_raw --ambient-caps=+net_raw COMMAND`, or use \
         `--datapath udp`, which needs no right"
    )]
    NotPermitted,
    /// The address belongs to a tunnel or the like.
    #[error(
        "the interface of {} has no Ethernet frames: use `--datapath udp`, or an address of an \
         Ethernet interface with --address", .0.ip()
    )]
    NotEthernet(SocketAddr),
    /// The UDP port could not be reserved.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// Anything else.
    #[error("{what} failed for {local}: {source}; use `--datapath udp` if this kernel lacks it")]
    System {
        /// What was tried.
        what: &'static str,
        /// The address asked for.
        local: SocketAddr,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl PacketError {
    /// The sentence for a kernel's answer.
    pub(super) fn explain(what: &'static str, local: SocketAddr, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted,
            Some(Errno::ADDRNOTAVAIL) => BindError::explain(what, local, source).into(),
            _ => Self::System { what, local, source },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v133_a_missing_right_names_remedies_that_also_reach_a_preloaded_library() {
        let local = "10.0.0.1:4791".parse().expect("address");
        let text = PacketError::explain("a raw socket", local, Errno::PERM.into()).to_string();
        assert!(text.contains("as root") && text.contains("--ambient-caps=+net_raw"), "{text}");
        assert!(!text.contains("setcap"), "{text}");
        assert!(text.contains("--datapath udp"), "{text}");
    }

    #[test]
    fn an_address_of_no_host_lists_those_there_are() {
        let local = "192.0.2.77:4791".parse().expect("address");
        let error = PacketError::explain("the interface", local, Errno::ADDRNOTAVAIL.into());
        assert!(error.to_string().contains("(lo)"), "{error}");
    }
}
