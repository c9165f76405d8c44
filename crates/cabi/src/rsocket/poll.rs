//! `rpoll` and `rselect`.

use std::time::Duration;

use libc::{c_int, fd_set, nfds_t, pollfd, timeval};
use uroce_ibverbs::errno::{Errno, INVALID};
use uroce_ibverbs::return_value::number;
use uroce_rsockets::{Deadline, poll};

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
            // SAFETY: not null, and the program says how many entries there are, as rpoll(3) asks.
            _ => unsafe { std::slice::from_raw_parts_mut(fds, count) },
        };
        let ready = poll(fds, &Deadline::of_poll(timeout))?;
        Ok(c_int::try_from(ready).unwrap_or(c_int::MAX))
    })
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
        // SAFETY: null or a time, as rselect(3) asks.
        let deadline = match unsafe { timeout.as_ref() } {
            None => Deadline::never(),
            Some(time) => Deadline::after(duration(time)?),
        };
        // SAFETY: null or sets, as rselect(3) asks; descriptors below FD_SETSIZE.
        let mut fds: Vec<pollfd> =
            (0..count).filter_map(|fd| unsafe { wanted(fd, &sets) }).collect();
        loop {
            poll(&mut fds, &deadline)?;
            if fds.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
                return Err(Errno(libc::EBADF));
            }
            if deadline.is_over() || fds.iter().any(is_told) {
                break;
            }
            // poll(2) ends for what no set asks for, such as the end of one that is asked for exceptions; select(2) waits on.
            fds.retain(|one| one.revents == 0);
        }
        // SAFETY: the same sets and descriptors.
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

/// True if a set that the descriptor is in tells of what it has.
fn is_told(one: &pollfd) -> bool {
    SETS.iter().any(|(event, answers)| one.events & event != 0 && one.revents & answers != 0)
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
