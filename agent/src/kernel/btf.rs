//! Layouts of the kernel's structs, from BTF: <https://docs.kernel.org/bpf/btf.html>. A module has a split BTF, whose types and
//! strings continue those of vmlinux.

use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;

/// The types of a kernel, or of one of its modules.
pub struct Btf<'a> {
    base: Option<&'a Btf<'a>>,
    octets: Vec<u8>,
    /// Where each type begins.
    types: Vec<usize>,
    strings: usize,
    strings_length: usize,
}

/// A member of a struct: its offset in octets, and its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// From the start of the struct.
    pub offset: u32,
    /// To be resolved by [`Btf::size`] and [`Btf::member`].
    pub type_id: u32,
}

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
const INT: u8 = 1;
const ARRAY: u8 = 3;
const STRUCT: u8 = 4;
const UNION: u8 = 5;
const ENUM: u8 = 6;
const TYPEDEF: u8 = 8;
const VOLATILE: u8 = 9;
const CONST: u8 = 10;
const RESTRICT: u8 = 11;
const FUNC_PROTO: u8 = 13;
const VAR: u8 = 14;
const DATASEC: u8 = 15;
const DECL_TAG: u8 = 17;
const TYPE_TAG: u8 = 18;
const ENUM64: u8 = 19;

impl<'a> Btf<'a> {
    /// Reads the BTF of a kernel, or, with that as the base, of a module.
    pub fn read_file(path: &Path, base: Option<&'a Btf<'a>>) -> Result<Self> {
        let octets = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(octets, base).with_context(|| format!("{} is no BTF that epguard knows", path.display()))
    }

    fn parse(octets: Vec<u8>, base: Option<&'a Btf<'a>>) -> Result<Self> {
        let number = |at: usize| word(&octets, at).map(|number| number as usize);
        let magic = octets.first_chunk().map(|magic| u16::from_ne_bytes(*magic));
        ensure!(magic == Some(MAGIC), "its first octets are not those of BTF");
        let header = number(4).context("it has no header")?;
        let [types_at, types_length, strings_at, strings_length] = [8, 12, 16, 20].map(number);
        let types_at = header + types_at.context("it has no types")?;
        let end = types_at + types_length.context("it has no types")?;
        let mut btf = Self {
            base,
            types: Vec::new(),
            strings: header + strings_at.context("it has no strings")?,
            strings_length: strings_length.context("it has no strings")?,
            octets,
        };
        let whole = end.max(btf.strings + btf.strings_length);
        ensure!(header >= HEADER && whole <= btf.octets.len(), "it is cut off");
        let mut at = types_at;
        while at < end {
            btf.types.push(at);
            let (kind, count) = btf.kind_at(at).context("a type is cut off")?;
            at +=
                12 + trailing(kind, count).with_context(|| format!("a type has the unknown kind {kind}"))?;
        }
        Ok(btf)
    }

    /// The struct with this name: one of this BTF, else one of its base.
    #[must_use]
    pub fn find_struct(&self, name: &str) -> Option<u32> {
        let is_it = |at: usize| {
            self.kind_at(at).is_some_and(|(kind, _)| kind == STRUCT)
                && word(&self.octets, at).is_some_and(|text| self.text(text) == Some(name.as_bytes()))
        };
        let own = self.types.iter().position(|at| is_it(*at));
        let own = own.and_then(|place| Some(self.first() + u32::try_from(place).ok()?));
        own.or_else(|| self.base?.find_struct(name))
    }

    /// A member of a struct or union, also inside of its members without names.
    #[must_use]
    pub fn member(&self, type_id: u32, name: &str) -> Option<Member> {
        let (owner, at) = self.locate(self.resolve(type_id)?)?;
        let (kind, count) = owner.kind_at(at)?;
        if !matches!(kind, STRUCT | UNION) {
            return None;
        }
        for place in 0..count {
            let at = at + 12 + place * 12;
            let [text, type_id, bits] = [0, 4, 8].map(|offset| word(&owner.octets, at + offset));
            // With bit fields in the struct, the upper octet is the size of this one.
            let offset = (bits? & 0x00ff_ffff) / 8;
            let (text, type_id) = (self.text(text?)?, type_id?);
            if text == name.as_bytes() {
                return Some(Member { offset, type_id });
            }
            if text.is_empty()
                && let Some(inner) = self.member(type_id, name)
            {
                let offset = offset + inner.offset;
                return Some(Member { offset, ..inner });
            }
        }
        None
    }

    /// The type of the elements of an array.
    #[must_use]
    pub fn element(&self, type_id: u32) -> Option<u32> {
        let (owner, at) = self.locate(self.resolve(type_id)?)?;
        let (kind, _) = owner.kind_at(at)?;
        if kind == ARRAY { word(&owner.octets, at + 12) } else { None }
    }

    /// The size of a type in octets.
    #[must_use]
    pub fn size(&self, type_id: u32) -> Option<u32> {
        let (owner, at) = self.locate(self.resolve(type_id)?)?;
        let (kind, _) = owner.kind_at(at)?;
        matches!(kind, INT | STRUCT | UNION | ENUM | ENUM64).then(|| word(&owner.octets, at + 8)).flatten()
    }

    /// Follows typedefs and qualifiers.
    fn resolve(&self, mut type_id: u32) -> Option<u32> {
        for _ in 0..32 {
            let (owner, at) = self.locate(type_id)?;
            match owner.kind_at(at)?.0 {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => type_id = word(&owner.octets, at + 8)?,
                _ => return Some(type_id),
            }
        }
        None
    }

    /// Id of the first type here; 0 is no type.
    fn first(&self) -> u32 {
        self.base.map_or(1, |base| base.first() + u32::try_from(base.types.len()).unwrap_or(u32::MAX))
    }

    fn locate(&self, type_id: u32) -> Option<(&Btf<'a>, usize)> {
        match type_id.checked_sub(self.first()) {
            Some(place) => Some((self, *self.types.get(place as usize)?)),
            None => self.base?.locate(type_id),
        }
    }

    fn kind_at(&self, at: usize) -> Option<(u8, usize)> {
        let info = word(&self.octets, at + 4)?;
        Some((u8::try_from(info >> 24 & 0x1f).ok()?, (info & 0xffff) as usize))
    }

    fn text(&self, offset: u32) -> Option<&[u8]> {
        let before = self.base.map_or(0, |base| base.strings_length);
        let Some(own) = (offset as usize).checked_sub(before) else {
            return self.base?.text(offset);
        };
        let strings = self.octets.get(self.strings..self.strings + self.strings_length)?;
        strings.get(own..)?.split(|octet| *octet == 0).next()
    }
}

/// Octets behind the common part of a type.
fn trailing(kind: u8, count: usize) -> Option<usize> {
    Some(match kind {
        INT | VAR | DECL_TAG => 4,
        ARRAY => 12,
        STRUCT | UNION | DATASEC | ENUM64 => 12 * count,
        ENUM | FUNC_PROTO => 8 * count,
        0..=TYPE_TAG => 0,
        _ => return None,
    })
}

fn word(octets: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(octets.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A BTF with these types, as words, and these strings.
    fn btf(types: &[u32], strings: &str) -> Vec<u8> {
        let length = |octets: usize| u32::try_from(octets).unwrap();
        let header =
            [length(HEADER), 0, length(types.len() * 4), length(types.len() * 4), length(strings.len())];
        let mut octets = vec![0x9f, 0xeb, 1, 0];
        octets.extend(header.iter().chain(types).flat_map(|word| word.to_ne_bytes()));
        octets.extend(strings.bytes());
        octets
    }

    const fn info(kind: u8, count: u32) -> u32 {
        (kind as u32) << 24 | count
    }

    /// `struct a { int x; union { int y; int z[2]; }; }`
    fn vmlinux() -> Vec<u8> {
        let types = [
            vec![1, info(INT, 0), 4, 32],
            vec![5, info(STRUCT, 2), 12, 7, 1, 0, 0, 4, 32],
            vec![0, info(ARRAY, 0), 0, 1, 1, 2],
            vec![0, info(UNION, 2), 8, 9, 1, 0, 11, 3, 0],
        ];
        btf(&types.concat(), "\0int\0a\0x\0y\0z\0")
    }

    #[test]
    fn members_are_found_also_inside_of_unions_without_a_name() {
        let btf = Btf::parse(vmlinux(), None).unwrap();
        let a = btf.find_struct("a").unwrap();
        assert_eq!(btf.size(a), Some(12));
        let offset = |name| btf.member(a, name).map(|member| member.offset);
        assert_eq!([offset("x"), offset("y"), offset("z")], [Some(0), Some(4), Some(4)]);
        assert_eq!(offset("int"), None);
        let element = btf.element(btf.member(a, "z").unwrap().type_id).unwrap();
        assert_eq!(btf.size(element), Some(4));
    }

    #[test]
    fn a_modules_types_and_strings_continue_those_of_the_kernel() {
        let kernel = Btf::parse(vmlinux(), None).unwrap();
        // typedef struct a t; struct b { int first; t second; };
        let types = [vec![13, info(TYPEDEF, 0), 2], vec![15, info(STRUCT, 2), 16, 7, 1, 0, 17, 5, 32]];
        let module = Btf::parse(btf(&types.concat(), "t\0b\0second\0"), Some(&kernel)).unwrap();
        let b = module.find_struct("b").unwrap();
        assert_eq!(module.member(b, "x").map(|member| member.offset), Some(0));
        let second = module.member(b, "second").unwrap();
        assert_eq!((second.offset, module.size(second.type_id)), (4, Some(12)));
        assert_eq!(module.member(second.type_id, "y").map(|member| member.offset), Some(4));
        assert_eq!(module.find_struct("a"), kernel.find_struct("a"));
    }

    #[test]
    fn octets_that_are_no_btf_are_an_error() {
        let whole = vmlinux();
        for length in 0..whole.len() {
            assert!(Btf::parse(whole[..length].to_vec(), None).is_err(), "{length} octets");
        }
        let mut unknown = whole;
        unknown[HEADER + 7] = 31;
        assert!(Btf::parse(unknown, None).is_err());
    }
}
