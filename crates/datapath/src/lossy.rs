//! Loses packets on purpose.

use std::io;

use crate::{Datapath, DatapathStats, Fate, Middleware, RxPacket};

/// A datapath around another that drops received packets at random: single packets, also where the
/// kernel hands over many as one.
///
/// To see what loss does. The choice is a function of the seed, so that a run can be repeated.
#[derive(Debug)]
pub struct LossyDatapath<D> {
    inner: D,
    /// Of 2^32.
    share: u32,
    state: u64,
    dropped: u64,
}

impl<D: Datapath> LossyDatapath<D> {
    /// Drops the `share` of received packets: 0.01 is one of a hundred. What is outside 0 to 1
    /// counts as 0 or 1.
    pub fn new(inner: D, share: f64, seed: u64) -> Self {
        // A float converts to the nearest number there is.
        let share = (share * f64::from(u32::MAX)) as u32;
        // The generator stays at 0 for ever if it starts there.
        Self { inner, share, state: seed | 1, dropped: 0 }
    }
}

/// One step of xorshift64*: enough to choose victims by.
fn next(state: &mut u64) -> u32 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
}

impl<D: Datapath> Middleware for LossyDatapath<D> {
    type Inner = D;

    fn inner(&self) -> &D {
        &self.inner
    }

    fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns how many packets came, those that were dropped included: 0 still means that nothing
    /// is left.
    fn recv(&mut self, limit: usize, sink: &mut dyn FnMut(RxPacket<'_>)) -> io::Result<usize> {
        let Self { inner, share, state, dropped } = self;
        inner.recv(limit, &mut |packet| {
            if next(state) < *share {
                *dropped += 1;
                if let Some(fate) = packet.fate {
                    fate.set(Fate::DroppedOnPurpose);
                }
            } else {
                sink(packet);
            }
        })
    }

    /// Those of the inner datapath, with the victims among the dropped.
    fn stats(&self) -> DatapathStats {
        let inner = self.inner.stats();
        DatapathStats { rx_dropped: inner.rx_dropped + self.dropped, ..inner }
    }
}

#[cfg(test)]
mod tests {
    use super::LossyDatapath;
    use crate::{Datapath, LoopbackFabric, Route};
    use std::net::SocketAddr;

    const COUNT: u64 = 20_000;

    fn received(share: f64) -> (u64, u64) {
        let fabric = LoopbackFabric::new();
        let at = |last| SocketAddr::from(([10, 0, 0, last], 4791));
        let mut from = fabric.attach(at(1)).expect("free");
        let mut to = LossyDatapath::new(fabric.attach(at(2)).expect("free"), share, 7);
        let route = Route { src: at(1), dst: at(2), hop_limit: 64, traffic_class: 0 };
        let mut came = 0;
        for _ in 0..COUNT {
            from.tx_space().expect("room")[0] = 1;
            from.tx_commit(&route, 64, &mut |_, _| {});
            from.flush().expect("taken");
            while to.recv(64, &mut |_| came += 1).expect("readable") > 0 {}
        }
        (came, to.stats().rx_dropped)
    }

    #[test]
    fn one_of_a_hundred_is_lost_and_counted() {
        let (came, dropped) = received(0.01);
        assert_eq!(came + dropped, COUNT);
        assert!((150..250).contains(&dropped), "{dropped} of {COUNT}");
    }

    #[test]
    fn nothing_or_everything() {
        assert_eq!(received(0.0), (COUNT, 0));
        assert!(received(1.0).0 < 3);
    }
}
