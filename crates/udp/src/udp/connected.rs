//! Connected sockets, out of which packets leave in place (docs/adr/037-send-in-place.md).
//!
//! splice(2) sends memory of this process without a copy, but only to the peer that a socket is connected to. A route that
//! carries bulk data therefore gets a connected socket of its own, beside the socket of its source port, and all its packets
//! leave there, so that they stay in order. The kernel numbers the IPv4 packets of a connected socket: each send gets the next
//! identification, and the packets that it is cut into count on from there.

mod trial;

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use socket2::Socket;
use uroce_datapath::{GsoBatch, Route};
use uroce_host::interface::scoped;
use uroce_host::option;

pub(crate) use self::trial::connect_after_trial;
use super::source_ports::SourcePorts;
use crate::sys::splice::SplicePipe;
use crate::sys::udp::{Message, send_many};

/// Most connected sockets of a datapath, and most routes that are considered for one.
const MOST: usize = 8;

/// Batches of a route that would have been sent in place, had it a connected socket, before it gets one; twice as many for each
/// failure of the datapath that is not forgotten.
const BATCHES_BEFORE: u32 = 32;

/// Batches of fewer bytes are copied: that takes less time than the two system calls for pages.
pub(super) const MIN_BYTES: usize = 16 * 1024;

/// Most failures that are not forgotten: sockets that could not be opened, or were given up.
const MOST_FAILURES: u32 = 12;

/// Batches that are many: behind so many one failure is forgotten, and a socket that had none of them may make room.
const LONG: u64 = 1024;

/// The connected socket of a route.
#[derive(Debug)]
struct ConnectedSocket {
    route: Route,
    socket: Socket,
    /// IPv4 identification of the next batch.
    next_id: u16,
    /// Bytes of a packet that UDP_SEGMENT is set to; 0 at first.
    segment: usize,
    /// Batches that had been counted altogether when the last one was begun here.
    used: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Sends the batches that were begun for it, and no other one.
    Leaving,
    /// The kernel may have counted a packet that was not sent: the batches that were begun for it cannot be right.
    Failed(Errno),
}

/// A route that may get a connected socket.
#[derive(Debug)]
struct Candidate {
    route: Route,
    batches: u32,
}

/// All connected sockets of a datapath.
#[derive(Debug)]
pub(crate) struct ConnectedSockets {
    /// It changes only while no batch waits, so that an index names the same socket as long as its batch waits.
    list: Vec<ConnectedSocket>,
    candidates: Vec<Candidate>,
    /// Opened when it is needed.
    pipe: Option<SplicePipe>,
    /// Batches begun on connected sockets, and of candidates.
    begun: u64,
    failures: u32,
}

impl ConnectedSockets {
    pub(super) fn new() -> Self {
        let (list, candidates) = (Vec::with_capacity(MOST), Vec::with_capacity(MOST));
        Self { list, candidates, pipe: None, begun: 0, failures: 0 }
    }

    /// Begins a batch for the route. `Some`: the index of its connected socket, and the IPv4 identification of the first
    /// packet of the batch.
    #[inline]
    pub(super) fn begin_batch(&mut self, route: &Route) -> Option<(usize, u16)> {
        let index = self.open_for(route)?;
        self.tick();
        let connected = &mut self.list[index];
        connected.used = self.begun;
        let id = connected.next_id;
        connected.next_id = id.wrapping_add(1);
        Some((index, id))
    }

    /// The index of the socket of the route on which batches may begin.
    #[inline]
    fn open_for(&self, route: &Route) -> Option<usize> {
        let is_open = |known: &ConnectedSocket| known.state == State::Open && known.route == *route;
        self.list.iter().position(is_open)
    }

    /// Counts a batch. Behind many one failure is forgotten, and candidates that come seldom make room.
    fn tick(&mut self) {
        self.begun += 1;
        if self.begun.is_multiple_of(LONG) {
            self.failures = self.failures.saturating_sub(1);
            self.candidates.iter_mut().for_each(|known| known.batches /= 2);
            self.candidates.retain(|known| known.batches > 0);
        }
    }

    /// No further batch of the route begins on its connected socket, for those to its peer are lost.
    pub(super) fn distrust(&mut self, route: &Route) {
        if let Some(index) = self.open_for(route) {
            self.leave(index);
            self.count_failure();
        }
    }

    /// No further batch begins on socket `index`.
    pub(super) fn leave(&mut self, index: usize) {
        if let Some(connected) = self.list.get_mut(index)
            && connected.state == State::Open
        {
            connected.state = State::Leaving;
        }
    }

    /// Sends a batch that was begun for socket `index`: in place if that is `wanted` and possible, else as a message with
    /// these control messages. Returns whether it was sent in place.
    ///
    /// # Errors
    ///
    /// Those of send(2). After EAGAIN and the errors of earlier packets the same batch is to be sent again; after all
    /// others [`fail`](Self::fail) is due.
    pub(super) fn send(
        &mut self,
        index: usize,
        batch: &GsoBatch,
        wanted: bool,
        (control, payload): (&[u8], &[u8]),
    ) -> io::Result<bool> {
        let connected = self.list.get_mut(index).ok_or(Errno::NOTCONN)?;
        if let State::Failed(errno) = connected.state {
            return Err(errno.into());
        }
        if wanted {
            let pipe = self.pipe.take().or_else(|| SplicePipe::new().ok());
            if let Some(pipe) = pipe.filter(|pipe| pipe.fill(payload).is_ok()) {
                connected.cut_at(batch.size)?;
                pipe.drain(connected.socket.as_fd(), payload.len())?;
                self.pipe = Some(pipe);
                return Ok(true);
            }
            // For want of descriptors, or of memory for pipes, it is copied, and so are those that follow.
            connected.state = State::Leaving;
            self.count_failure();
        }
        let connected = self.list.get(index).ok_or(Errno::NOTCONN)?;
        let message = Message { name: &[], control, payload };
        let sent = send_many(connected.socket.as_fd(), std::iter::once(message))?;
        if sent == 1 { Ok(false) } else { Err(Errno::AGAIN.into()) }
    }

    /// Gives socket `index` up, with all batches that were begun for it.
    pub(super) fn fail(&mut self, index: usize, errno: Errno) {
        let Some(connected) = self.list.get_mut(index) else { return };
        if !matches!(connected.state, State::Failed(_)) {
            connected.state = State::Failed(errno);
            tracing::debug!(dst = %connected.route.dst, %errno, "packets are copied from now on");
            self.count_failure();
        }
    }

    /// Whether socket `index` was given up.
    pub(super) fn has_failed(&self, index: usize) -> bool {
        self.list.get(index).is_none_or(|known| matches!(known.state, State::Failed(_)))
    }

    fn count_failure(&mut self) {
        self.failures = (self.failures + 1).min(MOST_FAILURES);
    }

    /// Notes that a batch of a route without a connected socket could have been sent in place.
    pub(super) fn note_candidate(&mut self, route: &Route) {
        self.tick();
        if let Some(known) = self.candidates.iter_mut().find(|known| known.route == *route) {
            known.batches = known.batches.saturating_add(1);
            return;
        }
        if self.candidates.len() < MOST {
            self.candidates.push(Candidate { route: *route, batches: 1 });
        }
    }

    /// Closes what was given up, and opens what is due. No batch may be waiting.
    pub(super) fn update(&mut self, source_ports: &SourcePorts, scope: u32) {
        if self.list.iter().any(|known| known.state != State::Open) {
            self.list.retain(|known| known.state == State::Open);
        }
        let enough = BATCHES_BEFORE << self.failures;
        let due = self.candidates.iter().position(|known| known.batches >= enough);
        let Some(due) = due else { return };
        let Candidate { route, .. } = self.candidates.swap_remove(due);
        if !self.make_room() {
            return;
        }
        match self.open(&route, source_ports, scope) {
            Ok(connected) => self.list.push(connected),
            Err(error) => {
                tracing::debug!(dst = %route.dst, %error, "packets cannot be sent in place");
                self.count_failure();
            }
        }
        debug_assert!(self.list.len() <= MOST, "each datapath has few connected sockets");
    }

    /// Makes room for one more socket; false if all are in use.
    fn make_room(&mut self) -> bool {
        if self.list.len() < MOST {
            return true;
        }
        let oldest = self.list.iter().enumerate().min_by_key(|(_, known)| known.used);
        let Some((oldest, _)) = oldest.filter(|(_, known)| self.begun - known.used > LONG) else {
            return false;
        };
        self.list.swap_remove(oldest);
        true
    }

    fn open(
        &self,
        route: &Route,
        source_ports: &SourcePorts,
        scope: u32,
    ) -> io::Result<ConnectedSocket> {
        let socket = source_ports.open_beside(route.src.port())?;
        let (level, hop_limit, class) = match route.dst.is_ipv4() {
            true => (libc::IPPROTO_IP, libc::IP_TTL, libc::IP_TOS),
            false => (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, libc::IPV6_TCLASS),
        };
        option::set(&socket, level, hop_limit, i32::from(route.hop_limit.max(1)))?;
        option::set(&socket, level, class, i32::from(route.traffic_class))?;
        let next_id = connect_after_trial(&socket, &scoped(route.dst, scope))?;
        let (route, used) = (*route, self.begun);
        Ok(ConnectedSocket { route, socket, next_id, segment: 0, used, state: State::Open })
    }
}

impl ConnectedSocket {
    /// Sets the bytes of each packet that the kernel makes of a batch in place.
    fn cut_at(&mut self, size: usize) -> io::Result<()> {
        if self.segment != size {
            let value = i32::try_from(size).map_err(|_| Errno::INVAL)?;
            option::set(&self.socket, libc::SOL_UDP, libc::UDP_SEGMENT, value)?;
            self.segment = size;
        }
        Ok(())
    }
}
