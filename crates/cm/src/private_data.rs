//! What applications say to each other inside the messages.

use std::fmt;

use thiserror::Error;

/// `N` bytes of an application's own. What is shorter is filled up with zeros: the messages do not
/// carry its length, so the receiver sees all `N`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrivateData<const N: usize>([u8; N]);

/// More private data than the message has room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{got} bytes of private data, but this message has room for {room}: send less of it")]
pub struct TooLong {
    /// Bytes given.
    pub got: usize,
    /// Bytes there is room for.
    pub room: usize,
}

impl<const N: usize> PrivateData<N> {
    /// `bytes`, filled up with zeros.
    ///
    /// # Errors
    /// [`TooLong`].
    pub fn new(bytes: &[u8]) -> Result<Self, TooLong> {
        let mut all = [0; N];
        let room = all.get_mut(..bytes.len()).ok_or(TooLong { got: bytes.len(), room: N })?;
        room.copy_from_slice(bytes);
        Ok(PrivateData(all))
    }

    /// All `N` bytes.
    pub fn bytes(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> From<[u8; N]> for PrivateData<N> {
    fn from(bytes: [u8; N]) -> Self {
        PrivateData(bytes)
    }
}

impl<const N: usize> Default for PrivateData<N> {
    fn default() -> Self {
        PrivateData([0; N])
    }
}

/// Without the zeros at the end.
impl<const N: usize> fmt::Debug for PrivateData<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        write!(f, "{:02x?}", &self.0[..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_room_is_exact() {
        let data = PrivateData::<4>::new(&[1, 2]).expect("it fits");
        assert_eq!(data.bytes(), &[1, 2, 0, 0]);
        assert_eq!(format!("{data:?}"), "[01, 02]");
        assert!(PrivateData::<4>::new(&[0; 4]).is_ok());
        assert_eq!(PrivateData::<4>::new(&[0; 5]), Err(TooLong { got: 5, room: 4 }));
    }
}
