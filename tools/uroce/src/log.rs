//! Diagnostics on stderr.

use std::io::IsTerminal;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::{Failure, paint};

/// The most that this build can say: tracing leaves out what is beyond it.
const MOST: LevelFilter = tracing::level_filters::STATIC_MAX_LEVEL;

/// Starts logging at `level`, or with a filter like `uroce_device=debug`.
///
/// # Errors
/// Exit 2 for a level that does not exist.
pub fn start(level: &str) -> Result<(), Failure> {
    let filter = parse(level, MOST).ok_or_else(|| {
        Failure::usage(format!("{level:?} is no log level"))
            .help("use off, error, warn, info, debug, or a filter such as uroce_device=debug")
    })?;
    let colour = !paint(std::io::stderr().is_terminal()).0.is_empty();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colour);
    tracing_subscriber::registry().with(lines).with(filter).init();
    Ok(())
}

/// A bare word must be a level; otherwise it would be taken for the name of a module. No level may be above `most`:
/// tracing would say so in words that mean nothing to a user.
fn parse(level: &str, most: LevelFilter) -> Option<Targets> {
    let levels = level.split(',').map(|part| part.rsplit('=').next().unwrap_or(part).trim());
    if levels.filter_map(|word| word.parse::<LevelFilter>().ok()).any(|level| level > most) {
        return None;
    }
    let bare = !level.contains('=') && !level.contains(',');
    if bare && level.parse::<LevelFilter>().is_err() {
        return None;
    }
    level.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_filters_are_told_from_typing_errors() {
        for good in ["warn", "DEBUG", "off", "uroce_device=debug,info"] {
            assert!(parse(good, MOST).is_some(), "{good}");
        }
        for bad in ["shout", "uroce_device=loud"] {
            assert!(parse(bad, MOST).is_none(), "{bad}");
        }
    }

    #[test]
    fn v126_a_level_that_the_build_left_out_is_no_level() {
        for bad in ["trace", "TRACE", "uroce_device=trace", "info,uroce_device=trace"] {
            assert!(parse(bad, LevelFilter::DEBUG).is_none(), "{bad}");
            assert!(parse(bad, LevelFilter::TRACE).is_some(), "{bad}");
        }
    }
}
