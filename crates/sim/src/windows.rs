//! Memory windows of one end: type 2, bound and invalidated by work requests.

use uroce_device::Device;
use uroce_device::memory::{Access, MwId, MwType, PdId, Rkey};

use crate::random::Random;

/// Windows of one end.
const WINDOWS: usize = 3;

/// What can be done with a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowState {
    /// It can be bound.
    Free,
    /// A bind is posted.
    Binding,
    /// The peer can use it.
    Bound,
    /// An invalidation is posted, here or by the peer.
    Ending,
}

#[derive(Debug)]
struct SimWindow {
    id: MwId,
    rkey: Rkey,
    state: WindowState,
    /// Requests of the peer that use it.
    users: u32,
}

/// The windows of one end.
#[derive(Debug, Default)]
pub(crate) struct Windows(Vec<SimWindow>);

impl Windows {
    /// Rights of all windows.
    pub(crate) const ACCESS: Access =
        Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

    /// Windows that can be bound; none if the device has several engines.
    pub(crate) fn new(device: &Device, pd: PdId) -> Windows {
        if device.attr().limits.max_mw == 0 {
            return Windows::default();
        }
        let window = |_| {
            let mw = device.memory().alloc_mw(pd, MwType::Type2B).expect("a window");
            SimWindow { id: mw.id, rkey: mw.rkey, state: WindowState::Free, users: 0 }
        };
        Windows((0..WINDOWS).map(window).collect())
    }

    /// Gives all windows back.
    pub(crate) fn destroy(&mut self, device: &Device) {
        for window in self.0.drain(..) {
            device.memory().dealloc_mw(window.id).expect("the window exists");
        }
    }

    /// A window in this state that no request uses.
    pub(crate) fn idle(&self, state: WindowState, random: &mut Random) -> Option<usize> {
        let index = random.below(WINDOWS);
        self.0.get(index).filter(|window| window.state == state && window.users == 0)?;
        Some(index)
    }

    /// A window that the peer can use now.
    pub(crate) fn bound(&self, random: &mut Random) -> Option<usize> {
        let index = random.below(WINDOWS);
        self.0.get(index).filter(|window| window.state == WindowState::Bound)?;
        Some(index)
    }

    pub(crate) fn id(&self, index: usize) -> MwId {
        self.0[index].id
    }

    pub(crate) fn rkey(&self, index: usize) -> Rkey {
        self.0[index].rkey
    }

    /// The key of a window after its next bind.
    pub(crate) fn next_rkey(&self, index: usize) -> Rkey {
        let Rkey(key) = self.0[index].rkey;
        Rkey(key & !0xff | key.wrapping_add(1) & 0xff)
    }

    pub(crate) fn set_state(&mut self, index: usize, state: WindowState) {
        self.0[index].state = state;
    }

    /// A bind has completed.
    pub(crate) fn note_bound(&mut self, index: usize) {
        self.0[index].rkey = self.next_rkey(index);
        self.0[index].state = WindowState::Bound;
    }

    /// A request of the peer begins to use a window.
    pub(crate) fn retain(&mut self, index: usize) {
        self.0[index].users += 1;
    }

    /// A request of the peer has completed.
    pub(crate) fn release(&mut self, index: usize) {
        self.0[index].users -= 1;
    }

    /// A key has been invalidated: it must not be usable again. False if no window has it.
    pub(crate) fn note_invalidated(&mut self, rkey: Rkey) -> bool {
        let mut windows = self.0.iter_mut();
        let window = windows.find(|window| window.rkey == rkey);
        window.map(|window| window.state = WindowState::Free).is_some()
    }
}
