//! What a C object is: the struct that the program sees, and behind it what we keep about it.

use std::any::TypeId;
use std::cell::UnsafeCell;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use uroce_device::host::fork::generation;

use crate::abi::{
    ibv_ah, ibv_buf, ibv_comp_channel, ibv_comp_cntr, ibv_cq_ex, ibv_device, ibv_dm, ibv_dmah,
    ibv_mr, ibv_mw, ibv_pd, ibv_qp_ex, ibv_srq, ibv_td, ibv_xrcd, rdma_addrinfo, rdma_cm_event,
    rdma_cm_id, rdma_event_channel, verbs_context,
};
use crate::errno::{Errno, INVALID};

/// What a control verb says of an object that is not there (any more).
const NO_SUCH_OBJECT: Errno = Errno(libc::ENOENT);

/// One allocation with the C struct at its start, so that one pointer is good for both.
///
/// The program reads and writes the C part as it likes, hence no reference to it is ever made; it is
/// reached by raw pointers only. What we decide by is in the Rust part, which the program cannot
/// reach without going out of its way.
#[repr(C)]
pub struct Object<C, R> {
    c: UnsafeCell<C>,
    /// The process that made it ([`generation`]): a child has a copy that stands for nothing.
    generation: u32,
    rust: R,
}

/// A C struct that an object begins with.
pub trait CStruct {
    /// The field by which the program names the object; 0 for a struct without one.
    ///
    /// # Safety
    /// `this` is a struct of this type.
    unsafe fn handle(this: *const Self) -> u32;
}

macro_rules! c_structs {
    ($($name:ident $($field:ident).*;)*) => {$(
        impl CStruct for $name {
            unsafe fn handle(_this: *const Self) -> u32 {
                c_structs!(@ _this $($field).*)
            }
        }
    )*};
    (@ $this:ident) => { 0 };
    // SAFETY: the caller's promise.
    (@ $this:ident $($field:ident).+) => { unsafe { (*$this).$($field).+ } };
}
c_structs! {
    ibv_ah handle;
    ibv_comp_cntr handle;
    ibv_cq_ex base.handle;
    ibv_dm handle;
    ibv_mr handle;
    ibv_mw handle;
    ibv_pd handle;
    ibv_qp_ex qp_base.handle;
    ibv_srq handle;
    ibv_buf;
    ibv_comp_channel;
    ibv_device;
    ibv_dmah;
    ibv_td;
    ibv_xrcd;
    verbs_context;
    rdma_addrinfo;
    rdma_cm_event;
    rdma_cm_id;
    rdma_event_channel;
}

/// What is at an address: the type of the object, and its handle.
pub(crate) type Kind = (TypeId, u32);

/// LiveObjects by their addresses; `None` before the first.
pub(crate) type LiveObjects = Option<HashMap<usize, Kind>>;

/// All objects that there are. The control verbs look here before they believe a pointer.
pub(crate) static LIVE: Mutex<LiveObjects> = Mutex::new(None);

fn live_objects() -> MutexGuard<'static, LiveObjects> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: CStruct + 'static, R: 'static> Object<C, R> {
    /// A new object; the pointer is for the program.
    pub fn create(c: C, rust: R) -> *mut C {
        Self::announce(Box::into_raw(Box::new(Object::new(c, rust))))
    }

    fn announce(object: *mut Self) -> *mut C {
        let c = object.cast::<C>();
        // SAFETY: an object of this type, just made.
        let kind = (TypeId::of::<Self>(), unsafe { C::handle(c) });
        live_objects().get_or_insert_default().insert(c.addr(), kind);
        c
    }

    /// Our part of an object, for control verbs: one that was destroyed, is of another kind, or has another
    /// handle than it was made with, is not there.
    ///
    /// # Safety
    /// The object is not destroyed while the result is in use.
    pub unsafe fn live<'a>(object: *const C) -> Result<&'a R, Errno> {
        Self::find(object)?;
        // SAFETY: an object of this type was found, and the caller's promise.
        unsafe { Self::of(object) }.ok_or(INVALID)
    }

    /// As [`live`](Self::live), for objects that a child process may use, too.
    ///
    /// # Safety
    /// As for [`live`](Self::live).
    pub unsafe fn live_any_process<'a>(object: *const C) -> Result<&'a R, Errno> {
        Self::find(object)?;
        // SAFETY: an object of this type was found, and the caller's promise.
        unsafe { Self::of_any_process(object) }.ok_or(INVALID)
    }

    /// Finds the object, and says which process made it.
    fn find(object: *const C) -> Result<u32, Errno> {
        if object.is_null() {
            return Err(INVALID);
        }
        let live = live_objects();
        let kind = live.as_ref().and_then(|live| live.get(&object.addr()));
        let (found, handle) = *kind.ok_or(NO_SUCH_OBJECT)?;
        if found != TypeId::of::<Self>() {
            return Err(NO_SUCH_OBJECT);
        }
        // SAFETY: an object of this type, which is not freed while the list is locked; the program writes to
        // the C part, and no reference to it is made.
        let (now, made_by) = unsafe { (C::handle(object), (*object.cast::<Self>()).generation) };
        if now == handle { Ok(made_by) } else { Err(NO_SUCH_OBJECT) }
    }

    fn new(c: C, rust: R) -> Object<C, R> {
        Object { c: UnsafeCell::new(c), generation: generation(), rust }
    }

    /// Our part of an object; `None` for a null pointer, and in a child process for what is its parent's.
    ///
    /// # Safety
    /// `object` is null or came from [`create`](Self::create) with the same types and was not
    /// [`destroy`](Self::destroy)ed, nor will it be while the result is in use.
    pub unsafe fn of<'a>(object: *const C) -> Option<&'a R> {
        // SAFETY: the caller's promise.
        unsafe {
            let rust = Self::of_any_process(object)?;
            if (*object.cast::<Self>()).generation != generation() {
                warn_of_fork();
                return None;
            }
            Some(rust)
        }
    }

    /// True for what a parent process made, before it forked this one. To destroy such a thing is to forget it.
    pub fn is_inherited(object: *const C) -> bool {
        Self::find(object).is_ok_and(|made_by| made_by != generation())
    }

    /// As [`of`](Self::of), for objects that a child process may use, too: those that have nothing of a device.
    ///
    /// # Safety
    /// As for [`of`](Self::of).
    pub unsafe fn of_any_process<'a>(object: *const C) -> Option<&'a R> {
        // SAFETY: the caller's promise; `c` is the first field of a repr(C) struct, so the addresses
        // are the same. The reference covers the Rust part only.
        unsafe {
            let whole = object.cast::<Object<C, R>>();
            // No object of ours is at an odd address; perftest, for one, comes back with such a thing
            // after a failed connection.
            if whole.is_null() || !whole.is_aligned() {
                return None;
            }
            Some(&*std::ptr::addr_of!((*whole).rust))
        }
    }

    /// Frees the object.
    ///
    /// # Safety
    /// As for [`of`](Self::of), and the object is not used any more.
    pub unsafe fn destroy(object: *mut C) {
        live_objects().as_mut().map(|live| live.remove(&object.addr()));
        // SAFETY: it came from `Box::into_raw`, by the caller's promise, and is freed once.
        drop(unsafe { Box::from_raw(object.cast::<Object<C, R>>()) });
    }
}

/// Once: a program that waits in a child for what happens to its parent's objects waits for ever.
#[cold]
pub fn warn_of_fork() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        eprintln!(
            "uroce: process {} uses what its parent opened before fork(): the device, its queue pairs and \
             connections stay with the parent; make them after fork() (or daemon())",
            std::process::id()
        );
    });
}

/// Room for an object whose address must be known before the object can be made.
pub struct Place<C, R>(Box<MaybeUninit<Object<C, R>>>);

impl<C: CStruct + 'static, R: 'static> Place<C, R> {
    /// Room, still empty.
    #[expect(clippy::new_without_default, reason = "nothing else is made of it")]
    pub fn new() -> Self {
        Place(Box::new_uninit())
    }

    /// Where the object will be, as a number that [`pointer_to`] turns back.
    pub fn address(&mut self) -> u64 {
        self.0.as_mut_ptr().expose_provenance() as u64
    }

    /// The object; the pointer is for the program.
    pub fn fill(mut self, c: C, rust: R) -> *mut C {
        self.0.write(Object::new(c, rust));
        Object::<C, R>::announce(Box::into_raw(self.0).cast())
    }
}

/// The object at an address that [`Place::address`] gave.
pub fn pointer_to<C>(address: u64) -> *mut C {
    std::ptr::with_exposed_provenance_mut(address as usize)
}

/// The mutexes and conditions in C objects: unused by this library, and ready to be used.
pub fn fresh_locks() -> (libc::pthread_mutex_t, libc::pthread_cond_t) {
    // SAFETY: on Linux zeros are the static initialisers of both.
    unsafe { (zeroed(), zeroed()) }
}

/// A value of C structs for which all bytes zero is right: numbers, null pointers, empty slots, and
/// (on Linux) mutexes and conditions that are not initialised.
///
/// # Safety
/// `T` holds no reference and no function pointer outside an `Option`.
pub unsafe fn zeroed<T>() -> T {
    // SAFETY: the caller's promise.
    unsafe { std::mem::zeroed() }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use uroce_device::wire::Gid;

    use super::zeroed;
    use crate::abi::*;
    use crate::ah::{ibv_create_ah, ibv_destroy_ah};
    use crate::contract_tests::world;
    use crate::cq_create::{ibv_create_cq, ibv_destroy_cq};
    use crate::mr::{ibv_dereg_mr, ibv_reg_mr, ibv_rereg_mr};
    use crate::mw::{alloc_mw, bind_mw, dealloc_mw};
    use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
    use crate::post_send::post_send;
    use crate::qp_attr::{ibv_modify_qp, ibv_query_qp};
    use crate::qp_create::{ibv_create_qp, ibv_destroy_qp};
    use crate::srq::{create_srq_ex, ibv_create_srq, ibv_destroy_srq};
    use crate::xrcd::{close_xrcd, open_xrcd};

    #[test]
    fn v44_what_was_destroyed_is_not_there_any_more() {
        let world = world(45);
        // SAFETY: the pointers of destroyed objects are compared, and not followed.
        unsafe {
            let pd = ibv_alloc_pd(world.context);
            assert_eq!((ibv_dealloc_pd(pd), ibv_dealloc_pd(pd)), (0, libc::ENOENT));
            assert!(ibv_reg_mr(pd, null_mut(), 0, 0).is_null());
            assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOENT));
        }
        world.end();
    }

    #[test]
    fn v44_an_object_of_another_kind_or_with_another_handle_is_not_there() {
        let world = world(46);
        // SAFETY: what is refused is not used.
        unsafe {
            assert_eq!(ibv_dereg_mr(world.pd.cast()), libc::ENOENT);
            assert_eq!(ibv_destroy_cq(world.qp.cast()), libc::ENOENT);
            let mut copy = std::ptr::read(world.mr);
            assert_eq!(ibv_dereg_mr(&raw mut copy), libc::ENOENT);
            let handle = (*world.mr).handle;
            (*world.mr).handle = handle.wrapping_add(1);
            assert_eq!(ibv_dereg_mr(world.mr), libc::ENOENT);
            (*world.mr).handle = handle;
            let number = (*world.qp).handle;
            (*world.qp).handle = 0;
            assert_eq!(ibv_destroy_qp(world.qp), libc::ENOENT);
            assert_eq!(ibv_query_qp(world.qp, null_mut(), 0, null_mut()), libc::ENOENT);
            (*world.qp).handle = number;
        }
        world.end();
    }

    #[test]
    fn v44_an_object_of_another_device_is_refused() {
        let (world, other) = (world(53), world(54));
        // SAFETY: as the manual pages want it, but for the device of one argument of each call.
        unsafe {
            let why = |is_null: bool| (is_null, std::io::Error::last_os_error().raw_os_error());
            let refused = (true, Some(libc::EINVAL));
            let cq = ibv_create_cq(world.context, 4, null_mut(), other.channel, 0);
            assert_eq!(why(cq.is_null()), refused, "a channel");
            for (send_cq, recv_cq) in [(world.cq, other.cq), (other.cq, world.cq)] {
                let mut init: ibv_qp_init_attr = zeroed();
                (init.send_cq, init.recv_cq, init.qp_type) = (send_cq, recv_cq, IBV_QPT_RC);
                assert_eq!(why(ibv_create_qp(world.pd, &raw mut init).is_null()), refused);
            }
            let mut init = ibv_srq_init_attr {
                srq_context: null_mut(),
                attr: ibv_srq_attr { max_wr: 1, max_sge: 1, srq_limit: 0 },
            };
            let srq = ibv_create_srq(other.pd, &raw mut init);
            let mut init: ibv_qp_init_attr = zeroed();
            (init.send_cq, init.recv_cq, init.qp_type) = (world.cq, world.cq, IBV_QPT_RC);
            init.srq = srq;
            assert_eq!(why(ibv_create_qp(world.pd, &raw mut init).is_null()), refused, "an SRQ");
            let moved = ibv_rereg_mr(world.mr, IBV_REREG_MR_CHANGE_PD, other.pd, null_mut(), 0, 0);
            assert_eq!(why(moved != 0), refused, "a domain");
            let window = alloc_mw(other.pd, IBV_MW_TYPE_1);
            let mut bind: ibv_mw_bind = zeroed();
            assert_eq!(bind_mw(world.qp, window, &raw mut bind), libc::EINVAL, "a window");
            let own = alloc_mw(world.pd, IBV_MW_TYPE_1);
            bind.bind_info.mr = other.mr;
            assert_eq!(bind_mw(world.qp, own, &raw mut bind), libc::EINVAL, "a region");
            assert_eq!((dealloc_mw(own), dealloc_mw(window), ibv_destroy_srq(srq)), (0, 0, 0));
        }
        world.end();
        other.end();
    }

    #[test]
    fn v44_a_datagram_does_not_go_to_an_address_handle_of_another_device() {
        let (world, other) = (world(57), world(58));
        // SAFETY: as the manual pages want it, but for the device of the handle.
        unsafe {
            let mut init: ibv_qp_init_attr = zeroed();
            (init.send_cq, init.recv_cq, init.qp_type) = (world.cq, world.cq, IBV_QPT_UD);
            init.cap.max_send_wr = 1;
            let qp = ibv_create_qp(world.pd, &raw mut init);
            let mut attr: ibv_qp_attr = zeroed();
            attr.port_num = 1;
            let first = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
            for (state, mask) in [(1, first), (2, IBV_QP_STATE), (3, IBV_QP_STATE | IBV_QP_SQ_PSN)]
            {
                attr.qp_state = state;
                assert_eq!(ibv_modify_qp(qp, &raw mut attr, mask), 0);
            }
            let mut to: ibv_ah_attr = zeroed();
            (to.is_global, to.port_num) = (1, 1);
            to.grh.dgid = ibv_gid::from_gid(Gid::from_ip(other.address));
            for (pd, expected) in [(other.pd, libc::EINVAL), (world.pd, 0)] {
                let ah = ibv_create_ah(pd, &raw mut to);
                let mut wr: ibv_send_wr = zeroed();
                (wr.opcode, wr.wr.ud) = (IBV_WR_SEND, ud_wr { ah, remote_qpn: 2, remote_qkey: 0 });
                assert_eq!(post_send(qp, &raw mut wr, &mut null_mut()), expected);
                assert_eq!(ibv_destroy_ah(ah), 0);
            }
            assert_eq!(ibv_destroy_qp(qp), 0);
        }
        world.end();
        other.end();
    }

    #[test]
    fn v44_an_xrc_srq_has_its_domain_and_its_queue_on_one_device() {
        let (world, other) = (world(55), world(56));
        let open = |context| {
            let mut attr = ibv_xrcd_init_attr { comp_mask: 3, fd: -1, oflags: libc::O_CREAT };
            // SAFETY: as the manual page wants it.
            unsafe { open_xrcd(context, &raw mut attr) }
        };
        let (here, there) = (open(world.context), open(other.context));
        // SAFETY: as the manual pages want it, but for the device of one argument of each call.
        unsafe {
            for (xrcd, cq) in [(here, other.cq), (there, world.cq), (there, other.cq)] {
                let mut init: ibv_srq_init_attr_ex = zeroed();
                (init.comp_mask, init.srq_type) = (15, IBV_SRQT_XRC);
                init.attr = ibv_srq_attr { max_wr: 1, max_sge: 1, srq_limit: 0 };
                (init.pd, init.xrcd, init.cq) = (world.pd, xrcd, cq);
                assert!(create_srq_ex(world.context, &raw mut init).is_null());
                let errno = std::io::Error::last_os_error().raw_os_error();
                assert_eq!(errno, Some(libc::EINVAL));
            }
            assert_eq!((close_xrcd(here), close_xrcd(there)), (0, 0));
        }
        world.end();
        other.end();
    }
}
