//! One table for each list of the datapath: from it come the numbers in the maps, the names in
//! text, and help.

use core::fmt;

/// Defines an enum by its table. A row has the number that the maps hold, the name that people and
/// programs read and write, and one sentence of help. A list with more columns names their getter:
/// `enum Reason (terms: Terms)`.
///
/// Errors of the generated parsers: `None` for a number or a name that is in no row.
macro_rules! table {
    (
        $(#[$meta:meta])*
        pub enum $list:ident ($column:ident: $facts:ty) {
            $($(#[$of_row:meta])* $row:ident = $number:literal, $name:literal, $fact:expr, $help:literal;)*
        }
    ) => {
        $crate::table::table! {
            $(#[$meta])*
            pub enum $list { $($(#[$of_row])* $row = $number, $name, $help;)* }
        }

        impl $list {
            /// The other columns of the table.
            #[inline]
            pub const fn $column(self) -> $facts {
                match self { $(Self::$row => $fact,)* }
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub enum $list:ident {
            $($(#[$of_row:meta])* $row:ident = $number:literal, $name:literal, $help:literal;)*
        }
    ) => {
        #[repr(u32)]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        $(#[$meta])*
        pub enum $list {
            $(
                $(#[$of_row])*
                #[doc = $help]
                #[cfg_attr(feature = "serde", serde(rename = $name))]
                $row = $number,
            )*
        }

        impl $list {
            /// All rows, in the order of their numbers.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$row),*];

            /// Reads a number from a map; `None` for an unknown one.
            #[inline]
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$row),)*
                    _ => None,
                }
            }

            /// The name: as logs, metrics, documents and the command line write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$row => $name,)* }
            }

            /// One sentence for people.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$row => $help,)* }
            }

            /// Reads a name; `None` for any other text.
            pub fn from_name(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|row| row.as_str() == text)
            }
        }

        impl core::fmt::Display for $list {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

pub(crate) use table;

/// Choices in a sentence: `off, observe or enforce`.
#[derive(Debug, Clone, Copy)]
pub struct OneOf<I>(pub I);

impl<I> fmt::Display for OneOf<I>
where
    I: IntoIterator<Item: fmt::Display> + Clone,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut choices = self.0.clone().into_iter().peekable();
        let mut before = "";
        while let Some(choice) = choices.next() {
            let between = if before.is_empty() || choices.peek().is_some() {
                before
            } else {
                " or "
            };
            write!(f, "{between}{choice}")?;
            before = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::{Action, Mode, Outcome, Reason};
    use std::string::ToString as _;

    /// Each row reads back from its number and from its name.
    macro_rules! reads_back {
        ($($list:ident),*) => {$(
            assert!($list::ALL.is_sorted_by(|earlier, later| (*earlier as u32) < *later as u32));
            for row in $list::ALL {
                assert_eq!($list::from_number(row as u32), Some(row));
                assert_eq!($list::from_name(row.as_str()), Some(row));
            }
            assert_eq!($list::from_number(99), None);
            assert_eq!($list::from_name("reuse"), None);
        )*};
    }

    #[test]
    fn every_row_reads_back_from_its_number_and_from_its_name() {
        reads_back!(Action, Mode, Outcome, Reason);
    }

    #[test]
    fn choices_stand_in_a_sentence() {
        let sentence = |choices: &[&str]| OneOf(choices).to_string();
        assert_eq!(sentence(&["a", "b", "c"]), "a, b or c");
        assert_eq!(sentence(&["a", "b"]), "a or b");
        assert_eq!(sentence(&["a"]), "a");
    }
}
