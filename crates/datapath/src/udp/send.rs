//! Packets on their way to the kernel.

mod refusal;

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use socket2::Socket;

use self::refusal::{Problem, Verdict};
use super::address::{self, NAME, Name};
use super::control::{self, CONTROL, Control};
use super::link::scoped;
use super::outlet::Outlets;
use crate::Flush;
use crate::burst::{Burst, Cursor};
use crate::caps::DatapathStats;
use crate::route::Route;
use crate::sys::udp::{MAX_BATCH, Message, send_many};

/// Takes messages for one source port; returns how many it took from the front.
type Kernel<'k> = dyn FnMut(u16, &mut dyn Iterator<Item = Message<'_>>) -> io::Result<usize> + 'k;

/// A route in the kernel's words.
#[derive(Debug, Clone, Copy)]
struct Spelled {
    name: Name,
    name_len: usize,
    control: Control,
    control_len: usize,
}

impl Spelled {
    fn new(route: &Route, scope: u32) -> Self {
        let (mut name, mut control) = ([0; NAME], [0; CONTROL]);
        let name_len = address::encode(&scoped(route.dst, scope), &mut name);
        let control_len = control::encode(route, &mut control);
        Self { name, name_len, control, control_len }
    }
}

/// Packets that were committed and not yet taken by the kernel.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) burst: Burst,
    /// The first packet that the kernel has not taken.
    at: Cursor,
    /// One for each train of the burst.
    spelled: Vec<Spelled>,
    scope: u32,
    pub(super) problem: Option<Problem>,
}

impl Sender {
    pub(super) fn new(burst: Burst, batch: usize, scope: u32) -> Self {
        let spelled = Vec::with_capacity(batch);
        Self { burst, at: Cursor::default(), spelled, scope, problem: None }
    }

    /// Sends as much as the kernel takes. What it does not take stays, in order.
    pub(super) fn flush(
        &mut self,
        outlets: &Outlets,
        fallback: &Socket,
        stats: &mut DatapathStats,
    ) -> io::Result<Flush> {
        self.flush_to(stats, &mut |port, messages| {
            let socket = outlets.socket(port).unwrap_or_else(|| fallback.as_fd());
            send_many(socket, messages)
        })
    }

    fn flush_to(
        &mut self,
        stats: &mut DatapathStats,
        kernel: &mut Kernel<'_>,
    ) -> io::Result<Flush> {
        self.spell();
        let mut flush = Flush::default();
        let mut second_try = false;
        while !flush.blocked
            && let Some(train) = self.burst.trains().get(self.at.train)
        {
            let port = train.route.src.port();
            stats.syscalls += 1;
            match self.offer(port, kernel) {
                // The kernel does not do so; a loop without end would be the price of relying on it.
                Ok(0) => flush.blocked = true,
                Ok(taken) => {
                    self.pass(taken, stats);
                    flush.sent += taken;
                    second_try = false;
                }
                Err(error) => {
                    second_try = self.refused(&error, second_try, &mut flush, stats)?;
                }
            }
        }
        if !flush.blocked {
            self.burst.clear();
            self.at = Cursor::default();
        }
        Ok(flush)
    }

    /// Deals with the refusal of the first packet; returns whether the next try is its second.
    fn refused(
        &mut self,
        error: &io::Error,
        second_try: bool,
        flush: &mut Flush,
        stats: &mut DatapathStats,
    ) -> io::Result<bool> {
        let errno = Errno::from_io_error(error).unwrap_or(Errno::IO);
        match Verdict::of(errno) {
            Verdict::Wait => {
                flush.blocked = true;
                stats.blocked += 1;
            }
            Verdict::Again => return Ok(second_try),
            Verdict::Soft if !second_try => {
                stats.soft_errors += 1;
                return Ok(true);
            }
            Verdict::Soft | Verdict::Drop => {
                self.give_up(errno, stats);
                flush.dropped += 1;
            }
            Verdict::Broken => return Err(errno.into()),
        }
        Ok(false)
    }

    /// Puts the route of every train in the kernel's words.
    fn spell(&mut self) {
        self.spelled.clear();
        let trains = self.burst.trains().iter();
        self.spelled.extend(trains.map(|train| Spelled::new(&train.route, self.scope)));
    }

    /// Offers the packets from `at` on that leave by the same port; returns how many were taken.
    fn offer(&self, port: u16, kernel: &mut Kernel<'_>) -> io::Result<usize> {
        let mut at = self.at;
        let messages = std::iter::from_fn(|| {
            let train = at.train;
            let (route, payload) = self.burst.next(&mut at)?;
            let spelled = &self.spelled[train];
            let message = Message {
                name: &spelled.name[..spelled.name_len],
                control: &spelled.control[..spelled.control_len],
                payload,
            };
            (route.src.port() == port).then_some(message)
        });
        kernel(port, &mut messages.take(MAX_BATCH))
    }

    /// Moves behind `count` packets that were sent.
    fn pass(&mut self, count: usize, stats: &mut DatapathStats) {
        for _ in 0..count {
            if let Some((_, packet)) = self.burst.next(&mut self.at) {
                stats.tx_packets += 1;
                stats.tx_bytes += packet.len() as u64;
            }
        }
    }

    /// Moves behind one packet that cannot be sent, and remembers why.
    fn give_up(&mut self, errno: Errno, stats: &mut DatapathStats) {
        if let Some((route, packet)) = self.burst.next(&mut self.at) {
            stats.tx_dropped += 1;
            self.problem = Some(Problem { dst: route.dst.ip(), len: packet.len(), errno });
        }
    }
}

#[cfg(test)]
mod tests;
