//! The memory of a run: for each queue pair a half that is sent from (or read into), and a half that
//! the peer writes to (or reads from). Optionally with a pattern, to check what arrived: the half that
//! messages are received into then has a place for each receive that is posted, so that each message can
//! be looked at before another one takes its place.

use uroce_verbs::{Access, MemoryRegion, ProtectionDomain, Sge};

use super::args::Verb;
use super::plan::{CYCLE, LINE, Plan};
use crate::failure::Failure;

/// Most memory for the receives of a verified run, as long as each queue pair has room for one message.
const MOST_PLACES: u64 = 128 << 20;

/// The buffers of all queue pairs, in one region.
#[derive(Debug)]
pub struct Buffers {
    mr: MemoryRegion,
    unit: u64,
    /// The half that the peer works on.
    remote_unit: u64,
    qps: u32,
    prefix: u64,
    /// What the half of queue pair 0 is filled with, as far as a message reaches; empty without `--verify`.
    pattern: Vec<u8>,
}

impl Buffers {
    /// Allocates and registers them.
    ///
    /// # Errors
    /// Exit 3 without memory.
    pub fn new(pd: &ProtectionDomain, plan: &Plan) -> Result<Self, Failure> {
        let (qps, prefix) = (plan.args.qp, plan.prefix());
        // Datagrams arrive behind 40 bytes, so that each slot takes a line more.
        let factor = if prefix > 0 { 2 } else { 1 };
        let unit = plan.largest().max(CYCLE).next_multiple_of(LINE) * factor;
        let remote_unit = if plan.args.verify && plan.receives() { places(plan) } else { unit };
        let length = (unit + remote_unit).saturating_mul(qps.into());
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let access = Access::LOCAL_WRITE
            | match plan.args.verb {
                Verb::Write => Access::REMOTE_WRITE,
                Verb::Read => Access::REMOTE_READ,
                Verb::Atomic => Access::REMOTE_ATOMIC,
                Verb::Send => Access::empty(),
            };
        let mr = pd
            .alloc_mr(length, access)
            .map_err(|error| Failure::environment(error).help("use a smaller -s or -q"))?;
        Ok(Buffers { mr, unit, remote_unit, qps, prefix, pattern: Vec::new() })
    }

    /// The remote key, 0 where the peer needs none.
    pub fn rkey(&self, plan: &Plan) -> u32 {
        if plan.receives() { 0 } else { self.mr.rkey().0 }
    }

    /// Address of the half of queue pair `qp` that the peer works on.
    pub fn remote_address(&self, qp: u32) -> u64 {
        self.mr.addr() + self.remote_offset(qp)
    }

    fn local_offset(&self, qp: u32) -> u64 {
        u64::from(qp) * self.unit
    }

    fn remote_offset(&self, qp: u32) -> u64 {
        u64::from(self.qps) * self.unit + u64::from(qp) * self.remote_unit
    }

    /// The piece that a message at `offset` is sent from, or read into.
    pub fn local_sge(&self, qp: u32, offset: u64, size: u64) -> Sge {
        let start = (self.local_offset(qp) + offset) as usize;
        self.mr.sge(start..start + size as usize)
    }

    /// The piece that the message at the sender's `offset` is received into.
    pub fn receive_sge(&self, qp: u32, offset: u64, size: u64) -> Sge {
        let start = (self.remote_offset(qp) + self.slot(offset, size)) as usize;
        self.mr.sge(start..start + (size + self.prefix) as usize)
    }

    /// How many messages of this size a queue pair has places for in a verified run.
    pub fn places(&self, size: u64) -> u64 {
        self.remote_unit / place_step(size, self.prefix)
    }

    /// The piece that a message of a verified run is received into.
    pub fn place_sge(&self, qp: u32, place: u64, size: u64) -> Sge {
        let start = self.place_offset(qp, place, size) as usize;
        self.mr.sge(start..start + (size + self.prefix) as usize)
    }

    fn place_offset(&self, qp: u32, place: u64, size: u64) -> u64 {
        self.remote_offset(qp) + place * place_step(size, self.prefix)
    }

    /// Compares the message at a place with what the peer sent from its `offset`. `Err` is the first
    /// offset, in the message, where they differ.
    pub fn compare_place(&self, qp: u32, place: u64, size: u64, offset: u64) -> Result<(), u64> {
        let at = self.place_offset(qp, place, size) + self.prefix;
        self.compare(at, offset, size, qp)
    }

    /// Empties a place, so that a message whose bytes do not come is not taken for the one before it.
    pub fn clear_place(&self, qp: u32, place: u64, size: u64) {
        self.zero(self.place_offset(qp, place, size) + self.prefix, size);
    }

    /// Empties what messages of `size` bytes arrived in, before those of the next size.
    pub fn clear(&self, plan: &Plan, size: u64) {
        let length = size.max(CYCLE);
        for qp in 0..self.qps {
            match plan.args.verb {
                Verb::Read => self.zero(self.local_offset(qp), length),
                Verb::Write => self.zero(self.remote_offset(qp), length),
                // There is one size of atomics, and each place of a SEND is emptied by itself.
                Verb::Atomic | Verb::Send => {}
            }
        }
    }

    fn zero(&self, start: u64, length: u64) {
        let filled = self.mr.fill(start as usize, length as usize, 0);
        debug_assert!(filled.is_ok(), "inside the region");
    }

    fn slot(&self, offset: u64, size: u64) -> u64 {
        if self.prefix == 0 {
            return offset;
        }
        let step = size.max(1).next_multiple_of(LINE);
        offset / step * (step + LINE)
    }

    /// Copies an outgoing message, for a work request that carries its bytes.
    pub fn copy_local(&self, qp: u32, offset: u64, out: &mut [u8]) {
        let start = (self.local_offset(qp) + offset) as usize;
        let copied = self.mr.read(start, out);
        debug_assert!(copied.is_ok(), "the plan's largest message fits");
    }

    /// Sets the last byte of an outgoing message.
    pub fn mark(&self, size: u64, value: u8) {
        let written = self.mr.write((size - 1) as usize, &[value]);
        debug_assert!(written.is_ok(), "the plan's largest message fits");
    }

    /// Puts the pattern back where [`mark`](Self::mark) had changed it.
    pub fn restore(&self, size: u64) {
        let mut byte = [0];
        fill(&mut byte, size - 1, 0);
        self.mark(size, byte[0]);
    }

    /// The last byte of an incoming message of queue pair 0.
    pub fn mark_received(&self, size: u64) -> u8 {
        let mut byte = [0];
        let at = (self.remote_offset(0) + size - 1) as usize;
        let copied = self.mr.read(at, &mut byte);
        debug_assert!(copied.is_ok(), "the plan's largest message fits");
        byte[0]
    }

    /// Before a verified run: the side where data comes from gets the pattern. The other one is zero, as
    /// it was allocated.
    pub fn prepare(&mut self, plan: &Plan) {
        self.pattern = vec![0; plan.largest().max(CYCLE) as usize];
        fill(&mut self.pattern, 0, 0);
        for qp in 0..self.qps {
            match plan.args.verb {
                Verb::Write | Verb::Send => self.set(self.local_offset(qp), qp),
                Verb::Read => self.set(self.remote_offset(qp), qp),
                Verb::Atomic => {}
            }
        }
    }

    fn set(&self, start: u64, qp: u32) {
        let mut chunk = [0; CYCLE as usize];
        for at in (0..self.unit).step_by(chunk.len()) {
            fill(&mut chunk, at, qp);
            let length = (self.unit - at).min(CYCLE) as usize;
            let written = self.mr.write((start + at) as usize, &chunk[..length]);
            debug_assert!(written.is_ok(), "inside the region");
        }
    }

    /// Checks what `count` WRITEs or READs of `size` bytes to (or from) queue pair `qp` left behind.
    /// `Err` is the first offset, in the message, where it is not what was sent.
    pub fn check(&self, plan: &Plan, qp: u32, size: u64, count: u64) -> Result<(), u64> {
        // In a ping-pong of WRITEs the last byte is a counter.
        let counted = plan.is_lat() && plan.args.verb == Verb::Write;
        let compared = if counted { size - 1 } else { size };
        let (mut offset, mut seen) = (0, 0);
        while seen < count {
            let at = match plan.args.verb {
                Verb::Read => self.local_offset(qp) + offset,
                _ => self.remote_offset(qp) + offset,
            };
            self.compare(at, offset, compared, qp)?;
            offset = plan.next_offset(offset, size);
            seen += 1;
            if offset == 0 {
                break;
            }
        }
        Ok(())
    }

    fn compare(&self, at: u64, offset: u64, size: u64, qp: u32) -> Result<(), u64> {
        let mut found = [0; CYCLE as usize];
        let wanted = &self.pattern[offset as usize..][..size as usize];
        for (nth, wanted) in (0..).zip(wanted.chunks(found.len())) {
            let (done, found) = (nth * CYCLE, &mut found[..wanted.len()]);
            let copied = self.mr.read((at + done) as usize, found);
            debug_assert!(copied.is_ok(), "inside the region");
            let differing =
                found.iter().zip(wanted).map(|(found, wanted)| found ^ wanted ^ qp as u8);
            // All of them without a jump first: that is several bytes at a time.
            if differing.clone().fold(0, |all, byte| all | byte) != 0 {
                let bad = differing.take_while(|byte| *byte == 0).count();
                return Err(done + bad as u64);
            }
        }
        Ok(())
    }

    /// What the last atomic at `offset` returned.
    pub fn returned(&self, qp: u32, offset: u64) -> u64 {
        self.mr.load_u64((self.local_offset(qp) + offset) as usize).unwrap_or(u64::MAX)
    }
}

/// From the beginning of one place to that of the next.
fn place_step(size: u64, prefix: u64) -> u64 {
    (size + prefix).next_multiple_of(LINE)
}

/// How much memory a queue pair of a verified run has for messages that arrive: a place for each receive, as far as that is
/// not too much.
fn places(plan: &Plan) -> u64 {
    let step = place_step(plan.largest(), plan.prefix());
    let wanted = step.saturating_mul(plan.rx_depth.max(1).into());
    wanted.min(MOST_PLACES / u64::from(plan.args.qp)).max(step).next_multiple_of(LINE)
}

/// The pattern from byte `start` of the half of queue pair `qp` on.
fn fill(out: &mut [u8], start: u64, qp: u32) {
    for (at, byte) in (start..).zip(out) {
        let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        *byte = (mixed >> 56) as u8 ^ (mixed >> 24) as u8 ^ qp as u8;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_differs_by_place_and_queue_pair() {
        let (mut a, mut b, mut c) = ([0; 64], [0; 64], [0; 64]);
        fill(&mut a, 0, 0);
        fill(&mut b, 64, 0);
        fill(&mut c, 0, 1);
        assert!(a != b && a != c);
        let mut again = [0; 32];
        fill(&mut again, 32, 0);
        assert_eq!(again, a[32..]);
    }
}
