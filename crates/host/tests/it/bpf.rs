//! Programs that the kernel runs for sockets.

use std::net::{SocketAddr, UdpSocket};

use libc::{BPF_B, BPF_IMM, BPF_JGE, BPF_JSET, BPF_LDX, BPF_W};
use socket2::{Domain, SockRef, Socket, Type};
use uroce_host::bpf::{
    INTERFACE, PACKET_TYPE, Program, attach_fanout, attach_filter, attach_reuseport,
};

/// Where the payload begins for the program of a UDP socket.
const PAYLOAD: u32 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    Take,
    Drop,
}

/// Payloads of one byte that pass the program.
fn passed(build: impl FnOnce(&mut Program<Label>)) -> Vec<u8> {
    let [to, from] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").expect("free"));
    let address = to.local_addr().expect("bound");
    let mut program = Program::new(Label::Next);
    build(&mut program);
    program.place(Label::Drop);
    program.give(0);
    program.place(Label::Take);
    program.give(u32::MAX);
    attach_filter(&SockRef::from(&to), &program.finish()).expect("the kernel takes it");
    for byte in 0..8 {
        from.send_to(&[byte], address).expect("sent");
    }
    to.set_nonblocking(true).expect("a socket");
    std::iter::from_fn(|| receive(&to)).collect()
}

fn receive(socket: &UdpSocket) -> Option<u8> {
    let mut room = [0];
    socket.recv(&mut room).ok()?;
    Some(room[0])
}

#[test]
fn each_test_takes_what_it_says() {
    let with = |condition, value| {
        passed(|program| {
            program.load(BPF_B, PAYLOAD);
            program.test(condition, value, Label::Take, Label::Drop);
        })
    };
    assert_eq!(with(BPF_JGE, 6), [6, 7]);
    assert_eq!(with(BPF_JSET, 0b101), [1, 3, 4, 5, 6, 7].map(|n: u8| n));
    assert_eq!(
        passed(|program| {
            program.load(BPF_B, PAYLOAD);
            program.equals(2, Label::Take, Label::Next);
            program.equals(5, Label::Take, Label::Drop);
        }),
        [2, 5]
    );
}

#[test]
fn a_load_may_count_from_the_index_register() {
    let got = passed(|program| {
        program.step(BPF_LDX | BPF_W | BPF_IMM, PAYLOAD - 2);
        program.load_behind(BPF_B, 2);
        program.equals(3, Label::Take, Label::Drop);
    });
    assert_eq!(got, [3]);
}

#[test]
fn a_load_behind_the_end_drops_the_packet() {
    assert_eq!(passed(|program| program.load(BPF_B, PAYLOAD + 1)), []);
}

#[test]
fn the_kernels_own_facts_are_to_be_had() {
    let lo = uroce_host::interface::index("lo").expect("lo");
    let all: Vec<u8> = (0..8).collect();
    let on = |index| {
        passed(|program| {
            program.load(BPF_W, INTERFACE);
            program.equals(index, Label::Take, Label::Drop);
        })
    };
    assert_eq!((on(lo), on(lo + 1)), (all.clone(), vec![]));
    let to_this_host = passed(|program| {
        program.load(BPF_W, PACKET_TYPE);
        program.equals(libc::PACKET_HOST.into(), Label::Take, Label::Drop);
    });
    assert_eq!(to_this_host, all);
}

#[test]
fn a_program_names_the_socket_of_several_on_one_port() {
    let open = || {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None).expect("a socket");
        socket.set_reuse_port(true).expect("an option");
        socket
    };
    let sockets = [(); 3].map(|()| open());
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    sockets[0].bind(&any.into()).expect("free");
    let shared = sockets[0].local_addr().expect("bound");
    sockets[1..].iter().for_each(|socket| socket.bind(&shared).expect("shared"));
    let mut program = Program::new(Label::Next);
    program.load(BPF_B, 0);
    program.give_accumulator();
    attach_reuseport(&sockets[2], &program.finish()).expect("the kernel takes it");
    let from = UdpSocket::bind("127.0.0.1:0").expect("free");
    let to = shared.as_socket().expect("IP");
    for byte in [0, 1, 2, 2, 1, 0, 0] {
        from.send_to(&[byte], to).expect("sent");
    }
    let sockets = sockets.map(UdpSocket::from);
    let got = sockets.map(|socket| std::iter::from_fn(|| receive(&socket)).collect::<Vec<_>>());
    assert_eq!(got, [vec![0, 0, 0], vec![1, 1], vec![2, 2]]);
}

#[test]
fn what_the_kernel_does_not_take_is_an_error() {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).expect("a socket");
    attach_filter(&socket, &[]).expect_err("no steps");
    attach_reuseport(&socket, &[]).expect_err("no steps");
    let mut endless = Program::new(Label::Next);
    endless.load(BPF_B, 0);
    attach_filter(&socket, &endless.finish()).expect_err("it gives nothing");
    let mut program = Program::new(Label::Next);
    program.give(0);
    let program = program.finish();
    attach_fanout(&socket, &program).expect_err("no packet socket");
    let long = vec![program[0]; usize::from(u16::MAX) + 1];
    let error = attach_reuseport(&socket, &long).expect_err("more steps than a program has");
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}
