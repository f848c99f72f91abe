//! Layouts of the kernel's structs, from BTF: <https://docs.kernel.org/bpf/btf.html>. A module has
//! a split BTF, whose types and strings continue those of vmlinux.

use anyhow::{Context as _, Result, ensure};
use aya_obj::btf::BtfKind;
use std::fs;
use std::path::Path;

/// The types of a kernel and, behind them, of a module.
#[derive(Default)]
pub struct Btf {
    octets: Vec<u8>,
    /// Where each type begins; the first one has the id 1.
    types: Vec<usize>,
    /// How many types were there before those of the last file.
    before: usize,
    strings: Vec<u8>,
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

impl Btf {
    /// Adds the BTF of a kernel, or, behind that, of a module.
    pub fn add_file(&mut self, path: &Path) -> Result<()> {
        let octets = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        self.add(&octets)
            .with_context(|| format!("{} is no BTF that epguard knows", path.display()))
    }

    fn add(&mut self, file: &[u8]) -> Result<()> {
        let magic = file.first_chunk().map(|magic| u16::from_ne_bytes(*magic));
        ensure!(
            magic == Some(MAGIC),
            "its first octets are not those of BTF"
        );
        let header = number(file, 4)
            .filter(|header| *header >= HEADER)
            .context("it has no header")?;
        let types = section(file, header, 8).context("it is cut off")?;
        let strings = section(file, header, 16).context("it is cut off")?;
        let mut at = self.octets.len();
        let end = at + types.len();
        self.before = self.types.len();
        self.octets.extend(types);
        self.strings.extend(strings);
        while at < end {
            self.types.push(at);
            let (kind, count) = self.kind_at(at).with_context(|| {
                let kind = word(&self.octets, at + 4).unwrap_or_default() >> 24 & 0x1f;
                format!("a type is cut off, or of the unknown kind {kind}")
            })?;
            at += 12 + trailing(kind, count);
        }
        Ok(())
    }

    /// The struct with this name: one of the last file, else one before it.
    pub fn find_struct(&self, name: &str) -> Option<u32> {
        let (before, last) = self.types.split_at(self.before);
        let place = match last.iter().position(|at| self.is_struct(*at, name)) {
            Some(place) => self.before + place,
            None => before.iter().position(|at| self.is_struct(*at, name))?,
        };
        u32::try_from(place + 1).ok()
    }

    /// Whether the type at this place is a struct with this name.
    fn is_struct(&self, at: usize, name: &str) -> bool {
        let kind = self.kind_at(at);
        let text = word(&self.octets, at);
        kind.is_some_and(|(kind, _)| kind == BtfKind::Struct)
            && text.is_some_and(|text| self.text(text) == Some(name.as_bytes()))
    }

    /// A member of a struct or union, also inside of its members without names.
    pub fn member(&self, type_id: u32, name: &str) -> Option<Member> {
        let (at, kind, count) = self.resolve(type_id)?;
        if !matches!(kind, BtfKind::Struct | BtfKind::Union) {
            return None;
        }
        (0..count).find_map(|place| {
            let at = at + 12 + place * 12;
            let [text, type_id, bits] = [0, 4, 8].map(|offset| word(&self.octets, at + offset));
            // With bit fields in the struct, the upper octet is the size of this one.
            let offset = (bits? & 0x00ff_ffff) / 8;
            let text = self.text(text?)?;
            let type_id = type_id?;
            if text == name.as_bytes() {
                return Some(Member { offset, type_id });
            }
            if !text.is_empty() {
                return None;
            }
            let inner = self.member(type_id, name)?;
            Some(Member {
                offset: offset + inner.offset,
                ..inner
            })
        })
    }

    /// The type of the elements of an array.
    pub fn element(&self, type_id: u32) -> Option<u32> {
        let (at, kind, _) = self.resolve(type_id)?;
        if kind == BtfKind::Array {
            word(&self.octets, at + 12)
        } else {
            None
        }
    }

    /// The size of a type in octets.
    pub fn size(&self, type_id: u32) -> Option<u32> {
        use BtfKind::{Enum, Enum64, Int, Struct, Union};
        let (at, kind, _) = self.resolve(type_id)?;
        matches!(kind, Int | Struct | Union | Enum | Enum64)
            .then(|| word(&self.octets, at + 8))
            .flatten()
    }

    /// Where the type behind typedefs and qualifiers begins, its kind, and how many parts it has.
    fn resolve(&self, mut type_id: u32) -> Option<(usize, BtfKind, usize)> {
        use BtfKind::{Const, Restrict, TypeTag, Typedef, Volatile};
        for _ in 0..32 {
            let at = *self.types.get((type_id as usize).checked_sub(1)?)?;
            match self.kind_at(at)? {
                (Typedef | Volatile | Const | Restrict | TypeTag, _) => {
                    type_id = word(&self.octets, at + 8)?;
                }
                (kind, count) => return Some((at, kind, count)),
            }
        }
        None
    }

    fn kind_at(&self, at: usize) -> Option<(BtfKind, usize)> {
        let info = word(&self.octets, at + 4)?;
        Some((
            BtfKind::try_from(info >> 24 & 0x1f).ok()?,
            (info & 0xffff) as usize,
        ))
    }

    fn text(&self, offset: u32) -> Option<&[u8]> {
        self.strings
            .get(offset as usize..)?
            .split(|octet| *octet == 0)
            .next()
    }
}

/// Octets behind the common part of a type.
fn trailing(kind: BtfKind, count: usize) -> usize {
    match kind {
        BtfKind::Int | BtfKind::Var | BtfKind::DeclTag => 4,
        BtfKind::Array => 12,
        BtfKind::Struct | BtfKind::Union | BtfKind::DataSec | BtfKind::Enum64 => 12 * count,
        BtfKind::Enum | BtfKind::FuncProto => 8 * count,
        _ => 0,
    }
}

/// The number at this place of the file.
fn number(file: &[u8], at: usize) -> Option<usize> {
    word(file, at).map(|number| number as usize)
}

/// A section behind the header, whose offset and length are at this place.
fn section(file: &[u8], header: usize, at: usize) -> Option<&[u8]> {
    let offset = number(file, at)?;
    let length = number(file, at + 4)?;
    file.get(header + offset..)?.get(..length)
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
        let header = [
            length(HEADER),
            0,
            length(types.len() * 4),
            length(types.len() * 4),
            length(strings.len()),
        ];
        let mut octets = vec![0x9f, 0xeb, 1, 0];
        octets.extend(
            header
                .iter()
                .chain(types)
                .flat_map(|word| word.to_ne_bytes()),
        );
        octets.extend(strings.bytes());
        octets
    }

    const fn info(kind: BtfKind, count: u32) -> u32 {
        (kind as u32) << 24 | count
    }

    /// `struct a { int x; union { int y; int z[2]; }; }`
    fn vmlinux() -> Vec<u8> {
        let types = [
            vec![1, info(BtfKind::Int, 0), 4, 32],
            vec![5, info(BtfKind::Struct, 2), 12, 7, 1, 0, 0, 4, 32],
            vec![0, info(BtfKind::Array, 0), 0, 1, 1, 2],
            vec![0, info(BtfKind::Union, 2), 8, 9, 1, 0, 11, 3, 0],
        ];
        btf(&types.concat(), "\0int\0a\0x\0y\0z\0")
    }

    fn parsed(files: &[Vec<u8>]) -> Result<Btf> {
        let mut btf = Btf::default();
        files.iter().try_for_each(|file| btf.add(file))?;
        Ok(btf)
    }

    #[test]
    fn members_are_found_also_inside_of_unions_without_a_name() {
        let btf = parsed(&[vmlinux()]).unwrap();
        let a = btf.find_struct("a").unwrap();
        assert_eq!(btf.size(a), Some(12));
        let offset = |name| btf.member(a, name).map(|member| member.offset);
        assert_eq!(
            [offset("x"), offset("y"), offset("z")],
            [Some(0), Some(4), Some(4)]
        );
        assert_eq!(offset("int"), None);
        let element = btf.element(btf.member(a, "z").unwrap().type_id).unwrap();
        assert_eq!(btf.size(element), Some(4));
    }

    #[test]
    fn a_modules_types_and_strings_continue_those_of_the_kernel() {
        let kernel = parsed(&[vmlinux()]).unwrap();
        // typedef struct a t; struct b { int first; t second; };
        let types = [
            vec![13, info(BtfKind::Typedef, 0), 2],
            vec![15, info(BtfKind::Struct, 2), 16, 7, 1, 0, 17, 5, 32],
        ];
        let module = parsed(&[vmlinux(), btf(&types.concat(), "t\0b\0second\0")]).unwrap();
        let b = module.find_struct("b").unwrap();
        assert_eq!(module.member(b, "x").map(|member| member.offset), Some(0));
        let second = module.member(b, "second").unwrap();
        assert_eq!((second.offset, module.size(second.type_id)), (4, Some(12)));
        assert_eq!(
            module
                .member(second.type_id, "y")
                .map(|member| member.offset),
            Some(4)
        );
        assert_eq!(module.find_struct("a"), kernel.find_struct("a"));
    }

    #[test]
    fn octets_that_are_no_btf_are_an_error() {
        let whole = vmlinux();
        for length in 0..whole.len() {
            assert!(
                parsed(&[whole[..length].to_vec()]).is_err(),
                "{length} octets"
            );
        }
        let mut unknown = whole;
        unknown[HEADER + 7] = 31;
        assert!(parsed(&[unknown]).is_err());
    }
}
