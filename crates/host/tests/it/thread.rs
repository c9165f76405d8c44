//! Threads of the library in the process of a program.

use std::sync::mpsc::channel;

use uroce_host::{Thread, fork};

#[test]
fn a_thread_has_its_name_and_its_end_is_waited_for() {
    let (report, reported) = channel();
    let (go, wait) = channel::<()>();
    let thread = Thread::spawn("uroce-named", move || {
        let name = std::thread::current().name().map(str::to_owned);
        report.send(name).expect("somebody listens");
        wait.recv().expect_err("the other end is gone");
    });
    let thread = thread.expect("a thread").if_here().expect("this process started it");
    assert_eq!(reported.recv().expect("it runs").as_deref(), Some("uroce-named"));
    drop(go);
    thread.join();
    reported.recv().expect_err("its work is over and its memory is given back");
}

#[test]
fn a_process_that_does_not_fork_stays_of_one_generation() {
    let before = fork::generation();
    Thread::spawn("uroce-idle", || ()).expect("a thread").join();
    let output = std::process::Command::new("true").output().expect("started");
    assert!(output.status.success());
    assert_eq!(fork::generation(), before, "the other program is no child of ours by fork");
}

#[test]
fn a_name_with_a_zero_byte_is_a_bug_of_ours_and_no_thread() {
    let spawned = std::panic::catch_unwind(|| Thread::spawn("a\0b", || ()));
    assert!(!matches!(spawned, Ok(Ok(_))));
}
