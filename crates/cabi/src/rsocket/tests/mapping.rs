//! riomap(3), riounmap(3) and riowrite(3): where buffers are mapped, and what is refused.

use libc::{EBADF, EFAULT, EINVAL, ENOMEM, EOPNOTSUPP, c_int, c_void, off_t};
use uroce_verbs_abi::{RDMA_IOMAPSIZE, SOL_RDMA};

use super::{
    close, errno, new, pair, rclose, receive, riomap, riounmap, riowrite, rsetsockopt, send,
};

const ANYWHERE: off_t = -1;

/// Two ends that may map so many buffers for each other.
fn mapping(ours: &str, theirs: &str, number: c_int) -> (c_int, c_int) {
    pair(ours, theirs, |fd| {
        // SAFETY: an int.
        let set =
            unsafe { rsetsockopt(fd, SOL_RDMA, RDMA_IOMAPSIZE, (&raw const number).cast(), 4) };
        assert_eq!(set, 0);
    })
}

fn map(fd: c_int, buffer: &mut [u8], prot: c_int, offset: off_t) -> Result<off_t, c_int> {
    // SAFETY: a slice, which lives until it is unmapped.
    match unsafe { riomap(fd, buffer.as_mut_ptr().cast(), buffer.len(), prot, 0, offset) } {
        -1 => Err(errno()),
        offset => Ok(offset),
    }
}

fn unmap(fd: c_int, buffer: &mut [u8]) -> Result<(), c_int> {
    if riounmap(fd, buffer.as_mut_ptr().cast(), buffer.len()) == 0 { Ok(()) } else { Err(errno()) }
}

fn write(fd: c_int, bytes: &[u8], offset: off_t) -> Result<usize, c_int> {
    // SAFETY: a slice.
    match unsafe { riowrite(fd, bytes.as_ptr().cast(), bytes.len(), offset, 0) } {
        usize::MAX => Err(errno()),
        written => Ok(written),
    }
}

/// What `from` has done before is known to `to`, and seen by it.
fn synchronize(from: c_int, to: c_int) {
    assert_eq!(send(from, b"!", 0), 1);
    assert_eq!(receive(to, &mut [0], 0), 1);
}

#[test]
fn buffers_are_mapped_where_the_program_wants_and_never_twice() {
    let both = mapping("127.48.99.1:0", "127.48.99.2:0", 3);
    let (mut one, mut two, mut three, mut four) = ([0; 10], [0; 10], [0; 10], [0; 10]);
    let prot = libc::PROT_WRITE;
    assert_eq!(map(both.1, &mut one, prot, ANYWHERE), Ok(0), "the first one");
    assert_eq!(map(both.1, &mut two, prot, 9), Err(EINVAL), "its last byte is taken");
    assert_eq!(map(both.1, &mut two, prot, 100), Ok(100));
    assert_eq!(map(both.1, &mut three, prot, 91), Err(EINVAL), "its end reaches into that");
    assert_eq!(map(both.1, &mut three, prot, ANYWHERE), Ok(110), "behind all others");
    assert_eq!(map(both.1, &mut four, prot, 200), Err(ENOMEM), "the peer has three entries");
    assert_eq!(unmap(both.1, &mut two), Ok(()));
    assert_eq!(unmap(both.1, &mut two), Err(EINVAL), "twice");
    assert_eq!(unmap(both.1, &mut one[..9]), Err(EINVAL), "another length");
    assert_eq!(map(both.1, &mut four, prot, 100), Ok(100), "in its place and entry");
    synchronize(both.1, both.0);
    assert_eq!(write(both.0, b"abc", 105), Ok(3));
    assert_eq!(write(both.0, b"xyz", 108), Ok(3), "across two buffers that touch");
    assert_eq!(write(both.0, b"z", 10), Err(EINVAL), "between them");
    synchronize(both.0, both.1);
    // SAFETY: the memory is the test's own, read as a program reads what a NIC has written.
    let seen = unsafe { [four.as_ptr().read_volatile(), four.as_ptr().add(5).read_volatile()] };
    assert_eq!(seen, [0, b'a']);
    // SAFETY: as above.
    assert_eq!(unsafe { three.as_ptr().read_volatile() }, b'z', "the third byte");
    close(both);
}

#[test]
fn a_buffer_that_nobody_writes_to_takes_no_entry() {
    let both = mapping("127.48.99.3:0", "127.48.99.4:0", 0);
    let mut buffer = [0; 8];
    assert_eq!(map(both.1, &mut buffer, libc::PROT_WRITE, ANYWHERE), Err(ENOMEM));
    assert_eq!(map(both.1, &mut buffer, libc::PROT_NONE, ANYWHERE), Ok(0));
    synchronize(both.1, both.0);
    assert_eq!(write(both.0, b"x", 0), Err(EINVAL), "the peer was not told");
    assert_eq!(unmap(both.1, &mut buffer), Ok(()));
    close(both);
}

#[test]
fn what_cannot_be_mapped_or_written_is_refused() {
    let both = mapping("127.48.99.5:0", "127.48.99.6:0", 1);
    let mut buffer = [0; 8];
    for prot in [libc::PROT_READ, libc::PROT_EXEC, libc::PROT_READ | libc::PROT_WRITE, -1] {
        assert_eq!(map(both.0, &mut buffer, prot, ANYWHERE), Err(EINVAL), "{prot}");
    }
    let start: *mut c_void = buffer.as_mut_ptr().cast();
    // SAFETY: refused calls look at no buffer.
    unsafe {
        let shared = riomap(both.0, start, 8, libc::PROT_WRITE, libc::MAP_SHARED, ANYWHERE);
        assert_eq!((shared, errno()), (-1, EOPNOTSUPP));
        let long = riomap(both.0, start, 1 << 32, libc::PROT_WRITE, 0, ANYWHERE);
        assert_eq!((long, errno()), (-1, EINVAL), "longer than an entry says");
        let nowhere = std::ptr::without_provenance_mut(4096);
        let unmapped = riomap(both.0, nowhere, 8, libc::PROT_WRITE, 0, ANYWHERE);
        assert_eq!((unmapped, errno()), (-1, EFAULT), "no memory is there");
        let nothing = riowrite(both.0, std::ptr::null(), 1, 0, 0);
        assert_eq!((nothing, errno()), (usize::MAX, EFAULT));
    }
    assert_eq!(map(both.0, &mut buffer, libc::PROT_WRITE, ANYWHERE), Ok(0), "the entry is free");
    let alone = new();
    assert_eq!(map(alone, &mut [0], libc::PROT_WRITE, ANYWHERE), Err(libc::ENOTCONN));
    assert_eq!(write(alone, b"x", 0), Err(libc::ENOTCONN));
    assert_eq!(rclose(alone), 0);
    assert_eq!(map(alone, &mut [0], libc::PROT_WRITE, ANYWHERE), Err(EBADF));
    assert_eq!((unmap(alone, &mut [0]), write(alone, b"x", 0)), (Err(EBADF), Err(EBADF)));
    close(both);
}

#[test]
fn a_buffer_that_is_mapped_already_is_mapped_once_more() {
    let both = mapping("127.48.99.7:0", "127.48.99.8:0", 2);
    let mut buffer = [0; 8];
    assert_eq!(map(both.1, &mut buffer, libc::PROT_NONE, ANYWHERE), Ok(0));
    assert_eq!(map(both.1, &mut buffer, libc::PROT_WRITE, 50), Ok(50));
    assert_eq!(map(both.1, &mut buffer, libc::PROT_WRITE, 100), Ok(100));
    synchronize(both.1, both.0);
    assert_eq!(write(both.0, b"a", 50), Ok(1));
    assert_eq!(write(both.0, b"b", 101), Ok(1));
    synchronize(both.0, both.1);
    // SAFETY: the memory is the test's own, read as a program reads what a NIC has written.
    let seen = unsafe { [buffer.as_ptr().read_volatile(), buffer.as_ptr().add(1).read_volatile()] };
    assert_eq!(seen, *b"ab");
    close(both);
}

#[test]
fn a_write_to_what_was_unmapped_is_refused_and_the_connection_stays() {
    let both = mapping("127.48.99.9:0", "127.48.99.10:0", 2);
    let (mut one, mut two) = ([0; 8], [0; 8]);
    assert_eq!(map(both.1, &mut one, libc::PROT_WRITE, 50), Ok(50));
    assert_eq!(map(both.1, &mut two, libc::PROT_WRITE, 58), Ok(58));
    synchronize(both.1, both.0);
    assert_eq!(write(both.0, b"a", 50), Ok(1));
    synchronize(both.0, both.1);
    assert_eq!(unmap(both.1, &mut one), Ok(()));
    synchronize(both.1, both.0);
    assert_eq!(write(both.0, b"b", 50), Err(EINVAL), "it is mapped no more");
    assert_eq!(write(both.0, b"c", 58), Ok(1), "the other one is");
    synchronize(both.0, both.1);
    // SAFETY: the memory is the test's own, read as a program reads what a NIC has written.
    let seen = unsafe { [one.as_ptr().read_volatile(), two.as_ptr().read_volatile()] };
    assert_eq!(seen, *b"ac");
    close(both);
}
