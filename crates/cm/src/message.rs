//! The messages of connection management, each with every field of its layout. Bits without a
//! name are sent as zero and ignored on receive.

mod alternate_path;
mod disconnect;
mod mra;
mod path;
mod rej;
mod rep;
mod req;
mod rtu;
mod sidr;

pub use alternate_path::{Apr, Lap};
pub use disconnect::{Drep, Dreq};
pub use mra::Mra;
pub use path::Path;
pub use rej::{Rej, RejectedMessage};
pub use rep::Rep;
pub use req::{Req, TransportService};
pub use rtu::Rtu;
pub use sidr::{SidrRep, SidrReq};

use crate::Attribute;

/// Bytes of every message: what the MAD header leaves of a MAD.
pub const BODY_LEN: usize = 232;

/// The bytes of one message.
pub(crate) type Body = [u8; BODY_LEN];

macro_rules! messages {
    ($($name:ident $attribute:ident;)*) => {
        /// A message.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the variants are the messages themselves")]
        pub enum Message { $($name($name),)* }

        impl Message {
            /// Its attribute id.
            pub const fn attribute(&self) -> Attribute {
                match self { $(Message::$name(_) => Attribute::$attribute,)* }
            }

            /// Its name.
            pub const fn name(&self) -> &'static str {
                match self { $(Message::$name(_) => stringify!($attribute),)* }
            }

            /// Reads the message that `attribute` announces; `None` if there is none such.
            pub(crate) fn read(attribute: Attribute, body: &Body) -> Option<Message> {
                Some(match attribute {
                    $(Attribute::$attribute => Message::$name($name::read(body)),)*
                    _ => return None,
                })
            }

            pub(crate) fn write(&self) -> Body {
                match self { $(Message::$name(message) => message.write(),)* }
            }
        }

        $(impl From<$name> for Message {
            fn from(message: $name) -> Message {
                Message::$name(message)
            }
        })*
    };
}

messages! {
    Req REQ;
    Mra MRA;
    Rej REJ;
    Rep REP;
    Rtu RTU;
    Dreq DREQ;
    Drep DREP;
    SidrReq SIDR_REQ;
    SidrRep SIDR_REP;
    Lap LAP;
    Apr APR;
}

impl Message {
    /// The attribute modifier that it is sent with.
    pub(crate) fn modifier(&self) -> u32 {
        match self {
            Message::Req(req) => req.vendor_options,
            Message::Rep(rep) => rep.vendor_options,
            _ => 0,
        }
    }

    /// With the attribute modifier that it came with.
    pub(crate) fn with_modifier(mut self, modifier: u32) -> Message {
        match &mut self {
            Message::Req(req) => req.vendor_options = modifier,
            Message::Rep(rep) => rep.vendor_options = modifier,
            _ => {}
        }
        self
    }
}
