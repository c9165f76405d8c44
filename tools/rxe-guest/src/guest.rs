//! A running guest with a kernel rxe, which takes commands.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::end_of_log;

use crate::addresses;
use crate::cache::Cache;
use crate::config::{GuestConfig, Seat};
use crate::machine::{Accelerator, Machine};
use crate::mailbox::Mailbox;
use crate::namespace::{Namespace, NearEnd};
use crate::{image, kvm};

/// What a command in the guest did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Exit code; 124 when `timeout` ended it.
    pub code: i32,
    /// Standard output and error together.
    pub text: String,
}

/// Lines of its output that are shown of a guest that is gone: enough for the report of a kernel that has panicked.
const LOG_LINES: usize = 60;

/// A booted guest. Dropping it powers it off and removes its network.
#[derive(Debug)]
pub struct Guest {
    mailbox: Mailbox,
    _machine: Machine,
    namespace: Arc<Namespace>,
    folder: PathBuf,
    accelerator: Accelerator,
    next_job: AtomicU64,
    _folder_guard: Guard,
}

impl Guest {
    /// Makes the guest if need be and boots it at the far end of a wire of its own.
    ///
    /// # Errors
    /// Not root, packages missing, or the guest did not come up (the sentence has its console).
    pub fn boot(config: &GuestConfig) -> Result<Self> {
        let wire =
            || Namespace::create(config.mtu, NearEnd::Programs { ipv6: config.ipv6 }).map(Arc::new);
        Self::boot_on(&wire, config)
    }

    /// Boots two guests at the two ends of one wire: the far one first.
    ///
    /// # Errors
    /// As [`Guest::boot`].
    pub fn boot_pair(config: &GuestConfig) -> Result<(Self, Self)> {
        Self::boot_two(config, NearEnd::Guest)
    }

    /// Boots two guests on two taps that nothing joins yet: the far one first.
    ///
    /// # Errors
    /// As [`Guest::boot`].
    pub fn boot_apart(config: &GuestConfig) -> Result<(Self, Self)> {
        Self::boot_two(config, NearEnd::GuestBehindProxy)
    }

    fn boot_two(config: &GuestConfig, near: NearEnd) -> Result<(Self, Self)> {
        let wire = || Namespace::create(config.mtu, near).map(Arc::new);
        let second = GuestConfig { seat: Seat::Near, ..config.clone() };
        let cache = image::ensure(config.kernel)?;
        if !kvm::worth_trying(&cache) {
            // Side by side: to be translated takes each of them a processor and many seconds.
            let far = Self::start(&cache, wire()?, config, Accelerator::Tcg)?;
            let shared = Arc::clone(&far.namespace);
            let near = Self::start(&cache, shared, &second, Accelerator::Tcg)?;
            return Ok((far.ready()?, near.ready()?));
        }
        let far = Self::boot_on(&wire, config)?;
        let shared = Arc::clone(&far.namespace);
        let near = Self::boot_on(&|| Ok(Arc::clone(&shared)), &second)?;
        Ok((far, near))
    }

    fn boot_on(wire: &dyn Fn() -> Result<Arc<Namespace>>, config: &GuestConfig) -> Result<Self> {
        let cache = image::ensure(config.kernel)?;
        if kvm::worth_trying(&cache) {
            let guest =
                Self::start(&cache, wire()?, config, Accelerator::Kvm).and_then(Self::ready);
            kvm::remember(&cache, guest.is_ok());
            if guest.is_ok() {
                return guest;
            }
        }
        // Linux 6.12 has panicked in its first second, translated by QEMU 7.2 on a busy host: not a reason to give up.
        let boot = || Self::start(&cache, wire()?, config, Accelerator::Tcg)?.ready();
        boot().or_else(|_| boot())
    }

    /// A machine that boots; nothing can be asked of it until it is [`ready`](Self::ready).
    fn start(
        cache: &Cache,
        namespace: Arc<Namespace>,
        config: &GuestConfig,
        accelerator: Accelerator,
    ) -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("{}-{:?}", namespace.name(), config.seat));
        fs::create_dir_all(folder.join("share"))
            .context(|| format!("could not make {}", folder.display()))?;
        let folder_guard = Guard::new(Leftover::Folder(folder.clone()));
        let (machine, stdin, stdout) =
            Machine::start(cache, &namespace, config, &folder, accelerator)?;
        let mailbox = Mailbox::new(stdin, stdout);
        Ok(Self {
            mailbox,
            _machine: machine,
            namespace,
            folder,
            accelerator,
            next_job: AtomicU64::new(1),
            _folder_guard: folder_guard,
        })
    }

    /// Waits until it has come up.
    fn ready(self) -> Result<Self> {
        let limit = self.accelerator.boot_limit();
        if self.mailbox.wait_ready(limit) {
            return Ok(self);
        }
        Err(Error::new(format!(
            "the guest did not come up within {} s under {:?}; {}",
            limit.as_secs(),
            self.accelerator,
            self.output()
        )))
    }

    /// What its kernel has printed, and QEMU: why it is gone.
    fn output(&self) -> String {
        let end_of = |name: &str| end_of_log(&self.folder.join(name), LOG_LINES);
        format!(
            "the end of its console:\n{}\nof what QEMU said:\n{}",
            end_of("console"),
            end_of("qemu")
        )
    }

    /// Runs `script` with the guest's shell and waits for it.
    ///
    /// # Errors
    /// The guest died, or the script did not end within `limit` (then it is killed).
    pub fn run(&self, script: &str, limit: Duration) -> Result<Output> {
        self.spawn(script)?.wait(limit)
    }

    /// Starts `script` and comes back at once.
    ///
    /// # Errors
    /// The guest is gone or the shared folder cannot be written.
    pub fn spawn(&self, script: &str) -> Result<Job<'_>> {
        let number = self.next_job.fetch_add(1, Ordering::Relaxed);
        let file = self.share().join(format!("{number}.sh"));
        fs::write(&file, script).context(|| format!("could not write {}", file.display()))?;
        self.mailbox
            .send(&format!("run {number}"))
            .map_err(|error| Error::new(format!("{error}; {}", self.output())))?;
        Ok(Job { guest: self, number, started: Instant::now(), ended: false })
    }

    /// The folder that is `/mnt/share` in the guest.
    pub fn share(&self) -> PathBuf {
        self.folder.join("share")
    }

    /// A folder of this guest for other files of the same life time.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The namespace that holds our end of the wire.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// How it runs.
    pub fn accelerator(&self) -> Accelerator {
        self.accelerator
    }

    /// Its address on the wire.
    pub fn address(&self) -> IpAddr {
        addresses::GUEST_V4.into()
    }

    /// The guest's GID table: index and address.
    pub fn gids(&self) -> Vec<(u8, IpAddr)> {
        self.mailbox.gids()
    }

    /// The index that stock programs want as `-g` or `-x` for `address`.
    ///
    /// # Errors
    /// rxe in the guest has no such address.
    pub fn gid_index(&self, address: IpAddr) -> Result<u8> {
        let found = self.gids().into_iter().find(|(_, gid)| *gid == address);
        found
            .map(|(index, _)| index)
            .ok_or_else(|| Error::new(format!("the guest's rxe has no GID for {address}")))
    }

    /// True if the machine has ended and nothing can be asked of it any more.
    pub fn is_gone(&self) -> bool {
        self.mailbox.is_closed()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Nothing in the guest is worth an orderly end; the machine is killed right after.
        drop(self.mailbox.send("off 0"));
    }
}

/// A command running in the guest; killed when dropped before its end.
#[derive(Debug)]
pub struct Job<'a> {
    guest: &'a Guest,
    number: u64,
    started: Instant,
    ended: bool,
}

impl Job<'_> {
    /// Waits until the command ends, at most until `limit` after its start.
    ///
    /// # Errors
    /// It took longer (then it is killed), or the guest died.
    pub fn wait(mut self, limit: Duration) -> Result<Output> {
        let left = limit.saturating_sub(self.started.elapsed()).max(Duration::from_millis(1));
        let code = self.guest.mailbox.wait_end(self.number, left).map_err(|error| {
            let so_far = self.text();
            let seconds = self.started.elapsed().as_secs();
            let mut text =
                format!("{error} ({seconds} s after its start); it had printed:\n{so_far}");
            if self.guest.is_gone() {
                text += &format!("\n{}", self.guest.output());
            }
            Error::new(text)
        })?;
        self.ended = true;
        Ok(Output { code, text: self.text() })
    }

    /// What the command has printed so far.
    pub fn text(&self) -> String {
        let bytes =
            fs::read(self.guest.share().join(format!("{}.out", self.number))).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if !self.ended {
            drop(self.guest.mailbox.send(&format!("kill {}", self.number)));
        }
    }
}
