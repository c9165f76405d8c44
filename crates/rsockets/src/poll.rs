//! Waiting for our sockets and other descriptors together.

use std::time::Duration;

use libc::{c_int, pollfd};
use uroce_ibverbs::descriptor;
use uroce_ibverbs::errno::Errno;

use crate::deadline::{Asleep, Deadline, Waiters, Waiting};
use crate::fd_table::Handle;

/// Waits until one of them is ready, and says how many are, as poll(2) does: also what is no socket of ours may
/// be among them.
///
/// # Errors
/// What poll(2) says.
pub fn poll(fds: &mut [pollfd], deadline: &Deadline) -> Result<usize, Errno> {
    let sockets: Vec<Option<Handle>> = fds.iter().map(|one| Handle::find(one.fd)).collect();
    let known = sockets.iter().flatten();
    let waiting: Vec<Waiting<'_>> = known.map(|socket| socket.any().waiters().enter()).collect();
    let alone = Waiters::default();
    loop {
        // Others may have come, or gone.
        let shortest = waiting.iter().map(Waiting::sleep_limit).min();
        let limit = shortest.unwrap_or_else(|| alone.enter().sleep_limit());
        let stays_awake = deadline.spins() || deadline.is_over();
        let limit = if stays_awake { Duration::ZERO } else { limit };
        // Before the look: what another call changes behind it wakes this thread.
        let asleep: Vec<Asleep<'_>> = waiting.iter().map(|one| one.falls_asleep(limit)).collect();
        let mut ready = look(fds, &sockets);
        let others = sleep(fds, &sockets, None, 0)?;
        ready += others;
        if ready > 0 || deadline.is_over() {
            return Ok(ready);
        }
        let known = sockets.iter().flatten().zip(&asleep);
        let armed = known.filter(|(socket, asleep)| socket.any().arm(asleep)).count();
        if armed == 0 && !stays_awake {
            let ready = sleep(fds, &sockets, asleep.first(), deadline.sleep_ms(limit))?;
            if ready > 0 {
                return Ok(ready + look(fds, &sockets));
            }
        }
    }
}

/// Notes what our sockets have, and counts those that have something.
fn look(fds: &mut [pollfd], sockets: &[Option<Handle>]) -> usize {
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
fn sleep(
    fds: &mut [pollfd],
    sockets: &[Option<Handle>],
    asleep: Option<&Asleep<'_>>,
    timeout: c_int,
) -> Result<usize, Errno> {
    let mut set = Vec::with_capacity(fds.len() * 2);
    let wake = |fd| pollfd { fd, events: libc::POLLIN, revents: 0 };
    for (one, socket) in fds.iter().zip(sockets) {
        match socket {
            None => set.push(pollfd { revents: 0, ..*one }),
            Some(socket) if timeout != 0 => {
                set.extend(socket.any().fds().into_iter().map(wake));
            }
            Some(_) => {}
        }
    }
    if set.is_empty() && timeout == 0 {
        return Ok(0);
    }
    set.extend(asleep.and_then(Asleep::wakeup).map(|wakeup| wake(wakeup.fd())));
    let found = descriptor::poll(&mut set, timeout);
    asleep.iter().for_each(|asleep| asleep.awoke(&set));
    found?;
    let mut ready = 0;
    let others = fds.iter_mut().zip(sockets).filter(|(_, socket)| socket.is_none());
    for (one, _) in others {
        let found = set.iter().find(|found| found.fd == one.fd && found.events == one.events);
        one.revents = found.map_or(0, |found| found.revents);
        ready += usize::from(one.revents != 0);
    }
    Ok(ready)
}
