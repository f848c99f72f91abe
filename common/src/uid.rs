//! Pod UIDs and other Kubernetes UIDs in the form the maps hold.

use core::fmt;

/// A Kubernetes UID: the 16 octets of the UUID, in the order in which they are written.
///
/// A UID that is no UUID (the API allows any string) is hashed to 16 octets instead.
#[repr(C, align(4))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uid {
    /// All zero: no UID.
    pub octets: [u8; 16],
}

impl Uid {
    /// No UID.
    pub const NONE: Self = Self { octets: [0; 16] };

    /// Reads a UID as the API shows it. `None` for an empty string.
    pub fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return None;
        }
        Some(uuid(text.as_bytes()).unwrap_or_else(|| hashed(text.as_bytes())))
    }
}

fn uuid(text: &[u8]) -> Option<Uid> {
    if text.len() != 36 {
        return None;
    }
    let mut octets = [0; 16];
    let mut nibbles = 0;
    for (i, &c) in text.iter().enumerate() {
        if matches!(i, 8 | 13 | 18 | 23) {
            if c != b'-' {
                return None;
            }
            continue;
        }
        let digit = (c as char).to_digit(16)?;
        octets[nibbles / 2] = octets[nibbles / 2] << 4 | u8::try_from(digit).ok()?;
        nibbles += 1;
    }
    Some(Uid { octets })
}

/// FNV-1a, 128 bit: stable across processes, since a UID may sit in a pinned map.
fn hashed(text: &[u8]) -> Uid {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for &c in text {
        hash = (hash ^ u128::from(c)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    Uid {
        octets: hash.to_be_bytes(),
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, octet) in self.octets.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{octet:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_uuid_reads_back_as_it_was_written_and_other_formats_stay_distinct() {
        let text = "145c3e45-83c2-43e7-82af-16a616c6f5e0";
        assert_eq!(Uid::parse(text).unwrap().to_string(), text);
        assert_eq!(Uid::parse(""), None);
        assert_ne!(Uid::parse("a"), Uid::parse("b"));
        assert_ne!(Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5eX"), None);
    }
}
