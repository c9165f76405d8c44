//! Reports to other processes of the user: every object of a device, as text.
//!
//! A device listens on an abstract unix socket. A client that connects gets one line for each
//! object ([`Resource`]) and the end of the stream; it sends nothing, so nothing of it is read.
//! Only the user of the process and root are answered: keys are secrets.
//!
//! The thread that answers watches the port, too, and raises its events.

mod reader;

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::Duration;

pub(crate) use reader::read_lines;
pub use reader::{DeviceReport, Silent, SilentReason, device_reports};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::geteuid;
use uroce_datapath::FaultCounters;
use uroce_host::fork::keep_from_children;
use uroce_host::{Thread, process};
use uroce_transport::AsyncEvent;

use crate::engines::Shared;
use crate::inventory;
use crate::port_watch::PortWatch;
use crate::resource::Resource;

/// First part of every name; counts up when processes of two versions would not understand each other.
const PREFIX: &str = "uroce1/report/";
/// Devices of one process that can be asked.
const MOST_DEVICES: u32 = 1024;
/// How long a reader that takes nothing is waited for, and a device that says nothing.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// The thread that answers, and that watches the port. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub(crate) struct Reporter {
    listener: Arc<UnixListener>,
    thread: Option<Thread>,
}

impl Reporter {
    /// Listens, and answers with what the device `about` has in its engines, and what its faults were.
    pub(crate) fn start(
        engines: Vec<Arc<Shared>>,
        about: Resource,
        faults: Option<Arc<FaultCounters>>,
        mut watch: Option<PortWatch>,
    ) -> io::Result<Reporter> {
        let listener = Arc::new(listen()?);
        keep_from_children(&listener);
        let answers = Arc::clone(&listener);
        let serve = move || {
            loop {
                watch_until_asked(&answers, &mut watch, &engines[0]);
                if !answer_next(&answers, || inventory::list(&engines, &about, faults.as_deref())) {
                    break;
                }
            }
        };
        let thread = Thread::spawn("uroce-report", serve)?;
        Ok(Reporter { listener, thread: Some(thread) })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take().and_then(Thread::if_here) else { return };
        // Ends accept(2) with EINVAL.
        if let Err(error) = rustix::net::shutdown(&self.listener, Shutdown::Both) {
            tracing::warn!(%error, "the thread that reports goes on");
            return;
        }
        thread.join();
    }
}

/// The first name of this process that is free.
fn listen() -> io::Result<UnixListener> {
    let own = std::process::id();
    for number in 0..MOST_DEVICES {
        let name = SocketAddr::from_abstract_name(format!("{PREFIX}{own}/{number}"))?;
        match UnixListener::bind_addr(&name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error),
            Ok(listener) => {
                // Any user may connect, and is told nothing.
                uroce_host::option::refuse_descriptors(&listener);
                return Ok(listener);
            }
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "too many devices in one process"))
}

/// Watches the port until a client connects or the thread has to end.
fn watch_until_asked(listener: &UnixListener, watch: &mut Option<PortWatch>, shared: &Shared) {
    loop {
        if let Some(Err(error)) =
            watch.as_mut().map(|watch| watch.look(|event| tell(shared, event)))
        {
            tracing::warn!(%error, "there are no more events of the port");
            *watch = None;
        }
        match wait(listener, watch.as_ref()) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "the thread that reports cannot sleep in poll(2)");
                std::thread::sleep(ANSWER_TIMEOUT);
            }
        }
    }
}

/// True: a client has connected, or the thread has to end.
fn wait(listener: &UnixListener, watch: Option<&PortWatch>) -> io::Result<bool> {
    let (changes, time) = watch.map_or((None, None), PortWatch::wait_for);
    let fds = [Some(listener.as_fd()), changes];
    let mut set: Vec<_> = fds.iter().flatten().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let time = time.and_then(|time| Timespec::try_from(time).ok());
    match poll(&mut set, time.as_ref()) {
        Ok(_) => Ok(!set[0].revents().is_empty()),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Delivers an event of the port; it changes no queue pair.
fn tell(shared: &Shared, event: AsyncEvent) {
    tracing::info!(?event, "the port has changed");
    let lost = !shared.events.deliver_of_port(event);
    let mut engine = shared.lock();
    let counters = &mut engine.nic.tables.counters;
    counters.link_downed += u64::from(event == AsyncEvent::PortErr);
    counters.lost_events += u64::from(lost);
}

/// False: the thread has to end.
fn answer_next(listener: &UnixListener, list: impl Fn() -> Vec<Resource>) -> bool {
    match listener.accept() {
        Ok((stream, _)) => {
            if let Err(error) = answer(stream, list) {
                tracing::debug!(%error, "a process that asked what there is got no answer");
            }
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
        // EINVAL at the end. Anything else (no descriptor is free) would come again at once.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => return false,
        Err(error) => {
            tracing::warn!(%error, "cannot tell others what there is");
            std::thread::sleep(ANSWER_TIMEOUT);
        }
    }
    true
}

fn answer(mut stream: UnixStream, list: impl Fn() -> Vec<Resource>) -> io::Result<()> {
    let user = process::peer(&stream)?.user;
    if user != 0 && user != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_write_timeout(Some(ANSWER_TIMEOUT))?;
    let mut text = String::new();
    for resource in list() {
        let _ = writeln!(text, "{resource}");
    }
    stream.write_all(text.as_bytes())
}
