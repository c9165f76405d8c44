//! `cargo xtask rxe boot`: a guest to play with.

use std::time::{Duration, Instant};

use clap::Args;
use uroce_rxe_guest::Kernel;
use uroce_rxe_guest::addresses;
use uroce_rxe_guest::namespace::VETH;
use uroce_rxe_guest::{Guest, GuestConfig};
use uroce_testbed::error::{Error, Result};

/// Options of `rxe boot`.
#[derive(Debug, Args)]
pub struct BootArgs {
    /// Kernel of the guest: that of this host's Debian release, or one of another (downloaded once).
    #[arg(long, value_enum, default_value_t)]
    kernel: Kernel,
    /// MTU of the wire in bytes (9000: path MTU 4096; 1500: path MTU 1024).
    #[arg(long, default_value_t = 9000)]
    mtu: u32,
    /// Leave out the IPv6 addresses.
    #[arg(long)]
    no_ipv6: bool,
    /// Processors of the guest.
    #[arg(long, default_value_t = 2)]
    cores: u32,
    /// Memory of the guest in MiB.
    #[arg(long, default_value_t = 1024)]
    memory: u32,
    /// Seconds that the guest's command may take.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
    /// Shell command to run in the guest; without it the guest stays until ctrl-c.
    command: Vec<String>,
}

/// Boots, says how to reach the guest, runs the command or waits.
///
/// # Errors
/// The guest did not boot, or its command failed.
pub fn boot(arguments: &BootArgs) -> Result<()> {
    let started = Instant::now();
    let config = GuestConfig {
        kernel: arguments.kernel,
        mtu: arguments.mtu,
        ipv6: !arguments.no_ipv6,
        cores: arguments.cores,
        memory_mib: arguments.memory,
        ..GuestConfig::default()
    };
    let guest = Guest::boot(&config)?;
    eprintln!("booted in {:.1} s under {:?}", started.elapsed().as_secs_f64(), guest.accelerator());
    if arguments.command.is_empty() {
        introduce(&guest);
        while !guest.is_gone() {
            std::thread::sleep(Duration::from_millis(200));
        }
        return Err(Error::new("the guest stopped by itself"));
    }
    let output = guest.run(&arguments.command.join(" "), Duration::from_secs(arguments.timeout))?;
    print!("{}", output.text);
    if output.code == 0 {
        Ok(())
    } else {
        Err(Error::new(format!("the guest's command exited with {}", output.code)))
    }
}

fn introduce(guest: &Guest) {
    println!("guest: {} and {}, rxe0 port 1", addresses::GUEST_V4, addresses::GUEST_V6);
    for (index, address) in guest.gids() {
        println!("  GID index {index}: {address}");
    }
    println!(
        "here:  {} and {} on {VETH} in namespace {}",
        addresses::HOST_V4,
        addresses::HOST_V6,
        guest.namespace().name()
    );
    println!("run a program there:   ip netns exec {} COMMAND", guest.namespace().name());
    println!(
        "run one in the guest:  not from here; use `cargo xtask rxe boot -- COMMAND`, files are in {}",
        guest.share().display()
    );
    println!("ctrl-c powers it off");
}
