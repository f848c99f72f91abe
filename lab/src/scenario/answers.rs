//! Compares the clients' results with those of the story.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde_saphyr::Spanned;

use super::cluster::Cluster;
use super::format::{Call, Sees};
use super::traffic::Clients;
use super::variant::Variant;

/// Makes calls before the agent starts. Only the clients' results are checked.
pub fn without_agent(
    calls: &[Spanned<Call>],
    clients: &mut Clients,
    cluster: &Cluster,
    variant: Variant,
) -> Result<()> {
    calls.iter().try_for_each(|call| {
        let sees = &call.value.sees;
        let answers = clients.make(&call.value, sees, cluster, variant)?;
        as_expected(sees, &answers).with_context(|| format!("line {}", call.referenced.line()))
    })
}

/// An error if a client saw what it must not see, or did not see one of several that it must see.
pub(super) fn as_expected(sees: &Sees, answers: &[String]) -> Result<()> {
    let allowed = sees.allowed();
    let as_said = answers.iter().all(|word| allowed.contains(word));
    let complete = matches!(sees, Sees::Always(_)) || allowed.iter().all(|word| answers.contains(word));
    ensure!(as_said && complete, "expected {sees}, {}", summary(answers));
    Ok(())
}

/// `clients saw B (3 times)`.
pub(super) fn summary(seen: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for word in seen {
        *counts.entry(word).or_default() += 1;
    }
    let counts: Vec<String> =
        counts.iter().map(|(word, count)| format!("{word} ({count} of {})", seen.len())).collect();
    format!("clients saw {}", counts.join(", "))
}
