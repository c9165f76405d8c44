//! Finding a mode in which the interface works, and taking its queues.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU8;
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use rustix::io::Errno;
use uroce_link::Interface;

use crate::config::XdpConfig;
use crate::error::XdpError;
use crate::mode::XdpMode;
use crate::queue::{Queue, QueueSize};
use crate::refill::SMALL_WORKING_SET;
use crate::steering::{Steering, Wanted};
use crate::sys::interface as ask;
use crate::sys::socket::CHUNK;

/// Queues of one interface that are served; packets of further ones would be lost, so an interface
/// with more is refused.
const MAX_QUEUES: u32 = 64;

/// Bytes at the start of a chunk that the kernel keeps for itself.
const HEADROOM: usize = 256;

/// Bytes before the IP header: Ethernet and one tag.
const LINK_HEADER: usize = 14 + 4;

/// Largest MTU whose frames fit into one chunk.
const LARGEST_SINGLE_MTU: usize = CHUNK - HEADROOM - LINK_HEADER;

/// The kernel frees a queue a moment after its last owner is gone; so often and so long we wait.
const BUSY_TRIES: usize = 20;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// The interface and what its driver says.
#[derive(Debug, Clone)]
pub(crate) struct Link {
    /// The interface that has the address.
    pub(crate) home: Interface,
    /// Name of the interface that the packets pass.
    pub(crate) name: String,
    /// Its index.
    pub(crate) index: u32,
    driver: String,
    pub(crate) queues: u32,
}

impl Link {
    /// The interface of the configuration.
    pub(crate) fn find(config: &XdpConfig) -> Result<Self, XdpError> {
        let ip = config.local.ip();
        let home = uroce_link::interface_of(ip).map_err(|_| XdpError::NotLocal(ip))?;
        if home.loopback || ip.is_loopback() {
            return Err(XdpError::Loopback(ip));
        }
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None)
            .map_err(|source| XdpError::explain("opening a socket", source))?;
        let (name, index) = match &config.interface {
            Some(name) => {
                let index = rustix::net::netdevice::name_to_index(&socket, name);
                (name.clone(), index.map_err(|_| XdpError::NoInterface(name.clone()))?)
            }
            None => {
                let name = rustix::net::netdevice::index_to_name(&socket, home.index);
                (name.map_err(|_| XdpError::NotLocal(ip))?, home.index)
            }
        };
        if !home.ethernet {
            return Err(XdpError::NotEthernet(name));
        }
        let driver = ask::driver(&socket, &name);
        let queues = ask::receive_queues(&socket, &name);
        Ok(Self { home, name, index, driver, queues })
    }
}

/// Queues that are taken, and the program that feeds them.
#[derive(Debug)]
pub(crate) struct Taken {
    /// Those of each engine.
    pub(crate) queues: Vec<Vec<Queue>>,
    pub(crate) steering: Steering,
    pub(crate) mode: XdpMode,
}

/// Why one mode did not work.
enum Failed {
    /// Another mode may.
    Here(XdpError),
    /// No other will either.
    Everywhere(XdpError),
}

/// Takes all queues of the interface, for so many engines, in the first mode that works.
pub(crate) fn take(
    config: &XdpConfig,
    link: &Link,
    local: SocketAddr,
    engines: NonZeroU8,
) -> Result<Taken, XdpError> {
    check_queues(link, engines)?;
    let mut last = None;
    for &mode in config.mode.order(&link.driver) {
        // With several buffers first: the program then sees long frames as they are, and the
        // kernel need not copy those of others together.
        for multi_buffer in [true, false] {
            match take_in(config, link, local, engines, (mode, multi_buffer)) {
                Ok(taken) => return Ok(taken),
                Err(Failed::Everywhere(error)) => return Err(error),
                Err(Failed::Here(error)) => {
                    tracing::debug!(mode = mode.name(), multi_buffer, %error, "not here");
                    last = Some(error);
                }
            }
        }
    }
    let mode = config.mode.name();
    let (interface, driver) = (link.name.clone(), link.driver.clone());
    Err(last.unwrap_or(XdpError::Mode { interface, driver, mode }))
}

/// Each engine needs a queue, and there must be a socket for each queue.
fn check_queues(link: &Link, engines: NonZeroU8) -> Result<(), XdpError> {
    let (interface, queues) = (link.name.clone(), link.queues);
    if queues > MAX_QUEUES {
        return Err(XdpError::TooManyQueues { interface, queues, most: MAX_QUEUES });
    }
    if queues < engines.get().into() {
        return Err(XdpError::TooFewQueues { interface, queues, engines });
    }
    Ok(())
}

fn take_in(
    config: &XdpConfig,
    link: &Link,
    local: SocketAddr,
    engines: NonZeroU8,
    (mode, multi_buffer): (XdpMode, bool),
) -> Result<Taken, Failed> {
    if !multi_buffer && link.home.mtu > LARGEST_SINGLE_MTU {
        return Err(Failed::Here(XdpError::MtuTooLarge {
            interface: link.name.clone(),
            mtu: link.home.mtu,
            most: LARGEST_SINGLE_MTU,
        }));
    }
    let wanted =
        Wanted { address: local.ip(), port: local.port(), vlan: config.vlan, queues: link.queues };
    let mut steering = Steering::load(&wanted, multi_buffer).map_err(unless_odd)?;
    let engines = usize::from(engines.get());
    let mut queues: Vec<Vec<Queue>> = (0..engines).map(|_| Vec::new()).collect();
    for number in 0..link.queues {
        let place = number as usize;
        let mut queue = make(config, link, place < engines)?;
        bind(&mut queue, link, number, mode, multi_buffer)?;
        if let Some(micros) = config.busy_poll {
            queue.busy_poll(micros).map_err(everywhere("asking for busy polling"))?;
        }
        steering.serve(number, queue.as_fd()).map_err(everywhere("naming a socket"))?;
        queues[place % engines].push(queue);
    }
    steering.attach(link.index, mode.hook()).map_err(|source| attach_error(link, mode, source))?;
    Ok(Taken { queues, steering, mode })
}

/// A socket with its memory. Only the first queue of an engine `sends`.
fn make(config: &XdpConfig, link: &Link, sends: bool) -> Result<Queue, Failed> {
    let share = config.receive_chunks / link.queues;
    // All that a peer sends may come to one queue.
    let receive = prev_power_of_two(share).max(SMALL_WORKING_SET);
    let transmit = if sends { config.transmit_slots.next_power_of_two() } else { 1 };
    let size = QueueSize { receive, transmit };
    Queue::new(size).map_err(|source| {
        Failed::Everywhere(match Errno::from_io_error(&source) {
            Some(Errno::NOBUFS | Errno::NOMEM) => {
                XdpError::LockedMemory { megabytes: size.bytes().div_ceil(1 << 20) }
            }
            _ => XdpError::explain("opening an AF_XDP socket", source),
        })
    })
}

fn prev_power_of_two(number: u32) -> u32 {
    number.checked_ilog2().map_or(1, |log| 1 << log)
}

fn bind(
    queue: &mut Queue,
    link: &Link,
    number: u32,
    mode: XdpMode,
    multi_buffer: bool,
) -> Result<(), Failed> {
    let mut tries = 0;
    let error = loop {
        match queue.bind(link.index, number, mode.flags(multi_buffer)) {
            Ok(()) => return Ok(()),
            Err(error) if is_busy(&error) && tries < BUSY_TRIES => {
                tries += 1;
                sleep(BUSY_PAUSE);
            }
            Err(error) => break error,
        }
    };
    Err(match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => {
            Failed::Everywhere(XdpError::QueueBusy { interface: link.name.clone(), queue: number })
        }
        Some(Errno::OPNOTSUPP | Errno::INVAL) => Failed::Here(no_mode(link, mode)),
        _ => everywhere("binding an AF_XDP socket")(error),
    })
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

fn attach_error(link: &Link, mode: XdpMode, source: io::Error) -> Failed {
    match Errno::from_io_error(&source) {
        Some(Errno::BUSY | Errno::EXIST) => {
            Failed::Everywhere(XdpError::ProgramBusy { interface: link.name.clone() })
        }
        Some(Errno::OPNOTSUPP | Errno::RANGE | Errno::INVAL | Errno::NOSPC) => {
            Failed::Here(no_mode(link, mode))
        }
        _ => everywhere("attaching the redirect program")(source),
    }
}

fn no_mode(link: &Link, mode: XdpMode) -> XdpError {
    XdpError::Mode { interface: link.name.clone(), driver: link.driver.clone(), mode: mode.name() }
}

fn everywhere(what: &'static str) -> impl Fn(io::Error) -> Failed {
    move |source| Failed::Everywhere(XdpError::explain(what, source))
}

/// A kernel that does not know a flag says EINVAL: then there is another way.
fn unless_odd(error: XdpError) -> Failed {
    match &error {
        XdpError::System { source, .. } if Errno::from_io_error(source) == Some(Errno::INVAL) => {
            Failed::Here(error)
        }
        _ => Failed::Everywhere(error),
    }
}

#[cfg(test)]
mod refusals;
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_gets_a_power_of_two() {
        for (share, expected) in [(0, 1), (1, 1), (2, 2), (3, 2), (2048, 2048), (4095, 2048)] {
            assert_eq!(prev_power_of_two(share), expected);
        }
    }
}
