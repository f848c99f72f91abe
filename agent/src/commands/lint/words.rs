//! How findings name things.

use epguard_core::facts::{Pod, named};

/// Names of pods: `a/b, a/c and a/d`.
#[must_use]
pub fn pods<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let names: Vec<String> = pods.into_iter().map(|pod| named(&pod.name)).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => "nobody".to_owned(),
    }
}
