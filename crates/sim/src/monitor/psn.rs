//! Packet sequence numbers without wrap.

use uroce_wire::Psn;

/// How many PSNs there are.
const PSNS: u64 = 1 << 24;

/// The PSNs of one direction of a connection as numbers that only grow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PsnLine {
    start: u64,
}

impl PsnLine {
    /// A line that begins at the PSN `start`.
    pub(crate) fn new(start: u32) -> PsnLine {
        // Room before it, for packets that are older than the connection.
        PsnLine { start: PSNS + u64::from(start) % PSNS }
    }

    /// The number of the first PSN.
    pub(crate) fn start(self) -> u64 {
        self.start
    }

    /// The number of a PSN that is less than half of the sequence space away from `near`.
    pub(crate) fn extend(self, psn: Psn, near: u64) -> u64 {
        let distance = psn.since(Psn::new((near % PSNS) as u32));
        near.checked_add_signed(i64::from(distance)).unwrap_or(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psns_go_on_behind_the_wrap() {
        let line = PsnLine::new(0xff_fffe);
        let start = line.start();
        assert_eq!(line.extend(Psn::new(0xff_fffe), start), start);
        assert_eq!(line.extend(Psn::new(1), start), start + 3);
        assert_eq!(line.extend(Psn::new(0xff_fff0), start + 3), start - 14);
    }
}
