//! The registers through which expressions of a rule pass values on (`linux/netfilter/nf_tables.h`).

use std::ops::Range;

/// The known values of the 64 octets. They have two sets of names: 1 to 4 have 16 octets each (`NFT_REG_1`), 8 to 23
/// have 4 of the same ones (`NFT_REG32_00`). Other numbers are no register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registers([Option<u8>; 64]);

impl Default for Registers {
    fn default() -> Self {
        Self([None; 64])
    }
}

impl Registers {
    /// Writes a value that is fixed. Octets that do not fit are left out.
    pub fn load(&mut self, register: u64, value: &[u8]) {
        let octets = octets(register, value.len()).and_then(|range| self.0.get_mut(range));
        for (octet, value) in octets.into_iter().flatten().zip(value) {
            *octet = Some(*value);
        }
    }

    /// Marks the octets from this register on as unknown.
    pub fn forget(&mut self, register: u64) {
        let octets = octets(register, 0).and_then(|range| self.0.get_mut(range.start..));
        octets.into_iter().flatten().for_each(|octet| *octet = None);
    }

    /// The first octets, if all of them are known.
    pub fn read(&self, register: u64, length: usize) -> Option<Vec<u8>> {
        let octets = self.0.get(octets(register, length)?)?;
        octets.iter().copied().collect()
    }
}

fn octets(register: u64, length: usize) -> Option<Range<usize>> {
    let start = match usize::try_from(register).ok()? {
        wide @ 1..=4 => (wide - 1) * 16,
        narrow @ 8..=23 => (narrow - 8) * 4,
        _ => return None,
    };
    Some(start..start.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numberings_of_a_register_address_the_same_octets() {
        let mut registers = Registers::default();
        registers.load(2, &[1, 2, 3, 4, 5, 6]);
        assert_eq!(registers.read(12, 4), Some(vec![1, 2, 3, 4]));
        assert_eq!(registers.read(13, 2), Some(vec![5, 6]));
        assert_eq!(registers.read(13, 4), None, "only half of it was written");
        registers.forget(13);
        assert_eq!(
            (registers.read(12, 4).is_some(), registers.read(13, 1)),
            (true, None)
        );
    }

    #[test]
    fn unknown_register_reads_none() {
        let mut registers = Registers::default();
        for register in [0, 5, 24, u64::MAX] {
            registers.load(register, &[1]);
            assert_eq!(registers.read(register, 1), None);
        }
        registers.load(23, &[1; 8]);
        assert_eq!(registers.read(23, 8), None, "beyond the last one");
    }
}
