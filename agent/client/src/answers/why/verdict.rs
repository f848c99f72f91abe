//! The verdicts about packets, from a view; why packets pass, and what would change that.

use super::evidence::packets;
use super::possibly_held::possibly_held;
use super::question::WhyQuestion;
use super::why_verdict::{WhyVerdict, pass};
use epguard_common::{Mode, Reason, UidState};
use epguard_core::state::{
    DenialView, EndpointView, Exemption, NotProven, NotStale, ServiceView, View,
};

/// All verdicts that the question is about; the IP itself comes last.
pub(super) fn verdicts_of(view: &View, question: &WhyQuestion) -> Vec<WhyVerdict> {
    let port = question.subject.port;
    let mut verdicts = Vec::new();
    for service in &view.services {
        if !question.services.wants(&service.name) {
            continue;
        }
        for endpoint in &service.endpoints {
            if port.is_none_or(|port| port == endpoint.port) {
                verdicts.push(verdict_through_service(service, endpoint));
            }
        }
    }
    if question.services.is_all() {
        verdicts.push(verdict_of_ip(view));
    }
    verdicts
}

fn verdict_through_service(service: &ServiceView, endpoint: &EndpointView) -> WhyVerdict {
    let verdict = match &endpoint.denial {
        Some(denial) => WhyVerdict {
            verdict: if denial.stopped { "stopped" } else { "deny" }.into(),
            reason: Some(denial.reason.as_str().into()),
            because: proof_text(denial),
            change: what_lifts(service, denial),
            ..WhyVerdict::default()
        },
        None => unproven(service, endpoint),
    };
    WhyVerdict {
        service: Some(service.name.clone()),
        port: Some(endpoint.port),
        protocol: Some(endpoint.protocol.clone()),
        ..verdict
    }
}

fn proof_text(denial: &DenialView) -> String {
    let gone = if denial.openers_only {
        "is finished or deleted"
    } else {
        "is dead"
    };
    let now = match &denial.hit {
        Some(hit) => format!("{hit} has the IP now"),
        None => "no pod has the IP".to_owned(),
    };
    let which = packets(denial);
    let reason = denial.reason;
    let seldom = if reason.terms().default < Mode::Enforce {
        format!(
            "; dropped only with --reason-mode {reason}={}",
            Mode::Enforce
        )
    } else {
        String::new()
    };
    let bound = match denial.bound {
        Mode::Enforce => String::new(),
        bound => format!("; an annotation, or a Namespace not seen yet, allows at most {bound}"),
    };
    format!(
        "{} is meant, which {gone}; {now}: {which}{bound}{seldom}",
        denial.meant
    )
}

fn what_lifts(service: &ServiceView, denial: &DenialView) -> String {
    let name = &service.name;
    let mut ways = Vec::new();
    if denial.stopped {
        ways.push(format!(
            "carried out when a second list agrees, or by epguard breaker --release {name}"
        ));
    }
    ways.push(format!("{name} listing the IP for a live pod"));
    ways.push(format!(
        "a live pod of {name}'s own that has, or may have, the IP"
    ));
    if denial.openers_only {
        ways.push(format!("{} seen alive", denial.meant));
    }
    ways.push(format!(
        "10 minutes in which {name} does not list it and no packet comes"
    ));
    ways.join("; ")
}

/// The verdict about packets to the IP itself.
fn verdict_of_ip(view: &View) -> WhyVerdict {
    match (&view.terminated, pass_of_every_packet(view)) {
        (_, Some(pass)) => pass,
        (Some(dead), None) => WhyVerdict {
            verdict: "deny".into(),
            reason: Some(Reason::Terminated.as_str().into()),
            because: format!(
                "{dead} had it, which is dead, and the IP is unused on this node: every packet"
            ),
            change: "a packet from the IP; a route of this node to it, or a pod that holds it"
                .to_owned(),
            ..WhyVerdict::default()
        },
        (None, None) => unused(view),
    }
}

/// The state of a Service, pod or Namespace whose annotation switches epguard off; follows "has".
const OPTED_OUT: &str = "opted out (epguard.io/mode: off)";
/// The change that ends an opt-out.
const NO_OPT_OUT: &str = "another value of that annotation";
/// The change that ends the exemption of a pod: the slice lists a pod whose end proves that it is
/// gone.
const ANOTHER_OWNER: &str = "another pod that shows the IP, in the slice instead of this one";

/// Why packets to the IP of a pod pass though it has ended: its end proves nothing.
fn exempted(pod: &str, why: Exemption) -> WhyVerdict {
    let opted_out = format!("it or its Namespace has {OPTED_OUT}");
    let (cause, change) = match why {
        Exemption::OptedOut => (opted_out.as_str(), NO_OPT_OUT),
        Exemption::StaticIp => (
            "its IP outlives it by design: the next pod of its workload has it, too",
            ANOTHER_OWNER,
        ),
        Exemption::HostNetwork => ("its IP is its node's", ANOTHER_OWNER),
        Exemption::VirtualKubelet => (
            "on a virtual kubelet, whose status proves nothing",
            ANOTHER_OWNER,
        ),
    };
    pass(format!("{pod} has ended, but {cause}"), change)
}

/// Why packets to an endpoint of a Service pass.
fn unproven(service: &ServiceView, endpoint: &EndpointView) -> WhyVerdict {
    match &endpoint.not_proven {
        Some(why) => not_proven(&service.name, why),
        None => pass(
            "the agent is of another version, which does not send the cause",
            "the epguard binary of the agent's version",
        ),
    }
}

/// The reason that holds for every packet to the IP, if any.
fn pass_of_every_packet(view: &View) -> Option<WhyVerdict> {
    let not_synced = (!view.synced).then_some(&NotProven::NotSynced);
    let why = not_synced.or(view.spared.as_ref())?;
    Some(not_proven("", why))
}

/// Why packets to the IP itself pass.
fn unused(view: &View) -> WhyVerdict {
    for pod in &view.pods {
        if pod.shows && pod.present && pod.uid_state == UidState::Live {
            let name = &pod.name;
            return pass(format!("{name} shows the IP"), format!("the end of {name}"));
        }
    }
    let shown = view.pods.iter().filter(|pod| pod.order.is_some());
    if let Some(last) = shown.max_by_key(|pod| pod.order)
        && let Some(why) = last.exempt
    {
        return exempted(&last.name, why);
    }
    pass(
        "it is not proven that the IP is unused on this node",
        "the death of its last pod, on this node, with no route to it and no pod that holds it",
    )
}

fn not_proven(name: &str, why: &NotProven) -> WhyVerdict {
    match why {
        NotProven::NotSynced => pass(
            "not every watch has shown a list yet",
            "the first whole list of every watch",
        ),
        NotProven::NodeAddress => pass(
            "it is an address of a node, which is never judged",
            "nothing",
        ),
        NotProven::OutOfRange => pass(
            "it is outside of --protect-cidr or inside of --exclude-cidr",
            "other ranges on the agent's command line",
        ),
        NotProven::NoVip => pass(
            format!("{name} has no VIP (headless, or gone), so no packet can be aimed at it"),
            "packets to the IP itself are judged as `terminated`, see below",
        ),
        NotProven::TooLarge => pass(
            format!(
                "{name} lists more endpoints than the index has room for, addresses that cannot be read, or pods of \
                 more than 64 namespaces; or more than 4,096 of its namespaces' pods may hold an IP that they do not show"
            ),
            "fewer endpoints in the slices of this Service, or of its namespace; addresses that are IPs; fewer pods that start",
        ),
        NotProven::SeveralOwners(one, other) => pass(
            format!(
                "two live pods show the IP, {one} and {other}: the API does not show which of them has it"
            ),
            "the end of one of them",
        ),
        NotProven::ServiceOptedOut => pass(
            format!("{name} or its Namespace has {OPTED_OUT}"),
            NO_OPT_OUT,
        ),
        NotProven::OwnerOptedOut(pod) => pass(
            format!("{pod} shows the IP, and it or its Namespace has {OPTED_OUT}"),
            NO_OPT_OUT,
        ),
        NotProven::Target { why, listed: true } => while_listed(name, why),
        NotProven::Target { why, listed: false } => after_listing(name, why),
        NotProven::NotListed => pass(
            format!("{name} has no selector, and its slices do not list the IP any more"),
            "a slice that lists it for a finished pod",
        ),
        NotProven::PossibleHolder(pod, shown) => possibly_held(name, pod, *shown),
        NotProven::NodeNotSeen(pod, node) => pass(
            format!(
                "{pod}, one of {name}'s own, starts on {node}, which hands out other IPs unless another Node has its name since"
            ),
            format!(
                "the API server's answer that {node} is the same, which the agent has asked for"
            ),
        ),
        NotProven::OwnPod(pod) => pass(
            format!("{pod} has the IP, and is a pod of {name}"),
            format!("the end of {pod}"),
        ),
        NotProven::NotLater(pod) => pass(
            format!("{pod} shows the IP, and did not provably get it after the pod that is meant"),
            "the kubelet's proof that the pod that is meant is dead",
        ),
    }
}

/// Why packets pass if a slice lists the IP for a pod that may be in service.
fn while_listed(name: &str, why: &NotStale) -> WhyVerdict {
    match why {
        NotStale::NoPod => pass(
            format!("{name} lists the IP without naming a pod: no pod is known to be meant"),
            "a slice with a targetRef and its UID (see epguard lint)",
        ),
        NotStale::Unknown(pod) => pass(
            format!("{name} lists the IP for {pod}, which is not in the agent's index"),
            "the pod that is meant, seen and then finished or deleted",
        ),
        NotStale::Live(pod) => listed_alive(name, pod, "is alive"),
        NotStale::Terminating(pod) => {
            listed_alive(name, pod, "is terminating, and may still serve")
        }
        NotStale::Exempt(pod, why) => exempted(pod, *why),
    }
}

fn listed_alive(name: &str, pod: &str, state: &str) -> WhyVerdict {
    pass(
        format!("{name} lists the IP for {pod}, which {state}"),
        format!("the end of {pod}: Succeeded, Failed or deleted"),
    )
}

/// Why packets pass if a slice listed the IP not long ago.
fn after_listing(name: &str, why: &NotStale) -> WhyVerdict {
    let forgotten = format!("10 minutes in which {name} does not list it");
    match why {
        NotStale::NoPod => pass(format!("{name} listed it without naming a pod"), forgotten),
        NotStale::Unknown(pod) => pass(
            format!("{name} listed it for {pod}, which is not in the agent's index"),
            forgotten,
        ),
        NotStale::Live(pod) | NotStale::Terminating(pod) => pass(
            format!("{pod}, which {name} listed there, is not proven gone"),
            format!("the end of {pod}: Succeeded, Failed or deleted"),
        ),
        NotStale::Exempt(pod, why) => exempted(pod, *why),
    }
}

#[cfg(test)]
#[path = "verdict_tests.rs"]
mod tests;
