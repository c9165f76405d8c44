//! `repoll_create`, `repoll_ctl` and `repoll_wait`: epoll(7) for rsockets and other descriptors, over the same search as `rpoll`.
//!
//! Every descriptor is level-triggered: one that a program adds with EPOLLET is told of more often than it asks for, and never
//! less.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{c_int, epoll_event, pollfd};
use uroce_ibverbs::arg::not_null;
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::return_value::{minus_one, number};
use uroce_rsockets::{Deadline, poll};

/// A descriptor that is waited for.
#[derive(Debug, Clone, Copy)]
struct Member {
    fd: c_int,
    events: u32,
    data: u64,
}

/// What is in each set, by the descriptor that stands for it.
static SETS: Mutex<Option<HashMap<c_int, Vec<Member>>>> = Mutex::new(None);

fn sets() -> MutexGuard<'static, Option<HashMap<c_int, Vec<Member>>>> {
    SETS.lock().unwrap_or_else(PoisonError::into_inner)
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
        sets().get_or_insert_default().insert(descriptor, Vec::new());
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
            libc::EPOLL_CTL_DEL => Member { fd, events: 0, data: 0 },
            // SAFETY: not null, and so an event of the program.
            _ => unsafe { event.as_ref() }
                .map(|event| Member { fd, events: event.events, data: event.u64 })
                .ok_or(Errno(libc::EFAULT))?,
        };
        let mut sets = sets();
        let members = sets.as_mut().and_then(|sets| sets.get_mut(&set)).ok_or(INVALID)?;
        let found = members.iter().position(|member| member.fd == fd);
        match (operation, found) {
            (libc::EPOLL_CTL_ADD, Some(_)) => return Err(Errno(libc::EEXIST)),
            (libc::EPOLL_CTL_ADD, None) => members.push(member),
            (libc::EPOLL_CTL_MOD, Some(index)) => members[index] = member,
            (libc::EPOLL_CTL_DEL, Some(index)) => drop(members.swap_remove(index)),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, None) => return Err(Errno(libc::ENOENT)),
            _ => return Err(INVALID),
        }
        Ok(())
    })
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
        let mut count = 0;
        for (member, events) in ready(set, &Deadline::of_poll(timeout))?.into_iter().take(most) {
            // SAFETY: the program has room for `most` events.
            unsafe { out.add(count).write(epoll_event { events, u64: member.data }) };
            count += 1;
            if member.events & libc::EPOLLONESHOT as u32 != 0 {
                disarm(set, member.fd);
            }
        }
        Ok(c_int::try_from(count).unwrap_or(c_int::MAX))
    })
}

/// What is in a set and has something, as soon as there is some, or the time is over.
fn ready(set: c_int, deadline: &Deadline) -> Result<Vec<(Member, u32)>, Errno> {
    loop {
        let members = sets().as_ref().and_then(|sets| sets.get(&set).cloned()).ok_or(INVALID)?;
        let wanted =
            |member: &Member| pollfd { fd: member.fd, events: member.events as i16, revents: 0 };
        let mut fds: Vec<pollfd> = members.iter().map(wanted).collect();
        poll(&mut fds, deadline)?;
        let found: Vec<_> = members.into_iter().zip(fds.iter().map(|one| one.revents)).collect();
        let (closed, open): (Vec<_>, Vec<_>) =
            found.into_iter().partition(|(_, events)| events & libc::POLLNVAL != 0);
        closed.iter().for_each(|(member, _)| leave(set, member.fd));
        let ready =
            open.into_iter().map(|(member, events)| (member, u32::from(events.cast_unsigned())));
        let ready: Vec<_> = ready.filter(|(_, events)| *events != 0).collect();
        if !ready.is_empty() || closed.is_empty() {
            return Ok(ready);
        }
    }
}

/// A descriptor that was closed has left its set: nobody waits for it, as with epoll(7).
fn leave(set: c_int, fd: c_int) {
    let mut sets = sets();
    let members = sets.as_mut().and_then(|sets| sets.get_mut(&set));
    members.into_iter().for_each(|members| members.retain(|member| member.fd != fd));
}

/// EPOLLONESHOT: nothing more until EPOLL_CTL_MOD.
fn disarm(set: c_int, fd: c_int) {
    let mut sets = sets();
    let members = sets.as_mut().and_then(|sets| sets.get_mut(&set));
    if let Some(member) = members.into_iter().flatten().find(|member| member.fd == fd) {
        // poll(2) leaves out a descriptor below 0, and what is asked for by no event is only an error.
        member.events = libc::EPOLLONESHOT as u32;
    }
}

#[cfg(test)]
mod tests {
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
