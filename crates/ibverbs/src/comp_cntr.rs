//! Completion counters: how many operations of queue pairs have completed, without an entry in a completion queue for each.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use libc::c_int;
use uroce_device::transport::{CompletionCounter, CountedOps, CounterUnit};

use crate::abi::{
    IBV_COMP_CNTR_TYPE_BYTES, IBV_COMP_CNTR_TYPE_WRS, ibv_comp_cntr, ibv_comp_cntr_caps,
    ibv_comp_cntr_init_attr, ibv_context, ibv_qp, ibv_qp_attach_comp_cntr_attr,
};
use crate::arg::not_null;
use crate::context::ctx_of;
use crate::errno::{BUSY, Errno, INVALID, NOT_SUPPORTED};
use crate::object::Object;
use crate::open_device::OpenDevice;
use crate::qp::live_qp;
use crate::return_value::{pointer, status};
use crate::{input, object_of, output};

/// Most counters of a process.
const MAX_COUNTERS: usize = 65_536;
static COUNTERS: AtomicUsize = AtomicUsize::new(0);
/// The handle of the next one.
static NEXT: AtomicU32 = AtomicU32::new(1);

/// What we keep about a counter. Each queue pair that it is attached to holds it, too.
#[derive(Debug)]
struct Counter {
    open_device: Arc<OpenDevice>,
    counter: Arc<CompletionCounter>,
    _place: Place,
}

/// One of the counters that a process may have.
#[derive(Debug)]
struct Place;

impl Place {
    /// ENOMEM: there are [`MAX_COUNTERS`] already.
    fn take() -> Result<Place, Errno> {
        let one_more = |count: usize| (count < MAX_COUNTERS).then_some(count + 1);
        let taken = COUNTERS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.map(|_| Place).map_err(|_| Errno(libc::ENOMEM))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        COUNTERS.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Our part of a counter; ENOENT if there is none at that address.
///
/// # Safety
/// The counter is not destroyed while the result is in use.
unsafe fn counter_of<'a>(counter: *const ibv_comp_cntr) -> Result<&'a Counter, Errno> {
    // SAFETY: the caller's promise.
    unsafe { Object::<ibv_comp_cntr, Counter>::live(counter) }
}

/// ibv_query_comp_cntr_caps(3). A program that was compiled with another header has `size` bytes for the answer.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn _ibv_query_comp_cntr_caps(
    context: *mut ibv_context,
    caps: *mut ibv_comp_cntr_caps,
    size: usize,
) -> c_int {
    status(|| {
        object_of!(ctx_of(context))?;
        let (max_counters, ops) = (MAX_COUNTERS as u32, CountedOps::all().bits());
        let answer =
            ibv_comp_cntr_caps { max_value: u64::MAX, max_counters, supported_qp_attach_ops: ops };
        let known = size.min(size_of_val(&answer));
        let to = not_null(caps)?.cast::<u8>();
        // SAFETY: the program has room for so many bytes; the answer is as long as `known`, without padding.
        unsafe {
            to.write_bytes(0, size);
            to.copy_from_nonoverlapping((&raw const answer).cast(), known);
        }
        Ok(())
    })
}

/// ibv_create_comp_cntr(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_create_comp_cntr(
    context: *mut ibv_context,
    attr: *mut ibv_comp_cntr_init_attr,
) -> *mut ibv_comp_cntr {
    pointer(|| {
        let ctx = object_of!(ctx_of(context))?;
        let attr = input!(attr)?;
        if attr.comp_mask != 0 || attr.flags != 0 {
            return Err(INVALID);
        }
        let unit = match attr.r#type {
            IBV_COMP_CNTR_TYPE_WRS => CounterUnit::WorkRequests,
            IBV_COMP_CNTR_TYPE_BYTES => CounterUnit::Bytes,
            _ => return Err(NOT_SUPPORTED),
        };
        let (open_device, _place) = (ctx.open_device()?, Place::take()?);
        let handle = NEXT.fetch_add(1, Ordering::Relaxed);
        let counter = Arc::new(CompletionCounter::new(unit));
        let ours = Counter { open_device, counter, _place };
        Ok(Object::create(ibv_comp_cntr { context, handle }, ours))
    })
}

/// ibv_destroy_comp_cntr(3): EBUSY while a queue pair that it was attached to exists.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_destroy_comp_cntr(counter: *mut ibv_comp_cntr) -> c_int {
    status(|| {
        if Object::<ibv_comp_cntr, Counter>::is_inherited(counter) {
            return Ok(());
        }
        if Arc::strong_count(&object_of!(counter_of(counter))?.counter) > 1 {
            return Err(BUSY);
        }
        // SAFETY: the manual page asks that it is not used any more.
        unsafe { Object::<ibv_comp_cntr, Counter>::destroy(counter) };
        Ok(())
    })
}

/// ibv_qp_attach_comp_cntr(3).
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ibv_qp_attach_comp_cntr(
    qp: *mut ibv_qp,
    counter: *mut ibv_comp_cntr,
    attr: *mut ibv_qp_attach_comp_cntr_attr,
) -> c_int {
    status(|| {
        let (qp, ours) = (object_of!(live_qp(qp))?, object_of!(counter_of(counter))?);
        let attr = input!(attr)?;
        if attr.comp_mask != 0 || !qp.is_on(&ours.open_device) {
            return Err(INVALID);
        }
        let ops = CountedOps::from_bits(attr.op_mask).ok_or(NOT_SUPPORTED)?;
        Ok(qp.device().attach_counter(qp.qpn, ops, &ours.counter)?)
    })
}

/// Functions that change one of the two numbers.
macro_rules! change {
    ($($name:ident: $number:ident.$how:ident;)*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(counter: *mut ibv_comp_cntr, value: u64) -> c_int {
            status(|| {
                let _ = object_of!(counter_of(counter))?.counter.$number.$how(value, Ordering::AcqRel);
                Ok(())
            })
        }
    )*};
}
change! {
    ibv_set_comp_cntr: completed.swap;
    ibv_set_err_comp_cntr: failed.swap;
    ibv_inc_comp_cntr: completed.fetch_add;
    ibv_inc_err_comp_cntr: failed.fetch_add;
}

/// Functions that read one of the two numbers.
macro_rules! read {
    ($($name:ident: $number:ident;)*) => {$(
        #[doc = concat!(stringify!($name), "(3).")]
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(counter: *mut ibv_comp_cntr, value: *mut u64) -> c_int {
            status(|| {
                let counter = &object_of!(counter_of(counter))?.counter;
                output!(value, counter.$number.load(Ordering::Acquire))
            })
        }
    )*};
}
read! {
    ibv_read_comp_cntr: completed;
    ibv_read_err_comp_cntr: failed;
}
