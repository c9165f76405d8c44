//! A C program that calls verbs and rdma_cm in any order, with objects that exist, were destroyed, are of another kind or device, or null.
//!
//! It keeps the contract with C as `uroce-ibverbs` has it: control verbs get any object, what posts and polls gets one that is
//! there or null, and structs and arrays are as long as they say.
#![allow(unsafe_code, reason = "what C may do, Rust calls unsafe")]

mod change;
mod events;
mod functions;
mod ids;
mod make;
mod memory;
mod objects;
mod program;
mod work;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::{panic, thread};

use program::Program;

use crate::input::Input;

/// Calls of a run.
const MOST_STEPS: usize = 200;
/// Panics of the library, which ends them before they reach C.
static PANICS: AtomicU64 = AtomicU64::new(0);
/// The devices and their memory are those of the process.
static ALONE: Mutex<()> = Mutex::new(());

/// Calls verbs as the bytes say. An object that was refused must not have been there, a work request completes once, memory that
/// is not registered keeps its bytes, and everything can be destroyed in the end.
pub(crate) fn run(bytes: &[u8]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    count_panics();
    let before = PANICS.load(Ordering::Relaxed);
    let mut input = Input::new(bytes);
    let mut program = Program::new();
    for _ in 0..MOST_STEPS {
        if input.is_empty() {
            break;
        }
        program.step(&mut input);
    }
    program.end();
    assert_eq!(PANICS.load(Ordering::Relaxed), before, "the library panicked");
}

/// The library turns a panic into EIO; here it is a finding, in whatever thread.
fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let thread = thread::current();
            if info.location().is_some_and(|at| !at.file().contains("c_interface")) {
                PANICS.fetch_add(1, Ordering::Relaxed);
                eprintln!("in thread {:?}:", thread.name());
            }
            before(info);
        }));
    });
}
