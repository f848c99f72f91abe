//! Problems that keep denials from being proven: finished pods without a proof, and pods that may hold any IP.

use super::problem::{Problem, first, seconds};
use crate::shared::output::count;
use crate::shared::status::Status;
use epguard_common::Reason;

/// How many nodes are named.
const NAMED: usize = 3;

/// All problems of this kind, one for each cause.
pub fn unproven(status: &Status) -> Vec<Problem> {
    let (retired, reused) = (Reason::RetiredBackend, Reason::Reused);
    let only = format!("only `{retired}` and `{reused}` are judged there");
    let deaths = status.unproven.iter().map(|deaths| {
        let (pods, nodes) = (deaths.pods, first(&deaths.nodes, NAMED));
        let finished = format!("{} finished on {nodes} and none is proven dead there", count(pods, "pod"));
        match &deaths.manager {
            Some(manager) => Problem::new(
                format!("{finished}: the manager {manager} writes their phase, and is not known to be a kubelet"),
                format!(
                    "report the distribution with `kubectl get pod POD -o yaml --show-managed-fields`; until then {only}"
                ),
            ),
            None => Problem::new(
                format!("{finished}: their kubelet does not report PodReadyToStartContainers"),
                format!("kubelets report it from 1.29 on; until then {only}"),
            ),
        }
    });
    let holders = status.possible_holders.iter().map(|holder| {
        let terminated = holder.blocks_terminated.then(|| format!("{} on this node", Reason::Terminated));
        let services = holder.blocks_services.iter();
        let services = services.map(|service| format!("{} of {service}", Reason::DeadBackend));
        let blocked: Vec<String> = terminated.into_iter().chain(services).collect();
        Problem::new(
            format!(
                "{} on {} may hold an IP that it has not shown for {}, so nothing is denied as {}",
                holder.pod,
                holder.node,
                seconds(holder.since_ms),
                blocked.join(", ")
            ),
            "let its containers start (`kubectl describe pod` shows the cause), or delete it",
        )
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
        let status = Status { unproven: vec![deaths(Some("microshift")), deaths(None)], ..Status::default() };
        let finished = "7 pods finished on n1, n2, n3 and 1 more and none is proven dead there";
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
