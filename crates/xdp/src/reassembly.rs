//! Reassembly of frames from chunks.

/// Longest frame that is put together: as long as an IP packet can be, since on virtual links a
/// sender's burst may arrive as one frame.
const LONGEST: usize = 64 * 1024 + 64;

/// Reassembles a frame from its fragments; a frame in one chunk passes without a copy.
#[derive(Debug)]
pub(crate) struct Reassembly {
    buffer: Box<[u8]>,
    /// Bytes of the unfinished frame in the buffer.
    filled: usize,
    /// The unfinished frame is too long and will be dropped.
    spilled: bool,
    oversized: u64,
}

impl Default for Reassembly {
    fn default() -> Self {
        let buffer = vec![0; LONGEST].into_boxed_slice();
        Self { buffer, filled: 0, spilled: false, oversized: 0 }
    }
}

impl Reassembly {
    /// Takes the next fragment; `continued`: more follow. Returns the frame when it is whole.
    #[inline]
    pub(crate) fn take<'a>(&'a mut self, piece: &'a [u8], continued: bool) -> Option<&'a [u8]> {
        if !continued && self.filled == 0 && !self.spilled {
            return Some(piece);
        }
        self.append(piece);
        if continued {
            return None;
        }
        let (filled, spilled) = (self.filled, self.spilled);
        (self.filled, self.spilled) = (0, false);
        self.oversized += u64::from(spilled);
        (!spilled).then(|| &self.buffer[..filled])
    }

    fn append(&mut self, piece: &[u8]) {
        match self.buffer.get_mut(self.filled..self.filled + piece.len()) {
            Some(room) => {
                room.copy_from_slice(piece);
                self.filled += piece.len();
            }
            None => self.spilled = true,
        }
    }

    /// Frames dropped because they were longer than any IP packet.
    pub(crate) fn oversized(&self) -> u64 {
        self.oversized
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(frames: &mut Reassembly, pieces: &[(&[u8], bool)]) -> Vec<Vec<u8>> {
        let mut got = Vec::new();
        for (piece, continued) in pieces {
            got.extend(frames.take(piece, *continued).map(<[u8]>::to_vec));
        }
        got
    }

    #[test]
    fn pieces_become_frames() {
        let mut frames = Reassembly::default();
        let pieces: &[(&[u8], bool)] =
            &[(b"one", false), (b"t", true), (b"w", true), (b"o", false), (b"three", false)];
        assert_eq!(run(&mut frames, pieces), [b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]);
    }

    #[test]
    fn the_longest_frame_passes_and_one_byte_more_does_not() {
        let (most, one) = (vec![7; LONGEST - 1], [8]);
        let mut frames = Reassembly::default();
        assert_eq!(run(&mut frames, &[(&most, true), (&one, false)])[0].len(), LONGEST);
        let pieces: &[(&[u8], bool)] =
            &[(&most, true), (&one, true), (&one, true), (&one, false), (b"next", false)];
        assert_eq!(run(&mut frames, pieces), [b"next".to_vec()]);
        assert_eq!(frames.oversized(), 1);
    }

    #[test]
    fn an_endless_frame_is_dropped_as_one() {
        let mut frames = Reassembly::default();
        for _ in 0..100_000 {
            assert_eq!(frames.take(&[1; 1000], true), None);
        }
        assert_eq!(frames.take(&[1], false), None);
        assert_eq!(run(&mut frames, &[(b"next", false)]), [b"next".to_vec()]);
        assert_eq!(frames.oversized(), 1);
    }
}
