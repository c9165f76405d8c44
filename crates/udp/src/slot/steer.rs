//! The classic BPF program by which the kernel steers a packet to the process whose slot it names.
//!
//! Classic BPF selects sockets by their index in the port group: that of the process that came
//! first is 0, and when a process leaves, the last one takes its index. So the program can be
//! wrong, and packets are redirected until a probe ([`steering_prober`](super::steering_prober))
//! has found the indices. A packet to QP 1 goes to any of the processes.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use libc::{BPF_ALU, BPF_B, BPF_K, BPF_SUB, sock_filter};
use uroce_host::bpf::{self, Program};
use uroce_wire::Slot;

use super::steering_probe::{INDEX, MARK};

/// Index of the socket of each slot in the port group.
pub(crate) type SocketIndices = BTreeMap<Slot, u8>;

/// Steers the packets to the port of `socket`, which is shared. Slots that are not in `indices` are
/// taken to be in order: slot 1 at index 0.
pub(crate) fn steer(socket: impl AsFd, indices: &SocketIndices) -> io::Result<()> {
    bpf::attach_reuseport(socket, &program(indices))
}

/// Steps that jumps aim at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Next,
    /// Behind the answer to a probe.
    NoProbe,
    /// Behind what a slot needs.
    Behind(Slot),
}

fn program(indices: &SocketIndices) -> Vec<sock_filter> {
    let mut program = Program::new(Label::Next);
    // A probe names its index.
    program.load(BPF_B, 0);
    program.equals(MARK.into(), Label::Next, Label::NoProbe);
    program.load(BPF_B, INDEX as u32);
    program.give_accumulator();
    program.place(Label::NoProbe);
    program.load(BPF_B, Slot::OFFSET as u32);
    let displaced = indices.iter().filter(|(slot, index)| slot.get() - 1 != **index);
    for (slot, index) in displaced {
        program.equals(slot.get().into(), Label::Next, Label::Behind(*slot));
        program.give(u32::from(*index));
        program.place(Label::Behind(*slot));
    }
    program.step(BPF_ALU | BPF_SUB | BPF_K, 1);
    program.give_accumulator();
    program.finish()
}

#[cfg(test)]
mod verdicts;
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
