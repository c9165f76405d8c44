//! `rpoll` and `rselect`: our sockets and other descriptors together.

use std::time::Duration;

use libc::{c_int, fd_set, nfds_t, pollfd, timeval};

use super::directory::{self, Known};
use super::patience::{self, Patience, Waiters, Waiting};
use crate::errno::{Errno, INVALID};
use crate::outcome::number;

/// rpoll(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rpoll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    number(|| {
        let count = usize::try_from(count).map_err(|_| INVALID)?;
        if count > 0 && fds.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let fds = match count {
            0 => &mut [][..],
            // SAFETY: by the contract.
            _ => unsafe { std::slice::from_raw_parts_mut(fds, count) },
        };
        let ready = poll(fds, &Patience::of_poll(timeout))?;
        Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
    })
}

/// Waits until one of them is ready, and says how many are.
fn poll(fds: &mut [pollfd], patience: &Patience) -> Result<usize, Errno> {
    let sockets: Vec<Option<Known>> = fds.iter().map(|one| directory::find(one.fd)).collect();
    let known = sockets.iter().flatten();
    let waiting: Vec<Waiting<'_>> = known.map(|socket| socket.any().waiters().enter()).collect();
    let alone = Waiters::default();
    let shortest = waiting.iter().map(Waiting::nap).min();
    let nap = shortest.unwrap_or_else(|| alone.enter().nap());
    loop {
        let mut ready = look(fds, &sockets);
        let others = sleep(fds, &sockets, 0)?;
        ready += others;
        if ready > 0 || patience.is_over() {
            return Ok(ready);
        }
        let armed = sockets.iter().flatten().filter(|socket| socket.any().arm()).count();
        if armed == 0 && !patience.spins() {
            let ready = sleep(fds, &sockets, patience.nap(nap))?;
            if ready > 0 {
                return Ok(ready + look(fds, &sockets));
            }
        }
    }
}

/// Notes what our sockets have, and counts those that have something.
fn look(fds: &mut [pollfd], sockets: &[Option<Known>]) -> usize {
    let mut ready = 0;
    for (one, socket) in fds.iter_mut().zip(sockets) {
        let Some(socket) = socket else { continue };
        one.revents = socket.any().revents(one.events);
        ready += usize::from(one.revents != 0);
    }
    ready
}

/// Sleeps until one of the descriptors has something; returns how many of those that are none of our
/// sockets have.
fn sleep(fds: &mut [pollfd], sockets: &[Option<Known>], timeout: c_int) -> Result<usize, Errno> {
    let mut set = Vec::with_capacity(fds.len() * 2);
    for (one, socket) in fds.iter().zip(sockets) {
        match socket {
            None => set.push(pollfd { revents: 0, ..*one }),
            Some(socket) if timeout != 0 => {
                let wake = |fd| pollfd { fd, events: libc::POLLIN, revents: 0 };
                set.extend(socket.any().fds().into_iter().map(wake));
            }
            Some(_) => {}
        }
    }
    if set.is_empty() && timeout == 0 {
        return Ok(0);
    }
    patience::poll(&mut set, timeout)?;
    let mut ready = 0;
    let others = fds.iter_mut().zip(sockets).filter(|(_, socket)| socket.is_none());
    for (one, _) in others {
        let found = set.iter().find(|found| found.fd == one.fd && found.events == one.events);
        one.revents = found.map_or(0, |found| found.revents);
        ready += usize::from(one.revents != 0);
    }
    Ok(ready)
}

/// The three sets of rselect, and what they mean for poll(2).
const SETS: [(i16, i16); 3] = [
    (libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// rselect(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn rselect(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    excepts: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    number(|| {
        if !(0..=libc::FD_SETSIZE as c_int).contains(&count) {
            return Err(INVALID);
        }
        let sets = [reads, writes, excepts];
        // SAFETY: by the contract.
        let patience = match unsafe { timeout.as_ref() } {
            None => Patience::endless(),
            Some(time) => Patience::of(duration(time)?),
        };
        // SAFETY: by the contract; descriptors below FD_SETSIZE.
        let mut fds: Vec<pollfd> =
            (0..count).filter_map(|fd| unsafe { wanted(fd, &sets) }).collect();
        poll(&mut fds, &patience)?;
        if fds.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
            return Err(Errno(libc::EBADF));
        }
        // SAFETY: by the contract.
        Ok(unsafe { tell(&fds, &sets) })
    })
}

fn duration(time: &timeval) -> Result<Duration, Errno> {
    let seconds = u64::try_from(time.tv_sec).map_err(|_| INVALID)?;
    let micros = u64::try_from(time.tv_usec).map_err(|_| INVALID)?;
    Ok(Duration::from_secs(seconds).saturating_add(Duration::from_micros(micros)))
}

/// # Safety
/// Null, or sets; the descriptor is below FD_SETSIZE.
unsafe fn wanted(fd: c_int, sets: &[*mut fd_set; 3]) -> Option<pollfd> {
    let mut events = 0;
    for (set, (event, _)) in sets.iter().zip(SETS) {
        // SAFETY: the caller's promise.
        if !set.is_null() && unsafe { libc::FD_ISSET(fd, *set) } {
            events |= event;
        }
    }
    (events != 0).then_some(pollfd { fd, events, revents: 0 })
}

/// Leaves in the sets what is ready, and counts it.
///
/// # Safety
/// Null, or sets; the descriptors are below FD_SETSIZE.
unsafe fn tell(fds: &[pollfd], sets: &[*mut fd_set; 3]) -> c_int {
    let mut ready = 0;
    for (set, (event, answers)) in sets.iter().zip(SETS) {
        if set.is_null() {
            continue;
        }
        // SAFETY: the caller's promise.
        unsafe {
            libc::FD_ZERO(*set);
            for one in fds.iter().filter(|one| one.events & event != 0) {
                if one.revents & answers != 0 {
                    libc::FD_SET(one.fd, *set);
                    ready += 1;
                }
            }
        }
    }
    ready
}
