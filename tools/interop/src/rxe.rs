//! `cargo xtask rxe`: what is tested against a Linux kernel with rxe and the stock RDMA programs, at the other end of a wire.

mod boot;
mod calls;
mod conform;
mod matrix;
mod operations;
mod program;
mod proxy;
mod soak;
mod storage;

use clap::Subcommand;
use uroce_rxe_guest::Kernel;
use uroce_testbed::error::Result;

/// `cargo xtask rxe ...`
#[derive(Debug, Subcommand)]
pub enum RxeCommand {
    /// Make the guest (kernel, stock programs) in the cache folder, if it is not there yet.
    Build {
        /// Kernel of the guest: that of this host's Debian release, or one of another (downloaded once).
        #[arg(long, value_enum, default_value_t)]
        kernel: Kernel,
    },
    /// Boot the guest in a network namespace of its own and run a command in it, or stay until ctrl-c.
    Boot(boot::BootArgs),
    /// Run `uroce conform` against rxe in the guest.
    Conform(conform::ConformArgs),
    /// Try unmodified programs on our libraries against the same ones in the guest.
    Calls(calls::CallsArgs),
    /// Try our programs against the stock ones in the guest.
    Matrix(matrix::MatrixArgs),
    /// Try FLUSH, ATOMIC WRITE and memory registered on demand, both ways round.
    Operations(operations::OperationsArgs),
    /// Put `uroce fault proxy` between two guests that know nothing of it.
    Proxy(proxy::ProxyArgs),
    /// Exchange data with rxe for a long time, under faults, while links go down and programs are killed.
    Soak(soak::SoakArgs),
    /// Use a file system in the guest on a disk that an iSER target on our libraries serves.
    Storage(storage::StorageArgs),
}

impl RxeCommand {
    /// Carries the command out.
    ///
    /// # Errors
    /// A sentence that says what failed and what to do.
    pub fn run(&self) -> Result<()> {
        match self {
            Self::Build { kernel } => {
                println!("{}", uroce_rxe_guest::build(*kernel)?.display());
                Ok(())
            }
            Self::Boot(arguments) => boot::boot(arguments),
            Self::Conform(arguments) => conform::conform(arguments),
            Self::Calls(arguments) => calls::calls(arguments),
            Self::Matrix(arguments) => matrix::matrix(arguments),
            Self::Operations(arguments) => operations::operations(arguments),
            Self::Proxy(arguments) => proxy::proxy(arguments),
            Self::Soak(arguments) => soak::soak(arguments),
            Self::Storage(arguments) => storage::storage(arguments),
        }
    }
}
