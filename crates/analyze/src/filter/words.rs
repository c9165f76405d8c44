//! Numbers as people write them.

use thiserror::Error;
use uroce_wire::Qpn;

/// Reads a number, decimal or hexadecimal with `0x`; `None` if it is none or above `most`.
pub(super) fn number(text: &str, most: u32) -> Option<u32> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let value = match digits {
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16).ok()?,
        None if !text.starts_with('+') => text.parse().ok()?,
        _ => return None,
    };
    (value <= most).then_some(value)
}

/// A text is no queue pair number.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("`{0}` is no queue pair number: write 17 or 0x11, at most 0xffffff")]
pub struct BadQpn(String);

/// Reads a queue pair number, decimal or hexadecimal with `0x`.
///
/// # Errors
/// The text is no number, or it has more than 24 bits.
pub fn parse_qpn(text: &str) -> Result<Qpn, BadQpn> {
    number(text, 0xff_ffff).map(Qpn::new).ok_or_else(|| BadQpn(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(parse_qpn("17"), Ok(Qpn::new(17)));
        assert_eq!(parse_qpn("0x11"), Ok(Qpn::new(17)));
        assert_eq!(parse_qpn("0XfFffff"), Ok(Qpn::MULTICAST));
    }

    #[test]
    fn what_is_no_number_is_said() {
        for text in ["", "0x", "ff", "-1", "+1", "0x+1", "0x1000000", "16777216", "1 2"] {
            let error = parse_qpn(text).expect_err(text);
            assert!(error.to_string().contains("0x11"), "{error}");
        }
    }
}
