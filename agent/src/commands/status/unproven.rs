//! Problems that keep denials from being proven: finished pods without a proof, and pods that may hold any IP.

use super::problem::Problem;
use super::problem::seconds;
use crate::shared::status::Status;
use epguard_common::Reason;

/// How many nodes are named.
const NAMED: usize = 3;

/// All problems of this kind, one for each cause.
pub fn unproven(status: &Status) -> Vec<Problem> {
    let only = format!(
        "only `{}` and `{}` are judged there",
        Reason::RetiredBackend,
        Reason::Reused
    );
    let deaths = status.unproven.iter().map(|deaths| {
        let mut nodes = deaths.nodes.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
        if let more @ 1.. = deaths.nodes.len().saturating_sub(NAMED) {
            nodes = format!("{nodes} and {more} more");
        }
        let finished = format!("{} pods have finished on {nodes} and none is proven dead there", deaths.pods);
        match &deaths.manager {
            Some(manager) => Problem {
                what: format!("{finished}: the manager {manager} writes their phase, and is not known to be a kubelet"),
                remedy: format!(
                    "report the distribution with `kubectl get pod POD -o yaml --show-managed-fields`; until then {only}"
                ),
            },
            None => Problem {
                what: format!("{finished}: their kubelet does not report PodReadyToStartContainers"),
                remedy: format!("kubelets report it from 1.29 on; until then {only}"),
            },
        }
    });
    let holders = status.possible_holders.iter().map(|holder| {
        let terminated = holder
            .blocks_terminated
            .then(|| format!("{} on this node", Reason::Terminated));
        let services = holder.blocks_services.iter();
        let services = services.map(|service| format!("{} of {service}", Reason::DeadBackend));
        let blocked: Vec<String> = terminated.into_iter().chain(services).collect();
        Problem {
            what: format!(
                "{} on {} may hold an IP that it has not shown for {}, so nothing is denied as {}",
                holder.pod,
                holder.node,
                seconds(holder.since_ms),
                blocked.join(", ")
            ),
            remedy: "let its containers start (`kubectl describe pod` shows the cause), or delete it"
                .to_owned(),
        }
    });
    deaths.chain(holders).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::{PossibleHolder, UnprovenDeaths};

    fn whats(status: &Status) -> Vec<String> {
        unproven(status).into_iter().map(|problem| problem.what).collect()
    }

    #[test]
    fn finished_pods_without_a_proof_are_a_problem_with_the_managers_name_or_the_kubelets_age() {
        let deaths = |manager: Option<&str>| UnprovenDeaths {
            manager: manager.map(str::to_owned),
            nodes: (1..=4).map(|number| format!("n{number}")).collect(),
            pods: 7,
        };
        let status = Status {
            unproven: vec![deaths(Some("microshift")), deaths(None)],
            ..Status::default()
        };
        let finished = "7 pods have finished on n1, n2, n3 and 1 more and none is proven dead there";
        assert_eq!(
            whats(&status),
            [
                format!(
                    "{finished}: the manager microshift writes their phase, and is not known to be a kubelet"
                ),
                format!("{finished}: their kubelet does not report PodReadyToStartContainers"),
            ]
        );
    }

    #[test]
    fn a_lasting_possible_holder_is_a_problem_that_names_the_blocked_denials() {
        let status = Status {
            possible_holders: vec![PossibleHolder {
                pod: "shop/stuck".into(),
                node: "n1".into(),
                since_ms: 90_000,
                blocks_terminated: true,
                blocks_services: vec!["shop/web".into()],
            }],
            ..Status::default()
        };
        assert_eq!(
            whats(&status),
            [
                "shop/stuck on n1 may hold an IP that it has not shown for 90 s, so nothing is denied as terminated on this \
                 node, dead-backend of shop/web"
            ]
        );
    }
}
