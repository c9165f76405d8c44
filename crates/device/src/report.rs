//! What other processes of the user may ask a device: everything it has, as text.
//!
//! A device listens on an abstract unix socket. Whoever connects gets one line for each object
//! ([`Resource`]) and the end of the stream; it sends nothing, so nothing of it is read. Only the user of
//! the process and root are answered: keys are secrets.

mod reader;

pub use reader::{DeviceReport, Silent, SilentReason, device_reports};

use crate::inventory;
use crate::resource::Resource;
use crate::shared::Shared;
use rustix::net::Shutdown;
use rustix::process::geteuid;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use uroce_datapath::process;

/// First part of every name; counts up when processes of two versions would not understand each other.
const PREFIX: &str = "uroce1/report/";
/// Devices of one process that can be asked.
const MOST_DEVICES: u32 = 1024;
/// How long a reader that takes nothing is waited for, and a device that says nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// The thread that answers. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub(crate) struct Reporter {
    listener: Arc<UnixListener>,
    thread: Option<JoinHandle<()>>,
}

impl Reporter {
    /// Listens, and answers with what the device `about` has in its engines.
    pub(crate) fn start(engines: Vec<Arc<Shared>>, about: Resource) -> io::Result<Reporter> {
        let listener = Arc::new(listen()?);
        let answers = Arc::clone(&listener);
        let serve = move || serve(&answers, &engines, &about);
        let thread = std::thread::Builder::new().name("uroce-report".to_owned()).spawn(serve)?;
        Ok(Reporter { listener, thread: Some(thread) })
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        // Ends accept(2) with EINVAL.
        if let Err(error) = rustix::net::shutdown(&self.listener, Shutdown::Both) {
            tracing::warn!(%error, "the thread that reports goes on");
            return;
        }
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            debug_assert!(ended.is_ok(), "the thread that reports panicked");
        }
    }
}

/// The first name of this process that is free.
fn listen() -> io::Result<UnixListener> {
    let own = std::process::id();
    for number in 0..MOST_DEVICES {
        let name = SocketAddr::from_abstract_name(format!("{PREFIX}{own}/{number}"))?;
        match UnixListener::bind_addr(&name) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {}
            done => return done,
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "too many devices in one process"))
}

fn serve(listener: &UnixListener, engines: &[Arc<Shared>], about: &Resource) {
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                if let Err(error) = answer(stream, engines, about) {
                    tracing::debug!(%error, "a process that asked what there is got no answer");
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            // EINVAL at the end. Anything else (no descriptor is free) would come again at once.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => break,
            Err(error) => {
                tracing::warn!(%error, "cannot tell others what there is");
                std::thread::sleep(PATIENCE);
            }
        }
    }
}

fn answer(mut stream: UnixStream, engines: &[Arc<Shared>], about: &Resource) -> io::Result<()> {
    let user = process::peer(&stream)?.user;
    if user != 0 && user != geteuid().as_raw() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    for resource in inventory::list(engines, about) {
        let _ = writeln!(text, "{resource}");
    }
    stream.write_all(text.as_bytes())
}
