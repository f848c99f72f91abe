//! The order in which the tables take denials.

use crate::facts::Name;
use crate::state::confirmation::Breaker;
use crate::state::index::endpoints::Endpoint;
use crate::state::proof::{Denials, Proven};
use std::collections::HashMap;

/// A denial with its proof, and whether it is pending.
pub(in crate::state) type Claim<'a> = ((&'a Name, &'a Endpoint), (&'a Proven, bool));

/// All denials in the order in which tables take them: those that are carried out before pending ones, and small
/// namespaces before large ones.
pub(in crate::state) fn by_claim<'a>(denials: &'a Denials, breaker: &Breaker) -> Vec<Claim<'a>> {
    let mut sizes: HashMap<&str, usize> = HashMap::new();
    for (name, _) in denials.keys() {
        *sizes.entry(&name.0).or_default() += 1;
    }
    let mut ordered: Vec<Claim<'a>> = denials
        .iter()
        .map(|((name, endpoint), proven)| ((name, endpoint), (proven, breaker.is_pending(name, endpoint))))
        .collect();
    // Stable: within a namespace the order stays.
    ordered.sort_by_key(|((name, _), (_, held))| (*held, sizes.get(&*name.0).copied(), &name.0));
    ordered
}
