//! The problems of all nodes: each once, the worst first, with its nodes, its remedy and how to see
//! more.

use crate::answers::StatusAnswer;
use crate::names::name_at_most;
use epguard_client::answers::status::Problem;
use epguard_client::shared::output::count;
use epguard_client::shared::screen::BAD;
use std::cmp::Reverse;

/// The most nodes that a problem names.
const NAMED: usize = 3;
/// The most problems that are shown.
const SHOWN: usize = 10;

/// A problem, and the nodes that have it.
struct Shared<'a> {
    problem: &'a Problem,
    /// Its last place in the nodes' own lists, which begin with the worst.
    place: usize,
    nodes: Vec<&'a str>,
}

/// All problems, or the worst ones; with `full`, all.
pub fn problem_list(answers: &[StatusAnswer], full: bool) -> String {
    let all = shared_problems(answers);
    let most = if full { all.len() } else { SHOWN };
    let mut parts = Vec::new();
    for shared in all.iter().take(most) {
        parts.push(text_of(shared));
    }
    if all.len() > most {
        let others = count(all.len() - most, "other problem");
        parts.push(format!("  and {others}: kubectl epguard status -o wide"));
    }
    parts.join("\n")
}

fn text_of(Shared { problem, nodes, .. }: &Shared<'_>) -> String {
    let Problem { what, remedy } = problem;
    let names = name_at_most(NAMED, nodes);
    let whose = match &nodes[..] {
        [_] => names,
        _ => format!("{}: {names}", count(nodes.len(), "node")),
    };
    let first = nodes.first().copied().unwrap_or_default();
    format!(
        "  {BAD}!{BAD:#} {whose}\n      {what}\n      {remedy}\n      more: kubectl epguard status --node {first}"
    )
}

fn shared_problems(answers: &[StatusAnswer]) -> Vec<Shared<'_>> {
    let mut all: Vec<Shared<'_>> = Vec::new();
    for answer in answers {
        for (place, problem) in answer.known.problems.iter().enumerate() {
            match all.iter_mut().find(|other| other.problem == problem) {
                Some(shared) => {
                    shared.place = shared.place.max(place);
                    shared.nodes.push(answer.node());
                }
                None => all.push(Shared {
                    problem,
                    place,
                    nodes: vec![answer.node()],
                }),
            }
        }
    }
    all.sort_by_key(|shared| (shared.place, Reverse(shared.nodes.len())));
    all
}

#[cfg(test)]
mod tests {
    use super::super::testing::agent;
    use super::*;
    use clap::builder::StyledStr;

    fn shown(answers: &[StatusAnswer], full: bool) -> String {
        StyledStr::from(problem_list(answers, full)).to_string()
    }

    #[test]
    fn a_problem_names_its_first_nodes_and_counts_the_others() {
        let answers: Vec<StatusAnswer> = (1..=50).map(|number| agent(number, &["full"])).collect();
        assert_eq!(
            shown(&answers, false),
            "  ! 50 nodes: worker-1, worker-2 and 48 others
      full
      remedy of full
      more: kubectl epguard status --node worker-1"
        );
        let one = shown(&answers[..1], false);
        assert!(one.starts_with("  ! worker-1\n      full\n"), "{one}");
    }

    #[test]
    fn the_worst_problem_comes_first_even_where_another_node_has_it_alone() {
        let answers = [
            agent(1, &["minor"]),
            agent(2, &["minor"]),
            agent(3, &["grave", "minor"]),
        ];
        let text = shown(&answers, false);
        assert!(text.find("grave") < text.find("minor"), "{text}");
    }

    #[test]
    fn many_problems_are_counted_and_shown_in_full_on_request() {
        let names: Vec<String> = (1..=12).map(|number| format!("problem-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let answers = [agent(1, &names)];
        let text = shown(&answers, false);
        assert!(
            text.ends_with("\n  and 2 other problems: kubectl epguard status -o wide"),
            "{text}"
        );
        assert!(shown(&answers, true).contains("problem-12"));
    }
}
