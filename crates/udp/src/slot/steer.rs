//! The classic BPF program by which the kernel steers a packet to the process whose slot it names.
//!
//! Classic BPF selects sockets by their index in the port group: that of the process that came
//! first is 0, and when a process leaves, the last one takes its index. So the program can be
//! wrong, and packets are redirected until a probe ([`steering_prober`](super::steering_prober))
//! has found the indices. A packet to QP 1 goes to any of the processes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use libc::{
    BPF_ABS, BPF_ALU, BPF_B, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_SUB, sock_filter,
};
use uroce_host::steering;
use uroce_wire::Slot;

use super::steering_probe::{INDEX, MARK};

/// Index of the socket of each slot in the port group.
pub(crate) type SocketIndices = BTreeMap<Slot, u8>;

/// Steers the packets to the port of `socket`, which is shared. Slots that are not in `indices` are
/// taken to be in order: slot 1 at index 0.
pub(crate) fn steer(socket: impl AsFd, indices: &SocketIndices) -> io::Result<()> {
    steering::attach(socket, &program(indices))
}

fn program(indices: &SocketIndices) -> Vec<sock_filter> {
    // A probe names its index.
    let mut program = vec![
        load(0),
        jump_unless(MARK.into(), 2),
        load(INDEX as u32),
        step(BPF_RET | BPF_A, 0),
        load(Slot::OFFSET as u32),
    ];
    let displaced = indices.iter().filter(|(slot, index)| slot.get() - 1 != **index);
    for (slot, index) in displaced {
        program.push(jump_unless(slot.get().into(), 1));
        program.push(step(BPF_RET | BPF_K, u32::from(*index)));
    }
    program.extend([step(BPF_ALU | BPF_SUB | BPF_K, 1), step(BPF_RET | BPF_A, 0)]);
    program
}

/// Returns the accumulator; the C library has no name for it.
const BPF_A: u32 = 0x10;

fn load(at: u32) -> sock_filter {
    step(BPF_LD | BPF_B | BPF_ABS, at)
}

/// Goes on when the loaded byte is `value`, and else behind the next `skip` steps.
fn jump_unless(value: u32, skip: u8) -> sock_filter {
    sock_filter { jf: skip, ..step(BPF_JMP | BPF_JEQ | BPF_K, value) }
}

fn step(code: u32, value: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k: value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_out_of_order_costs_steps() {
        let slot = |number| Slot::new(number).expect("a slot");
        let in_order: SocketIndices = Slot::all().map(|slot| (slot, slot.get() - 1)).collect();
        assert_eq!(program(&in_order).len(), program(&SocketIndices::new()).len());
        let one = SocketIndices::from([(slot(3), 0)]);
        assert_eq!(program(&one).len(), program(&SocketIndices::new()).len() + 2);
        let all: SocketIndices = Slot::all().map(|slot| (slot, 0)).collect();
        assert!(program(&all).len() < 4096, "the kernel's limit");
    }
}
