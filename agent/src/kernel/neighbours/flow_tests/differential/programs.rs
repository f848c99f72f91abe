//! Random programs.

use crate::kernel::neighbours::Insn;
use crate::kernel::neighbours::flow_tests::assembler::*;

/// The random numbers that an instruction is made of.
pub type Gene = (u8, u8, u8, i32);

/// Small programs near the fields, from random numbers.
pub fn assemble(genes: &[Gene], sub: &[Gene]) -> Vec<Insn> {
    let mut program = vec![
        copy(6, 1),
        load(W, 7, 1, DATA),
        load(W, 8, 1, DATA + 4),
        load(DW, 9, 1, DATA + 8),
    ];
    program.extend([0, 2, 3, 4, 5].map(|register| copy(register, 7)));
    let mut calls = Vec::new();
    body(genes, &mut program, &mut calls);
    // The result: a branch on something, or a register.
    program.extend([number(0, 0), EXIT]);
    let target = program.len();
    program.extend([2, 3, 4, 5, 7, 8, 9].map(|register| number(register, i32::from(register) * 3)));
    program.extend([copy(6, 1), number(0, 5)]);
    let mut nested = Vec::new();
    body(sub, &mut program, &mut nested);
    program.push(EXIT);
    for at in calls {
        program[at] = insn(0x85, 0, 1, (target - at - 1) as i16, 1);
    }
    for at in nested {
        program[at] = number(0, 1);
    }
    program
}

fn body(genes: &[Gene], program: &mut Vec<Insn>, calls: &mut Vec<usize>) {
    const SIZES: [u8; 4] = [B, H, W, DW];
    let data = |n: u8| [0, 2, 3, 4, 5, 7, 8, 9][usize::from(n & 7)];
    for (kind, a, b, imm) in genes {
        let (kind, a, b, imm) = (*kind, *a, *b, *imm);
        let (x, y, size) = (data(a), data(b), SIZES[usize::from(a >> 3 & 3)]);
        let small = [1, 2, 4, 8, 16, 0x1f, -5, 0xff, 0x100, 0xffff, -1, 0, 3, 7, 31, 24][(imm & 15) as usize];
        let imm = if imm & 16 != 0 { imm >> 5 } else { small };
        let field = match b >> 3 & 7 {
            0..=2 => TC_INDEX,
            3 => TC_CLASSID,
            4 => TC_INDEX - 2,
            5 => TC_INDEX + 1,
            6 => TC_INDEX - i16::from(b & 7),
            _ => TC_CLASSID - i16::from(b & 7),
        };
        let stack = -8 * i16::from(1 + (b >> 3 & 3)) + if b & 0x40 != 0 { i16::from(b & 7) } else { 0 };
        match kind % 24 {
            0 | 1 => program.push(load(if a & 0x40 == 0 { H } else { size }, x, 6, field)),
            2 => program.push(store(if a & 0x40 == 0 { H } else { size }, 6, field, y)),
            3 => program.push(store_number(size, 6, field, imm)),
            4 | 5 => program.push(store(size, 10, stack, x)),
            6 => program.push(store_number(size, 10, stack, imm)),
            7 | 8 => program.push(load(size, x, 10, stack)),
            9 | 10 => {
                let operation = [0x00, 0x10, 0x20, 0x40, 0x50, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xc0]
                    [usize::from(b >> 3) % 11];
                let imm = if matches!(operation, 0x60 | 0x70 | 0xc0) {
                    imm & 31
                } else {
                    imm
                };
                program.push(insn(operation | if a & 0x40 != 0 { 4 } else { 7 }, x, 0, 0, imm));
            }
            11 | 12 => {
                let operation = [0x00, 0x10, 0x40, 0x50, 0x50, 0x60, 0x70, 0xa0, 0xb0, 0xb0, 0xc0]
                    [usize::from(b >> 3) % 11];
                program.push(insn(
                    operation | 8 | if a & 0x40 != 0 { 4 } else { 7 },
                    x,
                    y,
                    0,
                    0,
                ));
            }
            13 | 14 => {
                let operation = [0x10, 0x20, 0x40, 0x50, 0xa0][usize::from(b >> 3) % 5];
                program.push(insn(
                    operation | if a & 0x40 != 0 { 6 } else { 5 },
                    x,
                    0,
                    i16::from(1 + a / 64),
                    imm,
                ));
            }
            15 => program.push(insn(0x1d | (0x10 * (a >> 6 & 1)), x, y, 2, 0)),
            16 => program.push(match b >> 3 & 3 {
                0 => insn(0x87, x, 0, 0, 0),
                1 => insn(0xdc, x, 0, 0, 16),
                2 => insn(0xbf, x, y, 8, 0),
                _ => insn(0x81 | H, x, 6, field, 0),
            }),
            17 => program.push(insn(
                0xc3 | if a & 0x40 != 0 { DW } else { W },
                if b & 0x80 != 0 { 6 } else { 10 },
                x,
                if b & 0x80 != 0 { field } else { stack },
                [0, 1, 0xf1][usize::from(a) % 3],
            )),
            18 => program.push(store(DW, 10, -40 - 8 * i16::from(b >> 3 & 1), 6)),
            19 => program.push(load(DW, 6, 10, -40 - 8 * i16::from(b >> 3 & 1))),
            // Through another pointer to the stack, fixed or varying.
            20 => {
                program.extend([copy(5, 10), with(ADD, 5, i32::from(stack))]);
                if a & 0x40 != 0 {
                    program.extend([with(AND, 7, 3), insn(0x0f, 5, 7, 0, 0)]);
                }
                program.push(if a & 0x80 != 0 {
                    store(size, 5, 0, y)
                } else {
                    load(size, x, 5, 0)
                });
            }
            // A pointer to the packet that is moved.
            21 => program.extend([
                copy(5, 6),
                with(ADD, 5, i32::from(a)),
                load(H, x, 5, field - i16::from(a)),
            ]),
            22 => {
                let length = i32::from(1 + (a >> 4 & 7));
                if b & 0x80 == 0 {
                    program.extend([
                        copy(1, 10),
                        with(ADD, 1, i32::from(stack)),
                        number(2, length),
                        call(1),
                    ]);
                } else {
                    program.extend([
                        insn(0x18, 1, 1, 0, 7),
                        Insn::default(),
                        copy(2, 10),
                        with(ADD, 2, i32::from(stack)),
                    ]);
                    program.extend([copy(3, 10), with(ADD, 3, -16), call(2)]);
                }
                program.extend([1, 2, 3, 4, 5].map(|register| copy(register, 0)));
            }
            _ => {
                program.extend([
                    copy(1, 6),
                    copy(2, 10),
                    with(ADD, 2, i32::from(stack)),
                    copy(3, y),
                ]);
                if a & 0x40 != 0 {
                    program.push(copy(4, 6));
                }
                calls.push(program.len());
                program.push(number(0, 0));
                program.extend([1, 2, 3, 4, 5].map(|register| number(register, 9)));
            }
        }
    }
}
