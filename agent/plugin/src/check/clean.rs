//! The namespaces of a check: only one check runs at a time, and nothing of it is left.

use super::api;
use super::objects::Site;
use super::plan::Plan;
use super::progress::progress;
use crate::agents::Fleet;
use anyhow::{Result, bail, ensure};
use epguard_client::shared::output::{count, print};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt;
use std::process::ExitCode;
use std::time::Duration;

const REMEDY: &str =
    "wait for its end, or remove what it has left with `kubectl epguard check --clean`";

/// Makes the namespaces of a check. Errors: another check has its own, or they cannot be made.
pub(super) async fn open(fleet: &Fleet, site: &Site, plan: &Plan) -> Result<()> {
    let names = site.namespaces(&plan.callers);
    progress(&format!("makes the namespaces {}", names.join(", ")));
    let main = &names[0];
    api::create_namespace(fleet, &site.namespace(main)).await?;
    // Two checks that begin at the same time see each other's: the older one goes on, and none of
    // the same second.
    if let Some(other) = first_of_others(&api::namespaces(fleet).await?, main) {
        bail!("another check has the namespace {other}: {REMEDY}");
    }
    for name in &names[1..] {
        api::create_namespace(fleet, &site.namespace(name)).await?;
    }
    Ok(())
}

/// Errors: another check has namespaces.
pub(super) async fn refuse_second(fleet: &Fleet) -> Result<()> {
    let left = api::namespaces(fleet).await?;
    ensure!(
        left.is_empty(),
        "nothing is made: another check has the namespace {}: {REMEDY}",
        left[0].name_any()
    );
    Ok(())
}

/// Another check's namespace that is not younger than this one's. One that was made later in the
/// same second may have been listed by nobody yet.
fn first_of_others(all: &[Namespace], own: &str) -> Option<String> {
    let mine = all.iter().find(|namespace| namespace.name_any() == own)?;
    let mut others = all.iter().filter(|other| {
        let is_not_younger = other.creation_timestamp() <= mine.creation_timestamp();
        is_not_younger && !other.name_any().starts_with(own)
    });
    others.next().map(ResourceExt::name_any)
}

/// Removes the namespaces of a check. Errors: the cause, and how to remove them later.
pub(super) async fn remove(fleet: &Fleet, site: &Site, plan: &Plan, wait: Duration) -> Result<()> {
    let names = site.namespaces(&plan.callers);
    progress(&format!("removes the namespaces {}", names.join(", ")));
    let left = api::delete_namespaces(fleet, &names, wait).await;
    match left {
        Ok(left) if left.is_empty() => Ok(()),
        Ok(left) => bail!("namespace {} is still being deleted: {REMEDY}", left[0]),
        Err(error) => Err(error),
    }
}

/// `--clean`: removes the namespaces of all checks. Errors: one is still there after the wait.
pub(super) async fn run(fleet: &Fleet, wait: Duration) -> Result<ExitCode> {
    let all = api::namespaces(fleet).await?;
    let names: Vec<String> = all.iter().map(ResourceExt::name_any).collect();
    let left = api::delete_namespaces(fleet, &names, wait).await?;
    ensure!(
        left.is_empty(),
        "still being deleted: {}: see the conditions of the namespace with `kubectl get namespace {} -o yaml`",
        left.join(", "),
        left[0]
    );
    let what = match names.len() {
        0 => "no check has left a namespace".to_owned(),
        some => format!("removed {}: {}", count(some, "namespace"), names.join(", ")),
    };
    print(&what)?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn of_two_checks_that_begin_at_once_the_older_one_goes_on_and_none_of_the_same_second() {
        let namespace = |name: &str, second: u8| -> Namespace {
            let at = format!("2026-01-01T00:00:{second:02}Z");
            serde_json::from_value(json!({"metadata": {"name": name, "creationTimestamp": at}}))
                .unwrap()
        };
        let all = [
            namespace("epguard-check-a", 2),
            namespace("epguard-check-b", 1),
            namespace("epguard-check-b-other", 1),
            namespace("epguard-check-c", 2),
        ];
        let first = |own: &str| first_of_others(&all, own);
        assert_eq!(first("epguard-check-a").as_deref(), Some("epguard-check-b"));
        assert_eq!(first("epguard-check-b"), None);
        let same_second = &all[..1]
            .iter()
            .chain(&all[3..])
            .cloned()
            .collect::<Vec<_>>();
        for (own, other) in [
            ("epguard-check-a", "epguard-check-c"),
            ("epguard-check-c", "epguard-check-a"),
        ] {
            assert_eq!(first_of_others(same_second, own).as_deref(), Some(other));
        }
    }
}
