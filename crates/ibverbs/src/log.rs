//! What the library says on stderr: why a work request failed, and the lines of the device. UROCE_LOG is a level (off,
//! error, warn, info, debug) or a filter such as `uroce_device=debug,warn`.
//!
//! Without it, a program is told what the device warns of, and the first few reasons why its work requests failed: C
//! has a number for them only. Some programs try what may fail, and others fail for ever; so there are only a few.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Write as _};
use std::sync::{Mutex, OnceLock, PoisonError};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use uroce_device::host::environment;

/// Reasons that are told without being asked for, each once.
const MOST: usize = 8;

/// Which lines are wanted.
#[derive(Debug, Default)]
struct Filter {
    /// UROCE_LOG was given.
    asked: bool,
    /// Beginnings of the names of modules, the longest first.
    modules: Vec<(String, LevelFilter)>,
    others: Option<LevelFilter>,
}

impl Filter {
    fn of(text: &str) -> Filter {
        let mut filter = Filter { asked: !text.is_empty(), ..Filter::default() };
        for part in text.split(',').map(str::trim) {
            match part.split_once('=') {
                Some((module, level)) => {
                    filter
                        .modules
                        .extend(level.parse().ok().map(|level| (module.to_owned(), level)));
                }
                None => {
                    filter.others = part.parse().ok().filter(|_| !part.is_empty()).or(filter.others)
                }
            }
        }
        filter.modules.sort_by_key(|(module, _)| std::cmp::Reverse(module.len()));
        filter
    }

    fn level_of(&self, module: &str) -> LevelFilter {
        let known = self.modules.iter().find(|(beginning, _)| module.starts_with(beginning));
        let others = self.others.unwrap_or(if self.modules.is_empty() {
            LevelFilter::WARN
        } else {
            LevelFilter::OFF
        });
        known.map_or(others, |(_, level)| *level)
    }

    fn most(&self) -> LevelFilter {
        let named = self.modules.iter().map(|(_, level)| *level);
        named.chain([self.level_of("")]).max().unwrap_or(LevelFilter::WARN)
    }
}

fn filter() -> &'static Filter {
    static FILTER: OnceLock<Filter> = OnceLock::new();
    FILTER.get_or_init(|| Filter::of(&environment::text("UROCE_LOG").unwrap_or_default()))
}

/// Why a call fails, in words, for users who ask for it: C has only a number, and many programs try what may fail.
pub fn explain(error: &dyn Display) {
    if filter().asked && filter().most() >= LevelFilter::WARN {
        eprintln!("uroce: {error}");
    }
}

/// Why a work request failed.
pub fn explain_failure(failure: &dyn Display) {
    static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    if filter().asked {
        return explain(failure);
    }
    let line = failure.to_string();
    let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
    if told.len() > MOST || !told.insert(line.clone()) {
        return;
    }
    match told.len() {
        1 => eprintln!(
            "uroce: {line}\nuroce: (`uroce run --log debug` tells more, `--log off` nothing)"
        ),
        count if count <= MOST => eprintln!("uroce: {line}"),
        _ => eprintln!("uroce: further failures are not shown; `uroce run --log info` shows all"),
    }
}

/// What a program does, for users who want to see it.
pub fn tell(message: &dyn Display) {
    if filter().asked && filter().most() >= LevelFilter::DEBUG {
        eprintln!("uroce: {message}");
    }
}

/// From now on the lines of the device are shown.
pub fn start() {
    // A second device finds it started.
    let _ = tracing::subscriber::set_global_default(Lines);
}

/// Prints events; spans say nothing of their own.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= filter().level_of(metadata.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(filter().most())
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        eprintln!("uroce: {}{}", line.message, line.fields);
    }

    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string does not fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn v132_a_filter_says_which_modules_speak() {
        let level = |text: &str, module: &str| Filter::of(text).level_of(module);
        assert_eq!(level("", "uroce_device"), LevelFilter::WARN);
        assert_eq!(level("debug", "uroce_device"), LevelFilter::DEBUG);
        assert_eq!(level("off", "uroce_device"), LevelFilter::OFF);
        assert_eq!(level("uroce_device=debug,info", "uroce_device::engine"), LevelFilter::DEBUG);
        assert_eq!(level("uroce_device=debug,info", "uroce_cm"), LevelFilter::INFO);
        assert_eq!(level("uroce_device=debug", "uroce_cm"), LevelFilter::OFF);
        assert_eq!(level("nonsense", "uroce_cm"), LevelFilter::WARN);
        assert_eq!(Filter::of("uroce_device=debug,info").most(), LevelFilter::DEBUG);
        assert!(!Filter::of("").asked && Filter::of("error").asked);
    }
}
