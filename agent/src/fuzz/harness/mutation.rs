//! One change of an input's octets.

use proptest::prelude::*;
use proptest::sample::Index;

/// Inputs grow no further.
const LONGEST: usize = 64 << 10;

/// Numbers at the edges of what parsers expect, and beyond.
const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "65535",
    "65536",
    "4294967296",
    "18446744073709551616",
    "9223372036854775808",
    "1e999",
    "0.1",
    "00000000000001",
];

/// What text formats nest by, with and without an end.
const NESTS: [(&str, &str); 4] = [("[", "]"), ("{\"a\":", "}"), ("[", ""), ("- ", "")];

/// A change.
#[derive(Debug, Clone)]
pub enum Mutation {
    /// Another bit.
    Flip(Index, u8),
    /// Another octet.
    Set(Index, u8),
    /// So many octets less.
    Cut(Index, usize),
    /// The end is lost.
    Truncate(Index),
    /// A part comes several times.
    Repeat(Index, usize, usize),
    /// A part of another input comes in.
    Splice(Index, Index, Index, usize),
    /// A word of the dictionary replaces as many octets.
    Word(Index, Index),
    /// A word of the dictionary comes in.
    Insert(Index, Index),
    /// The number that begins at or behind some place is another one.
    Number(Index, Index),
    /// What follows is nested this deep.
    Nest(Index, Index, usize),
}

impl Arbitrary for Mutation {
    type Parameters = ();
    type Strategy = BoxedStrategy<Self>;

    fn arbitrary_with((): ()) -> Self::Strategy {
        let at = any::<Index>;
        let flips = (at(), 0_u8..8).prop_map(|(at, bit)| Self::Flip(at, bit));
        let sets = (at(), any::<u8>()).prop_map(|(at, octet)| Self::Set(at, octet));
        let cuts = (at(), 1_usize..64).prop_map(|(at, length)| Self::Cut(at, length));
        let repeats =
            (at(), 1_usize..256, 1_usize..64).prop_map(|(at, length, times)| Self::Repeat(at, length, times));
        let splices = (at(), at(), at(), 1_usize..512)
            .prop_map(|(at, other, from, length)| Self::Splice(at, other, from, length));
        let words = (at(), at()).prop_map(|(at, word)| Self::Word(at, word));
        let inserts = (at(), at()).prop_map(|(at, word)| Self::Insert(at, word));
        let numbers = (at(), at()).prop_map(|(at, number)| Self::Number(at, number));
        let nests = (at(), at(), 1_usize..2000).prop_map(|(at, how, depth)| Self::Nest(at, how, depth));
        prop_oneof![
            4 => flips,
            4 => sets,
            3 => cuts,
            1 => at().prop_map(Self::Truncate),
            2 => repeats,
            3 => splices,
            3 => words,
            3 => inserts,
            3 => numbers,
            1 => nests,
        ]
        .boxed()
    }
}

impl Mutation {
    /// Changes the input. `seeds` are all inputs of the corpus.
    pub fn apply(&self, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[&str]) {
        let place = |at: &Index, input: &[u8]| at.index(input.len() + 1);
        let octet = |at: &Index, input: &[u8]| at.index(input.len().max(1));
        match self {
            Self::Flip(at, bit) => {
                let at = octet(at, input);
                if let Some(octet) = input.get_mut(at) {
                    *octet ^= 1 << bit;
                }
            }
            Self::Set(at, new) => {
                let at = octet(at, input);
                if let Some(octet) = input.get_mut(at) {
                    *octet = *new;
                }
            }
            Self::Cut(at, length) => replace(input, place(at, input), *length, b""),
            Self::Truncate(at) => input.truncate(place(at, input)),
            Self::Repeat(at, length, times) => {
                let from = place(at, input);
                let part = input[from..(from + length).min(input.len())].repeat(*times);
                replace(input, from, 0, &part);
            }
            Self::Splice(at, other, from, length) => {
                let other = other.get(seeds);
                let from = place(from, other);
                let part = &other[from..(from + length).min(other.len())];
                replace(input, place(at, input), 0, part);
            }
            Self::Word(..) | Self::Insert(..) if words.is_empty() => {}
            Self::Word(at, word) => {
                let word = word.get(words);
                replace(input, place(at, input), word.len(), word.as_bytes());
            }
            Self::Insert(at, word) => replace(input, place(at, input), 0, word.get(words).as_bytes()),
            Self::Number(at, number) => {
                let from = place(at, input);
                let digits = |octets: &[u8]| octets.iter().take_while(|octet| octet.is_ascii_digit()).count();
                let from = from
                    + input[from..]
                        .iter()
                        .position(u8::is_ascii_digit)
                        .unwrap_or_default();
                replace(
                    input,
                    from,
                    digits(&input[from..]),
                    number.get(&NUMBERS).as_bytes(),
                );
            }
            Self::Nest(at, how, depth) => {
                let (open, close) = how.get(&NESTS);
                replace(input, place(at, input), 0, open.repeat(*depth).as_bytes());
                input.extend(close.repeat(*depth).bytes());
            }
        }
        input.truncate(LONGEST);
    }
}

fn replace(input: &mut Vec<u8>, from: usize, length: usize, by: &[u8]) {
    let to = (from + length).min(input.len());
    input.splice(from..to, by.iter().copied());
}
