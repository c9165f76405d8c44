//! Buffers of the device, and files that are registered: what peers reach in them, what keeps them, what is refused.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::null_mut;

use libc::{EACCES, EBADF, EINVAL, ENODATA, ENOENT, ENOMEM, EPERM, c_int, c_void};

use super::regions::write;
use super::{LOCAL_WRITE, REMOTE, errno, in_state, why, world};
use crate::abi::*;
use crate::buf::{ibv_alloc_buf, ibv_export_buf_dmabuf_fd, ibv_free_buf, ibv_reg_buf_mr};
use crate::contract_tests::World;
use crate::dm::{alloc_dm, free_dm, ibv_dm_export_dmabuf_fd};
use crate::mr::{ibv_dereg_mr, ibv_rereg_mr, ibv_unimport_mr};
use crate::mr_ex::ibv_reg_dmabuf_mr;
use crate::pd::{ibv_alloc_pd, ibv_dealloc_pd};
use crate::qp_create::ibv_destroy_qp;

/// What peers write.
const WORDS: [u8; 8] = *b"8 bytes!";

/// A buffer, and its first byte.
fn allocated(world: &World, size: usize) -> (*mut ibv_buf, *mut c_void) {
    let mut buf = null_mut();
    // SAFETY: as the manual page wants it.
    unsafe {
        let addr = ibv_alloc_buf(world.pd, size, &raw mut buf);
        assert!(!addr.is_null() && (*buf).addr == addr, "errno {}", errno());
        (buf, addr)
    }
}

/// The 8 bytes there.
fn bytes_at(addr: *mut c_void, offset: usize) -> [u8; 8] {
    // SAFETY: within a buffer that lives; nobody writes now.
    unsafe { addr.byte_add(offset).cast::<[u8; 8]>().read_unaligned() }
}

#[test]
fn a_buffer_stays_as_long_as_a_peer_may_write_to_it() {
    let mut world = world(200);
    world.buffer[..8].copy_from_slice(&WORDS);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let (buf, addr) = allocated(&world, 100);
    assert_eq!(bytes_at(addr, 92), [0; 8], "it begins with zeros");
    // SAFETY: as the manual pages want it; a buffer that is gone is found out.
    unsafe {
        let mr = ibv_reg_buf_mr(world.pd, buf, addr.byte_add(4), 96, REMOTE);
        let rkey = (*mr).rkey;
        assert_eq!(((*mr).addr, (*mr).length, (*mr).pd), (addr.byte_add(4), 96, world.pd));
        assert_eq!(write(&world, qp, rkey, addr as u64 + 92), 0, "the last bytes");
        assert_eq!(bytes_at(addr, 92), WORDS);
        ibv_free_buf(buf);
        assert_eq!(write(&world, qp, rkey, addr as u64 + 4), 0, "it is registered still");
        assert_eq!(bytes_at(addr, 4), WORDS);
        ibv_unimport_mr(mr);
        assert_eq!(write(&world, qp, rkey, addr as u64 + 12), 0, "it was not imported");
        assert_eq!(bytes_at(addr, 12), WORDS);
        ibv_free_buf(buf);
        assert_eq!((ibv_export_buf_dmabuf_fd(buf), errno()), (-1, ENOENT));
        assert_eq!(why(ibv_reg_buf_mr(world.pd, buf, addr, 8, REMOTE)).err(), Some(ENOENT));
        assert_ne!(write(&world, qp, rkey, addr as u64), 0, "those bytes were never registered");
        assert_eq!((ibv_destroy_qp(qp), ibv_dereg_mr(mr)), (0, 0));
    }
    world.end();
}

#[test]
fn a_buffer_has_a_size_a_domain_and_a_place_for_the_answer() {
    let world = world(201);
    let untouched = std::ptr::dangling_mut::<ibv_buf>();
    let mut buf = untouched;
    // SAFETY: null, and objects that are none of what is asked for, are found out.
    unsafe {
        let mut alloc = |pd, size| why(ibv_alloc_buf(pd, size, &raw mut buf)).err();
        assert_eq!(alloc(world.pd, 0), Some(EINVAL));
        assert_eq!(alloc(world.pd, usize::MAX), Some(ENOMEM));
        assert_eq!(alloc(null_mut(), 8), Some(EINVAL));
        assert_eq!(alloc(world.cq.cast(), 8), Some(ENOENT));
        assert_eq!(buf, untouched, "nothing was written");
        assert_eq!(why(ibv_alloc_buf(world.pd, 8, null_mut())).err(), Some(EINVAL));
        for (other, errno_of) in [(null_mut(), EINVAL), (world.mr.cast(), ENOENT)] {
            ibv_free_buf(other);
            assert_eq!((ibv_export_buf_dmabuf_fd(other), errno()), (-1, errno_of));
        }
        let (buf, _) = allocated(&world, 1);
        assert_eq!((ibv_export_buf_dmabuf_fd(buf), errno()), (-1, ENODATA), "pages of the process");
        ibv_free_buf(buf);
    }
    world.end();
}

#[test]
fn only_bytes_of_a_buffer_are_registered_with_it() {
    let world = world(202);
    let (buf, addr) = allocated(&world, 4096);
    // SAFETY: ranges outside are found out, and nothing is read or written.
    unsafe {
        let register =
            |pd, addr, length, access| why(ibv_reg_buf_mr(pd, buf, addr, length, access));
        for (offset, length) in [(0, 4097), (4096, 1), (4000, 97), (usize::MAX, 2), (1, usize::MAX)]
        {
            let from = addr.wrapping_byte_add(offset);
            let refused = register(world.pd, from, length, LOCAL_WRITE).err();
            assert_eq!(refused, Some(EINVAL), "{offset} {length}");
        }
        let pd = ibv_alloc_pd(world.context);
        assert_eq!(register(pd, addr, 8, 0).err(), Some(EINVAL), "of another domain");
        assert_eq!(register(null_mut(), addr, 8, 0).err(), Some(EINVAL));
        let alone = IBV_ACCESS_REMOTE_WRITE;
        assert_eq!(register(world.pd, addr, 8, alone).err(), Some(EINVAL), "not alone");
        assert_eq!(register(world.pd, addr, 8, 1 << 19).err(), Some(EINVAL), "no such right");
        let parts = [(0, 4096), (4095, 1), (0, 1)].map(|(offset, length)| {
            register(world.pd, addr.byte_add(offset), length, REMOTE).expect("within it")
        });
        // One of them goes elsewhere, and the others stay.
        let elsewhere = world.buffer.as_ptr().cast_mut().cast();
        let moved = IBV_REREG_MR_CHANGE_TRANSLATION;
        assert_eq!(ibv_rereg_mr(parts[0], moved, null_mut(), elsewhere, 64, 0), 0);
        assert_eq!(((*parts[0]).addr, (*parts[0]).length), (elsewhere, 64));
        ibv_free_buf(buf);
        assert_eq!(parts.map(|mr| ibv_dereg_mr(mr)), [0; 3]);
        assert_eq!(ibv_dealloc_pd(pd), 0);
    }
    world.end();
}

#[test]
fn device_memory_is_registered_by_its_descriptor() {
    let mut world = world(203);
    world.buffer[..8].copy_from_slice(&WORDS);
    let qp = in_state(&world, IBV_QPT_RC, IBV_QPS_RTS);
    let mut attr = ibv_alloc_dm_attr { length: 8192, log_align_req: 0, comp_mask: 0 };
    let mut bytes = [0_u8; 8];
    const IOVA: u64 = 0x7000;
    // SAFETY: as the manual pages want it.
    unsafe {
        let dm = alloc_dm(world.context, &raw mut attr);
        let file = OwnedFd::from_raw_fd(ibv_dm_export_dmabuf_fd(dm));
        let mr = ibv_reg_dmabuf_mr(world.pd, 5000, 100, IOVA, file.as_raw_fd(), REMOTE);
        assert_eq!(((*mr).addr, (*mr).length, (*mr).pd), (null_mut(), 100, world.pd));
        assert_eq!(write(&world, qp, (*mr).rkey, IOVA + 92), 0, "the last bytes");
        assert_eq!(((*dm).memcpy_from_dm)(bytes.as_mut_ptr().cast(), dm, 5092, 8), 0);
        assert_eq!(bytes, WORDS, "it is the same memory");
        drop(file);
        assert_eq!(free_dm(dm), 0, "the registration has pages of its own");
        assert_eq!(write(&world, qp, (*mr).rkey, IOVA), 0);
        assert_ne!(write(&world, qp, (*mr).rkey, IOVA + 93), 0, "a byte behind its end");
        assert_eq!((ibv_destroy_qp(qp), ibv_dereg_mr(mr)), (0, 0));
    }
    world.end();
}

/// A file in memory of this length that is sealed so.
fn memory_file(length: u64, seals: c_int) -> File {
    // SAFETY: a string that ends with 0, and numbers.
    let file = unsafe {
        let fd = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING);
        File::from_raw_fd(fd)
    };
    file.set_len(length).expect("room");
    // SAFETY: numbers.
    assert_eq!(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) }, 0);
    file
}

#[test]
fn files_that_cannot_be_mapped_whole_are_refused() {
    let world = world(204);
    let register = |fd: RawFd, offset, length, access| {
        // SAFETY: what is not a file to be mapped is found out.
        why(unsafe { ibv_reg_dmabuf_mr(world.pd, offset, length, 0, fd, access) })
    };
    let good = memory_file(8192, libc::F_SEAL_SHRINK);
    let fd = good.as_raw_fd();
    for (offset, length) in [(0, 8193), (8192, 1), (0, 0), (u64::MAX, 1), (1, usize::MAX)] {
        assert_eq!(register(fd, offset, length, 0).err(), Some(EINVAL), "{offset} {length}");
    }
    for access in [IBV_ACCESS_ON_DEMAND, IBV_ACCESS_ZERO_BASED | LOCAL_WRITE, 1 << 19] {
        assert_eq!(register(fd, 0, 64, access).err(), Some(EINVAL), "{access:#x}");
    }
    // SAFETY: as above.
    let wraps = unsafe { ibv_reg_dmabuf_mr(world.pd, 0, 64, u64::MAX - 62, fd, REMOTE) };
    assert_eq!(why(wraps).err(), Some(EINVAL), "it ends behind the last address");
    let (open, (pipe, _write)) = (memory_file(8192, 0), std::io::pipe().expect("two descriptors"));
    let writer_only = memory_file(8192, libc::F_SEAL_SHRINK | libc::F_SEAL_WRITE);
    let reader = File::open(format!("/proc/self/fd/{fd}")).expect("procfs");
    for (what, fd, errno) in [
        ("it may become shorter", open.as_raw_fd(), EINVAL),
        ("no file", pipe.as_raw_fd(), EINVAL),
        ("sealed against peers that write", writer_only.as_raw_fd(), EPERM),
        ("open for reading", reader.as_raw_fd(), EACCES),
        ("nothing", -1, EBADF),
        ("no such descriptor", RawFd::MAX, EBADF),
    ] {
        assert_eq!(register(fd, 0, 64, REMOTE).err(), Some(errno), "{what}");
    }
    let whole = register(fd, 0, 8192, REMOTE).expect("all of it");
    // SAFETY: just made.
    assert_eq!(unsafe { ibv_dereg_mr(whole) }, 0);
    world.end();
}
