//! Bytes as hexadecimal digits in messages.

use std::fmt;

use serde::de::Error as _;
use serde::{Serialize, Serializer};
use serde_json::{Error, Value};

use crate::protocol::FromJson;

/// Bytes that a message carries as hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Hex(pub Vec<u8>);

impl fmt::Debug for Hex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hex({} bytes)", self.0.len())
    }
}

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        serializer.serialize_str(&text)
    }
}

impl FromJson for Hex {
    fn from_json(value: Value) -> Result<Hex, Error> {
        let text = String::from_json(value)?;
        let bytes = text.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>();
        bytes.map(Hex).ok_or_else(|| Error::custom("not an even number of hexadecimal digits"))
    }
}

#[cfg(test)]
impl<'de> serde::Deserialize<'de> for Hex {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Hex, D::Error> {
        Hex::from_json(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

fn byte(digits: &[u8]) -> Option<u8> {
    let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
    u8::try_from(digit(0)? << 4 | digit(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_other_text_is_refused() {
        let text = serde_json::to_string(&Hex(vec![0, 0xa5, 0xff])).expect("text");
        assert_eq!(text, "\"00a5ff\"");
        let read = |text: &str| Hex::from_json(serde_json::from_str(text)?);
        assert_eq!(read(&text).expect("bytes").0, [0, 0xa5, 0xff]);
        for bad in ["\"0\"", "\"zz\"", "\"+1\"", "\"é0\""] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
