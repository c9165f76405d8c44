//! Diagnostics on stderr.

use crate::failure::Failure;
use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Starts logging at `level`, or with a filter like `uroce_device=debug`. Without one only warnings
/// are shown.
///
/// # Errors
/// Exit 2 for a level that does not exist.
pub fn start(level: Option<&str>) -> Result<(), Failure> {
    let filter = EnvFilter::try_new(level.unwrap_or("warn")).map_err(|error| {
        Failure::usage(format!("{:?} is no log level: {error}", level.unwrap_or_default()))
            .help("use error, warn, info, debug or trace")
    })?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .init();
    Ok(())
}
