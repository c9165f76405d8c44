//! Messages on a stream.

use std::io::{self, BufRead, Read, Write};

use serde::Serialize;
use thiserror::Error;

use super::{FromJson, limits};

/// A request or a reply.
pub trait Message: Serialize + FromJson {}

impl<M: Serialize + FromJson> Message for M {}

/// Why there is no message.
#[derive(Debug, Error)]
pub enum ProtocolError {
    /// The connection ended or failed.
    #[error("the connection ended: {0}")]
    Connection(#[from] io::Error),
    /// A line is longer than [`limits::LINE`].
    #[error("the other end sent a line of more than {} bytes", limits::LINE)]
    TooLong,
    /// A line is no message of this protocol.
    #[error("the other end sent something that is no message of this protocol: {0}")]
    Meaningless(#[from] serde_json::Error),
}

/// Reads one message.
///
/// # Errors
/// [`ProtocolError`]; nothing more can be read from the stream then.
pub fn read_message<M: Message>(stream: &mut impl BufRead) -> Result<M, ProtocolError> {
    let mut line = Vec::new();
    let limit = limits::LINE as u64 + 1;
    stream.take(limit).read_until(b'\n', &mut line)?;
    if line.len() > limits::LINE {
        return Err(ProtocolError::TooLong);
    }
    if line.last() != Some(&b'\n') {
        return Err(ProtocolError::Connection(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(M::from_json(serde_json::from_slice(&line)?)?)
}

/// Writes one message.
///
/// # Errors
/// The connection failed.
pub fn write_message<M: Message>(
    stream: &mut impl Write,
    message: &M,
) -> Result<(), ProtocolError> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    Ok(stream.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Request, VERSION};

    #[test]
    fn a_message_comes_back() {
        let hello = Request::Hello { version: VERSION, token: "t".to_owned() };
        let mut stream = Vec::new();
        write_message(&mut stream, &hello).expect("a vector grows");
        assert_eq!(read_message::<Request>(&mut stream.as_slice()).expect("a message"), hello);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let read = |text: &str| read_message::<Request>(&mut text.as_bytes());
        assert!(matches!(read(""), Err(ProtocolError::Connection(_))));
        assert!(matches!(read("{\"do\":\"clear\"}"), Err(ProtocolError::Connection(_))));
        assert!(matches!(read("{\"do\":\"format_disk\"}\n"), Err(ProtocolError::Meaningless(_))));
        let long = "x".repeat(limits::LINE) + "\n";
        assert!(matches!(read(&long), Err(ProtocolError::TooLong)));
    }
}
