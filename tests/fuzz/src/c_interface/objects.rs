//! All objects that the program ever had.

use std::collections::{HashMap, HashSet};
use std::ptr::null_mut;

use libc::{c_int, c_void};
use uroce_verbs_abi::*;

use super::functions::*;
use crate::input::Input;

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Qp,
    Srq,
    Counter,
    Mw,
    Mr,
    Ah,
    Cq,
    Channel,
    Dm,
    Xrcd,
    Pd,
    Td,
}

impl Kind {
    /// In an order in which they can be destroyed; a parent domain goes before what it stands on.
    pub(super) const ALL: [Kind; 12] = [
        Kind::Qp,
        Kind::Srq,
        Kind::Counter,
        Kind::Mw,
        Kind::Mr,
        Kind::Ah,
        Kind::Cq,
        Kind::Channel,
        Kind::Dm,
        Kind::Xrcd,
        Kind::Pd,
        Kind::Td,
    ];
}

/// An object that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Live {
    kind: Kind,
    /// Which of the two devices it is on.
    device: usize,
}

#[derive(Default)]
pub(super) struct Objects {
    /// Every pointer that a function returned.
    ever: Vec<*mut c_void>,
    live: HashMap<usize, Live>,
    /// Where the library has made objects for ids: they are not the program's, and may be where one of its own was.
    of_ids: HashSet<usize>,
}

impl Objects {
    /// An object for a control verb: null, any pointer that there ever was, or one of the kind that is there.
    pub(super) fn any<T>(&self, kind: Kind, input: &mut Input<'_>) -> *mut T {
        let choice = input.u8();
        match choice >> 4 {
            0 => null_mut(),
            1 | 2 if !self.ever.is_empty() => {
                let object = self.ever[usize::from(input.u8()) % self.ever.len()];
                if self.of_ids.contains(&object.addr()) { null_mut() } else { object.cast() }
            }
            _ => self.nth(kind, choice.into()),
        }
    }

    /// An object for what posts and polls: one that is there, or null.
    pub(super) fn live<T>(&self, kind: Kind, input: &mut Input<'_>) -> *mut T {
        self.nth(kind, input.u8().into())
    }

    /// The library has made this for an id.
    pub(super) fn is_of_id<T>(&mut self, object: *mut T) {
        self.of_ids.insert(object.addr());
    }

    fn nth<T>(&self, kind: Kind, number: usize) -> *mut T {
        let all = self.all_live(kind);
        if all.is_empty() { null_mut() } else { all[number % all.len()].cast() }
    }

    pub(super) fn all_live(&self, kind: Kind) -> Vec<*mut c_void> {
        let mut all = self.ever.clone();
        all.retain(|object| self.live.get(&object.addr()).is_some_and(|live| live.kind == kind));
        all.dedup();
        all
    }

    /// The device of an object that there is.
    pub(super) fn device_of<T>(&self, object: *mut T) -> Option<usize> {
        self.live.get(&object.addr()).map(|live| live.device)
    }

    fn is<T>(&self, kind: Kind, object: *mut T) -> bool {
        self.live.get(&object.addr()).is_some_and(|live| live.kind == kind)
    }

    /// A function has returned this, perhaps null, for these objects, which must have been there, and all on one device. A thread
    /// domain is a promise of the program's, whatever the device.
    pub(super) fn made<T>(
        &mut self,
        kind: Kind,
        device: Option<usize>,
        object: *mut T,
        of: &[(Kind, *mut c_void)],
    ) {
        if object.is_null() {
            return;
        }
        let device = device.expect("nothing is made without a context");
        for (needed, argument) in of.iter().filter(|(_, argument)| !argument.is_null()) {
            assert!(self.is(*needed, *argument), "{kind:?} of {needed:?} that is not there");
            let found = self.device_of(*argument);
            let fits = *needed == Kind::Td || found == Some(device);
            assert!(fits, "{kind:?} of {needed:?} of another device");
        }
        self.of_ids.remove(&object.addr());
        let known = self.live.insert(object.addr(), Live { kind, device });
        assert_eq!(known, None, "an object at the place of another");
        self.ever.retain(|ever| ever.addr() != object.addr());
        self.ever.push(object.cast());
    }

    /// Destroys an object as one of this kind; says whether that went.
    pub(super) fn destroy(
        &mut self,
        kind: Kind,
        object: *mut c_void,
        slots: *mut verbs_slots,
    ) -> bool {
        let answer = destroy(kind, object, slots);
        if answer == 0 {
            assert!(self.is(kind, object), "{kind:?} destroyed that is not there");
            self.live.remove(&object.addr());
        } else if self.is(kind, object) {
            assert_eq!(answer, libc::EBUSY, "{kind:?}");
        } else {
            assert!([libc::EINVAL, libc::ENOENT].contains(&answer), "{kind:?}: {answer}");
        }
        answer == 0
    }

    pub(super) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }
}

fn destroy(kind: Kind, object: *mut c_void, slots: *mut verbs_slots) -> c_int {
    call!(match kind {
        Kind::Qp => ibv_destroy_qp(object.cast()),
        Kind::Srq => ibv_destroy_srq(object.cast()),
        Kind::Counter => ibv_destroy_comp_cntr(object.cast()),
        Kind::Mw => dealloc_mw(slots)(object.cast()),
        Kind::Mr => ibv_dereg_mr(object.cast()),
        Kind::Ah => ibv_destroy_ah(object.cast()),
        Kind::Cq => ibv_destroy_cq(object.cast()),
        Kind::Channel => ibv_destroy_comp_channel(object.cast()),
        Kind::Dm => (*slots).free_dm.expect("a function")(object.cast()),
        Kind::Xrcd => (*slots).close_xrcd.expect("a function")(object.cast()),
        Kind::Pd => ibv_dealloc_pd(object.cast()),
        Kind::Td => (*slots).dealloc_td.expect("a function")(object.cast()),
    })
}

fn dealloc_mw(slots: *mut verbs_slots) -> unsafe extern "C" fn(*mut ibv_mw) -> c_int {
    call!((*slots.cast::<verbs_context>()).context.ops.dealloc_mw)
}
