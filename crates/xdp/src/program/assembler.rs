//! Instructions in a row, with jumps to labels.

use super::insn::{Insn, Reg, Test};

/// A place to jump to, known or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Label(usize);

/// Collects instructions. All jumps go forward.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    insns: Vec<Insn>,
    /// Position of each label, once it is placed.
    labels: Vec<Option<usize>>,
    /// Jumps, as (position, label).
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label for [`place`](Self::place) to put somewhere.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The label stands before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        self.labels[label.0] = Some(self.insns.len());
    }

    /// Appends instructions.
    pub(super) fn put(&mut self, insns: impl IntoIterator<Item = Insn>) {
        self.insns.extend(insns);
    }

    /// Appends a jump for when `left` compares with `value` as `test` says.
    pub(super) fn jump_value(&mut self, test: Test, left: Reg, value: i32, to: Label) {
        self.jump_with(Insn::jump_value(test, left, value), to);
    }

    /// Appends a jump for when `left` compares with `right` as `test` says.
    pub(super) fn jump(&mut self, test: Test, left: Reg, right: Reg, to: Label) {
        self.jump_with(Insn::jump(test, left, right), to);
    }

    /// Appends a jump.
    pub(super) fn goto(&mut self, to: Label) {
        self.jump_with(Insn::goto(), to);
    }

    fn jump_with(&mut self, insn: Insn, to: Label) {
        self.jumps.push((self.insns.len(), to));
        self.insns.push(insn);
    }

    /// The program, with every jump aimed.
    pub(super) fn finish(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            let to = self.labels[label.0].expect("every label is placed");
            let distance = i16::try_from(to - at - 1).expect("the program is short");
            self.insns[at].offset = distance;
        }
        self.insns
    }
}

#[cfg(test)]
mod tests;
