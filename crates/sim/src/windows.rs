//! Memory windows of one end, of both types. Those of type 2 are bound and invalidated; those of type 1 are bound, moved
//! to another key by a further bind, and unbound by one of 0 bytes, as ibv_bind_mw(3) does it.

use uroce_device::Device;
use uroce_device::memory::{Access, MwId, MwType, PdId, Rkey};

use crate::random::Random;

/// Windows of one end.
pub(crate) const WINDOWS: usize = 3;

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
    mw_type: MwType,
    rkey: Rkey,
    state: WindowState,
    /// Requests of the peer that use it.
    users: u32,
}

/// The windows of one end.
#[derive(Debug, Default)]
pub(crate) struct Windows {
    all: Vec<SimWindow>,
    /// How many of them, the first ones, are of type 1.
    type_1: usize,
}

impl Windows {
    /// Rights of all windows.
    pub(crate) const ACCESS: Access =
        Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

    /// Windows that can be bound; none if the device has several engines.
    pub(crate) fn new(device: &Device, pd: PdId, type_1: usize) -> Windows {
        if device.attr().limits.max_mw == 0 {
            return Windows::default();
        }
        let window = |index| {
            let mw_type = if index < type_1 { MwType::Type1 } else { MwType::Type2B };
            let mw = device.memory().alloc_mw(pd, mw_type).expect("a window");
            SimWindow { id: mw.id, mw_type, rkey: mw.rkey, state: WindowState::Free, users: 0 }
        };
        Windows { all: (0..WINDOWS).map(window).collect(), type_1 }
    }

    /// Others of the same types in place of these.
    pub(crate) fn renew(&mut self, device: &Device, pd: PdId) {
        self.destroy(device);
        *self = Windows::new(device, pd, self.type_1);
    }

    /// Gives all windows back.
    pub(crate) fn destroy(&mut self, device: &Device) {
        for window in self.all.drain(..) {
            device.memory().dealloc_mw(window.id).expect("the window exists");
        }
    }

    /// A window that can be bound and that no request uses. One of type 1 may be bound already.
    pub(crate) fn bindable(&self, random: &mut Random) -> Option<usize> {
        let index = random.below(WINDOWS);
        let may_be_bound = |window: &SimWindow| match window.state {
            WindowState::Free => true,
            WindowState::Bound => window.mw_type == MwType::Type1,
            WindowState::Binding | WindowState::Ending => false,
        };
        self.all.get(index).filter(|window| may_be_bound(window) && window.users == 0)?;
        Some(index)
    }

    /// A window that is bound and that no request uses.
    pub(crate) fn idle(&self, random: &mut Random) -> Option<usize> {
        let index = random.below(WINDOWS);
        let is_idle = |window: &&SimWindow| window.state == WindowState::Bound && window.users == 0;
        self.all.get(index).filter(is_idle)?;
        Some(index)
    }

    pub(crate) fn is_type_1(&self, index: usize) -> bool {
        self.all[index].mw_type == MwType::Type1
    }

    pub(crate) fn is_bound(&self, index: usize) -> bool {
        self.all[index].state == WindowState::Bound
    }

    /// A window that the peer can use now.
    pub(crate) fn bound(&self, random: &mut Random) -> Option<usize> {
        let index = random.below(WINDOWS);
        self.all.get(index).filter(|window| window.state == WindowState::Bound)?;
        Some(index)
    }

    pub(crate) fn id(&self, index: usize) -> MwId {
        self.all[index].id
    }

    pub(crate) fn rkey(&self, index: usize) -> Rkey {
        self.all[index].rkey
    }

    /// The key of a window after its next bind.
    pub(crate) fn next_rkey(&self, index: usize) -> Rkey {
        let Rkey(key) = self.all[index].rkey;
        Rkey(key & !0xff | key.wrapping_add(1) & 0xff)
    }

    pub(crate) fn set_state(&mut self, index: usize, state: WindowState) {
        self.all[index].state = state;
    }

    /// A bind has completed: the window has its next key, and is in this state.
    pub(crate) fn note_bound(&mut self, index: usize, state: WindowState) {
        self.all[index].rkey = self.next_rkey(index);
        self.all[index].state = state;
    }

    /// A request of the peer begins to use a window.
    pub(crate) fn retain(&mut self, index: usize) {
        self.all[index].users += 1;
    }

    /// A request of the peer has completed.
    pub(crate) fn release(&mut self, index: usize) {
        self.all[index].users -= 1;
    }

    /// A key has been invalidated: it must not be usable again. False if no window has it.
    pub(crate) fn note_invalidated(&mut self, rkey: Rkey) -> bool {
        let mut windows = self.all.iter_mut();
        let window = windows.find(|window| window.rkey == rkey);
        window.map(|window| window.state = WindowState::Free).is_some()
    }
}
