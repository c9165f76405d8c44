//! The columns of a page.

use super::column::{Column, ColumnEntry, Width, join};

macro_rules! columns {
    ($($(#[doc = $doc:literal])* $name:ident $width:ident;)*) => {
        /// The columns of a page, one number for each packet.
        #[derive(Debug)]
        pub(super) struct Columns {
            $($(#[doc = $doc])* pub $name: Column,)*
        }

        impl Columns {
            /// No packets yet.
            pub(super) const fn new() -> Self {
                Self { $($name: Column::new(stringify!($name), Width::$width),)* }
            }

            /// Where each column lies, and the bytes of all.
            pub(super) fn join(&self) -> (Vec<ColumnEntry>, Vec<u8>) {
                join([$(&self.$name,)*].into_iter())
            }
        }
    };
}

columns! {
    /// Nanoseconds since the packet before, as a signed number of 64 bits: its low half.
    time_low U32;
    /// The high half of it.
    time_high U32;
    /// Number of the frame.
    frame U32;
    /// PSN without wrap: its low half.
    psn_low U32;
    /// The high half of it.
    psn_high U32;
    /// Opcode.
    opcode U8;
    /// Index of its kind.
    kind U8;
    /// Bits of [`FLAGS`].
    flags U16;
    /// Index of its flow.
    flow U16;
    /// Text: why it was sent again.
    cause U16;
    /// Text: what an acknowledgement says.
    note U16;
    /// Text: comment of the capture.
    comment U16;
    /// Text: what is wrong with its ICRC.
    icrc U16;
    /// Payload in bytes; of an RDMA READ request, what it asks for.
    length U32;
    /// Length of the frame on the wire in bytes.
    wire U32;
    /// Bytes of requests on the way after it, or [`NONE`].
    outstanding U32;
    /// Round trip that it ends, in units of 10 ns, or [`NONE`].
    round_trip U32;
    /// Microseconds that an RNR NAK asks for.
    wait U32;
    /// Number of the frame that it was first seen in; 0 if it is this one.
    first_seen U32;
    /// Index of its list of headers.
    layout U16;
    /// Bytes of headers that the page has.
    head U16;
    /// Bytes of payload and pad that the page has.
    payload U32;
    /// Bytes of ICRC that the page has.
    tail U8;
    /// Bytes between payload and ICRC that the page does not have.
    left_out U32;
}

/// "No value" in a column of 32 bits.
pub(super) const NONE: u64 = u32::MAX as u64;

/// `number`, or [`NONE`]; a number that is too large becomes the largest that is a number.
pub(super) fn optional(number: Option<u64>) -> u64 {
    number.map_or(NONE, |number| number.min(NONE - 1))
}

/// Identifier and text of each bit of `flags`, lowest bit first.
pub(super) const FLAGS: [(&str, &str); 13] = [
    ("response", "response"),
    ("retransmission", "retransmission"),
    ("duplicate", "duplicate"),
    ("reordered", "out of order"),
    ("gap", "behind a gap"),
    ("marked", "congestion experienced"),
    ("cut", "cut by the capture"),
    ("icrc", "ICRC wrong"),
    ("solicited", "solicited event"),
    ("ackreq", "asks for an ACK"),
    ("second", "seen again at another interface"),
    ("unsolicited", "answers nothing under way"),
    ("damaged", "damaged, not believed"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_is_no_number() {
        assert_eq!(optional(None), NONE);
        assert_eq!(optional(Some(u64::MAX)), NONE - 1);
        assert_eq!(optional(Some(7)), 7);
    }

    #[test]
    fn every_flag_has_a_bit() {
        assert!(FLAGS.len() <= 16);
    }
}
