//! Why nothing can be captured.

use std::io;

use rustix::io::Errno;

/// The interfaces of this network namespace, one line each behind two lines of titles.
const INTERFACES: &str = "/proc/thread-self/net/dev";

/// Why nothing can be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// CAP_NET_RAW is missing.
    #[error("capturing packets needs the right CAP_NET_RAW, which this process lacks")]
    NotPermitted,
    /// No interface has that name.
    #[error("there is no interface {name}; there are: {there}")]
    NoInterface {
        /// The name.
        name: String,
        /// The names that there are.
        there: String,
    },
    /// More than the filter can tell apart.
    #[error("a capture names {0} interfaces at most; name none to capture on all")]
    TooManyInterfaces(usize),
    /// The kernel does not give memory for the ring.
    #[error("the kernel has no memory for a ring of this size: ask for a smaller one")]
    NoMemory,
    /// Anything else.
    #[error("the system does not allow {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
}

impl CaptureError {
    pub(super) fn explain(what: &'static str, source: io::Error) -> Self {
        match Errno::from_io_error(&source) {
            Some(Errno::PERM | Errno::ACCESS) => Self::NotPermitted,
            Some(Errno::NOMEM) => Self::NoMemory,
            _ => Self::System { what, source },
        }
    }

    pub(super) fn no_interface(name: &str) -> Self {
        let table = std::fs::read_to_string(INTERFACES).unwrap_or_default();
        Self::NoInterface { name: name.to_owned(), there: names(&table).join(", ") }
    }
}

fn names(table: &str) -> Vec<&str> {
    let lines = table.lines().skip(2);
    lines.filter_map(|line| line.split_once(':')).map(|(name, _)| name.trim()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_lists_those_there_are() {
        let table = "Inter-|   Receive\n face |bytes\n    lo: 1 2\n  eth0: 3 4\nrubbish\n";
        assert_eq!(names(table), ["lo", "eth0"]);
        let error = CaptureError::no_interface("eth77").to_string();
        assert!(error.contains("eth77") && error.contains("lo"), "{error}");
    }

    #[test]
    fn a_missing_right_has_its_own_sentence() {
        let explain = |errno: Errno| CaptureError::explain("a packet socket", errno.into());
        assert!(matches!(explain(Errno::PERM), CaptureError::NotPermitted));
        assert!(matches!(explain(Errno::NOMEM), CaptureError::NoMemory));
        assert!(explain(Errno::INVAL).to_string().contains("a packet socket"));
    }
}
