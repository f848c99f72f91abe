//! While a list is applied in parts, denials end, but none begins and none gets stricter: an object further down the list
//! may contradict it.

use epguard_core::state::State;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Each denial holds by all that is known so far, with a mode that may be lower.
pub fn check_proofs(state: &State, fresh: &State) -> Result<(), TestCaseError> {
    let fresh: BTreeMap<_, _> = fresh
        .denials()
        .map(|(service, at, proven)| ((service, at), proven.clone()))
        .collect();
    for (service, at, proven) in state.denials() {
        let mut known = fresh.get(&(service, at)).cloned();
        if let Some(known) = &mut known {
            prop_assert!(proven.mode <= known.mode, "{service:?} {at:?}");
            known.mode = proven.mode;
        }
        prop_assert_eq!(Some(proven), known.as_ref(), "{:?} {:?}", service, at);
    }
    Ok(())
}
