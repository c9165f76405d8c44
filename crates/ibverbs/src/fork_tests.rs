//! What a child process may do with what its parent made: destroy it, which changes nothing, and make its own.

use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use libc::c_int;
use uroce_device::{device_reports, interface_of};

use crate::abi::{IBV_PORT_ACTIVE, ibv_port_attr};
use crate::channel::ibv_destroy_comp_channel;
use crate::context::ctx_of;
use crate::contract_tests::{World, opened, world};
use crate::cq_create::{ibv_create_cq, ibv_destroy_cq};
use crate::device_list::{device_of, ibv_free_device_list, ibv_get_device_list};
use crate::mr::{ibv_dereg_mr, ibv_reg_mr};
use crate::object::zeroed;
use crate::open::{ibv_close_device, ibv_open_device};
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use crate::post_send::post_send;
use crate::qp_create::ibv_destroy_qp;
use crate::query::query_port;
use crate::sysfs_counters;

/// Seconds after which a child that hangs is ended.
const CHILD_TIMEOUT_S: u32 = 20;

/// Children of a process whose threads create and destroy objects all the time.
const FORKS: u32 = 500;

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

/// The object works: an empty message still leaves.
fn is_alive(world: &World) -> bool {
    let mut from = world.sge(0, 0);
    let mut wr = world.send(&mut from, null_mut());
    (wr.opcode, wr.num_sge) = (0, 0);
    // SAFETY: as the manual page wants it.
    unsafe { post_send(world.qp, &raw mut wr, &mut null_mut()) == 0 && world.poll().status == 0 }
}

#[test]
fn v6_a_child_destroys_what_it_inherited_and_the_parent_notices_nothing() {
    if !is_alone("v6_a_child_destroys_what_it_inherited_and_the_parent_notices_nothing") {
        return;
    }
    let parent = world(60);
    parent.connect();
    let status = child(|| {
        // SAFETY: nothing is used afterwards.
        unsafe {
            let objects = ibv_destroy_qp(parent.qp) | ibv_destroy_cq(parent.cq);
            let others = ibv_dereg_mr(parent.mr) | ibv_dealloc_pd(parent.pd);
            let channel = ibv_destroy_comp_channel(parent.channel);
            objects | others | channel | ibv_close_device(parent.context) == 0
        }
    });
    assert_eq!(status, 0);
    assert!(is_alive(&parent));
    let own = std::process::id();
    let reports = device_reports().expect("/proc/net/unix");
    let address = parent.address.to_string();
    let told = reports.iter().flatten().filter(|report| report.pid == own);
    let told = told.flat_map(|report| &report.resources[..1]);
    assert!(told.into_iter().any(|device| device.to_string().contains(&address)), "{reports:?}");
    parent.end();
}

#[test]
fn v7_a_child_cannot_use_the_objects_of_its_parent() {
    if !is_alone("v7_a_child_cannot_use_the_objects_of_its_parent") {
        return;
    }
    let parent = world(61);
    let status = child(|| {
        let mut byte = 0u8;
        // SAFETY: the library finds out that these are not the child's.
        unsafe {
            let mr = ibv_reg_mr(parent.pd, (&raw mut byte).cast(), 1, 1);
            let posted = post_send(parent.qp, null_mut(), null_mut());
            mr.is_null() && posted == libc::EINVAL
        }
    });
    assert_eq!(status, 0);
    parent.end();
}

#[test]
fn v7_a_child_opens_a_device_of_its_own_also_by_the_context_that_it_inherited() {
    if !is_alone("v7_a_child_opens_a_device_of_its_own_also_by_the_context_that_it_inherited") {
        return;
    }
    let parent = world(62);
    let status = child(|| {
        // SAFETY: as the manual pages want it.
        unsafe {
            let device = device_of(interface_of(parent.address).expect("it is local"));
            let contexts = [parent.context, ibv_open_device(device)];
            contexts.into_iter().all(|context| {
                let pd = ibv_alloc_pd(context);
                let cq = ibv_create_cq(context, 4, null_mut(), null_mut(), 0);
                !pd.is_null() && !cq.is_null() && ibv_destroy_cq(cq) | ibv_dealloc_pd(pd) == 0
            })
        }
    });
    assert_eq!(status, 0);
    parent.end();
}

#[test]
fn v80_a_child_does_not_show_its_parents_counters() {
    if !is_alone("v80_a_child_does_not_show_its_parents_counters") {
        return;
    }
    let parent = world(66);
    parent.connect();
    assert!(is_alive(&parent));
    // SAFETY: a context that is open.
    let open_device = unsafe { ctx_of(parent.context) }.unwrap().opened().unwrap();
    let file = format!("{}/ports/1/counters/port_xmit_packets", open_device.device.name());
    let packets = || sysfs_counters::value(Path::new(&file));
    assert!(packets() > Some(0));
    assert_eq!(child(|| packets() == Some(0)), 0);
    drop(open_device);
    parent.end();
}

#[test]
fn a_child_does_not_wait_for_a_thread_that_only_its_parent_has() {
    if !is_alone("a_child_does_not_wait_for_a_thread_that_only_its_parent_has") {
        return;
    }
    let (parent, done) = (world(67), AtomicBool::new(false));
    let context = parent.context.expose_provenance();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: as the manual pages want it.
                    unsafe {
                        let pd = ibv_alloc_pd(std::ptr::with_exposed_provenance_mut(context));
                        assert_eq!(ibv_dealloc_pd(pd), 0);
                    }
                }
            });
        }
        let destroys = || {
            // SAFETY: as the manual pages want it.
            child(|| unsafe {
                let list = ibv_get_device_list(null_mut());
                ibv_free_device_list(list);
                ibv_dealloc_pd(parent.pd) == 0 && !list.is_null()
            })
        };
        let failed = (0..FORKS).map(|_| destroys()).find(|status| *status != 0);
        done.store(true, Ordering::Relaxed);
        assert_eq!(failed, None, "a child hung, or was refused");
    });
    parent.end();
}

#[test]
fn a_port_is_up_although_no_descriptor_is_free() {
    if !is_alone("a_port_is_up_although_no_descriptor_is_free") {
        return;
    }
    let context = opened(68);
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: integers, and calls as the manual pages want them.
    let status = child(|| unsafe {
        let mut attr: ibv_port_attr = zeroed();
        let limited = libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none) == 0;
        let asked = query_port(context, 1, &raw mut attr, size_of_val(&attr)) == 0;
        limited && asked && attr.state == IBV_PORT_ACTIVE
    });
    assert_eq!(status, 0);
    // SAFETY: as the manual page wants it.
    assert_eq!(unsafe { ibv_close_device(context) }, 0);
}
