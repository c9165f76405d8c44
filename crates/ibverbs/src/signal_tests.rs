//! What a signal does to calls that wait for an event, as programs know it from read(2).

use std::ptr::{null_mut, with_exposed_provenance_mut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use libc::{SA_RESTART, SIGUSR1, SIGUSR2, c_int};

use crate::abi::{ibv_async_event, ibv_comp_channel, ibv_context};
use crate::async_event::ibv_get_async_event;
use crate::channel::{ibv_create_comp_channel, ibv_destroy_comp_channel};
use crate::contract_tests::opened;
use crate::cq_event::ibv_get_cq_event;
use crate::object::zeroed;
use crate::open::ibv_close_device;

/// How often the handler of [`SIGUSR2`] ran.
static RESTARTED: AtomicU32 = AtomicU32::new(0);

extern "C" fn count(_signal: c_int) {
    RESTARTED.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn ignore(_signal: c_int) {}

fn install(signal: c_int, handler: extern "C" fn(c_int), flags: c_int) {
    // SAFETY: a handler that does next to nothing, for a signal that no other test uses.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(signal, &action, null_mut()), 0);
    }
}

/// What a call that sleeps came back with, and errno.
type Outcome = (c_int, Option<c_int>);

/// Runs a call in a thread of its own; the thread's name for `pthread_kill` comes first.
fn sleeper(
    call: impl FnOnce() -> c_int + Send + 'static,
) -> (libc::pthread_t, JoinHandle<()>, mpsc::Receiver<Outcome>) {
    let (told, outcome) = mpsc::channel();
    let (thread, who) = mpsc::channel();
    let sleep = move || {
        // SAFETY: no arguments.
        thread.send(unsafe { libc::pthread_self() }).expect("the test waits");
        let done = call();
        let errno = std::io::Error::last_os_error().raw_os_error();
        told.send((done, errno)).expect("the test waits");
    };
    let thread = std::thread::spawn(sleep);
    (who.recv().expect("it runs"), thread, outcome)
}

/// A signal may come before the call sleeps, hence several.
fn interrupted(call: impl FnOnce() -> c_int + Send + 'static) -> Outcome {
    let (thread, handle, outcome) = sleeper(call);
    for _ in 0..2000 {
        // SAFETY: the thread has not been joined.
        assert_eq!(unsafe { libc::pthread_kill(thread, SIGUSR1) }, 0);
        if let Ok(done) = outcome.recv_timeout(Duration::from_millis(5)) {
            handle.join().expect("no panic");
            return done;
        }
    }
    panic!("the call sleeps on");
}

fn events(channel: usize) -> c_int {
    let channel: *mut ibv_comp_channel = with_exposed_provenance_mut(channel);
    // SAFETY: as the manual page wants it.
    unsafe { ibv_get_cq_event(channel, &mut null_mut(), &mut null_mut()) }
}

#[test]
fn v4_a_signal_ends_a_wait_for_events() {
    install(SIGUSR1, ignore, 0);
    let context = opened(70);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let channel = ibv_create_comp_channel(context);
        let [at, ctx] = [channel.expose_provenance(), context.expose_provenance()];
        let eintr = (-1, Some(libc::EINTR));
        assert_eq!(interrupted(move || events(at)), eintr, "ibv_get_cq_event");
        let asynchronous = move || {
            let context: *mut ibv_context = with_exposed_provenance_mut(ctx);
            let mut event: ibv_async_event = zeroed();
            ibv_get_async_event(context, &raw mut event)
        };
        assert_eq!(interrupted(asynchronous), eintr, "ibv_get_async_event");
        assert_eq!(ibv_destroy_comp_channel(channel), 0);
        assert_eq!(ibv_close_device(context), 0);
    }
}

#[test]
fn v4_with_sa_restart_the_wait_goes_on() {
    install(SIGUSR2, count, SA_RESTART);
    let context = opened(71);
    // SAFETY: all calls as the manual pages want them.
    unsafe {
        let channel = ibv_create_comp_channel(context);
        let at = channel.expose_provenance();
        let (thread, handle, outcome) = sleeper(move || events(at));
        while RESTARTED.load(Ordering::SeqCst) < 20 {
            assert_eq!(libc::pthread_kill(thread, SIGUSR2), 0);
            let early = outcome.recv_timeout(Duration::from_millis(5));
            assert!(early.is_err(), "{early:?}");
        }
        // The program's own business, but it ends the call.
        let fd = (*channel).fd;
        libc::fcntl(fd, libc::F_SETFL, libc::fcntl(fd, libc::F_GETFL) | libc::O_NONBLOCK);
        libc::eventfd_write(fd, 1);
        let end = outcome.recv_timeout(Duration::from_secs(20));
        assert_eq!(end, Ok((-1, Some(libc::EAGAIN))));
        handle.join().expect("no panic");
        assert_eq!(ibv_destroy_comp_channel(channel), 0);
        assert_eq!(ibv_close_device(context), 0);
    }
}
