//! The connection of a client's datapath to the service, which may go and come back.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::attachment::{
    Attachment, CONTROL, RETRY_INTERVAL, ServiceState, await_message, request, watch,
};
use super::datapath::ServedDatapath;
use crate::message::{ClientMessage, ServiceMessage};
use crate::ring::DROPPED;

/// Time to wait for the outcome of a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Time for which a service that has gone is waited for: it may be restarted.
const RETURN_TIMEOUT: Duration = Duration::from_secs(30);

impl ServedDatapath {
    /// Finds out that the service has gone, without reading: a wake-up is for the thread that sleeps.
    pub(super) fn notice_hang_up(&mut self) {
        let ServiceState::Up(attachment) = &self.service else { return };
        let mut control = [PollFd::new(&attachment.control, PollFlags::empty())];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut control, Some(&now)).is_ok_and(|ready| ready > 0) {
            self.lose(&io::ErrorKind::UnexpectedEof.into());
        }
    }

    /// Reads what the service has said; finds out that it has gone. True if it has woken this client.
    pub(super) fn look(&mut self) -> bool {
        let mut woken = false;
        while let ServiceState::Up(attachment) = &self.service {
            match attachment.control.receive() {
                Ok(Some(datagram)) => match ServiceMessage::decode(datagram.bytes()) {
                    Some(ServiceMessage::Wake) => woken = true,
                    Some(message) => self.heed(&message, datagram),
                    None => {}
                },
                Ok(None) => break,
                Err(error) => self.lose(&error),
            }
        }
        woken
    }

    #[cold]
    pub(super) fn lose(&mut self, error: &io::Error) {
        if let ServiceState::Up(attachment) = &self.service {
            tracing::warn!(%error, socket = %self.socket.display(), "the service that holds the port has gone");
            self.dropped_before += u64::from(attachment.memory.load(DROPPED));
        }
        self.links.clear();
        let now = Instant::now();
        self.service = ServiceState::Gone { since: now, next_try: now, asked: None };
    }

    /// Asks the service for our place if it is back, and takes it when it is given.
    #[cold]
    pub(super) fn find_service(&mut self) -> io::Result<()> {
        let ServiceState::Gone { since, next_try, asked } = &mut self.service else {
            return Ok(());
        };
        let now = Instant::now();
        if now.duration_since(*since) > RETURN_TIMEOUT {
            return Err(self.never_back("it did not come back within 30 s"));
        }
        let Some(control) = asked else {
            if now >= *next_try {
                *next_try = now + RETRY_INTERVAL;
                *asked = request(&self.socket, self.local, Some((self.slot, self.token))).ok();
                if let Some(control) = asked {
                    watch(&self.epoll, control, CONTROL)?;
                }
            }
            return Ok(());
        };
        match control.receive() {
            Ok(None) => Ok(()),
            Ok(Some(answer)) => {
                let Some(control) = asked.take() else { return Ok(()) };
                match Attachment::complete(control, answer) {
                    Ok(Ok(attachment)) => self.take_place(attachment),
                    Ok(Err(why)) => return Err(self.never_back(&why)),
                    Err(error) => tracing::debug!(%error, "the service gave no place"),
                }
                Ok(())
            }
            Err(_) => {
                *asked = None;
                Ok(())
            }
        }
    }

    /// Our place is ours again: the service learns what we had.
    fn take_place(&mut self, attachment: Attachment) {
        let services = self.services.iter().map(|service| ClientMessage::Claim(0, *service));
        let groups = self.groups.iter().map(|group| ClientMessage::Join(0, *group));
        let end = Instant::now() + REQUEST_TIMEOUT;
        for message in services.chain(groups) {
            if let Err(error) = attachment.control.send_by(&message.encode(), end) {
                tracing::warn!(%error, "the service did not hear all that this client had of it");
                break;
            }
        }
        tracing::info!(slot = %self.slot, "the service that holds the port is back");
        self.token = attachment.token;
        self.service = ServiceState::Up(Box::new(attachment));
    }

    /// The error that ends the device.
    fn never_back(&self, why: &str) -> io::Error {
        let text = format!(
            "the service at {}, which holds UDP port {} of {}, has gone: {why}; start it, and open the device again",
            self.socket.display(),
            self.local.port(),
            self.local.ip()
        );
        io::Error::new(io::ErrorKind::NotConnected, text)
    }

    /// Sends a request and waits for its outcome.
    pub(super) fn ask(&mut self, message: impl Fn(u32) -> ClientMessage) -> io::Result<()> {
        self.requests = self.requests.wrapping_add(1).max(1);
        let number = self.requests;
        let ServiceState::Up(attachment) = &self.service else {
            return Err(self.never_back("it is not back yet"));
        };
        let end = Instant::now() + REQUEST_TIMEOUT;
        let sent = attachment.control.send_by(&message(number).encode(), end);
        match sent.and_then(|()| self.await_outcome(number, end)) {
            Ok(0) => Ok(()),
            Ok(errno) => Err(io::Error::from_raw_os_error(errno)),
            Err(error) => {
                self.lose(&error);
                Err(error)
            }
        }
    }

    /// The outcome of the request with that number. What the service says before it is heard, too.
    fn await_outcome(&mut self, number: u32, end: Instant) -> io::Result<i32> {
        while let ServiceState::Up(attachment) = &self.service {
            let Some(answer) = await_message(&attachment.control, end)? else {
                return Ok(Errno::TIMEDOUT.raw_os_error());
            };
            match ServiceMessage::decode(answer.bytes()) {
                Some(ServiceMessage::Done(done, errno)) if done == number => return Ok(errno),
                Some(ServiceMessage::Wake) => {
                    rustix::io::write(&self.rewake, &1u64.to_ne_bytes()).ok();
                }
                Some(message) => self.heed(&message, answer),
                None => {}
            }
        }
        Err(io::ErrorKind::NotConnected.into())
    }

    pub(super) fn tell(&self, message: &ClientMessage) {
        if let ServiceState::Up(attachment) = &self.service {
            let end = Instant::now() + REQUEST_TIMEOUT;
            // A service that has gone has forgotten what it is told, too.
            attachment.control.send_by(&message.encode(), end).ok();
        }
    }
}
