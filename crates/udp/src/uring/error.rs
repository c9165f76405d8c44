//! Why the io_uring datapath cannot be opened.

use std::{fs, io};

use rustix::io::Errno;
use uroce_host::BindError;

/// Why a [`UringDatapath`](crate::UringDatapath) could not be opened; the text says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UringError {
    /// The UDP sockets could not be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system's administrator has switched io_uring off.
    #[error(
        "io_uring is switched off here (kernel.io_uring_disabled is {0}): allow it with \
         `sudo sysctl -w kernel.io_uring_disabled=0`, or use --datapath udp"
    )]
    Disabled(u8),
    /// A sandbox does not let it through, or the kernel was built without it.
    #[error(
        "io_uring is not available ({0}): a container's seccomp profile may forbid it, or the \
         kernel is older than Linux 6.0 or was built without it; allow io_uring_setup in the profile, or use --datapath udp"
    )]
    Forbidden(io::Error),
    /// The kernel lacks multishot receives.
    #[error("io_uring of this kernel is too old: update to Linux 6.0, or use --datapath udp")]
    TooOld,
    /// Memory, descriptors or the like.
    #[error(
        "io_uring could not be set up ({0}): raise the limits with `ulimit -n` and `ulimit -l`, or \
         use --datapath udp"
    )]
    System(io::Error),
}

impl UringError {
    /// The sentence for a kernel's answer to io_uring_setup(2).
    pub(crate) fn explain(source: io::Error) -> Self {
        let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
        Self::of(source, disabled.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0))
    }

    fn of(source: io::Error, disabled: u8) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::PERM) if disabled > 0 => Self::Disabled(disabled),
            Some(Errno::PERM | Errno::ACCESS | Errno::NOSYS) => Self::Forbidden(source),
            Some(Errno::INVAL) => Self::TooOld,
            None if source.kind() == io::ErrorKind::InvalidInput => Self::TooOld,
            _ => Self::System(source),
        }
    }

    /// The `errno` for the C interface; `None` when it is that of a busy or foreign address.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        match self {
            Self::Bind(_) => None,
            Self::Disabled(_) => Some(libc::EPERM),
            Self::TooOld => Some(libc::ENOSYS),
            Self::Forbidden(source) | Self::System(source) => source.raw_os_error(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(errno: i32, disabled: u8) -> UringError {
        UringError::of(io::Error::from_raw_os_error(errno), disabled)
    }

    #[test]
    fn every_refusal_has_its_remedy() {
        assert!(matches!(of(libc::EPERM, 2), UringError::Disabled(2)));
        assert!(of(libc::EPERM, 2).to_string().contains("sysctl -w kernel.io_uring_disabled=0"));
        for errno in [libc::EPERM, libc::EACCES, libc::ENOSYS] {
            assert!(of(errno, 0).to_string().contains("seccomp"), "{errno}");
        }
        assert!(matches!(of(libc::EINVAL, 0), UringError::TooOld));
        assert!(of(libc::ENOMEM, 0).to_string().contains("ulimit -l"));
        for errno in [libc::EPERM, libc::ENOSYS, libc::EINVAL, libc::ENOMEM] {
            assert!(of(errno, 0).to_string().contains("--datapath udp"), "{errno}");
        }
    }
}
