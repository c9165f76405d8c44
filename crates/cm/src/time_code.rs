//! The 5-bit codes by which messages tell times.

use std::time::Duration;

/// The time of a code: nominally 4.096 us * 2^code. The kernel counts in milliseconds, 1 for
/// every code up to 8 and 2^(code - 8) above; so do we, since both sides must mean the same.
pub const fn response_time(code: u8) -> Duration {
    Duration::from_millis(1 << (code & 0x1f).saturating_sub(8))
}

/// The local ACK timeout code for a path of packet lifetime `lifetime` to a peer whose ACK delay
/// is `ack_delay`, both codes: the sum of two lifetimes and the delay, rounded as the kernel
/// does, at most 31.
pub const fn ack_timeout(ack_delay: u8, lifetime: u8) -> u8 {
    let (delay, twice) = (ack_delay & 0x1f, (lifetime & 0x1f) + 1);
    let sum = if twice >= delay {
        twice + (delay + 1 >= twice) as u8
    } else {
        delay + (twice + 1 >= delay) as u8
    };
    if sum > 31 { 31 } else { sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_milliseconds_from_9_on() {
        let ms = |code| response_time(code).as_millis();
        assert_eq!([ms(0), ms(8), ms(9), ms(16), ms(20), ms(31)], [1, 1, 2, 256, 4096, 1 << 23]);
    }

    /// rxe has an ACK delay of 15; the kernels' lifetimes are 16 (6.12) and 18 (6.1).
    #[test]
    fn ack_timeouts_that_kernels_send() {
        assert_eq!((ack_timeout(15, 16), ack_timeout(15, 18)), (17, 19));
        assert_eq!(ack_timeout(16, 16), 18);
        assert_eq!((ack_timeout(31, 31), ack_timeout(20, 3)), (31, 20));
    }
}
