//! One BPF instruction (RFC 9669).

/// `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Insn {
    code: u8,
    /// Destination in the low four bits on little-endian machines, in the high four on others.
    registers: u8,
    pub(super) offset: i16,
    immediate: i32,
}

/// A register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reg {
    /// Result of calls, and of the program.
    R0 = 0,
    R1 = 1,
    R2 = 2,
    R3 = 3,
    R4 = 4,
    /// Survives calls.
    R6 = 6,
    /// The frame pointer, read only.
    R10 = 10,
}

/// How many bytes a load or store moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Width {
    Byte = 0x10,
    Half = 0x08,
    Word = 0x00,
}

/// What a jump compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Test {
    Equal = 0x10,
    NotEqual = 0x50,
    Greater = 0x20,
}

const CLASS_LDX_MEM: u8 = 0x61;
const CLASS_STX_MEM: u8 = 0x63;
const CLASS_ST_MEM: u8 = 0x62;
const CLASS_JMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
const FROM_REGISTER: u8 = 0x08;
const MOVE: u8 = 0xb0;
const ADD: u8 = 0x00;
const AND: u8 = 0x50;
const CALL: u8 = 0x80;
const EXIT: u8 = 0x90;
/// The 16-byte instruction that loads a 64-bit number.
const LOAD_WIDE: u8 = 0x18;
/// The number is a map's descriptor.
const PSEUDO_MAP: u8 = 1;

impl Insn {
    const fn new(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Self {
        let registers =
            if cfg!(target_endian = "little") { to | from << 4 } else { to << 4 | from };
        Self { code, registers, offset, immediate }
    }

    /// `to = *(width *)(from + offset)`
    pub(super) const fn load(width: Width, to: Reg, from: Reg, offset: i16) -> Self {
        Self::new(CLASS_LDX_MEM | width as u8, to as u8, from as u8, offset, 0)
    }

    /// `*(width *)(to + offset) = from`
    pub(super) const fn store(width: Width, to: Reg, offset: i16, from: Reg) -> Self {
        Self::new(CLASS_STX_MEM | width as u8, to as u8, from as u8, offset, 0)
    }

    /// `*(width *)(to + offset) = value`
    pub(super) const fn store_value(width: Width, to: Reg, offset: i16, value: i32) -> Self {
        Self::new(CLASS_ST_MEM | width as u8, to as u8, 0, offset, value)
    }

    /// `to = from`
    pub(super) const fn copy(to: Reg, from: Reg) -> Self {
        Self::new(CLASS_ALU64 | MOVE | FROM_REGISTER, to as u8, from as u8, 0, 0)
    }

    /// `to = value`
    pub(super) const fn set(to: Reg, value: i32) -> Self {
        Self::new(CLASS_ALU64 | MOVE, to as u8, 0, 0, value)
    }

    /// `to += value`
    pub(super) const fn add(to: Reg, value: i32) -> Self {
        Self::new(CLASS_ALU64 | ADD, to as u8, 0, 0, value)
    }

    /// `to &= value`
    pub(super) const fn and(to: Reg, value: i32) -> Self {
        Self::new(CLASS_ALU64 | AND, to as u8, 0, 0, value)
    }

    /// `to = map`, in two instructions.
    pub(super) const fn map(to: Reg, fd: i32) -> [Self; 2] {
        [Self::new(LOAD_WIDE, to as u8, PSEUDO_MAP, 0, fd), Self::new(0, 0, 0, 0, 0)]
    }

    /// Jumps when `left` compares with `value` as `test` says; the distance comes later.
    pub(super) const fn jump_value(test: Test, left: Reg, value: i32) -> Self {
        Self::new(CLASS_JMP | test as u8, left as u8, 0, 0, value)
    }

    /// Jumps when `left` compares with `right` as `test` says; the distance comes later.
    pub(super) const fn jump(test: Test, left: Reg, right: Reg) -> Self {
        Self::new(CLASS_JMP | test as u8 | FROM_REGISTER, left as u8, right as u8, 0, 0)
    }

    /// Jumps; the distance comes later.
    pub(super) const fn goto() -> Self {
        Self::new(CLASS_JMP, 0, 0, 0, 0)
    }

    /// Calls a helper of the kernel.
    pub(super) const fn call(helper: i32) -> Self {
        Self::new(CLASS_JMP | CALL, 0, 0, 0, helper)
    }

    /// Ends the program with the verdict in `R0`.
    pub(super) const fn exit() -> Self {
        Self::new(CLASS_JMP | EXIT, 0, 0, 0, 0)
    }
}

#[cfg(test)]
mod tests;
