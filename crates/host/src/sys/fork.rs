//! What a child process does not get of its parent when that forks.
//!
//! A child has copies of all descriptors. A UDP socket stays in its group as long as any process
//! has it open, and a name stays taken, also when the process that made them has ended: packets
//! would go to a socket that is never read. So the child gets a dead descriptor in their place,
//! before its own first instruction. The numbers stay taken: structures that were copied with the
//! memory may still close them.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use libc::{O_CLOEXEC, O_NONBLOCK, c_int};

/// How many forks lie between the first process of this family and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);

/// Descriptors with larger numbers are left to the child.
const MOST: usize = 1 << 16;

/// What is known of a descriptor, by its number: 0, [`EVENT`], [`OTHER`], or the inode of a socket.
static KNOWN: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];

/// An eventfd, which has no inode of its own: it is forgotten before it is closed.
const EVENT: u64 = u64::MAX;

/// Something else without an inode of its own: it is forgotten before it is closed.
const OTHER: u64 = u64::MAX - 1;

/// One more than the largest number that was ever known.
static END: AtomicI32 = AtomicI32::new(0);

/// Changes when the process forks, in the child: what was made under another number is the parent's. (A process made
/// by vfork(2) or by a bare clone(2) counts as the same one, as does one that was forked when there was neither a
/// thread nor a socket of this crate.)
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// From now on the number of forks is counted.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a function that lives as long as this code: what unloads it takes the handler out. If there is no
        // room for it, children are not told apart, as if there were none.
        let _no_room = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

/// A child gets something dead in the place of this socket.
pub fn keep_from_children(socket: impl AsFd) {
    watch();
    let fd = socket.as_fd();
    if let Some(inode) = inode_of(fd.as_raw_fd()) {
        know(fd, inode);
    }
}

/// A child gets an eventfd of its own in the place of this one, which is never readable unless the child makes it so.
/// [`forget`] must be called before it is closed.
pub fn part_event_from_children(event: BorrowedFd<'_>) {
    watch();
    know(event, EVENT);
}

/// A child gets something dead in the place of this descriptor, whatever it is. [`forget`] must be called before it is
/// closed.
pub fn keep_descriptor_from_children(descriptor: BorrowedFd<'_>) {
    watch();
    know(descriptor, OTHER);
}

/// Undoes [`part_event_from_children`] and [`keep_descriptor_from_children`].
pub fn forget(descriptor: BorrowedFd<'_>) {
    know(descriptor, 0);
}

fn know(fd: BorrowedFd<'_>, what: u64) {
    let number = fd.as_raw_fd();
    let Some(place) = usize::try_from(number).ok().and_then(|number| KNOWN.get(number)) else {
        return;
    };
    place.store(what, Ordering::Relaxed);
    END.fetch_max(number + 1, Ordering::Relaxed);
}

/// The inode of a socket; no two that are open have the same.
fn inode_of(fd: c_int) -> Option<u64> {
    // SAFETY: integers, for which zeros are right.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes a `stat`.
    let done = unsafe { libc::fstat(fd, &raw mut stat) };
    (done == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

/// Runs in a child before fork(2) returns there. Other threads of the parent may have held any lock, so it takes none,
/// and allocates nothing.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    // SAFETY: no pointers.
    let dead = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    for (number, known) in (0..END.load(Ordering::Relaxed)).zip(&KNOWN) {
        match known.load(Ordering::Relaxed) {
            0 => {}
            EVENT => part_event(number),
            // A number that was closed may be anything now.
            inode if inode != OTHER && inode_of(number) != Some(inode) => {}
            _ => {
                replace(number, dead);
                known.store(0, Ordering::Relaxed);
            }
        }
    }
    close(dead);
}

/// Puts a new eventfd in the place of one, which blocks if the old one did.
fn part_event(number: c_int) {
    // SAFETY: no pointers.
    unsafe {
        let flags = libc::fcntl(number, libc::F_GETFL);
        let blocks = flags >= 0 && flags & O_NONBLOCK == 0;
        let new = libc::eventfd(0, libc::EFD_CLOEXEC | if blocks { 0 } else { O_NONBLOCK });
        replace(number, new);
        close(new);
    }
}

/// Without a descriptor to put there, the child closes its own.
fn replace(number: c_int, new: c_int) {
    // SAFETY: descriptors of this library, copied into the child, where no code has used them yet.
    unsafe {
        if libc::dup3(new, number, O_CLOEXEC) < 0 {
            libc::close(number);
        }
    }
}

fn close(fd: c_int) {
    // SAFETY: made here, with no other owner.
    unsafe {
        if fd >= 0 {
            libc::close(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::OwnedFd;

    use super::*;

    /// What `check` returns in a child process; it must not allocate.
    fn in_a_child(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child calls async-signal-safe functions only, and ends.
        unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(!check())),
                child => {
                    let mut status = 0;
                    assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
                    status == 0
                }
            }
        }
    }

    #[test]
    fn v6_a_child_has_no_socket_of_its_parent_and_eventfds_of_its_own() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        let copy = socket.try_clone().expect("a descriptor");
        let others = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        keep_from_children(&socket);
        keep_from_children(&copy);
        let event =
            rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).expect("a descriptor");
        part_event_from_children(event.as_fd());
        let before = generation();
        let fds = [socket.as_raw_fd(), copy.as_raw_fd(), others.as_raw_fd(), event.as_raw_fd()];
        assert!(in_a_child(move || {
            // SAFETY: a descriptor of this process.
            let written = unsafe { libc::eventfd_write(fds[3], 1) } == 0;
            let sockets = [0, 1, 2].map(|place| inode_of(fds[place]).is_some());
            written && sockets == [false, false, true] && generation() == before + 1
        }));
        assert!(inode_of(fds[0]).is_some() && generation() == before);
        let mut set = [rustix::event::PollFd::new(&event, rustix::event::PollFlags::IN)];
        let readable = rustix::event::poll(&mut set, Some(&rustix::event::Timespec::default()));
        assert_eq!(readable, Ok(0), "the child has written to its own");
        forget(event.as_fd());
    }

    #[test]
    fn v6_a_number_that_was_closed_is_the_programs() {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        keep_from_children(&socket);
        let number = socket.as_raw_fd();
        drop(socket);
        let reused: OwnedFd = UdpSocket::bind("127.0.0.1:0").expect("loopback").into();
        let reused = rustix::io::fcntl_dupfd_cloexec(&reused, number).expect("a descriptor");
        let number = reused.as_raw_fd();
        assert!(in_a_child(move || inode_of(number).is_some()));
    }
}
