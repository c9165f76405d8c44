//! Atomics of `loom` with sequential consistency.
//!
//! `loom` takes `SeqCst` for `AcqRel`, and knows it for fences only. Compilers make such an atomic of
//! a weaker one and a fence: behind stores, or before loads. A model is explored with both forms: an
//! order that is too weak fails with fences behind stores if it is that of a store, and with fences
//! before loads if it is that of a load.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize as Count, Ordering::Relaxed};

pub(crate) use loom::sync::atomic::Ordering;
use loom::sync::atomic::fence;
pub(crate) use loom::sync::{Mutex, MutexGuard};

/// Whether this is a model, whose tables are small.
pub(crate) const IS_MODEL: bool = true;

/// Where the fences of atomics that are `SeqCst` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fences {
    BehindStores,
    BeforeLoads,
}

thread_local! {
    /// All threads of a model run in the thread of its test, one at a time.
    static FENCES: Cell<Fences> = const { Cell::new(Fences::BehindStores) };
}

/// Runs `model` in every order of its threads with few preemptions (`LOOM_MAX_PREEMPTIONS`, else 3),
/// and says how many there are.
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) {
    let model = std::sync::Arc::new(model);
    for fences in [Fences::BehindStores, Fences::BeforeLoads] {
        FENCES.set(fences);
        let (model, runs) = (std::sync::Arc::clone(&model), std::sync::Arc::new(Count::new(0)));
        let count = std::sync::Arc::clone(&runs);
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = builder.preemption_bound.or(Some(3));
        builder.max_branches = 10_000;
        let started = std::time::Instant::now();
        builder.check(move || {
            count.fetch_add(1, Relaxed);
            model();
        });
        println!(
            "{} interleavings in {:?}, fences {fences:?}",
            runs.load(Relaxed),
            started.elapsed()
        );
    }
}

fn fence_of(order: Ordering, place: Fences) {
    if order == Ordering::SeqCst && FENCES.get() == place {
        fence(Ordering::SeqCst);
    }
}

/// An operation that reads and writes.
fn read_and_write<T>(order: Ordering, operation: impl FnOnce() -> T) -> T {
    fence_of(order, Fences::BeforeLoads);
    let before = operation();
    fence_of(order, Fences::BehindStores);
    before
}

macro_rules! atomic {
    ($name:ident, $value:ty, $store:ident) => {
        #[derive(Debug)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        #[allow(dead_code)]
        impl $name {
            #[track_caller]
            pub(crate) fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            #[track_caller]
            pub(crate) fn load(&self, order: Ordering) -> $value {
                fence_of(order, Fences::BeforeLoads);
                self.0.load(order)
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, order: Ordering) {
                let _before = self.0.$store(value, order);
                fence_of(order, Fences::BehindStores);
            }

            #[track_caller]
            pub(crate) fn swap(&self, value: $value, order: Ordering) -> $value {
                read_and_write(order, || self.0.swap(value, order))
            }
        }
    };
}

macro_rules! number {
    ($name:ident, $value:ty) => {
        atomic!($name, $value, store);

        #[allow(dead_code)]
        impl $name {
            #[track_caller]
            pub(crate) fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                read_and_write(order, || self.0.fetch_add(value, order))
            }

            #[track_caller]
            pub(crate) fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                read_and_write(order, || self.0.fetch_sub(value, order))
            }
        }
    };
}

// `loom` does not order a store of one thread and a swap of another one that saw nothing of each other,
// and may then return the older value to the thread that swapped, although it has seen the newer one.
// Threads both store and swap flags, hence a store of a flag is a swap.
atomic!(AtomicBool, bool, swap);
number!(AtomicU64, u64);
number!(AtomicUsize, usize);
