//! The modes: how far denials are carried out.

use crate::table::table;

table! {
    /// What the datapath does with a denial.
    #[derive(Default)]
    pub enum Mode {
        #[default]
        Off = 0, "off", "Every packet passes, and none is counted";
        Observe = 1, "observe", "Denials are counted and reported; every packet passes";
        Enforce = 2, "enforce", "Denials are carried out";
    }
}

impl Mode {
    /// Reads a number from a map. An unknown number is off.
    #[inline]
    pub const fn from_raw(raw: u32) -> Self {
        match Self::from_number(raw) {
            Some(mode) => mode,
            None => Self::Off,
        }
    }

    /// The more cautious of two.
    #[inline]
    pub const fn lower(self, other: Self) -> Self {
        if (other as u32) < (self as u32) {
            other
        } else {
            self
        }
    }
}
