//! A denial that was wrong: its reason is put into observe.

use crate::daemon::report::denial_log::Report;
use crate::kernel::maps::Writer;
use anyhow::Result;
use clap::ValueEnum;
use epguard_core::facts::named;
use epguard_core::state::{Evidence, Finding, State};

/// What to do with a reason after a wrong denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnWrongDeny {
    /// Only observe it until the mode is set again
    Observe,
    /// Only log and count it
    Ignore,
}

/// Logs a wrong denial, and demotes its reason to observe if so told, unless no packet was stopped. Errors: CONFIG cannot be written.
pub fn handle_wrong_denial(
    on_wrong_deny: OnWrongDeny,
    state: &State,
    writer: &mut Writer,
    report: &Report,
    finding: &Finding,
) -> Result<()> {
    let pod = |uid| report.names.text(state, uid);
    let Finding { case, packets, evidence } = finding;
    let demotes = on_wrong_deny == OnWrongDeny::Observe && !packets.held;
    let evidence = match evidence {
        Evidence::HeldUnpublished(uid) => format!("{} held the IP without showing it", pod(*uid)),
        Evidence::Sighted => {
            "packets from the IP arrived at the interface that the node routes it to".to_owned()
        }
        Evidence::MeantIsAlive => "the pod that was meant is alive".to_owned(),
    };
    tracing::error!(
        reason = case.reason.as_str(),
        service = case.service.as_ref().map_or_else(|| "none".to_owned(), named),
        endpoint = %std::net::SocketAddr::new(case.ip.ip(), case.port),
        protocol = case.protocol,
        meant = pod(case.meant),
        hit = pod(packets.owner),
        reported = packets.reported,
        first_ms = packets.first.as_millis(),
        last_ms = packets.last.as_millis(),
        held = packets.held,
        evidence,
        "wrong deny{}",
        if demotes { ": this reason is only observed from now on" } else { "" }
    );
    if demotes { writer.config.demote(case.reason) } else { Ok(()) }
}
