//! Rights to memory: given for a while, taken back, and refused.

use uroce_verbs::{
    Access, MemoryWindow, MwType, QpType, QueuePair, RemoteSlice, Rkey, SendWr, WcStatus,
};

use super::node::{Node, Pair, connect};
use super::{Step, StepResult};

/// A connection that a step may ruin: a refusal ends it.
struct QpPair {
    here: QueuePair,
    there: QueuePair,
}

impl QpPair {
    fn new(pair: &Pair) -> Result<QpPair, String> {
        let make = |node: &Node| node.pd.qp_builder(QpType::Rc, &node.cq, &node.cq).build();
        let here = make(&pair.a).map_err(|error| error.to_string())?;
        let there = make(&pair.b).map_err(|error| error.to_string())?;
        connect(&here, &there).map_err(|error| error.to_string())?;
        Ok(QpPair { here, there })
    }

    /// Binds a window over `start..start + 1000` of B's memory.
    fn bind(&self, pair: &Pair, start: usize) -> Result<(MemoryWindow, RemoteSlice), String> {
        let b = &pair.b;
        let window = b.pd.alloc_mw(MwType::Type2B).map_err(|error| error.to_string())?;
        let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
        b.run(&self.there, SendWr::bind_mw(1, &window, &b.mr, start..start + 1000, access))?;
        let slice = window.remote(b.mr.addr() + start as u64, 1000);
        Ok((window, slice))
    }

    /// A WRITE that must work.
    fn write(&self, pair: &Pair, slice: RemoteSlice) -> Result<(), String> {
        let sges = [pair.a.sge(0, 1000)];
        pair.a.run(&self.here, SendWr::write(1, &sges, slice)).map(|_| ())
    }

    /// A WRITE that must be refused; the explanation.
    fn refused(&self, pair: &Pair, slice: RemoteSlice) -> Result<String, String> {
        let sges = [pair.a.sge(0, 64)];
        let wr = SendWr::write(1, &sges, slice).signaled();
        self.here.post_send(&[wr]).map_err(|error| error.to_string())?;
        let completion = pair.a.any_completion()?;
        match completion.status {
            WcStatus::RemAccessErr => {
                Ok(format!("{}: {}", completion.status.name(), completion.cause))
            }
            _ => Err(format!("it was not refused: {completion}")),
        }
    }
}

/// A part of the memory gets a key of its own.
pub fn bind(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let lane = QpPair::new(pair)?;
    let (window, slice) = lane.bind(pair, 2000)?;
    let sent = a.fill(0, 1000, 8)?;
    b.clear(2000, 1000)?;
    lane.write(pair, slice)?;
    b.expect(2000, &sent)?;
    Ok(StepResult::new(1000, format!("A wrote through window {:#010x}", window.rkey().0)))
}

/// A SEND takes the key back when it arrives.
pub fn send_invalidate(pair: &Pair) -> Step {
    let (a, b) = (&pair.a, &pair.b);
    let lane = QpPair::new(pair)?;
    let (window, slice) = lane.bind(pair, 3000)?;
    lane.write(pair, slice)?;
    let rkey = window.rkey();
    b.receive(&lane.there, 0, 16)?;
    a.run(&lane.here, SendWr::send(1, &[a.sge(0, 16)]).invalidate(rkey))?;
    let received = b.completion()?;
    if received.invalidated != Some(rkey.0) {
        return Err(format!("the completion names {:x?}", received.invalidated));
    }
    lane.refused(pair, slice)?;
    Ok(StepResult::new(1016, "the window served one WRITE; after the SEND it is refused"))
}

/// B takes the key back itself.
pub fn local_invalidate(pair: &Pair) -> Step {
    let lane = QpPair::new(pair)?;
    let (window, slice) = lane.bind(pair, 4000)?;
    lane.write(pair, slice)?;
    pair.b.run(&lane.there, SendWr::local_invalidate(1, window.rkey()))?;
    lane.refused(pair, slice)?;
    Ok(StepResult::new(1000, "the window served one WRITE; after B's request it is refused"))
}

/// What everybody meets first, and what it says.
pub fn wrong_key(pair: &Pair) -> Step {
    let good = pair.b.mr.remote().part(..64);
    let bad = RemoteSlice::new(good.addr, Rkey(good.rkey.0 ^ 0x0bad_0000), 64);
    Ok(StepResult::new(0, QpPair::new(pair)?.refused(pair, bad)?))
}
