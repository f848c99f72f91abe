//! Map values that carry their key.
//!
//! A hash map hands the memory of a removed element to the next one at once, also while a program
//! still reads it (preallocated and LRU maps since ever, all others since Linux 6.1). So a found
//! entry may change: a program loads what it needs and then compares the key in the value with the
//! one that it looked up. The key stands first, and the kernel copies a new value in from its
//! start. Processors that reorder loads and stores (arm64) leave a window of some nanoseconds:
//! there the key makes a mistake rare, not impossible.

/// A value behind its key. No implicit padding: `V` begins where `K` ends.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keyed<K, V> {
    /// The key of the entry.
    pub key: K,
    /// What the map holds about it.
    pub value: V,
}

impl<K: PartialEq, V> Keyed<K, V> {
    /// The value of a key.
    #[inline]
    pub const fn new(key: K, value: V) -> Self {
        Self { key, value }
    }

    /// The value, if it is the one of this key.
    pub fn value_of(self, key: &K) -> Option<V> {
        (self.key == *key).then_some(self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Addr, Backends, DenialKey, Flow, RawDenial, Redirected, Return, Role, ServiceNumber,
        Suspect, Terminated, Vip,
    };

    #[test]
    fn values_follow_their_keys_without_padding() {
        fn is_dense<K, V>() -> bool {
            size_of::<Keyed<K, V>>() == size_of::<K>() + size_of::<V>()
        }
        assert!(is_dense::<Vip, ServiceNumber>());
        assert!(is_dense::<Addr, Suspect>());
        assert!(is_dense::<Addr, Terminated>());
        assert!(is_dense::<DenialKey, RawDenial>());
        assert!(is_dense::<DenialKey, Backends>());
        assert!(is_dense::<u32, Role>());
        assert!(is_dense::<Flow, Redirected>());
        assert!(is_dense::<Flow, Return>());
    }

    #[test]
    fn the_value_of_another_key_is_none() {
        let entry = Keyed { key: 7, value: 1 };
        assert_eq!((entry.value_of(&7), entry.value_of(&8)), (Some(1), None));
    }
}
