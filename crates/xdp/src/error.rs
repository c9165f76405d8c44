//! Why an AF_XDP datapath cannot be opened.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU8;

use rustix::io::Errno;

/// Why an AF_XDP datapath could not be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XdpError {
    /// No interface has the address.
    #[error("no interface of this host has the address {0}: pick one that `ip addr` shows")]
    NotLocal(IpAddr),
    /// No interface has the name.
    #[error("there is no interface {0} here: pick one that `ip link` shows")]
    NoInterface(String),
    /// The loopback interface carries no Ethernet frames to other hosts.
    #[error(
        "{0} is a loopback address, which AF_XDP cannot serve: use the address of a network \
         interface, or another datapath such as udp"
    )]
    Loopback(IpAddr),
    /// The interface has no hardware address.
    #[error("{0} carries no Ethernet frames, which AF_XDP needs: use another datapath such as udp")]
    NotEthernet(String),
    /// The kernel forbids it.
    // Not setcap(8): the dynamic linker ignores LD_PRELOAD for a program that has capabilities by its file.
    #[error(
        "{what} is not permitted: AF_XDP needs CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF; run it as root, give them with \
         `sudo setpriv --reuid=$USER --regid=$(id -g) --init-groups --inh-caps=+net_admin,+net_raw,+bpf \
         --ambient-caps=+net_admin,+net_raw,+bpf COMMAND`, or use another datapath such as udp"
    )]
    Permission {
        /// What was tried.
        what: &'static str,
    },
    /// The process may not lock as much memory.
    #[error(
        "the kernel gave no {megabytes} MiB of locked memory for packets: raise the limit with \
         `ulimit -l unlimited`, or run with CAP_IPC_LOCK"
    )]
    LockedMemory {
        /// How much was asked for on each queue.
        megabytes: usize,
    },
    /// Another program has an AF_XDP socket there.
    #[error(
        "queue {queue} of {interface} is taken by another AF_XDP socket: stop the program that has \
         it (`ss --xdp -p` names it), or use another interface"
    )]
    QueueBusy {
        /// The interface.
        interface: String,
        /// The receive queue.
        queue: u32,
    },
    /// Another XDP program is attached.
    #[error(
        "{interface} has an XDP program already, perhaps that of another uroce process: stop its \
         owner, or detach it with `ip link set dev {interface} xdp off`"
    )]
    ProgramBusy {
        /// The interface.
        interface: String,
    },
    /// An interface with more queues than are served.
    #[error(
        "{interface} has {queues} receive queues, and AF_XDP here serves {most} at most: reduce them \
         with `ethtool -L {interface} combined {most}`"
    )]
    TooManyQueues {
        /// The interface.
        interface: String,
        /// Its receive queues.
        queues: u32,
        /// How many are served.
        most: u32,
    },
    /// More engines than the interface has queues.
    #[error(
        "{interface} has too few receive queues ({queues}) for {engines} engines, each of which needs one: make more \
         with `ethtool -L {interface} combined {engines}` (`rx {engines} tx {engines}` with some drivers), or ask \
         for as many engines as there are queues"
    )]
    TooFewQueues {
        /// The interface.
        interface: String,
        /// Its receive queues.
        queues: u32,
        /// The engines.
        engines: NonZeroU8,
    },
    /// Frames longer than one buffer, and a kernel or driver without multi-buffer.
    #[error(
        "the MTU of {interface} is {mtu} bytes, but this kernel or driver does AF_XDP only up to \
         {most} (no multi-buffer): lower it with `ip link set {interface} mtu {most}`, or use Linux \
         6.6 or newer"
    )]
    MtuTooLarge {
        /// The interface.
        interface: String,
        /// Its MTU.
        mtu: usize,
        /// The largest that would work.
        most: usize,
    },
    /// The kernel or the driver cannot do it.
    #[error("this kernel cannot do {what}: AF_XDP needs {needs}; use another datapath such as udp")]
    Unsupported {
        /// What is missing.
        what: &'static str,
        /// What would have it.
        needs: &'static str,
    },
    /// The mode that was asked for is not to be had on the interface.
    #[error(
        "{interface} (driver {driver}) does not do AF_XDP in mode {mode}: leave the mode to the \
         program, or ask for `generic`, which works on every interface"
    )]
    Mode {
        /// The interface.
        interface: String,
        /// Its driver.
        driver: String,
        /// The mode.
        mode: &'static str,
    },
    /// Another socket has the UDP port.
    #[error(
        "UDP port {} of {} is taken, and AF_XDP shares it with no other process: stop the one that \
         has it (`rmmod rdma_rxe` if it is the kernel), choose another address, or use `--datapath \
         udp`, which processes of one user share",
        .0.port(), .0.ip()
    )]
    PortBusy(SocketAddr),
    /// Anything else.
    #[error("{what} failed: {source}; this kernel may be too old or restricted")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl XdpError {
    /// The sentence for a kernel's answer that has no meaning of its own where it came from.
    pub(crate) fn explain(what: &'static str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => Self::Permission { what },
            Some(Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT) => {
                Self::Unsupported { what, needs: "Linux 5.9 or newer with CONFIG_XDP_SOCKETS" }
            }
            Some(Errno::NOSYS) => {
                Self::Unsupported { what, needs: "the bpf system call (CONFIG_BPF_SYSCALL)" }
            }
            _ => Self::System { what, source },
        }
    }

    /// The `errno` for the C interface.
    #[must_use]
    pub fn errno(&self) -> i32 {
        let errno = match self {
            Self::NotLocal(_) => Errno::ADDRNOTAVAIL,
            Self::NoInterface(_) => Errno::NODEV,
            Self::Loopback(_) | Self::NotEthernet(_) | Self::Unsupported { .. } => Errno::OPNOTSUPP,
            Self::Mode { .. } => Errno::OPNOTSUPP,
            Self::Permission { .. } => Errno::PERM,
            Self::LockedMemory { .. } => Errno::NOBUFS,
            Self::QueueBusy { .. } | Self::ProgramBusy { .. } => Errno::BUSY,
            Self::TooManyQueues { .. } | Self::TooFewQueues { .. } => Errno::INVAL,
            Self::MtuTooLarge { .. } => Errno::MSGSIZE,
            Self::PortBusy(_) => Errno::ADDRINUSE,
            Self::System { source, .. } => return source.raw_os_error().unwrap_or(libc::EIO),
        };
        errno.raw_os_error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v133_a_missing_right_names_remedies_that_also_reach_a_preloaded_library() {
        let text = XdpError::explain("an AF_XDP socket", Errno::PERM.into()).to_string();
        assert!(text.contains("as root") && text.contains("udp"), "{text}");
        assert!(text.contains("--ambient-caps=+net_admin,+net_raw,+bpf"), "{text}");
        assert!(!text.contains("setcap"), "{text}");
    }
}
