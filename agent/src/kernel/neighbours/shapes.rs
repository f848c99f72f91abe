//! Programs that differ in nothing but which maps they use are analysed once: a CNI loads the same program for each pod.

use super::fields::Layout;
use super::flow::{Entry, analyse};
use super::insn::{Insn, LD_IMM64, PSEUDO_MAP, PSEUDO_MAP_VALUE};
use super::uses::Use;
use crate::kernel::datapath::programs::MapSize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher as _, Hash, Hasher, RandomState};

/// Everything that the analysis of a program depends on, as two keyed hashes: a loader of programs cannot make two that
/// are taken for each other.
pub(super) type Shape = [u64; 2];

/// The possible use of the carriers by programs of each shape.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    keys: [RandomState; 2],
    uses: HashMap<Shape, Use>,
}

impl Shapes {
    /// Analyses a program, unless one of its shape is known. Returns its shape, and its possible use of the carriers.
    pub(super) fn analyse(
        &mut self,
        program: &[Insn],
        entry: Entry,
        layout: &Layout,
        maps: &BTreeMap<u32, MapSize>,
    ) -> (Shape, Use) {
        let shape = self.keys.each_ref().map(|key| {
            let mut hasher = key.build_hasher();
            entry.hash(&mut hasher);
            hash(program, maps, &mut hasher);
            hasher.finish()
        });
        let uses = self
            .uses
            .entry(shape)
            .or_insert_with(|| analyse(program, entry, layout, maps));
        (shape, *uses)
    }

    /// Drops all other shapes.
    pub(super) fn keep(&mut self, shapes: &BTreeSet<Shape>) {
        self.uses.retain(|shape, _| shapes.contains(shape));
    }
}

/// Hashes a program. Maps count by their sizes and by which of them are the same one.
fn hash(program: &[Insn], maps: &BTreeMap<u32, MapSize>, hasher: &mut impl Hasher) {
    let mut order = BTreeMap::new();
    let mut rest = program.iter();
    while let Some(insn) = rest.next() {
        let is_map = insn.code == LD_IMM64 && [PSEUDO_MAP, PSEUDO_MAP_VALUE].contains(&insn.src);
        if !is_map {
            insn.hash(hasher);
            continue;
        }
        // The second half is the offset into the value; the analysis treats it as any address.
        rest.next();
        let id = insn.imm.cast_unsigned();
        let next = order.len();
        Insn { imm: 0, ..*insn }.hash(hasher);
        order.entry(id).or_insert(next).hash(hasher);
        maps.get(&id).hash(hasher);
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow_tests::assembler::layout;
    use super::*;

    const LOOK_UP: Insn = Insn {
        code: 0x85,
        dst: 0,
        src: 0,
        off: 0,
        imm: 1,
    };

    fn load(src: u8, dst: u8, imm: i32) -> [Insn; 2] {
        let code = LD_IMM64;
        let first = Insn {
            code,
            dst,
            src,
            off: 0,
            imm,
        };
        [first, Insn::default()]
    }

    fn shape(shapes: &Shapes, program: &[Insn], maps: &[(u32, u32)]) -> u64 {
        let size = |(id, key): &(u32, u32)| (*id, MapSize { key: *key, value: 8 });
        let mut hasher = shapes.keys[0].build_hasher();
        hash(program, &maps.iter().map(size).collect(), &mut hasher);
        hasher.finish()
    }

    #[test]
    fn programs_that_use_other_maps_of_the_same_size_have_one_shape() {
        let shapes = Shapes::default();
        let program = |id| [&load(PSEUDO_MAP, 1, id)[..], &[LOOK_UP]].concat();
        let one = shape(&shapes, &program(7), &[(7, 4)]);
        assert_eq!(one, shape(&shapes, &program(9), &[(9, 4)]));
        assert_ne!(one, shape(&shapes, &program(9), &[(9, 6)]), "another size");
        assert_ne!(one, shape(&shapes, &program(9), &[]), "a map that is gone");
    }

    #[test]
    fn a_program_with_two_maps_differs_from_one_that_uses_one_map_twice() {
        let shapes = Shapes::default();
        let program = |one, other| [load(PSEUDO_MAP, 1, one), load(PSEUDO_MAP, 2, other)].concat();
        let maps = [(7, 4), (9, 4)];
        assert_ne!(
            shape(&shapes, &program(7, 7), &maps),
            shape(&shapes, &program(7, 9), &maps)
        );
        assert_eq!(
            shape(&shapes, &program(9, 7), &maps),
            shape(&shapes, &program(7, 9), &maps)
        );
    }

    #[test]
    fn a_constant_equal_to_a_map_id_is_no_map() {
        let shapes = Shapes::default();
        let number = |number| shape(&shapes, &load(0, 1, number), &[(7, 4), (9, 4)]);
        assert_ne!(number(7), number(9));
    }

    #[test]
    fn an_evicted_program_is_analysed_again() {
        let (mut shapes, layout) = (Shapes::default(), layout());
        let exit = Insn {
            code: 0x95,
            ..Insn::default()
        };
        let (shape, uses) = shapes.analyse(&[exit], Entry::Packet, &layout, &BTreeMap::new());
        shapes.uses.insert(shape, Use::UNKNOWN);
        let again = shapes.analyse(&[exit], Entry::Packet, &layout, &BTreeMap::new());
        assert_eq!(again, (shape, Use::UNKNOWN), "it was not analysed again");
        assert_ne!(
            shapes
                .analyse(&[exit], Entry::Unknown, &layout, &BTreeMap::new())
                .0,
            shape
        );
        shapes.keep(&BTreeSet::new());
        let again = shapes.analyse(&[exit], Entry::Packet, &layout, &BTreeMap::new());
        assert_eq!(again, (shape, uses));
    }
}
