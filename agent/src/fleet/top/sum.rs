//! All nodes as one agent. Pure.

use crate::commands::status::Problem;
use crate::commands::top::{Agent, Answers, Counted, Document};
use crate::fleet::drops::merged;
use crate::fleet::missing::{self, Missing};
use crate::kernel::maps::Counters;
use crate::shared::output::count;
use crate::shared::status::Status;
use epguard_common::{Count, Mode};
use epguard_core::state::IpState;
use std::collections::BTreeMap;

/// The agents of all nodes as one; none if no agent answers.
pub fn agent<'a>(
    documents: impl Iterator<Item = (&'a str, &'a Document)>,
    missing: &[Missing],
) -> Option<Agent> {
    let answers = documents.filter_map(|(node, document)| Some((node, document.agent.as_ref()?)));
    let answers: Vec<(&str, &Answers)> = answers.collect();
    if answers.is_empty() {
        return None;
    }
    let drops = merged(answers.iter().map(|(node, answers)| (*node, &answers.drops[..])));
    Some(Agent {
        who: who(&answers, missing.len()),
        problems: problems(&answers, missing),
        status: status(&answers),
        drops: drops.into_iter().map(|(dropped, _)| dropped).collect(),
        narrowed: false,
    })
}

/// The kernels' counts; none if no node has any.
pub fn counters<'a>(documents: impl Iterator<Item = &'a Document>) -> Option<Counters> {
    let mut sum: Option<Counters> = None;
    for counted in documents.filter_map(|document| document.counters.as_ref()) {
        let sum = sum.get_or_insert_default();
        for Counted {
            reason,
            outcome,
            packets,
        } in counted
        {
            let count: &mut Count = sum.entry((*reason, *outcome)).or_default();
            count.packets = count.packets.saturating_add(*packets);
        }
    }
    sum
}

/// `3 nodes: 2 enforce, 1 observe`
fn who(answers: &[(&str, &Answers)], silent: usize) -> String {
    let mut modes: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, answers) in answers {
        *modes.entry(answers.status.mode_name()).or_default() += 1;
    }
    let counts = modes
        .into_iter()
        .chain((silent > 0).then_some(("without an answer", silent)));
    let counts: Vec<String> = counts.map(|(mode, count)| format!("{count} {mode}")).collect();
    let nodes = count(answers.len() + silent, "node");
    format!("{nodes}: {}", counts.join(", "))
}

fn problems(answers: &[(&str, &Answers)], missing: &[Missing]) -> Vec<Problem> {
    let remedy = "what is denied there is not counted here: kubectl epguard status";
    let silent = missing::summary(missing).map(|what| Problem::new(what, remedy));
    let of_nodes = answers.iter().flat_map(|(node, answers)| {
        let problems = answers.problems.iter();
        problems.map(move |problem| Problem::new(format!("{node}: {}", problem.what), &problem.remedy))
    });
    silent.into_iter().chain(of_nodes).collect()
}

/// The highest mode, the oldest view, and the shortest lease of nodes that deny anything.
fn status(answers: &[(&str, &Answers)]) -> Status {
    let all = || answers.iter().map(|(_, answers)| &answers.status);
    let enforces = all().any(|status| status.mode == Some(Mode::Enforce));
    let ages: Option<Vec<u64>> = all().map(|status| status.view_age_ms).collect();
    let leases = all()
        .filter(|status| status.denies())
        .map(|status| status.lease_ms);
    let mut sum = Status {
        mode: Some(if enforces { Mode::Enforce } else { Mode::Observe }),
        view_age_ms: ages.and_then(|ages| ages.into_iter().max()),
        lease_ms: leases.min().unwrap_or_default(),
        ..Status::default()
    };
    for state in [IpState::Denied, IpState::Terminated] {
        let counts = all().filter_map(|status| status.figures.ips.get(&state));
        sum.figures.ips.insert(state, counts.sum());
    }
    sum
}
