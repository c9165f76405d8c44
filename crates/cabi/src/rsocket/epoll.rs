//! `repoll_create`, `repoll_ctl` and `repoll_wait`: epoll(7) for rsockets and other descriptors, over the same search as `rpoll`.
//!
//! Every descriptor is level-triggered: one that a program adds with EPOLLET is told of more often than it asks for, and never
//! less.

use std::collections::HashMap;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use libc::{c_int, epoll_event, pollfd};
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::return_value::{minus_one, number};
use uroce_rsockets::{Deadline, poll};

/// A descriptor that is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Member {
    fd: c_int,
    events: u32,
    data: u64,
    /// EPOLLONESHOT: it was told of, and nobody has asked again.
    is_disarmed: bool,
}

impl Member {
    fn wanted(&self) -> pollfd {
        // poll(2) passes over a negative descriptor; for another one it tells errors that nobody has asked for.
        let fd = if self.is_disarmed { -1 } else { self.fd };
        pollfd { fd, events: self.events as i16, revents: 0 }
    }
}

/// What is in a set.
#[derive(Debug, Default)]
struct PollSet {
    members: Vec<Member>,
    /// Becomes readable, for good, when the members change; those who wait have it among theirs.
    change: Option<Arc<OwnedFd>>,
}

impl PollSet {
    /// Those who wait look at the members again.
    fn has_changed(&mut self) {
        if let Some(change) = self.change.take_if(|change| Arc::strong_count(change) > 1) {
            // SAFETY: a descriptor that lives. The counter cannot be full: this is its only number.
            unsafe { libc::eventfd_write(change.as_raw_fd(), 1) };
        }
    }

    /// The members, and what becomes readable when they change.
    fn watch(&mut self) -> Result<(Vec<Member>, Arc<OwnedFd>), Errno> {
        let change = match &self.change {
            Some(change) => Arc::clone(change),
            None => Arc::clone(self.change.insert(Arc::new(eventfd()?))),
        };
        Ok((self.members.clone(), change))
    }

    /// A member is as it was when a wait began, and is told of now. It goes behind all others: a wait that has room for few tells
    /// of those first that were not told of, as with epoll(7).
    fn tell(&mut self, told: &Member) -> bool {
        let Some(at) = self.members.iter().position(|member| member == told) else {
            return false;
        };
        let member = self.members.remove(at);
        let is_disarmed = member.events & libc::EPOLLONESHOT as u32 != 0;
        self.members.push(Member { is_disarmed, ..member });
        true
    }

    /// A descriptor that was closed has left its set: nobody waits for it, as with epoll(7).
    fn leave(&mut self, fd: c_int) {
        let before = self.members.len();
        self.members.retain(|member| member.fd != fd);
        if self.members.len() < before {
            self.has_changed();
        }
    }
}

fn eventfd() -> Result<OwnedFd, Errno> {
    // SAFETY: numbers.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) } {
        fd if fd < 0 => Err(Errno::last()),
        // SAFETY: made above, and nobody else has it.
        fd => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
    }
}

/// The sets, by the descriptors that stand for them.
static SETS: Mutex<Option<HashMap<c_int, PollSet>>> = Mutex::new(None);

fn sets() -> MutexGuard<'static, Option<HashMap<c_int, PollSet>>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Does something with a set.
///
/// # Errors
/// EINVAL: it is none.
fn with<T>(set: c_int, work: impl FnOnce(&mut PollSet) -> T) -> Result<T, Errno> {
    sets().as_mut().and_then(|sets| sets.get_mut(&set)).map(work).ok_or(INVALID)
}

/// A socket is about to be closed; its number may be that of another one soon.
pub(super) fn forget(fd: c_int) {
    sets().iter_mut().flat_map(HashMap::values_mut).for_each(|set| set.leave(fd));
}

/// repoll_create(3), with the flags of epoll_create1(2).
#[unsafe(no_mangle)]
pub(crate) extern "C" fn repoll_create(flags: c_int) -> c_int {
    number(|| {
        // SAFETY: a number. The descriptor is the program's, which closes it.
        let descriptor = unsafe { libc::epoll_create1(flags) };
        if descriptor < 0 {
            return Err(Errno::last());
        }
        // A set that was closed had this number before.
        sets().get_or_insert_default().insert(descriptor, PollSet::default());
        Ok(descriptor)
    })
}

/// repoll_ctl(3), as epoll_ctl(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn repoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    minus_one(|| {
        let member = match operation {
            libc::EPOLL_CTL_DEL => Member { fd, events: 0, data: 0, is_disarmed: true },
            // SAFETY: not null, and so an event of the program.
            _ => unsafe { event.as_ref() }
                .map(|event| Member {
                    fd,
                    events: event.events,
                    data: event.u64,
                    is_disarmed: false,
                })
                .ok_or(Errno(libc::EFAULT))?,
        };
        with(set, |members| change(members, set, operation, member))?
    })
}

fn change(set: &mut PollSet, epoll: c_int, operation: c_int, member: Member) -> Result<(), Errno> {
    let members = &mut set.members;
    let found = members.iter().position(|known| known.fd == member.fd);
    match (operation, found) {
        (libc::EPOLL_CTL_ADD, found) => match (register(epoll, operation, member.fd), found) {
            // The one that had this number was closed.
            (Ok(()), Some(index)) => members[index] = member,
            (Err(Errno(libc::EEXIST)), Some(index)) if members[index].is_disarmed => {
                members[index] = member;
            }
            (Ok(()) | Err(Errno(libc::EEXIST)), None) => members.push(member),
            (Err(errno), _) => return Err(errno),
        },
        (libc::EPOLL_CTL_MOD, Some(index)) => members[index] = member,
        // The others keep their turn.
        (libc::EPOLL_CTL_DEL, Some(index)) => {
            members.remove(index);
            // The kernel may have forgotten it before.
            let _gone = register(epoll, operation, member.fd);
        }
        (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(Errno(libc::ENOENT)),
        _ => return Err(INVALID),
    }
    set.has_changed();
    Ok(())
}

/// Adds a member to the kernel's set, which is never waited for, or removes or looks for it. The kernel forgets what is closed: that
/// is how another descriptor with the same number is told from it.
fn register(epoll: c_int, operation: c_int, fd: c_int) -> Result<(), Errno> {
    let mut nothing = epoll_event { events: 0, u64: 0 };
    // SAFETY: numbers, and an event.
    match unsafe { libc::epoll_ctl(epoll, operation, fd, &raw mut nothing) } {
        0 => Ok(()),
        _ => Err(Errno::last()),
    }
}

/// repoll_wait(3), as epoll_wait(2).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn repoll_wait(
    set: c_int,
    out: *mut epoll_event,
    most: c_int,
    timeout: c_int,
) -> c_int {
    number(|| {
        let (out, most) = (not_null(out)?, usize::try_from(most).map_err(|_| INVALID)?);
        if most == 0 {
            return Err(INVALID);
        }
        let ready = ready(set, &Deadline::of_poll(timeout), most)?;
        for (index, (data, events)) in ready.iter().enumerate() {
            // SAFETY: the program has room for `most` events.
            unsafe { out.add(index).write(epoll_event { events: *events, u64: *data }) };
        }
        Ok(c_int::try_from(ready.len()).unwrap_or(c_int::MAX))
    })
}

/// The data and events of what is in a set and has something, as soon as there is some, or the time is over.
fn ready(epoll: c_int, deadline: &Deadline, most: usize) -> Result<Vec<(u64, u32)>, Errno> {
    loop {
        let (members, change) = with(epoll, PollSet::watch)??;
        let mut fds: Vec<pollfd> = members.iter().map(Member::wanted).collect();
        fds.push(pollfd { fd: change.as_raw_fd(), events: libc::POLLIN, revents: 0 });
        poll(&mut fds, deadline)?;
        let mut again = fds.pop().is_some_and(|change| change.revents != 0);
        let found = members.iter().zip(&fds).filter(|(_, one)| one.revents != 0);
        let mut ready = Vec::new();
        with(epoll, |set| {
            for (member, one) in found {
                let is_there = || register(epoll, libc::EPOLL_CTL_MOD, member.fd).is_ok();
                if one.revents & libc::POLLNVAL != 0 || !is_there() {
                    set.leave(member.fd);
                    again = true;
                } else if ready.len() < most && set.tell(member) {
                    ready.push((member.data, u32::from(one.revents.cast_unsigned())));
                }
            }
        })?;
        // What another thread was told of meanwhile ends no wait, either.
        if !ready.is_empty() || !again && deadline.is_over() {
            return Ok(ready);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connect::{rclose, rsocket};
    use super::*;

    /// What a set tells at once.
    fn told(set: c_int) -> Vec<(u32, u64)> {
        let mut out = [epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: room for four.
        let count = unsafe { repoll_wait(set, out.as_mut_ptr(), 4, 0) };
        out[..usize::try_from(count).expect("no error")].iter().map(|e| (e.events, e.u64)).collect()
    }

    #[test]
    fn descriptors_are_added_changed_and_removed() {
        let set = repoll_create(libc::EPOLL_CLOEXEC);
        let mut event = epoll_event { events: (libc::EPOLLIN | libc::EPOLLONESHOT) as u32, u64: 7 };
        // SAFETY: descriptors of this test, and an event.
        unsafe {
            let fd = libc::eventfd(1, 0);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_MOD, fd, &raw mut event), -1);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event), -1);
            assert_eq!(told(set), [(libc::EPOLLIN as u32, 7)]);
            assert_eq!(told(set), [], "once");
            event.events = libc::EPOLLOUT as u32;
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_MOD, fd, &raw mut event), 0);
            assert_eq!(told(set), [(libc::EPOLLOUT as u32, 7)]);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_DEL, fd, std::ptr::null_mut()), 0);
            assert_eq!(told(set), []);
            assert_eq!(repoll_ctl(-1, libc::EPOLL_CTL_ADD, fd, &raw mut event), -1);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, std::ptr::null_mut()), -1);
            libc::close(fd);
            libc::close(set);
        }
    }

    #[test]
    fn a_descriptor_that_is_told_of_once_is_silent_when_its_other_end_goes() {
        let set = repoll_create(libc::EPOLL_CLOEXEC);
        let mut event = epoll_event { events: (libc::EPOLLIN | libc::EPOLLONESHOT) as u32, u64: 7 };
        let (reader, writer) = std::io::pipe().expect("two descriptors");
        drop(writer);
        // SAFETY: descriptors of this test, and an event.
        unsafe {
            let fd = reader.as_raw_fd();
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
            assert_eq!(told(set), [(libc::EPOLLHUP as u32, 7)]);
            assert_eq!(told(set), [], "once");
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_MOD, fd, &raw mut event), 0);
            assert_eq!(told(set), [(libc::EPOLLHUP as u32, 7)], "it was asked for again");
            libc::close(set);
        }
    }

    #[test]
    fn a_socket_that_was_closed_leaves_its_sets() {
        let set = repoll_create(libc::EPOLL_CLOEXEC);
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        let fd = rsocket(libc::AF_INET, libc::SOCK_STREAM, 0);
        // SAFETY: descriptors of this test, and an event.
        unsafe {
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
            assert_eq!(rclose(fd), 0);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_MOD, fd, &raw mut event), -1, "it has left");
            // It has the number of the first, unless another test has.
            let fd = rsocket(libc::AF_INET, libc::SOCK_STREAM, 0);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0, "another one");
            assert_eq!((rclose(fd), libc::close(set)), (0, 0));
        }
    }

    #[test]
    fn a_wait_that_has_begun_sees_what_is_added() {
        let set = repoll_create(libc::EPOLL_CLOEXEC);
        let waits = || {
            let mut out = [epoll_event { events: 0, u64: 0 }; 4];
            // SAFETY: room for four.
            let count = unsafe { repoll_wait(set, out.as_mut_ptr(), 4, 5_000) };
            (count, out[0].u64)
        };
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        std::thread::scope(|scope| {
            let waiting = [scope.spawn(waits), scope.spawn(waits)];
            std::thread::sleep(std::time::Duration::from_millis(50));
            // SAFETY: descriptors of this test, and an event.
            unsafe {
                let fd = libc::eventfd(1, 0);
                assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
                assert_eq!(waiting.map(|wait| wait.join().expect("no panic")), [(1, 7); 2]);
                libc::close(fd);
                libc::close(set);
            }
        });
    }

    #[test]
    fn a_wait_with_room_for_few_goes_on_behind_those_it_told_of() {
        let set = repoll_create(libc::EPOLL_CLOEXEC);
        // SAFETY: numbers.
        let fds = [(); 5].map(|()| unsafe { libc::eventfd(1, 0) });
        for (number, fd) in (0..).zip(fds) {
            let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: number };
            // SAFETY: a descriptor of this test, and an event.
            let added = unsafe { repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event) };
            assert_eq!(added, 0);
        }
        let next = || {
            let mut out = [epoll_event { events: 0, u64: 0 }; 2];
            // SAFETY: room for two.
            assert_eq!(unsafe { repoll_wait(set, out.as_mut_ptr(), 2, 0) }, 2);
            out.map(|event| event.u64)
        };
        assert_eq!([next(), next(), next()], [[0, 1], [2, 3], [4, 0]]);
        // SAFETY: descriptors of this test.
        unsafe {
            let gone = repoll_ctl(set, libc::EPOLL_CTL_DEL, fds[1], std::ptr::null_mut());
            assert_eq!((gone, next(), next()), (0, [2, 3], [4, 0]), "the others keep their turn");
            for fd in fds {
                libc::close(fd);
            }
            libc::close(set);
        }
    }

    #[test]
    fn another_descriptor_with_the_number_of_one_that_was_closed_is_a_new_member() {
        let set = repoll_create(libc::EPOLL_CLOEXEC);
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 1 };
        // SAFETY: descriptors of this test, and an event.
        unsafe {
            // A new file behind a number that no other test gets meanwhile; the one before is closed with that.
            let place = |value| {
                let file = libc::eventfd(value, 0);
                assert_eq!((libc::dup2(file, 720), libc::close(file)), (720, 0));
            };
            place(0);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, 720, &raw mut event), 0);
            place(1);
            assert_eq!(told(set), [], "it was not added");
            event.u64 = 2;
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, 720, &raw mut event), 0);
            assert_eq!(told(set), [(libc::EPOLLIN as u32, 2)]);
            place(1);
            event.u64 = 3;
            assert_eq!(
                repoll_ctl(set, libc::EPOLL_CTL_ADD, 720, &raw mut event),
                0,
                "no wait between"
            );
            assert_eq!(told(set), [(libc::EPOLLIN as u32, 3)]);
            assert_eq!((libc::close(720), libc::close(set)), (0, 0));
        }
    }

    #[test]
    fn a_descriptor_that_was_closed_is_not_waited_for() {
        let set = repoll_create(libc::EPOLL_CLOEXEC);
        let mut event = epoll_event { events: libc::EPOLLIN as u32, u64: 7 };
        let mut out = [epoll_event { events: 0, u64: 0 }; 4];
        // SAFETY: descriptors of this test, an event, and room for four.
        unsafe {
            let other = libc::eventfd(0, 0);
            // A number that no other test gets meanwhile.
            let fd = libc::fcntl(other, libc::F_DUPFD, 700);
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_ADD, fd, &raw mut event), 0);
            libc::close(fd);
            let begin = std::time::Instant::now();
            assert_eq!(repoll_wait(set, out.as_mut_ptr(), 4, 100), 0);
            assert!(begin.elapsed() >= std::time::Duration::from_millis(100), "it came back early");
            assert_eq!(repoll_ctl(set, libc::EPOLL_CTL_DEL, fd, &raw mut event), -1, "it has left");
            libc::close(other);
            libc::close(set);
        }
    }
}
