//! Classic BPF: programs by which the kernel decides what reaches a socket, and which socket of several.

use std::io;

use libc::{BPF_ABS, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, sock_filter};
use socket2::{SockFilter, Socket};

pub use crate::sys::steering::{attach_fanout, attach_reuseport};

/// Where the kernel's own facts about a packet are loaded from (linux/filter.h).
pub const PACKET_TYPE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE).cast_unsigned();
/// The index of the interface that a packet arrived at, as [`PACKET_TYPE`].
pub const INTERFACE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_IFINDEX).cast_unsigned();
/// The kind of that interface (`ARPHRD_`), as [`PACKET_TYPE`].
pub const HARDWARE: u32 = (libc::SKF_AD_OFF + libc::SKF_AD_HATYPE).cast_unsigned();

/// Returns the accumulator; the C library has no name for it.
const BPF_A: u32 = 0x10;

/// A program under construction. A jump to a label that is placed nowhere goes on with the next step.
#[derive(Debug)]
pub struct Program<L> {
    steps: Vec<(sock_filter, [L; 2])>,
    places: Vec<(L, usize)>,
    next: L,
}

impl<L: Copy + PartialEq> Program<L> {
    /// A program without steps. `next` is the label that is placed nowhere.
    #[must_use]
    pub fn new(next: L) -> Self {
        Self { steps: Vec::new(), places: Vec::new(), next }
    }

    /// The next step is what jumps to this label aim at.
    pub fn place(&mut self, label: L) {
        self.places.push((label, self.steps.len()));
    }

    /// Adds a step that is no jump.
    pub fn step(&mut self, code: u32, value: u32) {
        self.jump(code, value, self.next, self.next);
    }

    /// Loads a value of `size` (`BPF_B`, `BPF_H`, `BPF_W`) at a place of the packet.
    pub fn load(&mut self, size: u32, at: u32) {
        self.step(BPF_LD | size | BPF_ABS, at);
    }

    /// Loads relative to the index register.
    pub fn load_behind(&mut self, size: u32, at: u32) {
        self.step(BPF_LD | size | BPF_IND, at);
    }

    /// Compares the accumulator.
    pub fn equals(&mut self, value: u32, then: L, otherwise: L) {
        self.test(BPF_JEQ, value, then, otherwise);
    }

    /// Tests the accumulator (`BPF_JEQ`, `BPF_JGE`, `BPF_JSET`).
    pub fn test(&mut self, condition: u32, value: u32, then: L, otherwise: L) {
        self.jump(BPF_JMP | condition | BPF_K, value, then, otherwise);
    }

    /// Ends with a value: bytes of the packet to take, or the index of a socket.
    pub fn give(&mut self, value: u32) {
        self.step(BPF_RET | BPF_K, value);
    }

    /// Ends with the accumulator as the value.
    pub fn give_accumulator(&mut self) {
        self.step(BPF_RET | BPF_A, 0);
    }

    fn jump(&mut self, code: u32, value: u32, then: L, otherwise: L) {
        let step = sock_filter { code: code as u16, jt: 0, jf: 0, k: value };
        self.steps.push((step, [then, otherwise]));
    }

    /// Aims the jumps, which reach 255 steps.
    #[must_use]
    pub fn finish(self) -> Vec<sock_filter> {
        let Self { steps, places, .. } = self;
        let aim = |from: usize, label: L| {
            let place = places.iter().find(|(placed, _)| *placed == label);
            let distance = place.map_or(0, |(_, to)| to - from - 1);
            debug_assert!(distance <= u8::MAX.into(), "a jump over {distance} steps");
            distance as u8
        };
        let aimed = steps.into_iter().enumerate().map(|(at, (step, [then, otherwise]))| {
            sock_filter { jt: aim(at, then), jf: aim(at, otherwise), ..step }
        });
        aimed.collect()
    }
}

/// The socket receives what the program takes.
///
/// # Errors
///
/// What the kernel says.
pub fn attach_filter(socket: &Socket, program: &[sock_filter]) -> io::Result<()> {
    let steps = program.iter().map(|step| SockFilter::new(step.code, step.jt, step.jf, step.k));
    socket.attach_filter(&steps.collect::<Vec<_>>())
}

/// The socket receives nothing.
///
/// # Errors
///
/// What the kernel says.
pub fn drop_everything(socket: &Socket) -> io::Result<()> {
    socket.attach_filter(&[SockFilter::new((BPF_RET | BPF_K) as u16, 0, 0, 0)])
}

#[cfg(test)]
mod tests {
    use libc::BPF_B;

    use super::*;

    #[test]
    fn jumps_aim_at_labels_and_else_at_the_next_step() {
        let mut program = Program::new("next");
        program.load(BPF_B, 9);
        program.equals(17, "next", "drop");
        program.give(1);
        program.place("drop");
        program.give(0);
        let steps = program.finish();
        assert_eq!(
            steps.iter().map(|step| (step.jt, step.jf)).collect::<Vec<_>>(),
            [(0, 0), (0, 1), (0, 0), (0, 0)]
        );
    }

    #[test]
    fn a_socket_that_drops_everything_receives_nothing() {
        let [to, from] = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").expect("free"));
        let to = Socket::from(to);
        drop_everything(&to).expect("a filter");
        let address = to.local_addr().expect("bound").as_socket().expect("IP");
        from.send_to(b"dropped", address).expect("send");
        to.set_nonblocking(true).expect("a socket");
        let got = to.recv(&mut [std::mem::MaybeUninit::uninit(); 8]);
        assert_eq!(got.expect_err("nothing").kind(), io::ErrorKind::WouldBlock);
    }
}
