use super::*;

#[test]
fn a_jump_counts_from_the_instruction_behind_it() {
    let mut asm = Assembler::default();
    let [near, far] = [(); 2].map(|()| asm.label());
    asm.jump_value(Test::Equal, Reg::R4, 1, far);
    asm.jump(Test::Greater, Reg::R4, Reg::R3, near);
    asm.place(near);
    asm.put(Insn::map(Reg::R1, 3));
    asm.goto(far);
    asm.put([Insn::set(Reg::R0, 1)]);
    asm.place(far);
    asm.put([Insn::exit()]);
    let offsets: Vec<i16> = asm.finish().iter().map(|insn| insn.offset).collect();
    // The instruction that loads a map counts as two.
    assert_eq!(offsets, [5, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn two_labels_may_stand_at_one_place() {
    let mut asm = Assembler::default();
    let [a, b] = [(); 2].map(|()| asm.label());
    asm.goto(a);
    asm.goto(b);
    asm.place(a);
    asm.place(b);
    asm.put([Insn::exit()]);
    assert_eq!(asm.finish().iter().map(|insn| insn.offset).collect::<Vec<_>>(), [1, 0, 0]);
}

#[test]
#[should_panic(expected = "every label is placed")]
fn a_jump_to_nowhere_is_a_bug() {
    let mut asm = Assembler::default();
    let label = asm.label();
    asm.goto(label);
    asm.finish();
}
