//! Times as dates.

use crate::Timestamp;

const SECONDS_OF_A_DAY: u64 = 86_400;

/// Date and time of day in UTC, with microseconds: `2026-11-22 21:15:42.123456 UTC`.
pub(super) fn utc(time: Timestamp) -> String {
    let (seconds, nanoseconds) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
    let (year, month, day) = date(seconds / SECONDS_OF_A_DAY);
    let second = seconds % SECONDS_OF_A_DAY;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let microsecond = nanoseconds / 1000;
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{microsecond:06} UTC")
}

/// Year, month and day of the Gregorian calendar, `days` after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin in March here, so that the day that leap years add is the last one of a year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(11_017), (2000, 3, 1));
        assert_eq!(date(20_454), (2026, 1, 1));
        assert_eq!(date(20_453), (2025, 12, 31));
        assert_eq!(date(47_541), (2100, 3, 1));
    }

    #[test]
    fn a_time_has_microseconds() {
        let time = Timestamp::from_nanos(86_400_000_000_000 + 3_723_004_005_678);
        assert_eq!(utc(time), "1970-01-02 01:02:03.004005 UTC");
        assert!(utc(Timestamp::from_nanos(u64::MAX)).starts_with("2554-07-21"));
    }
}
