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
    let level = level.unwrap_or("warn");
    let filter = parse(level).ok_or_else(|| {
        Failure::usage(format!("{level:?} is no log level"))
            .help("use error, warn, info, debug, trace, or a filter such as uroce_device=debug")
    })?;
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(colour)
        .init();
    Ok(())
}

/// A bare word must be a level; otherwise it would be taken for the name of a module.
fn parse(level: &str) -> Option<EnvFilter> {
    let bare = !level.contains('=') && !level.contains(',');
    if bare && level.parse::<tracing::level_filters::LevelFilter>().is_err() {
        return None;
    }
    EnvFilter::try_new(level).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_told_from_typing_errors() {
        for good in ["warn", "DEBUG", "off", "uroce_device=debug,info"] {
            assert!(parse(good).is_some(), "{good}");
        }
        for bad in ["shout", "uroce_device=loud"] {
            assert!(parse(bad).is_none(), "{bad}");
        }
    }
}
