//! One eBPF instruction, decoded: the format of Linux' `Documentation/bpf/standardization/instruction-set.rst`.

/// An instruction of 8 octets, in the host's byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Insn {
    /// Class in the low three bits, operation or mode and size above.
    pub code: u8,
    /// Destination register, 0 to 11. Constant blinding uses 11 (`BPF_REG_AX`).
    pub dst: u8,
    /// Source register, or the kind of a call or of a 64-bit constant.
    pub src: u8,
    /// Octets for memory, instructions for jumps.
    pub off: i16,
    /// Constant operand.
    pub imm: i32,
}

/// The low three bits of [`Insn::code`].
pub mod class {
    pub const LD: u8 = 0;
    pub const LDX: u8 = 1;
    pub const ST: u8 = 2;
    pub const STX: u8 = 3;
    pub const ALU: u8 = 4;
    pub const JMP: u8 = 5;
    pub const JMP32: u8 = 6;
    pub const ALU64: u8 = 7;
}

/// The high three bits of the code of loads and stores.
pub mod mode {
    pub const MEM: u8 = 0x60;
    pub const MEMSX: u8 = 0x80;
    /// A barrier against speculation, class ST, Linux 5.15.
    pub const NOSPEC: u8 = 0xc0;
    /// Atomic operations, class STX.
    pub const ATOMIC: u8 = 0xc0;
    /// Packet octets, class LD. The verifier replaces both, but old kernels show them.
    pub const ABS: u8 = 0x20;
    pub const IND: u8 = 0x40;
}

/// The high four bits of the code of arithmetic.
pub mod alu {
    pub const ADD: u8 = 0x00;
    pub const SUB: u8 = 0x10;
    pub const OR: u8 = 0x40;
    pub const AND: u8 = 0x50;
    pub const LSH: u8 = 0x60;
    pub const RSH: u8 = 0x70;
    pub const NEG: u8 = 0x80;
    pub const XOR: u8 = 0xa0;
    pub const MOV: u8 = 0xb0;
    pub const ARSH: u8 = 0xc0;
    pub const END: u8 = 0xd0;
}

/// The high four bits of the code of jumps.
pub mod jmp {
    pub const JA: u8 = 0x00;
    pub const JSET: u8 = 0x40;
    pub const CALL: u8 = 0x80;
    pub const EXIT: u8 = 0x90;
    pub const JCOND: u8 = 0xe0;
}

/// `BPF_LD | BPF_IMM | BPF_DW`: a constant of 64 bits over two instructions.
pub const LD_IMM64: u8 = 0x18;
/// Source "register" of [`LD_IMM64`]: a map; in a dump the constant is its id. `BPF_PSEUDO_MAP_FD`.
pub const PSEUDO_MAP: u8 = 1;
/// Source "register" of [`LD_IMM64`]: an address in the value of a map's only element. `BPF_PSEUDO_MAP_VALUE`.
pub const PSEUDO_MAP_VALUE: u8 = 2;
/// Source "register" of [`LD_IMM64`]: the address of a callback.
pub const PSEUDO_FUNC: u8 = 4;
/// Bit of arithmetic and jumps: the operand is a register.
pub const X: u8 = 0x08;

impl Insn {
    /// Reads the octets that `BPF_OBJ_GET_INFO_BY_FD` copies out. Octets after the last whole instruction are ignored.
    #[must_use]
    pub fn decode(octets: &[u8]) -> Vec<Self> {
        let decode = |octets: &[u8; 8]| {
            let [code, registers, low, high, imm @ ..] = *octets;
            let nibbles = (registers & 0xf, registers >> 4);
            let (dst, src) = if cfg!(target_endian = "little") {
                nibbles
            } else {
                (nibbles.1, nibbles.0)
            };
            Self {
                code,
                dst,
                src,
                off: i16::from_ne_bytes([low, high]),
                imm: i32::from_ne_bytes(imm),
            }
        };
        octets.as_chunks().0.iter().map(decode).collect()
    }

    /// The octets that `BPF_PROG_LOAD` takes.
    #[must_use]
    pub fn encode(self) -> [u8; 8] {
        let registers = if cfg!(target_endian = "little") {
            self.src << 4 | self.dst
        } else {
            self.dst << 4 | self.src
        };
        let ([low, high], [a, b, c, d]) = (self.off.to_ne_bytes(), self.imm.to_ne_bytes());
        [self.code, registers, low, high, a, b, c, d]
    }

    /// The class of the instruction: one of `class`.
    #[must_use]
    pub const fn class(self) -> u8 {
        self.code & 7
    }

    /// The operation of arithmetic or of a jump: one of `alu` or `jmp`.
    #[must_use]
    pub const fn operation(self) -> u8 {
        self.code & 0xf0
    }

    /// The mode of a load or store: one of `mode`.
    #[must_use]
    pub const fn mode(self) -> u8 {
        self.code & 0xe0
    }

    /// Octets that a load or store moves.
    #[must_use]
    pub const fn size(self) -> u8 {
        match self.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => 8,
        }
    }

    /// True if the operand of arithmetic or of a jump is a register.
    #[must_use]
    pub const fn has_register(self) -> bool {
        self.code & X != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn a_halfword_load_is_decoded_and_a_torn_instruction_is_ignored() {
        // r2 = *(u16 *)(r1 + 0x84)
        let octets = [0x69, 0x12, 0x84, 0, 0, 0, 0, 0, 0x95];
        let [load] = Insn::decode(&octets)[..] else {
            panic!("one instruction")
        };
        assert_eq!((load.dst, load.src, load.off, load.size()), (2, 1, 0x84, 2));
        assert_eq!((load.class(), load.mode()), (class::LDX, mode::MEM));
        assert_eq!(load.encode(), octets[..8]);
    }
}
