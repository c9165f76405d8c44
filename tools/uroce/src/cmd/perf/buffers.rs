//! The memory of a run: for each queue pair a half that is sent from (or read into), and a half that
//! the peer writes to (or reads from). Optionally with a pattern, to check what arrived.

use uroce_verbs::{Access, MemoryRegion, ProtectionDomain, Sge};

use super::args::Verb;
use super::plan::{CYCLE, LINE, Plan};
use crate::failure::Failure;

/// The buffers of all queue pairs, in one region.
#[derive(Debug)]
pub struct Buffers {
    mr: MemoryRegion,
    unit: u64,
    qps: u32,
    prefix: u64,
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
        let length = usize::try_from(unit * 2 * u64::from(qps)).unwrap_or(usize::MAX);
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
        Ok(Buffers { mr, unit, qps, prefix })
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
        u64::from(self.qps + qp) * self.unit
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

    /// Before a verified run: the side where data comes from gets the pattern, the other zeros.
    pub fn prepare(&self, plan: &Plan) {
        let (local, remote) = match plan.args.verb {
            Verb::Write | Verb::Send => (true, false),
            Verb::Read => (false, true),
            Verb::Atomic => (false, false),
        };
        for qp in 0..self.qps {
            self.set(self.local_offset(qp), local.then_some(qp));
            self.set(self.remote_offset(qp), remote.then_some(qp));
        }
    }

    fn set(&self, start: u64, qp: Option<u32>) {
        let mut chunk = [0; CYCLE as usize];
        for at in (0..self.unit).step_by(chunk.len()) {
            if let Some(qp) = qp {
                fill(&mut chunk, at, qp);
            }
            let length = (self.unit - at).min(CYCLE) as usize;
            let written = self.mr.write((start + at) as usize, &chunk[..length]);
            debug_assert!(written.is_ok(), "inside the region");
        }
    }

    /// Checks what `count` messages of `size` bytes to (or from) queue pair `qp` left behind.
    /// `Err` is the first offset, in the message, where it is not what was sent.
    pub fn check(&self, plan: &Plan, qp: u32, size: u64, count: u64) -> Result<(), u64> {
        // In a ping-pong of WRITEs the last byte is a counter.
        let counted = plan.is_lat() && plan.args.verb == Verb::Write;
        let compared = if counted { size - 1 } else { size };
        let (mut offset, mut seen) = (0, 0);
        while seen < count {
            let at = match plan.args.verb {
                Verb::Read => self.local_offset(qp) + offset,
                _ => self.remote_offset(qp) + self.slot(offset, size) + self.prefix,
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
        let (mut wanted, mut found) = ([0; CYCLE as usize], [0; CYCLE as usize]);
        let mut done = 0;
        while done < size {
            let length = (size - done).min(CYCLE) as usize;
            fill(&mut wanted[..length], offset + done, qp);
            let copied = self.mr.read((at + done) as usize, &mut found[..length]);
            debug_assert!(copied.is_ok(), "inside the region");
            if let Some(bad) = (0..length).find(|&i| wanted[i] != found[i]) {
                return Err(done + bad as u64);
            }
            done += length as u64;
        }
        Ok(())
    }

    /// What the last atomic at `offset` returned.
    pub fn returned(&self, qp: u32, offset: u64) -> u64 {
        self.mr.load_u64((self.local_offset(qp) + offset) as usize).unwrap_or(u64::MAX)
    }
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
