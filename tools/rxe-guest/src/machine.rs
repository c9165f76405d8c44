//! The QEMU process.

use std::fs;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Duration;

use uroce_testbed::cleanup::{Guard, Leftover};
use uroce_testbed::error::{Context, Result};

use crate::addresses;
use crate::cache::Cache;
use crate::config::{GuestConfig, Seat};
use crate::namespace::{Namespace, SECOND_TAP, TAP};

/// How the guest's instructions are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accelerator {
    /// By the processor.
    Kvm,
    /// By QEMU's translator: slower, works everywhere.
    Tcg,
}

impl Accelerator {
    /// How long a boot may take: a guest that KVM runs at all is there in 2 s, a translated one in
    /// 5 to 10 s unless the host is busy.
    pub fn boot_limit(self) -> Duration {
        match self {
            Self::Kvm => Duration::from_secs(8),
            Self::Tcg => Duration::from_secs(120),
        }
    }

    fn flags(self) -> [&'static str; 4] {
        match self {
            Self::Kvm => ["-accel", "kvm", "-cpu", "host"],
            // Not `max`: with that a guest died in its own network stack after 25 minutes of `rxe soak`, and with this one none
            // did in an hour. All that rxe needs is there.
            Self::Tcg => ["-accel", "tcg,thread=multi", "-cpu", "Nehalem"],
        }
    }
}

/// A running QEMU; killed on drop.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    _guard: Guard,
}

impl Machine {
    /// Starts QEMU inside `namespace`; its second serial port is the child's stdin and stdout.
    ///
    /// # Errors
    /// QEMU did not start.
    pub fn start(
        cache: &Cache,
        namespace: &Namespace,
        config: &GuestConfig,
        folder: &Path,
        accelerator: Accelerator,
    ) -> Result<(Self, ChildStdin, ChildStdout)> {
        // QEMU dies with this process even when that is killed outright.
        let mut command =
            namespace.command(&["setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"]);
        command
            .args(accelerator.flags())
            .args(fixed_flags(config))
            .arg("-kernel")
            .arg(cache.kernel());
        command
            .arg("-initrd")
            .arg(cache.initramfs())
            .arg("-append")
            .arg(kernel_command_line(config));
        command.arg("-serial").arg(format!("file:{}", folder.join("console").display()));
        command.args(["-serial", "stdio"]);
        command.arg("-virtfs").arg(format!(
            "local,path={},mount_tag=share,security_model=none",
            folder.join("share").display()
        ));
        let errors =
            fs::File::create(folder.join("qemu")).context(|| "could not make QEMU's log")?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
        let mut child = command.spawn().context(|| "QEMU did not start")?;
        let guard = Guard::new(Leftover::Process(child.id()));
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let machine = Self { child, _guard: guard };
        Ok((machine, stdin.expect("asked for above"), stdout.expect("asked for above")))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Already dead or not, the process is collected.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn fixed_flags(config: &GuestConfig) -> Vec<String> {
    let (tap, mac) = match config.seat {
        Seat::Far => (TAP, "52:54:00:75:72:02"),
        Seat::Near => (SECOND_TAP, "52:54:00:75:72:01"),
    };
    let text = format!(
        "-smp {} -m {} -display none -monitor none -no-reboot -nodefaults \
         -netdev tap,id=n0,ifname={tap},script=no,downscript=no \
         -device virtio-net-pci,netdev=n0,romfile=,mac={mac},host_mtu={} -device virtio-rng-pci",
        config.cores, config.memory_mib, config.mtu
    );
    text.split_whitespace().map(str::to_owned).collect()
}

fn kernel_command_line(config: &GuestConfig) -> String {
    let (v4, v6) = config.seat.addresses();
    // Where the host is busy, the kernel would not see its timer tick in time, and stop ("8254 timer not connected").
    let mut line = format!(
        "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check uroce.mtu={} uroce.v4={}",
        config.mtu,
        addresses::with_prefix(v4.into())
    );
    if config.ipv6 {
        line += &format!(" uroce.v6={}", addresses::with_prefix(v6.into()));
    }
    line
}
