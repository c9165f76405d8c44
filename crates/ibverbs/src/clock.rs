//! The clock of our devices: CLOCK_MONOTONIC in nanoseconds, the same for all of them, so that a program
//! can compare what completes on one with what it does itself.

use std::sync::OnceLock;

use libc::{c_int, timespec};

use crate::abi::{IBV_VALUES_MASK_RAW_CLOCK, ibv_context, ibv_values_ex};
use crate::arg::not_null;
use crate::context::ctx_of;
use crate::errno::NOT_SUPPORTED;
use crate::return_value::status;

/// `hca_core_clock` is in kHz: one tick is a nanosecond.
pub(crate) const CORE_CLOCK_KHZ: u64 = 1_000_000;
/// `completion_timestamp_mask`: all 64 bits count.
pub(crate) const TIMESTAMP_MASK: u64 = u64::MAX;

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a timespec to write to; these clocks exist everywhere, else it stays 0.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    let part = |number: i64| u64::try_from(number).unwrap_or(0);
    part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec)
}

/// A moment on CLOCK_MONOTONIC as nanoseconds since 1970. The distance of the two clocks is found once in a
/// process: so a completion has one time however often it is read, and a later one never an earlier time. Time
/// adjustment runs both clocks alike; a clock that is set to another time later is not followed.
pub(crate) fn wallclock(monotonic: u64) -> u64 {
    static DISTANCE: OnceLock<u64> = OnceLock::new();
    monotonic.saturating_add(*DISTANCE.get_or_init(distance))
}

/// By how much CLOCK_REALTIME is ahead: of several looks the quickest one.
fn distance() -> u64 {
    let look = |_| {
        let before = nanoseconds(libc::CLOCK_MONOTONIC);
        let real = nanoseconds(libc::CLOCK_REALTIME);
        let took = nanoseconds(libc::CLOCK_MONOTONIC).saturating_sub(before);
        (took, real.saturating_sub(before + took / 2))
    };
    (0..8).map(look).min().map_or(0, |(_, distance)| distance)
}

/// The slot behind `ibv_query_rt_values_ex`. As from hardware, ticks are in the field of nanoseconds, which
/// they are here.
pub(crate) unsafe extern "C" fn query_rt_values(
    context: *mut ibv_context,
    values: *mut ibv_values_ex,
) -> c_int {
    status(|| {
        // SAFETY: the arguments are those of a call from C, whose objects the manual pages forbid to destroy during it.
        unsafe {
            ctx_of(context)?;
            if (*not_null(values)?).comp_mask & !IBV_VALUES_MASK_RAW_CLOCK != 0 {
                return Err(NOT_SUPPORTED);
            }
            let ticks = nanoseconds(libc::CLOCK_MONOTONIC);
            let raw_clock = timespec { tv_sec: 0, tv_nsec: ticks.cast_signed() };
            values.write(ibv_values_ex { comp_mask: IBV_VALUES_MASK_RAW_CLOCK, raw_clock });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract_tests::opened;

    #[test]
    fn ticks_are_nanoseconds_of_the_monotonic_clock() {
        let context = opened(206);
        let nothing = timespec { tv_sec: 0, tv_nsec: 0 };
        let mut values = ibv_values_ex { comp_mask: IBV_VALUES_MASK_RAW_CLOCK, raw_clock: nothing };
        let before = nanoseconds(libc::CLOCK_MONOTONIC);
        // SAFETY: as the manual page wants it.
        unsafe {
            assert_eq!(query_rt_values(context, &raw mut values), 0);
            let ticks = values.raw_clock.tv_nsec.cast_unsigned();
            assert!((before..=nanoseconds(libc::CLOCK_MONOTONIC)).contains(&ticks));
            values.comp_mask = 2;
            assert_eq!(query_rt_values(context, &raw mut values), libc::EOPNOTSUPP);
            assert_eq!(query_rt_values(context, std::ptr::null_mut()), libc::EINVAL);
        }
    }

    #[test]
    fn a_moment_has_one_place_on_both_clocks() {
        let (then, real) = (nanoseconds(libc::CLOCK_MONOTONIC), nanoseconds(libc::CLOCK_REALTIME));
        let found = wallclock(then);
        assert!(found.abs_diff(real) < 1_000_000_000, "{found} is not {real}");
        assert!(wallclock(then - 5_000_000_000) < found);
    }

    #[test]
    fn v42_a_completion_has_one_time_and_a_later_one_none_before_it() {
        let then = nanoseconds(libc::CLOCK_MONOTONIC);
        for ago in (0..10_000).rev() {
            assert_eq!(wallclock(then) - wallclock(then - ago), ago);
        }
    }
}
