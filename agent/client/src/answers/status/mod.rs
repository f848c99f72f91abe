//! The state of an agent: its problems, then what it does. Pure.

mod problems;

pub use problems::{
    Problem, gap_problem, hook_problems, problems, socket_lb_problems, unproven_watch,
    view_problems,
};

use crate::shared::output::{count, first, seconds, table_on};
use crate::shared::screen::{BAD, GOOD, Screen};
use crate::shared::status::{Attachment, Status, Unanswered, Watch};
use epguard_core::facts::Watched;
use problems::is_unproven;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The output of `-o json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(title = "epguard status -o json")]
pub struct Condition {
    /// What keeps epguard from its work, the worst first.
    pub problems: Vec<Problem>,
    /// The agent's state.
    pub status: Status,
}

impl Condition {
    /// The whole text, with colours; the caller removes them for a pipe.
    pub fn to_text(&self, screen: Screen) -> String {
        let Self { problems, status } = self;
        let mut parts = vec![screen.fold(&headline(status, problems))];
        for Problem { what, remedy } in problems {
            let bullet = format!("  {BAD}!{BAD:#} {what}\n      {remedy}");
            parts.push(screen.fold(&bullet));
        }
        let tables = [
            overview_table(status, screen),
            watch_table(status, screen),
            interface_table(status, screen),
            map_table(status, screen),
        ];
        parts.extend(tables.map(|table| format!("\n{table}")));
        let unanswered = unanswered_lines(status);
        if !unanswered.is_empty() {
            parts.push(format!("\n{}", screen.fold(&unanswered.join("\n"))));
        }
        parts.join("\n")
    }
}

fn headline(status: &Status, problems: &[Problem]) -> String {
    let how = match problems.len() {
        0 => format!("{GOOD}all is well{GOOD:#}"),
        some => format!("{BAD}degraded{BAD:#}, {}", count(some, "problem")),
    };
    format!(
        "epguard {} on {}: {} (by {}), {how}",
        status.version,
        status.node,
        status.mode_name(),
        status.mode_source
    )
}

fn overview_table(status: &Status, screen: Screen) -> String {
    let reasons = status
        .reasons
        .iter()
        .map(|(reason, mode)| format!("{reason} {mode}"));
    let wrong: u64 = status.wrong_denies.values().sum();
    let rows = [
        ("REASONS", reasons.collect::<Vec<_>>().join(", ")),
        ("ACTIONS", status.actions_text()),
        ("LEASE", lease_text(status)),
        ("VIEW", view_text(status)),
        ("JUDGED BY", judged_by(status)),
        ("WRONG DENIES", wrong.to_string()),
        ("REPORTS SKIPPED", status.figures.events_skipped.to_string()),
        (
            "EVENT TO MAP",
            format!(
                "median {} us, 99th percentile {} us",
                status.latency.p50_us, status.latency.p99_us
            ),
        ),
    ];
    let rows = rows.into_iter();
    table_on(
        screen,
        &[],
        rows.map(|(name, value)| vec![name.to_owned(), value]),
    )
}

/// What a load balancer with hooks at sockets may translate elsewhere, where no hook sees the
/// packet with a record of the Service.
const ELSEWHERE: &str = "calls from outside that the load balancer translates itself, and, where Cilium has \
                         socketLB.hostNamespaceOnly without bpf.hostLegacyRouting, pods' calls to endpoints of this node";

/// What is judged, by the records that show the Service of a packet, in the order in which they are
/// asked; and what is not.
fn judged_by(status: &Status) -> String {
    let mut records = Vec::new();
    if status.translators.conntrack {
        records.push("what netfilter translates, by conntrack entries".to_owned());
    }
    if !status.translators.cilium.is_empty() {
        let maps = status.translators.cilium.len();
        records.push(format!(
            "packets that Cilium translates, by {maps} of its maps"
        ));
    }
    let lb = &status.socket_lb;
    if let Some(program) = lb.programs.first()
        && lb.in_force
    {
        records.push(format!("the calls that {program} translates, at sockets"));
    }
    if records.is_empty() {
        return "no record, so packets to Services pass".to_owned();
    }
    let judged = records.join("; ");
    match lb.unknown_sockets {
        _ if !lb.in_force => judged,
        0 => format!("{judged}. Not judged: {ELSEWHERE}"),
        packets => {
            format!("{judged}. Not judged: {ELSEWHERE}, and {packets} packets of unknown sockets")
        }
    }
}

/// For how long denials hold.
pub fn lease_text(status: &Status) -> String {
    match status.lease_ms {
        _ if !status.denies() => "not needed, nothing is denied".to_owned(),
        0 => "none yet, as no view was fresh".to_owned(),
        left if left > 0 => format!("{} left", seconds(left.unsigned_abs())),
        over => format!("ended {} ago", seconds(over.unsigned_abs())),
    }
}

/// The age of the view that proves denials.
fn view_text(status: &Status) -> String {
    let age = status
        .view_age_ms
        .map(|ms| format!("as of {} ago", seconds(ms)));
    age.unwrap_or_else(|| "of unknown age".to_owned())
}

fn watch_state(name: Watched, watch: &Watch) -> &'static str {
    if !watch.up {
        "down"
    } else if is_unproven(name, watch) {
        "up, not proven"
    } else {
        "up"
    }
}

fn watch_table(status: &Status, screen: Screen) -> String {
    let rows = status.watches.iter().map(|(name, watch)| {
        vec![
            name.to_string(),
            watch_state(*name, watch).to_owned(),
            watch.age_ms.map_or("-".to_owned(), seconds),
            watch.rv.to_string(),
        ]
    });
    table_on(screen, &["WATCH", "STATE", "FRESH AS OF", "VERSION"], rows)
}

fn interface_table(status: &Status, screen: Screen) -> String {
    let rows = status.interfaces.iter().map(|at| {
        let xdp = at.xdp.as_deref().or(at.xdp_error.as_ref().map(|_| "no"));
        vec![
            at.name.clone(),
            at.role.clone(),
            hooks_text(at),
            xdp.unwrap_or("-").to_owned(),
        ]
    });
    table_on(screen, &["INTERFACE", "ROLE", "HOOKS", "XDP"], rows)
}

fn hooks_text(at: &Attachment) -> String {
    let ingress = if at.ingress { " and ingress" } else { "" };
    match (at.attached, at.position) {
        (true, place @ 1..) => format!("{}{ingress}, place {place}", at.kernel_path),
        (true, 0) => at.kernel_path.clone(),
        (false, _) if at.waiting => "waiting".to_owned(),
        (false, _) => "none".to_owned(),
    }
}

/// The interfaces that cannot answer the node's own processes: a line for each cause.
fn unanswered_lines(status: &Status) -> Vec<String> {
    let mut by_cause: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for Unanswered { interface, why } in &status.unanswered {
        by_cause.entry(why).or_default().push(interface.clone());
    }
    let mut lines = Vec::new();
    for (why, interfaces) in by_cause {
        let through = first(&interfaces, NAMED, interfaces.len());
        lines.push(format!(
            "Calls of this node's own processes through {through} are dropped, not refused, and no \
             flow is redirected there: {why}"
        ));
    }
    lines
}

/// How many interfaces a line names.
const NAMED: usize = 3;

fn map_table(status: &Status, screen: Screen) -> String {
    let maps = status.figures.maps.iter();
    let rows = maps.map(|(name, fill)| {
        vec![
            name.clone(),
            fill.entries.to_string(),
            fill.capacity.to_string(),
        ]
    });
    table_on(screen, &["MAP", "ENTRIES", "ROOM FOR"], rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::screen::{TESTED, assert_fits};
    use crate::shared::status::testing::ailing;
    use crate::shared::status::{SocketLb, Translators};
    use clap::builder::StyledStr;
    use schemars::generate::SchemaSettings;
    use std::fs;
    use std::path::Path;

    #[test]
    fn the_schema_of_the_document_stands_in_docs() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .nth(2)
            .unwrap();
        let form = SchemaSettings::default().for_serialize();
        let schema = form.into_generator().into_root_schema_for::<Condition>();
        let schema = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        let page = repository.join("docs/status.schema.json");
        if fs::read_to_string(page).unwrap_or_default() != schema {
            let generated = repository.join("target/status.schema.json");
            fs::write(&generated, schema).unwrap();
            panic!("the status has another form: cp target/status.schema.json docs/");
        }
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        let mut status = ailing();
        status.translators.conntrack = true;
        status.translators.cilium = vec!["cilium_ct4_global".into()];
        status.socket_lb = SocketLb {
            programs: vec!["cil_sock4_conne (id 7)".into()],
            in_force: true,
            ..SocketLb::default()
        };
        status.unanswered = vec![Unanswered {
            interface: "lxc1".into(),
            why: "other programs run before epguard".into(),
        }];
        let condition = Condition {
            problems: problems(&status),
            status,
        };
        for width in TESTED {
            let screen = Screen {
                width: Some(width),
                full: false,
            };
            let text = StyledStr::from(condition.to_text(screen)).to_string();
            assert!(text.contains("JUDGED BY"), "{text}");
            assert_fits(&text, screen);
        }
    }

    #[test]
    fn each_cause_of_missing_answers_is_a_line_with_its_interfaces() {
        let of = |interface: &str, why: &str| Unanswered {
            interface: interface.into(),
            why: why.into(),
        };
        let pods = ["lxc1", "lxc2", "lxc3", "lxc4"].map(|pod| of(pod, "other programs"));
        let status = Status {
            unanswered: pods.into_iter().chain([of("cni0", "new")]).collect(),
            ..Status::default()
        };
        let rest = "are dropped, not refused, and no flow is redirected there";
        assert_eq!(
            unanswered_lines(&status),
            [
                format!("Calls of this node's own processes through cni0 {rest}: new"),
                format!(
                    "Calls of this node's own processes through lxc1, lxc2, lxc3 and 1 more {rest}: other programs"
                ),
            ]
        );
    }

    #[test]
    fn one_line_says_what_is_judged_and_what_is_not() {
        let mut status = Status::default();
        assert_eq!(judged_by(&status), "no record, so packets to Services pass");
        status.translators = Translators {
            conntrack: true,
            ..Translators::default()
        };
        let netfilter = "what netfilter translates, by conntrack entries";
        assert_eq!(judged_by(&status), netfilter);
        status.socket_lb = SocketLb {
            programs: vec!["cil_sock4_conne (id 7)".into()],
            in_force: true,
            ..SocketLb::default()
        };
        let calls = "the calls that cil_sock4_conne (id 7) translates, at sockets";
        assert_eq!(
            judged_by(&status),
            format!("{netfilter}; {calls}. Not judged: {ELSEWHERE}")
        );
    }
}
