//! Simulations in which an assertion of a NIC may fail.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::packet_event::PacketEvent;
use crate::run_with;
use crate::scenario::Scenario;
use crate::violation::{Invariant, Violation};
use crate::world::Report;

/// As [`run_with`], and gives a panic of a NIC as a violation of [`Invariant::Assertions`]. The panic hook of the
/// program is called as ever.
///
/// # Errors
///
/// The first [`Violation`] of an invariant.
pub fn run_caught(
    scenario: &Scenario,
    mut observer: impl FnMut(&PacketEvent<'_>),
) -> Result<Report, Violation> {
    let mut at_ns = 0;
    let simulation = || {
        run_with(scenario, |event| {
            at_ns = event.at_ns;
            observer(event);
        })
    };
    match catch_unwind(AssertUnwindSafe(simulation)) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let what = message(panic.as_ref());
            Err(Violation { invariant: Invariant::Assertions, what, at_ns })
        }
    }
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic without a message").to_owned()
}
