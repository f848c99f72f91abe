//! Registers and stack, as the analysis knows them at one instruction.

use super::uses::Use;
use super::value::Value;

/// Registers and stack at one instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// r0 to r10, and the register of constant blinding.
    pub registers: [Value; 12],
    /// The stack of this function.
    pub stack: Stack,
}

/// What was stored where on the stack of one function, by octets below r10. No values overlap.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stack {
    /// Ordered by offset.
    slots: Vec<Slot>,
    /// True once something unknown was stored at an unknown place: then any slot may hold it.
    scattered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    /// Relative to r10, in octets.
    at: i32,
    /// 1 to 8 octets.
    size: u8,
    value: Value,
}

/// The kind of code that may change the stack behind a pointer that is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callee {
    /// A helper: numbers only, upwards from the pointer.
    Helper,
    /// A subprogram, callback or kfunc: anything, anywhere.
    Code,
}

impl Stack {
    /// The value that a load gets; `at` is none if the address varies.
    pub fn load(&self, at: Option<i32>, size: u8, uses: &mut Use) -> Value {
        let Some(at) = at else {
            self.slots.iter().for_each(|slot| slot.value.escape(uses));
            return if size == 8 { Value::ANY } else { Value::NUMBER };
        };
        let end = at + i32::from(size);
        let mut overlapping = self.slots.iter().filter(|slot| slot.overlaps(at, end));
        match (overlapping.next(), overlapping.next()) {
            (None, _) => self.absent(size),
            (Some(slot), None) if slot.at <= at && end <= slot.end() => slot.value.slice(at - slot.at, size),
            _ => {
                let overlapping = self.slots.iter().filter(|slot| slot.overlaps(at, end));
                overlapping.for_each(|slot| slot.value.escape(uses));
                // These may be the pieces of an address: paths that meet cut what one of them has stored.
                if size == 8 { Value::ANY } else { Value::NUMBER }
            }
        }
    }

    /// Stores the low `size` octets of a value; `at` is none if the address varies. Then the store may go to other memory, so
    /// the value escapes.
    pub fn store(&mut self, at: Option<i32>, size: u8, value: Value, uses: &mut Use) {
        let Some(at) = at else {
            value.escape(uses);
            self.scatter(uses);
            return;
        };
        let value = value.slice(0, size);
        let (new, end) = (Slot { at, size, value }, at + i32::from(size));
        // Most stores are to an existing slot.
        if let Some(slot) = self
            .slots
            .iter_mut()
            .find(|slot| (slot.at, slot.size) == (at, size))
        {
            slot.value = value;
            return;
        }
        let mut slots = Vec::with_capacity(self.slots.len() + 2);
        for slot in &self.slots {
            if slot.overlaps(at, end) {
                slots.extend(slot.part(slot.at, at));
                slots.extend(slot.part(end, slot.end()));
            } else {
                slots.push(*slot);
            }
        }
        let place = slots.partition_point(|slot| slot.at < at);
        slots.insert(place, new);
        self.slots = slots;
    }

    /// Applies a call with an address on the stack among its arguments, none if it varies; `length` in octets, if it is
    /// known.
    pub fn pass(&mut self, at: Option<i32>, length: Option<u32>, callee: Callee, uses: &mut Use) {
        let (Some(at), Callee::Helper) = (at, callee) else {
            return self.scatter(uses);
        };
        let end = length
            .and_then(|length| at.checked_add_unsigned(length))
            .unwrap_or(i32::MAX);
        for slot in self.slots.iter_mut().filter(|slot| slot.overlaps(at, end)) {
            slot.value.escape(uses);
            // A helper writes no pointers. If it wrote over one, nothing uses it as a pointer any more.
            if matches!(
                slot.value,
                Value::Field(_) | Value::Other(_) | Value::Map(_) | Value::Mixed { address: false, .. }
            ) {
                slot.value = Value::NUMBER;
            }
        }
    }

    /// Joins another path's stack into this one. True if it covers more than before.
    pub fn join(&mut self, other: &Self) -> bool {
        let mut changed = other.scattered && !self.scattered;
        let scattered = self.scattered || other.scattered;
        let same = self.slots.len() == other.slots.len()
            && (self.slots.iter().zip(&other.slots)).all(|(a, b)| (a.at, a.size) == (b.at, b.size));
        if same {
            for (a, b) in self.slots.iter_mut().zip(&other.slots) {
                changed |= a.value.widen(b.value);
            }
        } else {
            let before = std::mem::take(&mut self.slots);
            // Both are cut at the borders of each other's slots, so that pieces are alike or apart.
            for piece in borders(&before, &other.slots).windows(2) {
                let of = |slots: &[Slot]| slots.iter().find_map(|slot| slot.part(piece[0], piece[1]));
                let (mine, theirs) = (of(&before), of(&other.slots));
                let Some(slot) = mine.or(theirs) else { continue };
                let mine = mine.map_or_else(|| self.absent(slot.size), |slot| slot.value);
                let theirs = theirs.map_or_else(|| other.absent(slot.size), |slot| slot.value);
                let value = mine.join(theirs);
                self.slots.push(Slot { value, ..slot });
            }
            changed |= self.slots != before;
        }
        self.scattered = scattered;
        changed
    }

    /// An octet that nothing is known of: never written, or written at an unknown place.
    const fn absent(&self, size: u8) -> Value {
        if self.scattered && size == 8 {
            Value::ANY
        } else {
            Value::NUMBER
        }
    }

    fn scatter(&mut self, uses: &mut Use) {
        self.slots.iter().for_each(|slot| slot.value.escape(uses));
        self.slots.clear();
        self.scattered = true;
    }
}

impl Slot {
    fn end(&self) -> i32 {
        self.at + i32::from(self.size)
    }

    fn overlaps(&self, at: i32, end: i32) -> bool {
        self.at < end && at < self.end()
    }

    /// The octets from `at` to `end`, as far as they are this slot's; none if there are none.
    fn part(&self, at: i32, end: i32) -> Option<Self> {
        let (at, end) = (at.max(self.at), end.min(self.end()));
        let size = u8::try_from(end - at).ok().filter(|size| *size > 0)?;
        let value = self.value.slice(at - self.at, size);
        Some(Self { at, size, value })
    }
}

fn borders(a: &[Slot], b: &[Slot]) -> Vec<i32> {
    let mut borders: Vec<i32> = a.iter().chain(b).flat_map(|slot| [slot.at, slot.end()]).collect();
    borders.sort_unstable();
    borders.dedup();
    borders
}
