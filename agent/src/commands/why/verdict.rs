//! The verdicts about packets, from a view.

use super::evidence::packets;
use super::pass;
use super::question::Question;
use epguard_common::{Mode, Reason};
use epguard_core::state::{DenialView, EndpointView, ServiceView, View};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The verdict about packets of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// The Service that the packets are aimed at: `shop/web`; none: the IP itself.
    pub service: Option<String>,
    /// Target port; none: any.
    pub port: Option<u16>,
    /// `TCP`, `UDP`, `SCTP`; none: any.
    pub protocol: Option<String>,
    /// `deny`, `hold` or `pass`. The mode decides whether a deny drops.
    pub verdict: Cow<'static, str>,
    /// Why it is denied; none if it passes.
    pub reason: Option<Cow<'static, str>>,
    /// The proof, or what prevents one.
    pub because: String,
    /// What would change it.
    pub change: String,
}

/// All verdicts that the question is about; the IP itself comes last.
pub(super) fn verdicts(view: &View, question: &Question) -> Vec<Verdict> {
    let (services, port) = (&question.services, question.subject.port);
    let mut verdicts = Vec::new();
    for service in view.services.iter().filter(|of| services.wants(&of.name)) {
        let endpoints = service.endpoints.iter();
        let asked = endpoints.filter(|of| port.is_none_or(|port| port == of.port));
        verdicts.extend(asked.map(|endpoint| through(service, endpoint)));
    }
    if services.is_all() {
        verdicts.push(direct(view));
    }
    verdicts
}

fn through(service: &ServiceView, endpoint: &EndpointView) -> Verdict {
    let verdict = match &endpoint.denial {
        Some(denial) => Verdict {
            verdict: if denial.held { "hold" } else { "deny" }.into(),
            reason: Some(denial.reason.as_str().into()),
            because: proof(denial),
            change: lifting(service, denial),
            ..Verdict::default()
        },
        None => pass::endpoint(service, endpoint),
    };
    Verdict {
        service: Some(service.name.clone()),
        port: Some(endpoint.port),
        protocol: Some(endpoint.protocol.clone()),
        ..verdict
    }
}

fn proof(denial: &DenialView) -> String {
    let gone = if denial.openers_only { "is finished or deleted" } else { "is dead" };
    let now = match &denial.hit {
        Some(hit) => format!("{hit} has the IP now"),
        None => "no pod has the IP".to_owned(),
    };
    let (which, reason) = (packets(denial), denial.reason);
    let seldom = if reason.terms().default < Mode::Enforce {
        format!("; dropped only with --reason-mode {reason}={}", Mode::Enforce)
    } else {
        String::new()
    };
    let bound = match denial.bound {
        Mode::Enforce => String::new(),
        bound => format!("; an annotation, or a Namespace not seen yet, allows at most {bound}"),
    };
    format!("{} is meant, which {gone}; {now}: {which}{bound}{seldom}", denial.meant)
}

fn lifting(service: &ServiceView, denial: &DenialView) -> String {
    let name = &service.name;
    let mut ways = Vec::new();
    if denial.held {
        ways.push(format!("carried out when a second list agrees, or by epguard breaker --release {name}"));
    }
    ways.push(format!("{name} listing the IP for a live pod"));
    ways.push(format!("a live pod that {name} selects and that has, or may have, the IP"));
    if denial.openers_only {
        ways.push(format!("{} seen alive", denial.meant));
    }
    ways.push(format!("10 minutes in which {name} does not list it and no packet comes"));
    ways.join("; ")
}

/// The verdict about packets to the IP itself.
fn direct(view: &View) -> Verdict {
    match (&view.terminated, pass::anything(view)) {
        (_, Some(pass)) => pass,
        (Some(dead), None) => Verdict {
            verdict: "deny".into(),
            reason: Some(Reason::Terminated.as_str().into()),
            because: format!("{dead} had it, which is dead, and the IP is unused on this node: every packet"),
            change: "a packet from the IP; a route, neighbour or pod of this node that holds it".to_owned(),
            ..Verdict::default()
        },
        (None, None) => pass::direct(view),
    }
}
