use super::*;
use crate::queue::receive;
use crate::reassembly::Reassembly;
use crate::sys::ring::{Consumer, Desc};
use crate::sys::socket::Rings;

/// A kernel with a ring of chunks, all of which it has, and a reader.
struct Bench {
    umem: Umem,
    rings: Rings,
    frames: Reassembly,
    refill: RefillPolicy,
    /// Chunks that the kernel has filled.
    filled: u32,
}

impl Bench {
    fn new(chunks: u32) -> Self {
        let mut umem = Umem::new(chunks as usize, 1).expect("memory");
        let mut rings = Rings {
            fill: Producer::alone(chunks),
            completion: Consumer::alone(2),
            receive: Consumer::alone(chunks),
            transmit: Producer::alone(2),
        };
        assert!(umem.lend_all().all(|addr| rings.fill.push(addr)));
        rings.fill.publish();
        let (frames, refill) = (Reassembly::default(), RefillPolicy::new(chunks));
        Self { umem, rings, frames, refill, filled: 0 }
    }

    /// The kernel fills so many chunks, and shows that it took them.
    fn arrive(&mut self, frames: u32) {
        for _ in 0..frames {
            self.show();
        }
        self.rings.fill.kernel_took(self.filled);
    }

    /// The kernel fills a chunk, and does not show yet that it took it.
    fn show(&mut self) {
        let addr = self.rings.fill.kernel_reads(self.filled);
        self.rings.receive.kernel_writes(self.filled, Desc { addr, len: 60, options: 0 });
        self.filled += 1;
    }

    /// Reads all frames that are there; returns how many.
    fn read(&mut self) -> u32 {
        let Self { umem, rings, frames, refill, .. } = self;
        let mut count = 0;
        let mut sink = |frame: &[u8]| {
            count += u32::from(frame.len() == 60);
            true
        };
        assert_eq!(receive(rings, umem, refill, frames, &mut sink), 0);
        count
    }

    fn lent(&self) -> u32 {
        self.rings.fill.waiting()
    }

    /// Rounds of a frame each, until the kernel has few of 2048.
    fn calm_down(&mut self) {
        for _ in 0..4 * CALM * REFILL_BATCH + 2048 {
            self.arrive(1);
            assert_eq!(self.read(), 1);
        }
        assert!(self.has(SMALL_WORKING_SET));
    }

    /// Whether the kernel has so many, but for those that go back together.
    fn has(&self, chunks: u32) -> bool {
        (chunks + 1 - REFILL_BATCH..=chunks).contains(&self.lent())
    }
}

#[test]
fn no_chunk_is_lost_while_the_kernel_still_shows_it_in_the_fill_ring() {
    let mut bench = Bench::new(2);
    for round in 0..10 {
        bench.show();
        assert_eq!((bench.read(), bench.lent()), (1, 2), "{round}: queued, the ring looks full");
        bench.rings.fill.kernel_took(bench.filled);
        bench.arrive(1);
        assert_eq!((bench.read(), bench.lent()), (1, 2), "{round}: both are back");
    }
}

#[test]
fn few_chunks_go_round_while_few_do() {
    let mut bench = Bench::new(2048);
    bench.calm_down();
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..4 * SMALL_WORKING_SET {
        seen.insert(bench.rings.fill.kernel_reads(bench.filled));
        bench.arrive(1);
        bench.read();
    }
    assert!(
        seen.len() <= (SMALL_WORKING_SET + REFILL_BATCH) as usize,
        "{} different ones",
        seen.len()
    );
}

#[test]
fn a_late_reader_gives_all_of_them_back() {
    let mut bench = Bench::new(2048);
    bench.calm_down();
    bench.arrive(SMALL_WORKING_SET / 2 - REFILL_BATCH);
    bench.read();
    assert!(bench.has(SMALL_WORKING_SET), "not late enough");
    bench.arrive(SMALL_WORKING_SET / 2 + REFILL_BATCH);
    bench.read();
    assert_eq!(bench.lent(), 2048);
    bench.calm_down();
}

#[test]
fn before_a_sleep_the_kernel_gets_all_of_them() {
    let mut bench = Bench::new(2048);
    bench.calm_down();
    bench.refill.refill_all(&mut bench.rings.fill, &mut bench.umem);
    assert_eq!(bench.lent(), 2048);
    bench.arrive(2048);
    assert_eq!(bench.read(), 2048);
}

#[test]
fn a_small_queue_and_a_generous_one_keep_nothing() {
    let (mut small, mut generous) = (Bench::new(128), Bench::new(2048));
    generous.refill.keep_nothing();
    for _ in 0..8 * CALM * REFILL_BATCH {
        for bench in [&mut small, &mut generous] {
            bench.arrive(1);
            assert_eq!(bench.read(), 1);
        }
        assert_eq!(generous.lent(), 2048);
        assert!(small.lent() > 128 - 128 / 16);
    }
}
