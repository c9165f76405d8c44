//! What this processor is fast at.
//!
//! An emulated processor (QEMU without KVM) has instructions for CRCs and for strings, and takes several times as
//! long with them as without. What it says about itself does not tell; a few microseconds with a clock do.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Once;

use uroce_memory::{LongCopies, Region, set_long_copies};
use uroce_wire::{CrcMethod, Flow, icrc, set_crc_method};

use crate::clock::Clock;

/// Bytes of the packets that are tried.
const PACKET: usize = 1024;
/// Bytes of the copies.
const COPY: usize = 4096;
/// How often each is done for one look at the clock,
const AT_A_TIME: usize = 4;
/// and the number of measurements. The fastest one counts: it was not interrupted.
const LOOKS: usize = 5;
/// How many times faster a loop of short moves has to be than a string move. Real processors are near 1 here, where
/// everything is in the cache, and better with string moves where it is not.
const CLEARLY: u64 = 2;

/// Chooses how CRCs and long copies are made in this process; only the first call takes time.
pub(crate) fn learn() {
    static LEARNT: Once = Once::new();
    LEARNT.call_once(|| {
        let clock = Clock::new(None);
        let (crc, copies) = (choose_crc(&clock), choose_copies(&clock));
        tracing::debug!(?crc, ?copies, "what this processor is fast at");
    });
}

fn choose_crc(clock: &Clock) -> CrcMethod {
    let [src, dst] = [IpAddr::V4(Ipv4Addr::LOCALHOST); 2];
    let flow = Flow { src, dst, src_port: 0xc000, dst_port: 4791 };
    let packet = [0x5a; PACKET];
    let time = |method| {
        set_crc_method(method);
        best_of(clock, || {
            std::hint::black_box(icrc(&flow, 0, std::hint::black_box(&packet)));
        })
    };
    let [instructions, tables] = [CrcMethod::Instructions, CrcMethod::Tables].map(time);
    let faster = if tables < instructions { CrcMethod::Tables } else { CrcMethod::Instructions };
    set_crc_method(faster);
    faster
}

fn choose_copies(clock: &Clock) -> LongCopies {
    let bytes = [0x5a; COPY];
    let time = |region: &Region, copies| {
        set_long_copies(copies);
        best_of(clock, || region.write(0, &bytes).expect("the region has the length of a copy"))
    };
    let choice = match Region::alloc(COPY) {
        Ok(region) => {
            let [strings, loops] =
                [LongCopies::Strings, LongCopies::Loops].map(|copies| time(&region, copies));
            let loops_win = loops.saturating_mul(CLEARLY) < strings;
            if loops_win { LongCopies::Loops } else { LongCopies::Strings }
        }
        Err(_) => LongCopies::Strings,
    };
    set_long_copies(choice);
    choice
}

/// Nanoseconds that `work` takes: the fastest of a few measurements.
fn best_of(clock: &Clock, mut work: impl FnMut()) -> u64 {
    let look = |_| {
        let began = clock.now();
        (0..AT_A_TIME).for_each(|_| work());
        clock.now().since(began)
    };
    (0..LOOKS).map(look).min().unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use uroce_memory::long_copies;
    use uroce_wire::crc_method;

    use super::*;
    use crate::clock::VirtualClock;

    #[test]
    fn what_is_chosen_is_what_is_used_from_then_on() {
        // From then on no other test chooses.
        learn();
        let clock = Clock::new(None);
        let chosen = (choose_crc(&clock), choose_copies(&clock));
        assert_eq!(chosen, (crc_method(), long_copies()));
    }

    #[test]
    fn the_best_look_counts() {
        let mut calls = 0;
        let time = VirtualClock::new();
        let first_is_slow = best_of(&Clock::new(Some(time.clone())), || {
            calls += 1;
            let takes = if calls <= AT_A_TIME { 20 } else { 1 };
            time.advance(Duration::from_millis(takes));
        });
        assert_eq!(calls, AT_A_TIME * LOOKS);
        assert_eq!(first_is_slow, AT_A_TIME as u64 * 1_000_000);
    }
}
