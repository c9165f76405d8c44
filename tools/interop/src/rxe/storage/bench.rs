//! The target on our libraries, and the guest that uses its disk.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use uroce_rxe_guest::addresses::HOST_V4;
use uroce_rxe_guest::faults::Fault;
use uroce_rxe_guest::{Guest, GuestConfig, Kernel, supplies};
use uroce_testbed::error::{Context, Error, Result};
use uroce_testbed::process::{command, find_program, run, stdout_of};

use crate::programs::install::SCRATCH;
use crate::rxe::matrix::capture::{Capture, Tally};
use crate::rxe::matrix::cell::Family;
use crate::rxe::matrix::near::{Process, wait_until};

const SCRIPT: &str = include_str!("guest.sh");
const PACKAGES: [&str; 5] = ["tgt", "open-iscsi", "libisns0", "libopeniscsiusr", "libaio1"];
const LIBRARY_FOLDERS: &str = "usr/lib/x86_64-linux-gnu:lib/x86_64-linux-gnu";
const MODULES: [&str; 4] = ["ib_iser", "sd_mod", "crc32c_generic", "ext4"];
const TARGET: &str = "iqn.2026-11.uroce:disk";
const INITIATOR: &str = "iqn.2026-11.uroce:guest";
const DISK_BYTES: u64 = 256 << 20;
/// For the login, the file system and its check, under emulation.
const BESIDES: Duration = Duration::from_secs(240);

/// The two ends.
pub struct Bench {
    guest: Guest,
    packages: PathBuf,
    uroce: PathBuf,
    /// Where the target's socket and disk are.
    scratch: PathBuf,
}

impl Bench {
    /// Boots a guest with this kernel, and gives it the initiator and its modules.
    ///
    /// # Errors
    /// It did not boot, or a package cannot be had.
    pub fn boot(kernel: Kernel, folder: &Path) -> Result<Self> {
        let packages = supplies::unpacked(None, &PACKAGES)?;
        let guest = Guest::boot(&GuestConfig { kernel, ipv6: false, ..GuestConfig::default() })?;
        let share = guest.share().join("storage");
        for part in ["bin", "lib", "modules"] {
            let part = share.join(part);
            fs::create_dir_all(&part).context(|| format!("could not make {}", part.display()))?;
        }
        let order = supplies::modules(kernel, &MODULES, &share.join("modules"))?;
        fs::write(share.join("modules/order"), order.join("\n"))
            .context(|| "could not name the modules")?;
        let bench = Self {
            guest,
            packages,
            uroce: folder.join("bin/uroce"),
            scratch: folder.join(SCRATCH),
        };
        for name in ["sbin/iscsid", "sbin/iscsiadm"] {
            bench.add_program(&bench.packages.join(name), &share)?;
        }
        for name in ["mke2fs", "e2fsck", "sha256sum"] {
            let program =
                find_program(name).ok_or_else(|| Error::new(format!("{name} is not installed")))?;
            bench.add_program(&program, &share)?;
        }
        Ok(bench)
    }

    /// With the libraries that it needs.
    fn add_program(&self, program: &Path, share: &Path) -> Result<()> {
        supplies::add(program, &share.join("bin"))?;
        let listing =
            stdout_of(command(["ldd"]).arg(program).env("LD_LIBRARY_PATH", self.libraries()))?;
        let files = listing.split_whitespace().filter(|word| word.starts_with('/'));
        files.map(Path::new).try_for_each(|file| supplies::add(file, &share.join("lib")))
    }

    fn libraries(&self) -> String {
        let folders = LIBRARY_FOLDERS.split(':');
        let folders: Vec<_> =
            folders.map(|folder| self.packages.join(folder).display().to_string()).collect();
        folders.join(":")
    }

    /// What the guest's script said at its end, and what passed the wire.
    ///
    /// # Errors
    /// The target did not start, or a step in the guest failed.
    pub fn run(&self, fault: Fault, time: Duration) -> Result<(String, Tally)> {
        let target = self.start_target()?;
        self.guest.netem(fault)?;
        let capture =
            Capture::start(self.guest.namespace(), &self.guest.folder().join("wire.pcap"))?;
        let output = self.guest.run(&script(time), time + BESIDES)?;
        let tally = capture.finish(Family::V4)?;
        if output.code == 0 {
            let lines: Vec<_> = output.text.lines().collect();
            return Ok((lines[lines.len().saturating_sub(2)..].join("\n"), tally));
        }
        let kernel = self.guest.run("dmesg | grep -i 'iser\\|iscsi' | tail -20", BESIDES)?;
        Err(Error::new(format!(
            "the guest's script ended with {}:\n{}\nits kernel said:\n{}\nthe target had printed:\n{}",
            output.code,
            output.text,
            kernel.text,
            target.text()
        )))
    }

    fn start_target(&self) -> Result<Process> {
        let tgtd = self.scratch.join("tgtd");
        for program in ["tgtd", "tgtadm"] {
            supplies::add(&self.packages.join("usr/sbin").join(program), &self.scratch)?;
        }
        let libaio = self.packages.join("usr/lib/x86_64-linux-gnu/libaio.so.1");
        supplies::add(&libaio, &self.scratch)?;
        let disk = self.scratch.join("disk");
        let file = fs::File::create(&disk).context(|| "could not make the disk")?;
        file.set_len(DISK_BYTES).context(|| "could not make the disk")?;
        fs::set_permissions(&disk, fs::Permissions::from_mode(0o666))
            .context(|| "could not set a mode")?;
        let line = format!(
            "{} run --device {HOST_V4} --datapath udp -- {} -f --iser pool_sz_mb=128",
            self.uroce.display(),
            tgtd.display()
        );
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.guest.namespace().command_as_nobody(&[], &words);
        self.with_environment(&mut command);
        let mut target = Process::start(command, self.guest.folder().join("near"))?;
        wait_until(|| Ok(!target.runs() || self.administer("op show --mode sys").is_ok()))?;
        self.administer(&format!("op new --mode target --tid 1 -T {TARGET}"))?;
        self.administer(&format!(
            "op new --mode logicalunit --tid 1 --lun 1 -b {}",
            disk.display()
        ))?;
        self.administer("op bind --mode target --tid 1 -I ALL")?;
        self.administer(&format!("op bind --mode target --tid 1 -Q {INITIATOR}"))?;
        Ok(target)
    }

    /// tgtd takes orders from its own user only.
    fn administer(&self, order: &str) -> Result<()> {
        let line = format!("{} --lld iser --{order}", self.scratch.join("tgtadm").display());
        let words: Vec<&str> = line.split(' ').collect();
        let mut command = self.guest.namespace().command_as_nobody(&[], &words);
        self.with_environment(&mut command);
        run(&mut command)
    }

    fn with_environment(&self, command: &mut std::process::Command) {
        command.env("TGT_IPC_SOCKET", self.scratch.join("socket"));
        command.env("LD_LIBRARY_PATH", &self.scratch);
    }
}

fn script(time: Duration) -> String {
    SCRIPT
        .replace("TARGET", TARGET)
        .replace("INITIATOR", INITIATOR)
        .replace("PORTAL", &format!("{HOST_V4}:3260"))
        .replace("SECONDS", &time.as_secs().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_is_told_all_it_needs() {
        let script = script(Duration::from_secs(90));
        assert!(script.contains("-T iqn.2026-11.uroce:disk -p 10.77.0.1:3260 -I iser"));
        assert!(script.contains("InitiatorName=iqn.2026-11.uroce:guest"));
        assert!(script.contains("$(($(date +%s) + 90))"));
    }
}
