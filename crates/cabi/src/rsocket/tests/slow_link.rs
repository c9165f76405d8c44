//! Calls of sockets while packets are late, and signals come.

use std::process::Command;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use libc::{SIGUSR1, c_int};
use uroce_ibverbs::object::zeroed;

use super::{accept, bind, close, connect, errno, listener, new, pair, rclose, receive, send};

/// How often the handler ran.
static HANDLED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: c_int) {
    HANDLED.fetch_add(1, Ordering::SeqCst);
}

/// Installs the handler for [`SIGUSR1`] with these flags.
fn install(flags: c_int) {
    // SAFETY: a handler that only counts, for a signal that nobody else uses in a process that runs one test.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = count as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(SIGUSR1, &raw const action, null_mut()), 0);
    }
}

/// False in the process of all tests, which has other handlers and no faults; the test runs again, alone and with these.
fn is_alone(test: &str, faults: &str) -> bool {
    const ALONE: &str = "TEST_RUNS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("/proc");
    let name = format!("rsocket::tests::slow_link::{test}");
    let mut again = Command::new(program);
    again.args(["--exact", &name]).env(ALONE, "1").env("UROCE_FAULT", faults);
    let done = again.output().expect("it starts");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Sends a signal every 5 ms to a thread that does this, until it is done.
fn interrupted<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let ((told, outcome), (thread, who)) = (mpsc::channel(), mpsc::channel());
    let handle = std::thread::spawn(move || {
        // SAFETY: no arguments.
        thread.send(unsafe { libc::pthread_self() }).expect("the test waits");
        told.send(call()).expect("the test waits");
    });
    let thread = who.recv().expect("it runs");
    loop {
        // SAFETY: the thread has not been joined.
        assert_eq!(unsafe { libc::pthread_kill(thread, SIGUSR1) }, 0);
        if let Ok(done) = outcome.recv_timeout(Duration::from_millis(5)) {
            handle.join().expect("no panic");
            return done;
        }
    }
}

#[test]
fn rclose_waits_through_signals_until_the_peer_has_what_was_sent() {
    if !is_alone(
        "rclose_waits_through_signals_until_the_peer_has_what_was_sent",
        "rx op=write -> delay=200ms",
    ) {
        return;
    }
    install(0);
    let both = pair("127.48.93.51:0", "127.48.93.52:0", |_| {});
    let reader = std::thread::spawn(move || {
        let mut out = [0; 8];
        let got = receive(both.1, &mut out, libc::MSG_WAITALL);
        (got, out[..5] == *b"hello", rclose(both.1))
    });
    assert_eq!(send(both.0, b"hello", 0), 5);
    assert_eq!(interrupted(move || rclose(both.0)), 0);
    assert_eq!(reader.join().expect("no panic"), (5, true, 0), "what was sent has arrived");
    assert_ne!(HANDLED.load(Ordering::SeqCst), 0);
}

/// What a call that waits for bytes returns while signals come, and errno; bytes come when the handler has run often.
fn received(flags: c_int) -> (isize, c_int) {
    install(flags);
    let both = pair("127.48.93.55:0", "127.48.93.56:0", |_| {});
    let sender = std::thread::spawn(move || {
        let before = HANDLED.load(Ordering::SeqCst);
        while HANDLED.load(Ordering::SeqCst) < before + 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        send(both.0, b"x", 0)
    });
    let got = interrupted(move || (receive(both.1, &mut [0], 0), errno()));
    while !sender.is_finished() {
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::raise(SIGUSR1) }, 0);
    }
    assert_eq!(sender.join().expect("no panic"), 1);
    close(both);
    got
}

#[test]
fn a_call_that_waits_goes_on_after_handlers_with_sa_restart() {
    if !is_alone("a_call_that_waits_goes_on_after_handlers_with_sa_restart", "") {
        return;
    }
    assert_eq!(received(libc::SA_RESTART).0, 1);
    assert_eq!(received(0), (-1, libc::EINTR));
}

#[test]
fn a_connection_that_is_closed_before_the_caller_has_confirmed_it_ends_in_order() {
    if !is_alone(
        "a_connection_that_is_closed_before_the_caller_has_confirmed_it_ends_in_order",
        "rx op=rtu -> delay=200ms",
    ) {
        return;
    }
    let (listener, at) = listener("127.48.93.53:0");
    let caller = new();
    bind(caller, "127.48.93.54:0");
    let calls = std::thread::spawn(move || {
        assert_eq!(connect(caller, at), 0);
        (receive(caller, &mut [0], 0), rclose(caller))
    });
    assert_eq!(rclose(accept(listener)), 0);
    assert_eq!(calls.join().expect("no panic"), (0, 0), "the end, and no error");
    assert_eq!(rclose(listener), 0);
}
