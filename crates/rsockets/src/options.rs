//! What a program can set: sizes before it connects, and flags.

use std::path::Path;

use libc::c_int;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_verbs_abi::{RDMA_INLINE, RDMA_IOMAPSIZE, RDMA_RQSIZE, RDMA_SQSIZE, SOL_RDMA};

use crate::protocol::iomaps_for;

/// Where an administrator sets defaults, one number in each file.
const FOLDER: &str = "/etc/rdma/rsocket";
const BUFFER: u32 = 1 << 17;
const QUEUE: u32 = 384;
const INLINE: u32 = 64;
const SMALLEST_BUFFER: u32 = 4_096;
const LARGEST_BUFFER: u32 = 1 << 28;
const SMALLEST_QUEUE: u32 = 16;
/// Larger ones would not fit into a completion queue together.
const LARGEST_QUEUE: u32 = 16_000;

/// The options of a socket.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Bytes.
    pub send_buffer: usize,
    /// Bytes; the peer gets it in two halves.
    pub receive_buffer: usize,
    /// Messages.
    pub send_queue: u16,
    /// Messages.
    pub receive_queue: u16,
    /// Accepted; the device decides by itself what it copies.
    pub inline: c_int,
    /// Buffers that the peer may map for us.
    pub iomaps: u32,
    /// Seconds, if SO_LINGER is on.
    pub linger: Option<c_int>,
    /// Options that are kept and mean nothing here: SO_REUSEADDR and so on, by level and name.
    pub kept: Vec<((c_int, c_int), c_int)>,
}

impl Options {
    /// The administrator's defaults, or the usual ones.
    pub fn new() -> Options {
        Options::from(Path::new(FOLDER))
    }

    fn from(folder: &Path) -> Options {
        let number = |name: &str, otherwise: u32| {
            let text = std::fs::read_to_string(folder.join(name)).ok();
            text.and_then(|text| text.trim().parse().ok()).unwrap_or(otherwise)
        };
        Options {
            send_buffer: buffer(number("wmem_default", BUFFER)),
            receive_buffer: buffer(number("mem_default", BUFFER)),
            send_queue: queue(number("sqsize_default", QUEUE)),
            receive_queue: queue(number("rqsize_default", QUEUE)),
            inline: c_int::try_from(number("inline_default", INLINE)).unwrap_or(c_int::MAX),
            iomaps: iomaps_for(number("iomap_size", 0)),
            linger: None,
            kept: Vec::new(),
        }
    }

    /// # Errors
    /// ENOPROTOOPT: there is no such option; EINVAL: not with this value.
    pub fn set(&mut self, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
        let size = || u32::try_from(value).map_err(|_| INVALID);
        match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => self.send_buffer = buffer(size()?),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => self.receive_buffer = buffer(size()?),
            (SOL_RDMA, RDMA_SQSIZE) => self.send_queue = queue(size()?),
            (SOL_RDMA, RDMA_RQSIZE) => self.receive_queue = queue(size()?),
            (SOL_RDMA, RDMA_INLINE) => {
                size()?;
                self.inline = value;
            }
            (SOL_RDMA, RDMA_IOMAPSIZE) => self.iomaps = iomaps_for(size()?),
            _ if is_kept(level, name) => {
                self.kept.retain(|(option, _)| *option != (level, name));
                self.kept.push(((level, name), value));
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        }
        Ok(())
    }

    /// # Errors
    /// ENOPROTOOPT: there is no such option.
    pub fn get(&self, level: c_int, name: c_int) -> Result<c_int, Errno> {
        let int = |size: usize| c_int::try_from(size).unwrap_or(c_int::MAX);
        Ok(match (level, name) {
            (libc::SOL_SOCKET, libc::SO_SNDBUF) => int(self.send_buffer),
            (libc::SOL_SOCKET, libc::SO_RCVBUF) => int(self.receive_buffer),
            (SOL_RDMA, RDMA_SQSIZE) => c_int::from(self.send_queue),
            (SOL_RDMA, RDMA_RQSIZE) => c_int::from(self.receive_queue),
            (SOL_RDMA, RDMA_INLINE) => self.inline,
            (SOL_RDMA, RDMA_IOMAPSIZE) => int(self.iomaps as usize),
            _ if is_kept(level, name) => {
                let kept = self.kept.iter().find(|(option, _)| *option == (level, name));
                kept.map_or(0, |(_, value)| *value)
            }
            _ => return Err(Errno(libc::ENOPROTOOPT)),
        })
    }
}

/// Options that programs set, and that change nothing: there is no delay to switch off, an address is
/// free at once, and so on.
fn is_kept(level: c_int, name: c_int) -> bool {
    let known: &[c_int] = match level {
        libc::SOL_SOCKET => &[libc::SO_REUSEADDR, libc::SO_KEEPALIVE, libc::SO_OOBINLINE],
        libc::IPPROTO_TCP => {
            &[libc::TCP_NODELAY, libc::TCP_KEEPCNT, libc::TCP_KEEPIDLE, libc::TCP_KEEPINTVL]
        }
        libc::IPPROTO_IPV6 => &[libc::IPV6_V6ONLY],
        _ => &[],
    };
    known.contains(&name)
}

/// An even number of bytes within what makes sense.
fn buffer(bytes: u32) -> usize {
    bytes.clamp(SMALLEST_BUFFER, LARGEST_BUFFER).next_multiple_of(2) as usize
}

fn queue(messages: u32) -> u16 {
    messages.clamp(SMALLEST_QUEUE, LARGEST_QUEUE) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_within_what_makes_sense() {
        let mut options = Options::from(Path::new("/nowhere"));
        assert_eq!(options.get(SOL_RDMA, RDMA_SQSIZE), Ok(384));
        for (asked, got) in [(0, 4096), (1, 4096), (5001, 5002), (c_int::MAX, 1 << 28)] {
            assert_eq!(options.set(libc::SOL_SOCKET, libc::SO_RCVBUF, asked), Ok(()));
            assert_eq!(options.get(libc::SOL_SOCKET, libc::SO_RCVBUF), Ok(got));
        }
        assert_eq!(options.set(SOL_RDMA, RDMA_RQSIZE, -1), Err(INVALID));
        assert_eq!(options.set(SOL_RDMA, RDMA_RQSIZE, 1), Ok(()));
        assert_eq!(options.get(SOL_RDMA, RDMA_RQSIZE), Ok(16));
    }

    #[test]
    fn options_without_a_meaning_are_kept_and_unknown_ones_refused() {
        let mut options = Options::from(Path::new("/nowhere"));
        assert_eq!(options.get(libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(0));
        assert_eq!(options.set(libc::IPPROTO_TCP, libc::TCP_NODELAY, 1), Ok(()));
        assert_eq!(options.get(libc::IPPROTO_TCP, libc::TCP_NODELAY), Ok(1));
        assert_eq!(options.set(libc::SOL_SOCKET, 9_999, 1), Err(Errno(libc::ENOPROTOOPT)));
        assert_eq!(options.get(77, 1), Err(Errno(libc::ENOPROTOOPT)));
    }

    #[test]
    fn an_administrator_sets_defaults() {
        let folder = std::env::temp_dir().join(format!("uroce-rsocket-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("mem_default"), "65536\n").expect("a file");
        std::fs::write(folder.join("sqsize_default"), "many").expect("a file");
        let options = Options::from(&folder);
        assert_eq!((options.receive_buffer, options.send_queue), (65536, 384));
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
