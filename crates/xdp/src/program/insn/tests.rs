use super::*;

/// The instruction as the kernel reads it on a little-endian machine.
#[cfg(target_endian = "little")]
fn bytes(insn: Insn) -> [u8; 8] {
    let [o0, o1] = insn.offset.to_le_bytes();
    let [i0, i1, i2, i3] = insn.immediate.to_le_bytes();
    [insn.code, insn.registers, o0, o1, i0, i1, i2, i3]
}

#[test]
#[cfg(target_endian = "little")]
fn every_instruction_has_the_bytes_of_the_standard() {
    let (r2, r4) = (Reg::R2, Reg::R4);
    let expected: [(Insn, u64); 14] = [
        (Insn::copy(Reg::R6, Reg::R1), 0xbf16_0000_0000_0000),
        (Insn::load(Width::Word, Reg::R3, Reg::R1, 4), 0x6113_0400_0000_0000),
        (Insn::load(Width::Half, r4, r2, 12), 0x6924_0c00_0000_0000),
        (Insn::load(Width::Byte, r4, r2, 23), 0x7124_1700_0000_0000),
        (Insn::store(Width::Word, Reg::R10, -4, r4), 0x634a_fcff_0000_0000),
        (Insn::store_value(Width::Word, Reg::R10, -16, 7), 0x620a_f0ff_0700_0000),
        (Insn::set(Reg::R0, 2), 0xb700_0000_0200_0000),
        (Insn::add(r4, 14), 0x0704_0000_0e00_0000),
        (Insn::and(r4, 0xff0f), 0x5704_0000_0fff_0000),
        (Insn::jump_value(Test::Equal, r4, 8), 0x1504_0000_0800_0000),
        (Insn::jump_value(Test::NotEqual, r4, -1), 0x5504_0000_ffff_ffff),
        (Insn::jump(Test::Greater, r4, Reg::R3), 0x2d34_0000_0000_0000),
        (Insn::call(51), 0x8500_0000_3300_0000),
        (Insn::exit(), 0x9500_0000_0000_0000),
    ];
    for (insn, expected) in expected {
        assert_eq!(bytes(insn), expected.to_be_bytes(), "{insn:x?}");
    }
    assert_eq!(bytes(Insn::goto()), [5, 0, 0, 0, 0, 0, 0, 0]);
    let [first, second] = Insn::map(Reg::R1, 0x1234);
    assert_eq!(bytes(first), [0x18, 0x11, 0, 0, 0x34, 0x12, 0, 0]);
    assert_eq!(bytes(second), [0; 8]);
}

#[test]
fn an_instruction_is_as_long_as_the_kernel_takes_it() {
    assert_eq!((size_of::<Insn>(), align_of::<Insn>()), (8, 4));
}
