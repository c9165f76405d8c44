//! What a child process may do with ids that its parent made.

use std::ptr::null_mut;

use libc::c_int;
use uroce_verbs_abi::RDMA_PS_TCP;

use crate::bind::rdma_bind_addr;
use crate::channel::{rdma_create_event_channel, rdma_destroy_event_channel};
use crate::create::rdma_create_id;
use crate::destroy::rdma_destroy_id;
use crate::listen::rdma_listen;
use crate::sockaddr;

/// Seconds after which a child that hangs is ended.
const CHILD_TIMEOUT_S: u32 = 20;

/// False in the process of all tests, whose other threads may hold any lock; the test runs again, alone.
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "TEST_RUNS_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().expect("/proc");
    let name = format!("fork_tests::{test}");
    let mut again = std::process::Command::new(program);
    let done = again.args(["--exact", &name]).env(ALONE, "1").output().expect("it starts");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// The status of a child process that does this.
fn child(work: impl FnOnce() -> bool) -> c_int {
    let mut status = 0;
    // SAFETY: the child ends before it comes back to the test.
    unsafe {
        match libc::fork() {
            0 => {
                libc::alarm(CHILD_TIMEOUT_S);
                libc::_exit(i32::from(!work()));
            }
            child => assert_eq!(libc::waitpid(child, &raw mut status, 0), child),
        }
    }
    status
}

#[test]
fn v7_ids_and_channels_without_a_device_pass_to_the_child() {
    if !is_alone("v7_ids_and_channels_without_a_device_pass_to_the_child") {
        return;
    }
    let (channel, mut id) = (rdma_create_event_channel(), null_mut());
    let mut at = sockaddr::write("127.47.92.63:7063".parse().expect("an address"));
    // SAFETY: as the manual pages want it.
    unsafe {
        assert_eq!(rdma_create_id(channel, &raw mut id, null_mut(), RDMA_PS_TCP), 0);
        let status = child(|| {
            let bound = rdma_bind_addr(id, (&raw mut at).cast());
            bound | rdma_listen(id, 1) == 0
        });
        assert_eq!(status, 0);
        assert_eq!(rdma_bind_addr(id, (&raw mut at).cast()) | rdma_listen(id, 1), 0);
        assert_ne!(child(|| rdma_listen(id, 1) == 0), 0, "it is the parent's now");
        assert_eq!(rdma_destroy_id(id), 0);
        rdma_destroy_event_channel(channel);
    }
}
