//! The thread that takes in what other processes hand over. It sleeps unless one does.

use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{EventfdFlags, Timespec, eventfd};
use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SocketFlags};

use super::allowance::Allowance;
use super::inbox::{Arrived, Inbox};
use super::place::{Place, check_process, check_user};
use super::probe::Answer;
use super::survey::Surveyor;
use crate::Thread;
use crate::fork::keep_from_children;

/// Processes that may be connected: all the others, and some that bring a single letter.
const MAX_CALLERS: usize = 1024;

/// Processes of other users among them. One may have changed its user since it bound the port; that is
/// found out when it brings something, at most so often each tenth of a second.
const MAX_STRANGERS: usize = 16;
const LOOKS: u16 = 2;

/// Letters read from one connection before the next has its turn.
const TURN: usize = 16;

/// What the end of the thread is known by.
const STOP: u64 = 0;
/// What packets that went astray are known by.
const ASTRAY: u64 = u64::MAX;

/// Where processes connect to, and whatever else the thread and its owner both use.
#[derive(Debug)]
struct Lobby {
    inbox: Arc<Inbox>,
    epoll: OwnedFd,
    stop: OwnedFd,
    astray: OwnedFd,
    /// The sockets that are listened on, by the number that the epoll knows them by.
    entrances: Mutex<HashMap<u64, OwnedFd>>,
}

impl Lobby {
    fn entrances(&self) -> MutexGuard<'_, HashMap<u64, OwnedFd>> {
        self.entrances.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, socket: &OwnedFd, number: u64) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(number), EventFlags::IN)?)
    }
}

/// The thread; dropping it ends it.
#[derive(Debug)]
pub(crate) struct Porter {
    lobby: Arc<Lobby>,
    thread: Option<Thread>,
    /// Numbers of entrances are odd, those of connections even.
    next: u64,
}

impl Porter {
    /// Starts the thread with one socket to listen on.
    pub(crate) fn start(
        inbox: Arc<Inbox>,
        entrance: OwnedFd,
        (place, surveyor): (Place, Surveyor),
    ) -> io::Result<Self> {
        let lobby = Arc::new(Lobby {
            inbox,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            astray: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            entrances: Mutex::default(),
        });
        lobby.watch(&lobby.stop, STOP)?;
        lobby.watch(&lobby.astray, ASTRAY)?;
        let mut porter = Self { lobby: Arc::clone(&lobby), thread: None, next: 1 };
        porter.open(entrance)?;
        let looks = Allowance::new(LOOKS, LOOKS);
        let work = Work { lobby, place, callers: HashMap::new(), looks, next: 2, surveyor };
        porter.thread = Some(Thread::spawn("uroce-slot", move || work.run())?);
        Ok(porter)
    }

    /// Listens on one more socket; returns its number.
    pub(crate) fn open(&mut self, entrance: OwnedFd) -> io::Result<u64> {
        let number = self.next;
        let mut entrances = self.lobby.entrances();
        self.lobby.watch(&entrance, number)?;
        entrances.insert(number, entrance);
        self.next += 2;
        Ok(number)
    }

    /// Packets go astray, or will.
    pub(crate) fn survey(&self) {
        rustix::io::write(&self.lobby.astray, &1u64.to_ne_bytes()).ok();
    }

    /// Closes that socket. Who is connected stays so.
    pub(crate) fn close(&self, number: u64) {
        self.lobby.entrances().remove(&number);
    }
}

impl Drop for Porter {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take().and_then(Thread::if_here) else { return };
        self.lobby.inbox.close();
        rustix::io::write(&self.lobby.stop, &1u64.to_ne_bytes()).ok();
        thread.join();
    }
}

/// A process that is connected.
struct Caller {
    socket: OwnedFd,
    /// It is one of ours; otherwise that is asked when it brings something.
    known: bool,
}

struct Work {
    lobby: Arc<Lobby>,
    place: Place,
    callers: HashMap<u64, Caller>,
    /// Looks whether a process that has changed its user has a slot.
    looks: Allowance,
    next: u64,
    surveyor: Surveyor,
}

impl Work {
    fn run(mut self) {
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let spare = rustix::buffer::spare_capacity(&mut events);
            let timeout = self.surveyor.timeout().and_then(|left| Timespec::try_from(left).ok());
            match epoll::wait(&self.lobby.epoll, spare, timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return tracing::warn!(%error, "packets of others are lost"),
            }
            for event in &events {
                match event.data.u64() {
                    STOP => return,
                    ASTRAY => {
                        rustix::io::read(&self.lobby.astray, &mut [0; 8]).ok();
                        self.surveyor.begin();
                    }
                    number if number % 2 == 1 => self.accept(number),
                    number => self.read(number),
                }
            }
            self.surveyor.handle_timeout();
        }
    }

    /// Lets in who waits at an entrance, if it is one of ours.
    fn accept(&mut self, entrance: u64) {
        loop {
            let entrances = self.lobby.entrances();
            let Some(socket) = entrances.get(&entrance) else { return };
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let accepted = net::accept_with(socket, flags);
            drop(entrances);
            match accepted {
                Ok(caller) => self.admit(caller),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    // No descriptor is free: the caller waits, and this thread must not spin.
                    tracing::warn!(%error, "a process that has packets for us must wait");
                    return std::thread::sleep(std::time::Duration::from_millis(10));
                }
            }
        }
    }

    fn admit(&mut self, caller: OwnedFd) {
        let number = self.next;
        if self.callers.len() >= MAX_CALLERS {
            return tracing::debug!("more processes than there can be have packets for us");
        }
        let known = check_user(self.place, &caller).is_ok();
        let strangers = self.callers.values().filter(|caller| !caller.known).count();
        if !known && strangers >= MAX_STRANGERS {
            return tracing::debug!("too many processes of other users are connected");
        }
        match self.lobby.watch(&caller, number) {
            Ok(()) => {
                keep_from_children(&caller);
                self.next += 2;
                self.callers.insert(number, Caller { socket: caller, known });
            }
            Err(error) => tracing::debug!(%error, "a process that has packets for us is not heard"),
        }
    }

    /// Whether the caller may bring something.
    fn may_bring(&mut self, caller: u64) -> bool {
        let Self { callers, looks, place, .. } = self;
        let Some(caller) = callers.get_mut(&caller) else { return false };
        let nobody = Ipv4Addr::UNSPECIFIED.into();
        if !caller.known && looks.take(Instant::now(), nobody) {
            caller.known = check_process(*place, &caller.socket).is_ok();
        }
        caller.known
    }

    /// Letters with packets are for the datapath, answers to probes are not.
    fn sort(&mut self, letter: Arrived) {
        match Answer::read(&letter.bytes[..letter.len]) {
            None => self.lobby.inbox.put(letter),
            Some(answer) => {
                self.surveyor.handle_answer(&answer);
                self.lobby.inbox.recycle(letter.bytes);
            }
        }
    }

    /// Takes the letters of one connection; forgets it when it ends.
    fn read(&mut self, caller: u64) {
        for _ in 0..TURN {
            let Some(Caller { socket, .. }) = self.callers.get(&caller) else { return };
            let Some(mut bytes) = self.lobby.inbox.room() else { return };
            match net::recv(socket, &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((len, _)) if len > 0 && self.may_bring(caller) => {
                    self.sort(Arrived { bytes, len });
                }
                Err(Errno::AGAIN | Errno::INTR) => return self.lobby.inbox.recycle(bytes),
                _ => {
                    self.lobby.inbox.recycle(bytes);
                    self.callers.remove(&caller);
                }
            }
        }
    }
}
