//! Carries frames from one side to the other until the user stops it.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use uroce_device::datapath::{Direction, FaultTally, PcapWriter};
use uroce_packet::{FramePort, FrameReceiver, FrameSender, Offload};

use super::gateway::Gateway;
use super::relay::{Relay, Side, Wire};
use crate::interrupt::Interrupt;
use crate::report::json;

/// How long it sleeps before it looks whether the user wants to stop.
pub const NAP: Duration = Duration::from_millis(200);

/// What lies between the two sides.
#[derive(Debug)]
pub struct Carrier {
    /// The ways in: one for each side, or one for both behind a gateway.
    pub receivers: Vec<FrameReceiver>,
    /// The ways out.
    senders: Vec<FrameSender>,
    /// Tells the sides apart where there is one interface only.
    pub gateway: Option<Gateway>,
}

impl Carrier {
    /// An interface for each side.
    pub fn bridge(ports: [FramePort; 2]) -> Self {
        let [near, far] = ports;
        let receivers = vec![near.receiver, far.receiver];
        Self { receivers, senders: vec![near.sender, far.sender], gateway: None }
    }

    /// One interface.
    pub fn gateway(port: FramePort, gateway: Gateway) -> Self {
        let FramePort { receiver, sender } = port;
        Self { receivers: vec![receiver], senders: vec![sender], gateway: Some(gateway) }
    }

    /// Sleeps until a frame has arrived, at most for `time`.
    ///
    /// # Errors
    /// The sockets cannot be waited for.
    pub fn wait(&self, time: Duration) -> io::Result<()> {
        wait_for(&self.receivers, time)
    }
}

/// Sleeps until one of them has a frame, at most for `time`.
fn wait_for(receivers: &[FrameReceiver], time: Duration) -> io::Result<()> {
    let fds: Vec<_> = receivers.iter().map(FrameReceiver::waiter).collect();
    let mut set: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    match poll(&mut set, Timespec::try_from(time).ok().as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A link, the rules and what they did.
pub struct Proxy {
    receivers: Vec<FrameReceiver>,
    ends: Egress,
    relay: Relay,
    tally: FaultTally,
    start: Instant,
}

impl Proxy {
    /// Begins now.
    pub fn new(
        link: Carrier,
        relay: Relay,
        tally: FaultTally,
        recorders: Option<[PcapWriter; 2]>,
    ) -> Self {
        let Carrier { receivers, senders, gateway } = link;
        let ends = Egress { senders, gateway, room: Vec::new(), recorders, failure: None };
        Self { receivers, ends, relay, tally, start: Instant::now() }
    }

    /// Carries frames until `interrupt` is set.
    ///
    /// # Errors
    /// A socket is unusable.
    pub fn serve(&mut self, interrupt: &Interrupt) -> io::Result<()> {
        while !interrupt.is_set() {
            self.wait()?;
            for place in 0..self.receivers.len() {
                self.receive(place)?;
            }
            self.relay.release(self.start.elapsed(), &mut self.ends);
            self.tally.update(self.relay.injector());
            if let Some(error) = self.ends.failure.take() {
                return Err(error);
            }
        }
        Ok(())
    }

    fn receive(&mut self, place: usize) -> io::Result<()> {
        let Self { receivers, ends, relay, start, .. } = self;
        receivers[place].recv(&mut |frame| {
            if let Some(side) = ends.side(place, frame.bytes) {
                let frame = (&frame.offload, &*frame.bytes);
                relay.handle_frame(start.elapsed(), side, frame, ends);
            }
        })?;
        Ok(())
    }

    /// Sleeps until a frame has arrived or one is due.
    fn wait(&self) -> io::Result<()> {
        let due = self.relay.poll_timeout().map(|at| at.saturating_sub(self.start.elapsed()));
        let time = due.map_or(NAP, |due| due.min(NAP));
        wait_for(&self.receivers, time)
    }

    /// Frames of each interface, for programs.
    pub fn result(&self) -> serde_json::Value {
        let sides = self.receivers.iter().zip(&self.ends.senders).map(|(receiver, sender)| {
            serde_json::json!({
                "interface": sender.name(),
                "received": receiver.received(),
                "sent": sender.sent(),
                "lost": receiver.lost() + sender.lost(),
            })
        });
        let sides: Vec<_> = sides.collect();
        serde_json::json!({ "version": json::VERSION, "interfaces": sides })
    }

    /// Says what passed, and what was lost for other reasons than a rule.
    pub fn tell(&self) {
        for (receiver, sender) in self.receivers.iter().zip(&self.ends.senders) {
            eprintln!(
                "{}: {} frames in, {} out",
                sender.name(),
                receiver.received(),
                sender.sent()
            );
            let lost = receiver.lost() + sender.lost();
            if lost > 0 {
                let why = sender.last_problem();
                let why =
                    why.as_deref().unwrap_or("they came faster than this machine carries them");
                eprintln!("warning: {lost} frames of {} were lost: {why}", sender.name());
            }
        }
        if self.relay.unwatched > 0 {
            eprintln!(
                "warning: {} packets passed without a look: there are more than 4096 pairs of hosts",
                self.relay.unwatched
            );
        }
    }
}

/// The way out of both sides, and the capture.
struct Egress {
    senders: Vec<FrameSender>,
    gateway: Option<Gateway>,
    /// A frame that gets its hardware addresses.
    room: Vec<u8>,
    recorders: Option<[PcapWriter; 2]>,
    failure: Option<io::Error>,
}

impl Wire for Egress {
    fn send(&mut self, side: Side, offload: &Offload, frame: &[u8], comment: &str) {
        let Some(gateway) = &self.gateway else {
            self.send_from(side as usize, (side, offload, frame), comment);
            return;
        };
        let mut room = std::mem::take(&mut self.room);
        room.clear();
        room.extend_from_slice(frame);
        // Both hosts were found before anything was carried.
        if gateway.address(side, &mut room) {
            self.send_from(0, (side, offload, &room), comment);
        }
        self.room = room;
    }

    fn seen(&mut self, side: Side, frame: &[u8], comment: &str) {
        self.record(side, Direction::Inbound, frame, comment);
    }
}

impl Egress {
    fn send_from(&mut self, place: usize, out: (Side, &Offload, &[u8]), comment: &str) {
        let (side, offload, frame) = out;
        if let Err(error) = self.senders[place].send(offload, frame) {
            self.failure = Some(error);
        }
        self.record(side, Direction::Outbound, frame, comment);
    }

    /// The side that a frame comes from; `None` for one that is not to be carried.
    fn side(&mut self, place: usize, frame: &[u8]) -> Option<Side> {
        match &mut self.gateway {
            Some(gateway) => gateway.handle_frame(frame),
            None if place == 0 => Some(Side::First),
            None => Some(Side::Second),
        }
    }

    fn record(&self, side: Side, direction: Direction, frame: &[u8], comment: &str) {
        if let Some(recorders) = &self.recorders {
            let comments: &[&str] = if comment.is_empty() { &[] } else { &[comment] };
            recorders[side as usize].frame(direction, frame, comments);
        }
    }
}
