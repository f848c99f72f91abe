//! A machine that executes programs on concrete numbers.

use crate::kernel::neighbours::Insn;
use std::collections::BTreeMap;

/// A register: a number or an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    Number(u64),
    Packet(i64),
    Stack(usize, i64),
    Map,
}
use Word::{Number, Packet};

pub const OCTETS: usize = 256;

pub struct Machine<'a> {
    pub program: &'a [Insn],
    pub packet: [u8; OCTETS],
    pub frames: Vec<([u8; 64], BTreeMap<i64, Word>)>,
    pub seen: u64,
    pub steps: usize,
}

pub fn mix(a: u64, b: u64) -> u64 {
    (a.rotate_left(7) ^ b).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Machine<'_> {
    fn octets(&mut self, base: Word, off: i64, size: usize) -> Option<&mut [u8]> {
        let (memory, from) = match base {
            Packet(at) => (&mut self.packet[..], at + off),
            Word::Stack(frame, at) => (&mut self.frames.get_mut(frame)?.0[..], 64 + at + off),
            _ => return None,
        };
        let from = usize::try_from(from).ok()?;
        memory.get_mut(from..from + size)
    }

    fn load(&mut self, base: Word, off: i64, size: usize) -> Option<Word> {
        if let Word::Stack(frame, at) = base {
            let at = at + off;
            let spills = &self.frames.get(frame)?.1;
            if size == 8
                && let Some(word) = spills.get(&at)
            {
                return Some(*word);
            }
            if spills
                .keys()
                .any(|spill| *spill < at + size as i64 && at < spill + 8)
            {
                return None;
            }
        }
        let mut octets = [0; 8];
        octets[..size].copy_from_slice(self.octets(base, off, size)?);
        Some(Number(u64::from_le_bytes(octets)))
    }

    fn store(&mut self, base: Word, off: i64, size: usize, word: Word) -> Option<()> {
        if let Word::Stack(frame, at) = base {
            let at = at + off;
            let spills = &mut self.frames.get_mut(frame)?.1;
            spills.retain(|spill, _| !(*spill < at + size as i64 && at < spill + 8));
            if !matches!(word, Number(_)) {
                (size == 8 && at % 8 == 0).then_some(())?;
                spills.insert(at, word);
                return self.octets(base, off, size).map(|octets| octets.fill(0));
            }
        }
        let Number(number) = word else { return None };
        self.octets(base, off, size)?
            .copy_from_slice(&number.to_le_bytes()[..size]);
        Some(())
    }

    /// A helper that reads and then overwrites its memory.
    fn help(&mut self, registers: &[Word; 12], imm: i32) -> Option<u64> {
        let mut seen = u64::from(imm.cast_unsigned());
        for argument in 1..=5 {
            let length = match (imm, argument, registers[argument], registers.get(argument + 1)) {
                (_, _, Number(number), _) => {
                    seen = mix(seen, number);
                    continue;
                }
                (2, 2, Word::Stack(..), _) => 4,
                (2, 3, Word::Stack(..), _) => 8,
                (1, ..4, Word::Stack(..), Some(Number(length @ 1..=64))) => *length,
                (_, _, Word::Stack(..), _) => return None,
                _ => continue,
            };
            for off in 0..length.cast_signed() {
                let Number(octet) = self.load(registers[argument], off, 1)? else {
                    return None;
                };
                seen = mix(seen, octet);
                if imm == 1 {
                    self.store(registers[argument], off, 1, Number(seen >> 9))?;
                }
            }
        }
        self.seen = mix(self.seen, seen);
        Some(seen)
    }

    /// The result in r0; none if the verifier would have refused the program.
    pub fn call(&mut self, mut at: usize, arguments: &[Word; 12]) -> Option<Word> {
        let frame = self.frames.len();
        if frame > 3 {
            return None;
        }
        self.frames.push(([0x5a; 64], BTreeMap::new()));
        let mut r = *arguments;
        r[10] = Word::Stack(frame, 0);
        loop {
            self.steps = self.steps.checked_sub(1)?;
            let insn = *self.program.get(at)?;
            let (dst, src, off) = (usize::from(insn.dst), usize::from(insn.src), i64::from(insn.off));
            let size = usize::from(insn.size());
            at += 1;
            let operand = if insn.has_register() {
                r[src]
            } else {
                Number(i64::from(insn.imm).cast_unsigned())
            };
            match insn.class() {
                0 => {
                    r[dst] = if insn.src == 1 {
                        Word::Map
                    } else {
                        Number(u64::from(insn.imm.cast_unsigned()))
                    };
                    at += 1;
                }
                1 if insn.mode() == 0x80 => {
                    let Number(number) = self.load(r[src], off, size)? else {
                        return None;
                    };
                    let by = 64 - size as u32 * 8;
                    r[dst] = Number(((number << by).cast_signed() >> by).cast_unsigned());
                }
                1 => r[dst] = self.load(r[src], off, size)?,
                2 => self.store(r[dst], off, size, Number(i64::from(insn.imm).cast_unsigned()))?,
                3 if insn.mode() == 0xc0 => {
                    let (Number(old), Number(new)) = (self.load(r[dst], off, size)?, r[src]) else {
                        return None;
                    };
                    match insn.imm {
                        0xf1 => {
                            let Number(expected) = r[0] else { return None };
                            let cut = |n: u64| if size == 4 { n & 0xffff_ffff } else { n };
                            if cut(expected) == old {
                                self.store(r[dst], off, size, Number(new))?;
                            }
                            r[0] = Number(old);
                        }
                        _ => {
                            self.store(r[dst], off, size, Number(old.wrapping_add(new)))?;
                            if insn.imm & 1 != 0 {
                                r[src] = Number(old);
                            }
                        }
                    }
                }
                3 => self.store(r[dst], off, size, r[src])?,
                4 | 7 => r[dst] = compute(insn, r[dst], operand)?,
                _ => match insn.operation() {
                    0x90 => {
                        self.frames.pop();
                        return matches!(r[0], Number(_) | Packet(_)).then_some(r[0]);
                    }
                    0x80 if insn.src == 1 => {
                        let target = at.checked_add_signed(off as isize)?;
                        r[0] = self.call(target, &r)?;
                        r[1..6].fill(Number(0));
                    }
                    0x80 => {
                        r[0] = Number(self.help(&r, insn.imm)?);
                        r[1..6].fill(Number(0));
                    }
                    0 => at = at.checked_add_signed(off as isize)?,
                    operation => {
                        let (Number(mut a), Number(mut b)) = (r[dst], operand) else {
                            return None;
                        };
                        if insn.class() == 6 {
                            (a, b) = (a & 0xffff_ffff, b & 0xffff_ffff);
                        }
                        let jumps = match operation {
                            0x10 => a == b,
                            0x20 => a > b,
                            0x40 => a & b != 0,
                            0x50 => a != b,
                            _ => a < b,
                        };
                        if jumps {
                            at = at.checked_add_signed(off as isize)?;
                        }
                    }
                },
            }
        }
    }
}

pub fn compute(insn: Insn, dst: Word, operand: Word) -> Option<Word> {
    let wide = insn.class() == 7;
    match (dst, operand, insn.operation()) {
        (_, word, 0xb0) if wide && insn.off == 0 => return Some(word),
        (Packet(at), Number(by), 0) if wide => return Some(Packet(at.checked_add(by.cast_signed())?)),
        (Word::Stack(f, at), Number(by), 0) if wide => {
            return Some(Word::Stack(f, at.checked_add(by.cast_signed())?));
        }
        _ => {}
    }
    let a = match dst {
        Number(a) => a,
        _ if insn.operation() == 0xb0 => 0,
        _ => return None,
    };
    let Number(b) = operand else { return None };
    let (a, b) = if wide {
        (a, b)
    } else {
        (a & 0xffff_ffff, b & 0xffff_ffff)
    };
    let by = u32::try_from(b & if wide { 63 } else { 31 }).ok()?;
    let result = match insn.operation() {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a << by,
        0x70 => a >> by,
        0x80 => a.wrapping_neg(),
        0xa0 => a ^ b,
        0xb0 if insn.off == 8 => i64::from((b as u8).cast_signed()) as u64,
        0xb0 => b,
        0xc0 if wide => (a.cast_signed() >> by).cast_unsigned(),
        0xc0 => u64::from(((a as u32).cast_signed() >> by).cast_unsigned()),
        0xd0 => u64::from((a as u16).swap_bytes()),
        _ => return None,
    };
    Some(Number(if wide { result } else { result & 0xffff_ffff }))
}
