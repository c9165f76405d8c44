//! Room for file descriptors, made before the process has threads.

use std::fs::metadata;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::Once;

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, getrlimit};

/// Descriptors that there is room for: the usual soft limit of a process.
const ROOM: i32 = 1024;

/// Makes room once for as many descriptors as a process may usually have, if this one has no other threads yet. The kernel doubles
/// the table beyond 64, 128, 256 and 512 of them, and in a process with threads it waits each time until no processor can look at the
/// old one (synchronize_rcu), which takes 5 to 20 ms: connections have a descriptor for each port.
pub fn make_room_for_descriptors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if is_alone().is_ok_and(|alone| alone) {
            // Without it the process works, only slower.
            let _ = grow(ROOM);
        }
    });
}

/// True if the process has one thread: each is a folder in this one.
fn is_alone() -> io::Result<bool> {
    Ok(metadata("/proc/self/task")?.nlink() == 3)
}

/// Lets the table hold `room` descriptors, or as many as the process may have.
fn grow(room: i32) -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile).current.and_then(|limit| i32::try_from(limit).ok());
    let last = limit.map_or(room, |limit| limit.min(room)) - 1;
    let any = eventfd(0, EventfdFlags::CLOEXEC)?;
    drop(fcntl_dupfd_cloexec(any.as_fd(), last)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Descriptors that the table has room for.
    fn room() -> i32 {
        let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).expect("a size");
        line.trim().parse().expect("a number")
    }

    #[test]
    fn the_table_grows_and_the_descriptor_that_made_it_grow_is_closed() {
        assert!(room() < ROOM, "{}", room());
        grow(ROOM).expect("room");
        assert_eq!(room(), ROOM);
        let last = format!("/proc/self/fd/{}", ROOM - 1);
        assert!(!std::path::Path::new(&last).exists());
    }

    #[test]
    fn a_process_with_threads_is_not_alone() {
        // Beside the thread of this test there is the main one.
        assert!(!is_alone().expect("/proc"));
    }
}
