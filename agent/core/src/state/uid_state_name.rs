//! The state of a pod UID by name, for documents: `live`, `retired` or `dead`.

use epguard_common::UidState;
use serde::de::{Deserialize as _, Error as _};
use serde::{Deserializer, Serializer};
use std::borrow::Cow;

const NAMES: [(UidState, &str); 3] = [
    (UidState::Live, "live"),
    (UidState::Retired, "retired"),
    (UidState::Dead, "dead"),
];

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
pub(super) fn serialize<S: Serializer>(state: &UidState, to: S) -> Result<S::Ok, S::Error> {
    let name = NAMES.iter().find(|(known, _)| known == state);
    to.serialize_str(name.map_or("live", |(_, name)| name))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<UidState, D::Error> {
    let text = Cow::<str>::deserialize(from)?;
    let state = NAMES.iter().find(|(_, name)| *name == text);
    state
        .map(|(state, _)| *state)
        .ok_or_else(|| D::Error::custom(format!("{text:?} is none of live, retired, dead")))
}
