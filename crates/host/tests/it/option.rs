//! Options of sockets, and buffers as large as this user may have.

use std::fs::File;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use socket2::{Domain, Socket, Type};
use uroce_host::{Buffer, enlarge, option};

fn socket() -> Socket {
    Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket")
}

#[test]
fn an_option_of_something_else_is_refused_with_the_kernels_answer() {
    let error = |result: std::io::Result<i32>| result.expect_err("refused").raw_os_error();
    let (level, name) = (libc::SOL_SOCKET, libc::SO_RCVBUF);
    let file = File::open("/dev/null").expect("a file");
    assert_eq!(error(option::get(&file, level, name)), Some(libc::ENOTSOCK));
    assert_eq!(error(option::set(&file, level, name, 1).map(|()| 0)), Some(libc::ENOTSOCK));
    let refused = option::set(socket(), libc::IPPROTO_IP, libc::IP_TTL, 256).map(|()| 0);
    assert_eq!(error(refused), Some(libc::EINVAL));
    assert_eq!(error(option::get(socket(), libc::SOL_UDP, 9999)), Some(libc::ENOPROTOOPT));
}

#[test]
fn the_two_buffers_are_two() {
    let socket = socket();
    let send = socket.send_buffer_size().expect("a size");
    enlarge(&socket, Buffer::Receive, 32 << 10);
    assert_eq!(socket.send_buffer_size().expect("a size"), send);
    let receive = socket.recv_buffer_size().expect("a size");
    enlarge(&socket, Buffer::Send, 48 << 10);
    assert_eq!(socket.recv_buffer_size().expect("a size"), receive);
}

#[test]
fn without_the_right_the_limit_of_the_system_holds() {
    let granted = std::thread::spawn(|| {
        let mut mine = capabilities(None).expect("capabilities");
        mine.effective.remove(CapabilitySet::NET_ADMIN);
        set_capabilities(None, mine).expect("less is always allowed");
        [Buffer::Receive, Buffer::Send].map(|buffer| enlarge(&socket(), buffer, usize::MAX))
    });
    let granted = granted.join().expect("no panic");
    let plain = [libc::SO_RCVBUF, libc::SO_SNDBUF].map(|name| {
        let socket = socket();
        option::set(&socket, libc::SOL_SOCKET, name, i32::MAX).expect("cut, not refused");
        option::get(&socket, libc::SOL_SOCKET, name).expect("a size") as usize / 2
    });
    assert_eq!(granted, plain);
}
