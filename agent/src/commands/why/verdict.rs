//! The verdicts about packets, from a view.

use super::pass;
use super::question::Question;
use crate::shared::status::lenient;
use epguard_common::{Mode, Reason};
use epguard_core::state::{DenialView, EndpointView, ServiceView, View};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The verdict about packets of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
    #[serde(default, deserialize_with = "lenient::value")]
    pub reason: Option<Reason>,
    /// The proof, or what prevents one.
    pub because: String,
    /// What would change it.
    pub change: String,
}

/// All verdicts that the question is about; the IP itself comes last.
pub(super) fn verdicts(view: &View, question: &Question) -> Vec<Verdict> {
    let asked = |service: &&ServiceView| {
        question
            .service
            .as_ref()
            .is_none_or(|asked| *asked == service.name)
    };
    let services = view.services.iter().filter(asked);
    let endpoints =
        services.flat_map(|service| service.endpoints.iter().map(move |endpoint| (service, endpoint)));
    let port = question.subject.port;
    let mut verdicts: Vec<Verdict> = endpoints
        .filter(|(_, endpoint)| port.is_none_or(|port| port == endpoint.port))
        .map(|(service, endpoint)| through(service, endpoint))
        .collect();
    if question.service.is_none() {
        verdicts.push(direct(view));
    }
    verdicts
}

fn through(service: &ServiceView, endpoint: &EndpointView) -> Verdict {
    let (verdict, reason, because, change) = if let Some(denial) = &endpoint.denial {
        let verdict = if denial.held { "hold" } else { "deny" };
        let reason = Some(denial.reason);
        (verdict, reason, proof(denial), lifting(service, denial))
    } else {
        let pass = pass::endpoint(service, endpoint);
        ("pass", None, pass.because, pass.change)
    };
    Verdict {
        service: Some(service.name.clone()),
        port: Some(endpoint.port),
        protocol: Some(endpoint.protocol.clone()),
        verdict: verdict.into(),
        reason,
        because,
        change,
    }
}

fn proof(denial: &DenialView) -> String {
    let gone = if denial.openers_only {
        "is finished or deleted"
    } else {
        "is dead"
    };
    let now = match &denial.hit {
        Some(hit) => format!("{hit} has the IP now"),
        None => "no pod has the IP".to_owned(),
    };
    let which = if denial.openers_only {
        "new connections"
    } else {
        "every packet"
    };
    let reason = denial.reason;
    let seldom = if reason.terms().default < Mode::Enforce {
        format!("; dropped only with --reason-mode {reason}={}", Mode::Enforce)
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

fn lifting(service: &ServiceView, denial: &DenialView) -> String {
    let name = &service.name;
    let mut ways = vec![
        format!("{name} listing the IP for a live pod"),
        format!("a live pod that {name} selects and that has, or may have, the IP"),
    ];
    if denial.openers_only {
        ways.push(format!("{} seen alive", denial.meant));
    }
    ways.push(format!(
        "10 minutes in which {name} does not list it and no packet comes"
    ));
    if denial.held {
        ways.insert(
            0,
            format!("carried out when a second list agrees, or by epguard breaker --release {name}"),
        );
    }
    ways.join("; ")
}

/// The verdict about packets to the IP itself.
fn direct(view: &View) -> Verdict {
    let (verdict, reason, because, change) = match (&view.terminated, pass::anything(view)) {
        (_, Some(pass)) => ("pass", None, pass.because, pass.change),
        (Some(dead), None) => (
            "deny",
            Some(Reason::Terminated),
            format!("{dead} had it, which is dead, and the IP is unused on this node: every packet"),
            "a packet from the IP; a route, neighbour or pod of this node that holds it".to_owned(),
        ),
        (None, None) => {
            let pass = pass::direct(view);
            ("pass", None, pass.because, pass.change)
        }
    };
    Verdict {
        service: None,
        port: None,
        protocol: None,
        verdict: verdict.into(),
        reason,
        because,
        change,
    }
}
