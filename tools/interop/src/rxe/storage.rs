//! `cargo xtask rxe storage`: a kernel with a file system on a disk that a program on our libraries serves: the iSER
//! initiator of the guest, over its rxe, and `tgtd` on our libibverbs and librdmacm.

mod bench;

use std::time::Duration;

use bench::Bench;
use clap::Args;
use uroce_rxe_guest::Kernel;
use uroce_rxe_guest::faults::Fault;
use uroce_testbed::error::Result;

use crate::programs::install;

/// Options of `rxe storage`.
#[derive(Debug, Args)]
pub struct StorageArgs {
    /// Kernel of the guest: that of this host's Debian release, or one of another (downloaded once).
    #[arg(long, value_enum, default_value_t)]
    kernel: Kernel,
    /// How long files are written and read back.
    #[arg(long, value_name = "MINUTES", default_value_t = 1)]
    minutes: u32,
    /// Lose no packets; else 1 % of them is lost each way.
    #[arg(long)]
    clean: bool,
}

/// Serves a disk, has the guest use it, and prints what was done and compared.
///
/// # Errors
/// A step in the guest failed, a file came back with other bytes, or the file system is damaged.
pub fn storage(arguments: &StorageArgs) -> Result<()> {
    let (folder, _guard) = install::install()?;
    let bench = Bench::boot(arguments.kernel, &folder)?;
    let fault = if arguments.clean { Fault::None } else { Fault::Loss };
    let time = Duration::from_secs(60 * u64::from(arguments.minutes));
    let (said, tally) = bench.run(fault, time)?;
    println!("ext4 over iSER for {} min, wire: {fault}", arguments.minutes);
    println!("{said}");
    println!(
        "{} packets of ours ({} with a wrong ICRC), {} of rxe ({})",
        tally.near_packets, tally.near_bad, tally.far_packets, tally.far_bad
    );
    Ok(())
}
