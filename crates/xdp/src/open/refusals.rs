//! Which refusals end the search for a mode, and what is said about them.

use super::*;

fn link(queues: u32) -> Link {
    let home = uroce_link::interface(1).expect("lo");
    Link { home, name: "eth7".to_owned(), index: 7, driver: "driver-x".to_owned(), queues }
}

fn ends(failed: Failed) -> (bool, String) {
    match failed {
        Failed::Here(error) => (false, error.to_string()),
        Failed::Everywhere(error) => (true, error.to_string()),
    }
}

#[test]
fn each_engine_needs_a_queue_and_each_queue_a_socket() {
    let engines = |count| NonZeroU8::new(count).expect("not 0");
    assert!(check_queues(&link(4), engines(4)).is_ok());
    assert!(check_queues(&link(MAX_QUEUES), engines(1)).is_ok());
    let few = check_queues(&link(3), engines(4)).expect_err("too few");
    assert!(matches!(few, XdpError::TooFewQueues { queues: 3, .. }), "{few}");
    let many = check_queues(&link(MAX_QUEUES + 1), engines(1)).expect_err("too many");
    assert!(matches!(many, XdpError::TooManyQueues { most: MAX_QUEUES, .. }), "{many}");
    assert!(few.to_string().contains("eth7") && many.to_string().contains("eth7"));
}

#[test]
fn a_program_of_another_ends_the_search_and_a_mode_that_is_missing_does_not() {
    let attach = |errno: Errno| ends(attach_error(&link(1), XdpMode::Native, errno.into()));
    for errno in [Errno::BUSY, Errno::EXIST] {
        let (ends, text) = attach(errno);
        assert!(ends && text.contains("eth7"), "{errno}: {text}");
    }
    for errno in [Errno::OPNOTSUPP, Errno::RANGE, Errno::INVAL, Errno::NOSPC] {
        let (ends, text) = attach(errno);
        assert!(!ends && text.contains("driver-x") && text.contains("native"), "{errno}: {text}");
    }
    let (ends, text) = attach(Errno::NODEV);
    assert!(ends && text.contains("attaching the redirect program"), "{text}");
}

#[test]
fn a_flag_that_the_kernel_does_not_know_leaves_another_way() {
    let system = |errno: Errno| XdpError::System { what: "loading", source: errno.into() };
    assert!(matches!(unless_odd(system(Errno::INVAL)), Failed::Here(_)));
    assert!(matches!(unless_odd(system(Errno::PERM)), Failed::Everywhere(_)));
    assert!(matches!(unless_odd(XdpError::NotLocal([10, 0, 0, 1].into())), Failed::Everywhere(_)));
}

#[test]
fn only_a_busy_queue_is_tried_again() {
    assert!(is_busy(&Errno::BUSY.into()));
    assert!(!is_busy(&Errno::INVAL.into()) && !is_busy(&io::ErrorKind::Other.into()));
}
