//! Whether KVM is worth trying: it may exist and yet hang, as it does inside some virtual machines.

use std::fs::{self, OpenOptions};

use crate::cache::Cache;

/// True when `/dev/kvm` can be opened and has not failed since the host booted.
pub fn worth_trying(cache: &Cache) -> bool {
    let openable = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
    openable && fs::read_to_string(cache.kvm_verdict()).ok() != Some(verdict(false))
}

/// Notes how an attempt went, for as long as the host stays up.
pub fn remember(cache: &Cache, worked: bool) {
    // Not being able to note it only costs the next run the time of another attempt.
    drop(fs::write(cache.kvm_verdict(), verdict(worked)));
}

fn verdict(worked: bool) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    format!("{} {}\n", if worked { "works" } else { "hangs" }, boot.trim())
}
