//! Headers as tables: where each field is, and how its value is written.

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Field;

/// What a number means; `None` if it needs no words.
pub(super) type Words = fn(u64) -> Option<String>;

/// One field of a header.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    name: &'static str,
    label: &'static str,
    /// First bit; bit 0 is the uppermost one of the first byte.
    at: usize,
    /// Number of bits.
    bits: usize,
    shape: Shape,
    words: Option<Words>,
    inner: &'static [Spec],
}

/// How a value is written, which is as `tshark -T fields` does it.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Decimal,
    /// In units of so many.
    Times(u64),
    /// With so many digits.
    Hex(usize),
    Bytes,
    Ipv4,
    Ipv6,
    Mac,
}

/// A field in bits; `at` is counted from the first bit of byte `byte`.
const fn field(
    name: &'static str,
    label: &'static str,
    (byte, bit): (usize, usize),
    bits: usize,
    shape: Shape,
) -> Spec {
    Spec { name, label, at: byte * 8 + bit, bits, shape, words: None, inner: &[] }
}

/// `bits` bits as a decimal number.
pub(super) const fn decimal(
    name: &'static str,
    label: &'static str,
    at: (usize, usize),
    bits: usize,
) -> Spec {
    field(name, label, at, bits, Shape::Decimal)
}

/// `bits` bits as a decimal number, in units of `unit`.
pub(super) const fn times(
    name: &'static str,
    label: &'static str,
    at: (usize, usize),
    bits: usize,
    unit: u64,
) -> Spec {
    field(name, label, at, bits, Shape::Times(unit))
}

/// `bits` bits as a hexadecimal number, with as many digits as whole bytes have.
pub(super) const fn hex(
    name: &'static str,
    label: &'static str,
    at: (usize, usize),
    bits: usize,
) -> Spec {
    let digits = if bits.is_multiple_of(4) && bits > 8 { bits / 4 } else { bits.div_ceil(8) * 2 };
    wide_hex(name, label, at, bits, digits)
}

/// `bits` bits as a hexadecimal number with so many digits.
pub(super) const fn wide_hex(
    name: &'static str,
    label: &'static str,
    at: (usize, usize),
    bits: usize,
    digits: usize,
) -> Spec {
    field(name, label, at, bits, Shape::Hex(digits))
}

/// `count` bytes from byte `at` on.
pub(super) const fn bytes(
    name: &'static str,
    label: &'static str,
    at: usize,
    count: usize,
) -> Spec {
    field(name, label, (at, 0), count * 8, Shape::Bytes)
}

/// An IPv4 address at byte `at`.
pub(super) const fn ipv4(name: &'static str, label: &'static str, at: usize) -> Spec {
    field(name, label, (at, 0), 32, Shape::Ipv4)
}

/// An IPv6 address or GID at byte `at`.
pub(super) const fn ipv6(name: &'static str, label: &'static str, at: usize) -> Spec {
    field(name, label, (at, 0), 128, Shape::Ipv6)
}

/// A hardware address at byte `at`.
pub(super) const fn mac(name: &'static str, label: &'static str, at: usize) -> Spec {
    field(name, label, (at, 0), 48, Shape::Mac)
}

impl Spec {
    /// With words for its value.
    pub(super) const fn says(self, words: Words) -> Self {
        Self { words: Some(words), ..self }
    }

    /// With fields within it; their places count from the same byte as its own.
    pub(super) const fn with(self, inner: &'static [Spec]) -> Self {
        Self { inner, ..self }
    }

    /// The field in a header that begins with `header`; `base` is the place of the header in the
    /// frame. `None` if it is cut off.
    pub(super) fn read(&self, header: &[u8], base: usize) -> Option<Field> {
        let (from, to) = (self.at / 8, (self.at + self.bits).div_ceil(8));
        let raw = header.get(from..to)?;
        let number = number(raw, self.at % 8, self.bits);
        let value = self.value(raw, number);
        let words = self.words.and_then(|words| words(number));
        let text = match (words, self.shape) {
            (Some(words), _) => format!("{}: {value} ({words})", self.label),
            (None, Shape::Bytes) if raw.len() > 16 => {
                format!("{}: {} bytes", self.label, raw.len())
            }
            (None, _) => format!("{}: {value}", self.label),
        };
        let children = read_all(self.inner, header, base);
        Some(Field { name: self.name, value, text, range: base + from..base + to, children })
    }

    fn value(&self, raw: &[u8], number: u64) -> String {
        match self.shape {
            Shape::Decimal => number.to_string(),
            Shape::Times(unit) => number.saturating_mul(unit).to_string(),
            Shape::Hex(digits) => format!("{number:#0width$x}", width = digits + 2),
            Shape::Bytes => plain_hex(raw),
            Shape::Ipv4 => Ipv4Addr::from(number as u32).to_string(),
            Shape::Ipv6 => raw
                .first_chunk()
                .map_or(String::new(), |raw: &[u8; 16]| Ipv6Addr::from(*raw).to_string()),
            Shape::Mac => {
                raw.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
            }
        }
    }
}

/// The fields of `specs`, without those that are cut off.
pub(super) fn read_all(specs: &[Spec], header: &[u8], base: usize) -> Vec<Field> {
    specs.iter().filter_map(|spec| spec.read(header, base)).collect()
}

/// Adds the names of all fields of a table, those within others too.
pub(super) fn add_names(specs: &[Spec], names: &mut Vec<&'static str>) {
    for spec in specs {
        names.push(spec.name);
        add_names(spec.inner, names);
    }
}

/// Adds first bit and number of bits of each field called `name` in a table.
#[cfg(test)]
pub(super) fn add_places(specs: &[Spec], name: &str, places: &mut Vec<(usize, usize)>) {
    for spec in specs {
        places.extend((spec.name == name).then_some((spec.at, spec.bits)));
        add_places(spec.inner, name, places);
    }
}

/// Bytes as hexadecimal digits without a separator.
pub(super) fn plain_hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// `bits` bits of `raw` from bit `skip` of its first byte on; the lower 64 if there are more.
fn number(raw: &[u8], skip: usize, bits: usize) -> u64 {
    let all = raw.iter().take(9).fold(0u128, |all, byte| all << 8 | u128::from(*byte));
    let behind = (raw.len().min(9) * 8).saturating_sub(skip + bits);
    let mask = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    (all >> behind) as u64 & mask
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: [u8; 4] = [0x12, 0x34, 0x56, 0xff];

    fn value(spec: Spec) -> Option<String> {
        spec.read(&HEADER, 100).map(|field| field.value)
    }

    #[test]
    fn bits_are_counted_from_the_uppermost_one() {
        assert_eq!(value(decimal("a", "A", (0, 0), 4)).as_deref(), Some("1"));
        assert_eq!(value(decimal("a", "A", (0, 6), 4)).as_deref(), Some("8"));
        assert_eq!(value(hex("a", "A", (1, 0), 24)).as_deref(), Some("0x3456ff"));
        assert_eq!(value(hex("a", "A", (3, 7), 1)).as_deref(), Some("0x01"));
        assert_eq!(value(times("a", "A", (0, 4), 4, 4)).as_deref(), Some("8"));
        assert_eq!(value(bytes("a", "A", 1, 2)).as_deref(), Some("3456"));
        assert_eq!(value(ipv4("a", "A", 0)).as_deref(), Some("18.52.86.255"));
    }

    #[test]
    fn what_is_cut_off_is_no_field() {
        assert_eq!(value(decimal("a", "A", (3, 0), 9)), None);
        assert_eq!(value(ipv6("a", "A", 0)), None);
        assert_eq!(value(mac("a", "A", 0)), None);
    }

    #[test]
    fn a_field_tells_its_place_and_meaning() {
        const INNER: [Spec; 1] = [decimal("a.b", "B", (1, 4), 4)];
        let spec = hex("a", "A", (1, 0), 8).says(|number| Some(format!("{number}!"))).with(&INNER);
        let field = spec.read(&HEADER, 100).expect("it is there");
        assert_eq!((field.text.as_str(), field.range.clone()), ("A: 0x34 (52!)", 101..102));
        assert_eq!(field.children[0].value, "4");
    }
}
