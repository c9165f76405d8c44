//! Numbers with units, as people read them.

use std::time::Duration;

/// A time with three or four digits and its unit: `850 ns`, `12.3 us`, `67.1 ms`, `2.50 s`.
pub fn duration(time: Duration) -> String {
    let nanoseconds = time.as_nanos();
    match nanoseconds {
        0..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => digits(nanoseconds as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => digits(nanoseconds as f64 / 1e6, "ms"),
        _ => digits(nanoseconds as f64 / 1e9, "s"),
    }
}

/// A number of bytes: `512 B`, `64.0 KiB`, `1.50 GiB`.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let power = (count.ilog2() / 10) as usize;
    digits(count as f64 / 1024_f64.powi(power as i32), UNITS[power - 1])
}

/// A rate in bits per second: `940 Mb/s`.
pub fn bit_rate(bytes: u64, time: Duration) -> Option<String> {
    const UNITS: [&str; 5] = ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"];
    if time.is_zero() {
        return None;
    }
    let rate = bytes as f64 * 8.0 / time.as_secs_f64();
    let power = UNITS.iter().enumerate().take_while(|(at, _)| rate >= 1000_f64.powi(*at as i32));
    let power = power.count().saturating_sub(1);
    Some(digits(rate / 1000_f64.powi(power as i32), UNITS[power]))
}

/// A part of a whole in percent; `None` if the whole is 0.
pub fn percent(part: u64, whole: u64) -> Option<String> {
    let percent = (whole > 0).then(|| part as f64 * 100.0 / whole as f64)?;
    Some(match percent {
        _ if part == 0 => "0 %".to_owned(),
        percent if percent < 0.01 => "<0.01 %".to_owned(),
        percent if percent < 10.0 => format!("{percent:.2} %"),
        percent => format!("{percent:.1} %"),
    })
}

/// `1 packet`, `2 packets`.
pub fn count(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

fn digits(value: f64, unit: &str) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2} {unit}"),
        value if value < 99.95 => format!("{value:.1} {unit}"),
        value => format!("{value:.0} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_have_the_unit_that_fits() {
        let text = |nanoseconds| duration(Duration::from_nanos(nanoseconds));
        assert_eq!(text(850), "850 ns");
        assert_eq!(text(1_280_000), "1.28 ms");
        assert_eq!(text(67_108_864), "67.1 ms");
        assert_eq!(text(12_340), "12.3 us");
        assert_eq!(text(150_000_000_000), "150 s");
    }

    #[test]
    fn sizes_and_rates() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(65_536), "64.0 KiB");
        assert_eq!(bytes(3 << 30), "3.00 GiB");
        assert_eq!(bit_rate(125_000_000, Duration::from_secs(1)).as_deref(), Some("1.00 Gb/s"));
        assert_eq!(bit_rate(5, Duration::ZERO), None);
        assert_eq!(bit_rate(0, Duration::from_secs(1)).as_deref(), Some("0.00 b/s"));
    }

    #[test]
    fn parts_of_a_whole() {
        assert_eq!(percent(1, 0), None);
        assert_eq!(percent(0, 5).as_deref(), Some("0 %"));
        assert_eq!(percent(1, 1_000_000).as_deref(), Some("<0.01 %"));
        assert_eq!(percent(1, 8).as_deref(), Some("12.5 %"));
        assert_eq!(
            (count(1, "packet"), count(0, "packet")),
            ("1 packet".into(), "0 packets".into())
        );
    }

    proptest! {
        #[test]
        fn every_number_has_a_text(number: u64, time: u64) {
            prop_assert!(bytes(number).len() < 12);
            prop_assert!(duration(Duration::from_nanos(time)).len() < 16);
            let _ = bit_rate(number, Duration::from_nanos(time));
        }
    }
}
