//! Why the AF_PACKET datapath cannot be opened.

use std::io;
use std::net::SocketAddr;

use rustix::io::Errno;

use crate::udp::BindError;

/// Why an AF_PACKET datapath could not be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PacketError {
    /// The process may not open raw sockets.
    #[error(
        "this process may not open AF_PACKET sockets: allow it with `sudo setcap cap_net_raw+ep \
         {program}`, or use `--datapath udp`, which needs no right"
    )]
    NotPermitted {
        /// The running program.
        program: String,
    },
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
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted { program: program() },
            Some(Errno::ADDRNOTAVAIL) => BindError::explain(what, local, source).into(),
            _ => Self::System { what, local, source },
        }
    }
}

/// The running program, as setcap(8) wants it.
fn program() -> String {
    let path = std::env::current_exe();
    path.map_or_else(|_| "PROGRAM".to_owned(), |path| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_right_names_both_remedies() {
        let local = "10.0.0.1:4791".parse().expect("address");
        let text = PacketError::explain("a raw socket", local, Errno::PERM.into()).to_string();
        assert!(text.contains("setcap cap_net_raw+ep /"), "{text}");
        assert!(text.contains("--datapath udp"), "{text}");
    }

    #[test]
    fn an_address_of_nobody_lists_those_there_are() {
        let local = "192.0.2.77:4791".parse().expect("address");
        let error = PacketError::explain("the interface", local, Errno::ADDRNOTAVAIL.into());
        assert!(error.to_string().contains("(lo)"), "{error}");
    }
}
