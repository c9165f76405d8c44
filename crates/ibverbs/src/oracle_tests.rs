//! Tables of words and numbers, compared with the libibverbs of the system.

use std::ffi::CStr;

use libc::{c_char, c_int};

use crate::names::{ibv_event_type_str, ibv_node_type_str, ibv_port_state_str, ibv_wc_status_str};
use crate::rate::{ibv_rate_to_mbps, ibv_rate_to_mult, mbps_to_ibv_rate, mult_to_ibv_rate};

type Name = extern "C" fn(c_int) -> *const c_char;
type Number = extern "C" fn(c_int) -> c_int;

/// Every number that means something, and some that do not.
const NUMBERS: std::ops::Range<c_int> = -2..40;
/// What stands for numbers without a meaning.
const UNKNOWN: &CStr = c"unknown";

/// The function of the system's library; `None` if there is no such library.
fn theirs(name: &CStr) -> Option<*mut libc::c_void> {
    // SAFETY: strings; loading the library runs nothing that this process minds.
    let found = unsafe {
        let library = libc::dlopen(c"libibverbs.so.1".as_ptr(), libc::RTLD_NOW);
        if library.is_null() { library } else { libc::dlsym(library, name.as_ptr()) }
    };
    if found.is_null() {
        assert!(std::env::var_os("CI").is_none(), "CI must have libibverbs1");
        println!("skipped: this machine has no libibverbs.so.1");
        return None;
    }
    Some(found)
}

#[test]
fn words_are_those_that_users_know() {
    let functions: [(&CStr, Name); 4] = [
        (c"ibv_wc_status_str", ibv_wc_status_str),
        (c"ibv_node_type_str", ibv_node_type_str),
        (c"ibv_port_state_str", ibv_port_state_str),
        (c"ibv_event_type_str", ibv_event_type_str),
    ];
    for (name, ours) in functions {
        let Some(found) = theirs(name) else { return };
        // SAFETY: the function has this type.
        let theirs: Name = unsafe { std::mem::transmute(found) };
        for number in NUMBERS {
            // SAFETY: both return strings that live for ever.
            let (theirs, ours) =
                unsafe { (CStr::from_ptr(theirs(number)), CStr::from_ptr(ours(number))) };
            // An older library does not know all of ours.
            if theirs != UNKNOWN {
                assert_eq!(ours, theirs, "{name:?}({number})");
            }
        }
    }
}

#[test]
fn rates_are_those_of_the_library() {
    let functions: [(&CStr, Number, std::ops::Range<c_int>); 4] = [
        (c"ibv_rate_to_mbps", ibv_rate_to_mbps, NUMBERS),
        (c"ibv_rate_to_mult", ibv_rate_to_mult, NUMBERS),
        (c"mult_to_ibv_rate", mult_to_ibv_rate, 0..500),
        (c"mbps_to_ibv_rate", mbps_to_ibv_rate, 0..1_300_000),
    ];
    for (name, ours, numbers) in functions {
        let Some(found) = theirs(name) else { return };
        // SAFETY: the function has this type.
        let theirs: Number = unsafe { std::mem::transmute(found) };
        for number in numbers {
            assert_eq!(ours(number), theirs(number), "{name:?}({number})");
        }
    }
}
