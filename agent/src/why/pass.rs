//! Why a Service's packets pass, and what would change that. The order is that of the proof (`state/judge`).

use super::exempt::{OPTED_OUT, exempt};
use crate::history::{EndpointView, PodView, ServiceView, TargetView, View};

/// The reason, and what would end it.
pub(super) struct Pass {
    pub because: String,
    pub change: String,
}

pub(super) fn pass(because: impl Into<String>, change: impl Into<String>) -> Pass {
    Pass {
        because: because.into(),
        change: change.into(),
    }
}

/// For the endpoint of a Service that is not denied.
pub(super) fn endpoint(view: &View, service: &ServiceView, endpoint: &EndpointView) -> Pass {
    let name = &service.name;
    if let Some(pass) = anything(view) {
        return pass;
    }
    if !service.has_vip {
        return pass(
            format!("{name} has no VIP (headless, or gone), so no packet can be aimed at it"),
            "what is aimed at the IP itself is judged as `terminated`, see below",
        );
    }
    if let [first, second, ..] = live(view).as_slice() {
        return pass(
            format!(
                "two live pods show the IP, {} and {}: nobody can tell whose it is",
                first.name, second.name
            ),
            "the end of one of them",
        );
    }
    if service.off {
        return pass(
            format!("{name} or its Namespace has opted out (epguard.io/mode: off)"),
            "another value of that annotation",
        );
    }
    if let Some(owner) = live(view).first()
        && owner.exempt.as_deref() == Some(OPTED_OUT)
    {
        return pass(
            format!(
                "{} shows the IP, and it or its Namespace has opted out (epguard.io/mode: off)",
                owner.name
            ),
            "another value of that annotation",
        );
    }
    survivor(view, service).or_else(|| unseen(view, service, endpoint)).unwrap_or_else(|| {
        pass(
            "nothing is proven against it",
            "proof that the pod that is meant is finished, or deleted, and that its address is somebody else's or nobody's",
        )
    })
}

/// What holds for every packet to the IP.
pub(super) fn anything(view: &View) -> Option<Pass> {
    match view.spared.as_deref() {
        _ if !view.synced => Some(pass(
            "the agent has not seen everything yet",
            "the first whole list of every watch",
        )),
        Some("node-address") => Some(pass(
            "it is an address of a node, which is never judged",
            "nothing",
        )),
        Some(_) => Some(pass(
            "it is outside of --protect-cidr or inside of --exclude-cidr",
            "other ranges on the agent's command line",
        )),
        None => None,
    }
}

/// For what is aimed at the IP itself.
pub(super) fn direct(view: &View) -> Pass {
    match live(view).first() {
        Some(owner) => pass(
            format!("{} shows the IP", owner.name),
            format!("the end of {}", owner.name),
        ),
        None => ended_without_proof(view).unwrap_or_else(|| {
            pass(
                "it is not proven that nobody on this node holds it",
                "the death of its last pod, on this node, with no route, neighbour or pod that holds it",
            )
        }),
    }
}

/// For the IP itself, where the pod that showed it last is exempt.
fn ended_without_proof(view: &View) -> Option<Pass> {
    let shown = view.pods.iter().filter(|pod| pod.order.is_some());
    exempt(shown.max_by_key(|pod| pod.order)?)
}

/// Whoever is listed at the IP and is not proven gone.
fn survivor(view: &View, service: &ServiceView) -> Option<Pass> {
    let name = &service.name;
    let targets = service.endpoints.iter().flat_map(|endpoint| &endpoint.targets);
    for target in targets.filter(|target| target.listed) {
        let Some(pod) = &target.pod else {
            return Some(pass(
                format!("{name} lists the IP without naming a pod: nobody knows who is meant"),
                "a slice with a targetRef and its UID (see epguard lint)",
            ));
        };
        match known(view, target) {
            None => {
                return Some(pass(
                    format!("{name} lists the IP for {pod}, of which the agent knows nothing"),
                    "the pod that is meant, seen and then finished or deleted",
                ));
            }
            Some(pod) if pod.life == "live" => return Some(alive(name, pod)),
            Some(pod) => {
                if let Some(pass) = exempt(pod) {
                    return Some(pass);
                }
            }
        }
    }
    None
}

fn alive(service: &str, pod: &PodView) -> Pass {
    let state = if pod.deleting {
        "is terminating, and may still serve"
    } else {
        "is alive"
    };
    pass(
        format!("{service} lists the IP for {}, which {state}", pod.name),
        format!("the end of {}: Succeeded, Failed or deleted", pod.name),
    )
}

/// Whoever may hold the IP though no slice says so.
fn unseen(view: &View, service: &ServiceView, endpoint: &EndpointView) -> Option<Pass> {
    let name = &service.name;
    if let Some(own) = service.own.first() {
        return Some(pass(
            format!("{own} has the IP, and is a pod of {name}"),
            format!("the end of {own}"),
        ));
    }
    if !service.has_selector && !endpoint.targets.iter().any(|target| target.listed) {
        return Some(pass(
            format!("{name} has no selector, and its slices do not list the IP any more"),
            "a slice that lists it for a finished pod",
        ));
    }
    for target in &endpoint.targets {
        match (known(view, target), &target.pod) {
            (Some(pod), _) if pod.life != "live" => {
                if let Some(pass) = exempt(pod) {
                    return Some(pass);
                }
            }
            (Some(pod), _) => {
                return Some(pass(
                    format!("{}, which {name} listed there, is not proven gone", pod.name),
                    format!("the end of {}: Succeeded, Failed or deleted", pod.name),
                ));
            }
            (None, Some(pod)) => {
                return Some(pass(
                    format!("{name} listed it for {pod}, of which nothing is known"),
                    format!("10 minutes in which {name} does not list it"),
                ));
            }
            (None, None) => {
                return Some(pass(
                    format!("{name} listed it without naming a pod"),
                    format!("10 minutes in which {name} does not list it"),
                ));
            }
        }
    }
    if let Some(candidate) = &service.candidate {
        return Some(pass(
            format!("{candidate}, which {name} selects, may have the IP already without showing it"),
            format!("{candidate} showing its IP"),
        ));
    }
    let owner = live(view).into_iter().next()?;
    Some(pass(
        format!(
            "{} shows the IP, and nobody saw that it came later than the pod that is meant",
            owner.name
        ),
        "the kubelet's proof that the pod that is meant is dead",
    ))
}

/// By UID: names come back.
fn known<'a>(view: &'a View, target: &TargetView) -> Option<&'a PodView> {
    view.pods.iter().find(|pod| target.uid.as_ref() == Some(&pod.uid))
}

fn live(view: &View) -> Vec<&PodView> {
    let live = view
        .pods
        .iter()
        .filter(|pod| pod.shows && pod.present && pod.life == "live");
    live.collect()
}

#[cfg(test)]
#[path = "pass_tests.rs"]
mod tests;
