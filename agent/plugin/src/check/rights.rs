//! The rights that the check needs, asked for before anything is made.

use crate::agents::{Fleet, await_answer};
use anyhow::{Result, ensure};
use epguard_client::shared::output::in_words;
use futures::future::try_join_all;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;

/// A right: the API group, the resource and its verbs.
struct Right {
    group: &'static str,
    resource: &'static str,
    verbs: &'static [&'static str],
}

/// Those in all namespaces, as the check's have new names.
const RIGHTS: [Right; 6] = [
    Right {
        group: "",
        resource: "namespaces",
        verbs: &["list", "create", "delete"],
    },
    Right {
        group: "",
        resource: "pods",
        verbs: &["list", "create"],
    },
    Right {
        group: "",
        resource: "services",
        verbs: &["create"],
    },
    Right {
        group: "batch",
        resource: "jobs",
        verbs: &["create"],
    },
    Right {
        group: "discovery.k8s.io",
        resource: "endpointslices",
        verbs: &["list", "create"],
    },
    Right {
        group: "networking.k8s.io",
        resource: "networkpolicies",
        verbs: &["create"],
    },
];

/// Errors: rights are missing; all of them in one line, with the remedy. What the agents are asked
/// for is not looked up: they have been listed, and each says what it refuses.
pub(super) async fn look_up(fleet: &Fleet) -> Result<()> {
    let mut asked = Vec::new();
    for right in &RIGHTS {
        for verb in right.verbs {
            asked.push(missing(fleet, right, verb));
        }
    }
    let missing: Vec<String> = try_join_all(asked).await?.into_iter().flatten().collect();
    ensure!(
        missing.is_empty(),
        "nothing is made: the account may not {}: bind the ClusterRole epguard-check of docs/check.md to it",
        in_words(&missing)
    );
    Ok(())
}

/// The right, if the account does not have it. Errors: the API server does not say.
async fn missing(fleet: &Fleet, right: &Right, verb: &str) -> Result<Option<String>> {
    let Right {
        group, resource, ..
    } = right;
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: Some((*group).to_owned()),
                resource: Some((*resource).to_owned()),
                verb: Some(verb.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let api: Api<SelfSubjectAccessReview> = Api::all(fleet.client.clone());
    let create = PostParams::default();
    let answer = await_answer(
        &fleet.scope,
        "look up the account's rights",
        "the verb create on selfsubjectaccessreviews",
        api.create(&create, &review),
    )
    .await?;
    let allowed = answer.status.is_some_and(|status| status.allowed);
    Ok((!allowed).then(|| format!("{verb} {resource}")))
}
