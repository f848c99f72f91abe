//! Compares the execution of random programs on numbers with the result of the analysis.
//!
//! Two runs whose fields differ only in bits that the analysis calls unread must decide alike.

#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::single_match_else,
    reason = "a machine computes modulo its word, over some hundred octets"
)]
mod machine;
#[allow(
    clippy::cast_possible_wrap,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::too_many_lines,
    reason = "programs are short, and one arm makes one instruction"
)]
mod programs;

use super::assembler::*;
use crate::kernel::neighbours::{Entry, FieldUse, Insn, analyse};
use machine::Word::{self, Number, Packet};
use machine::{Machine, OCTETS};
use programs::{Gene, assemble};
use proptest::prelude::*;

/// The visible outcome of a run: result, octets that helpers read, other octets, and both fields.
fn outcome(program: &[Insn], fields: [u16; 2]) -> Option<(Word, u64, Vec<u8>, [u16; 2])> {
    let mut packet: [u8; OCTETS] = std::array::from_fn(|at| u8::try_from(at).unwrap().wrapping_mul(0x4f));
    let places = [TC_INDEX, TC_CLASSID].map(|at| usize::from(at.cast_unsigned()));
    for (at, field) in places.into_iter().zip(fields) {
        packet[at..at + 2].copy_from_slice(&field.to_le_bytes());
    }
    let mut machine = Machine {
        program,
        packet,
        frames: vec![],
        seen: 0,
        steps: 2000,
    };
    let mut r = [Number(0); 12];
    r[1] = Packet(0);
    let result = machine.call(0, &r)?;
    let fields = places.map(|at| u16::from_le_bytes([machine.packet[at], machine.packet[at + 1]]));
    let others = (0..OCTETS).filter(|at| !places.iter().any(|place| (*place..place + 2).contains(at)));
    let others = others.map(|at| machine.packet[at]).collect();
    Some((result, machine.seen, others, fields))
}

fn check(program: &[Insn], one: [u16; 2], flips: [u16; 2]) -> Result<bool, TestCaseError> {
    let uses = analyse(program, Entry::Packet, &layout(), &maps());
    let uses: [FieldUse; 2] = [uses.tc_index, uses.tc_classid];
    let other: [u16; 2] = std::array::from_fn(|i| one[i] ^ flips[i] & !uses[i].reads);
    let (Some(a), Some(b)) = (outcome(program, one), outcome(program, other)) else {
        return Ok(false);
    };
    prop_assert_eq!(
        (a.0, a.1, &a.2),
        (b.0, b.1, &b.2),
        "{:x?} {:x?} {:x?}",
        uses,
        one,
        other
    );
    for i in 0..2 {
        let differs = a.3[i] ^ b.3[i];
        prop_assert_eq!(
            differs & (a.3[i] ^ one[i] | b.3[i] ^ other[i]),
            0,
            "moved {:x?} {:x?} {:x?}",
            uses,
            one,
            other
        );
        prop_assert_eq!(
            (a.3[i] ^ one[i]) & !uses[i].clears,
            0,
            "clears {:x?} {:x?}",
            uses,
            one
        );
        prop_assert_eq!(a.3[i] & !one[i] & !uses[i].sets, 0, "sets {:x?} {:x?}", uses, one);
    }
    Ok(uses.iter().any(|uses| uses.reads != u16::MAX) && other != one)
}

#[test]
fn runs_that_differ_in_unread_bits_decide_alike() {
    let cases = std::env::var("CASES").map_or(3000, |cases| cases.parse().unwrap());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases,
        failure_persistence: None,
        max_shrink_iters: 200_000,
        ..ProptestConfig::default()
    });
    let gene = || any::<Gene>();
    let genes = || {
        (
            proptest::collection::vec(gene(), 1..24),
            proptest::collection::vec(gene(), 0..8),
        )
    };
    let telling = std::cell::Cell::new(0u32);
    let result = runner.run(
        &(genes(), any::<[u16; 2]>(), any::<[u16; 2]>()),
        |((main, sub), one, flips)| {
            let program = assemble(&main, &sub);
            let mut tells = check(&program, one, flips)?;
            for more in [0xffff, 1, 0x8000, 0x0fe0] {
                tells |= check(&program, one, [more; 2])?;
            }
            // Every register and slot once more as the result.
            telling.set(telling.get() + u32::from(tells));
            Ok(())
        },
    );
    println!("{} of {cases} tell something", telling.get());
    if let Err(proptest::test_runner::TestError::Fail(why, ((main, sub), one, flips))) = &result {
        for (at, insn) in assemble(main, sub).iter().enumerate() {
            println!("{at}: {insn:?}");
        }
        panic!("{why} {one:x?} {flips:x?}");
    }
    result.unwrap();
}
