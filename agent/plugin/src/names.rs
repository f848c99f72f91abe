//! Names of nodes: their order, and how a line names some of them.

use std::cmp::Ordering;

/// The order of people: `worker-2` before `worker-10`.
pub fn compare(one: &str, other: &str) -> Ordering {
    parts(one).cmp(parts(other)).then_with(|| one.cmp(other))
}

/// A part of a name.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Part<'a> {
    /// Its number of digits without leading zeros, and these.
    Number(usize, &'a [u8]),
    /// All else.
    Text(&'a [u8]),
}

fn parts(name: &str) -> impl Iterator<Item = Part<'_>> {
    let bytes = name.as_bytes();
    let parts = bytes.chunk_by(|one, next| one.is_ascii_digit() == next.is_ascii_digit());
    parts.map(|part| {
        if !part[0].is_ascii_digit() {
            return Part::Text(part);
        }
        let zeros = part.iter().take_while(|digit| **digit == b'0').count();
        let digits = &part[zeros..];
        Part::Number(digits.len(), digits)
    })
}

/// Names nodes, at most `most`, and counts the others: `worker-2, worker-10 and 48 others`.
pub fn name_at_most(most: usize, nodes: &[impl AsRef<str>]) -> String {
    let mut nodes: Vec<&str> = nodes.iter().map(AsRef::as_ref).collect();
    nodes.sort_by(|a, b| compare(a, b));
    if nodes.len() <= most {
        return nodes.join(", ");
    }
    let others = nodes.len() - most + 1;
    format!("{} and {others} others", nodes[..most - 1].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_have_their_order() {
        let ordered = [
            "10",
            "a",
            "ip-10-0-9-1",
            "ip-10-0-10-1",
            "worker-1",
            "worker-1a",
            "worker-02",
            "worker-2",
            "worker-10",
        ];
        let mut names = ordered;
        names.sort_unstable();
        assert_ne!(names, ordered);
        names.sort_by(|a, b| compare(a, b));
        assert_eq!(names, ordered);
    }

    #[test]
    fn a_line_names_the_first_nodes_and_counts_the_others() {
        let nodes = ["worker-10", "worker-2", "worker-1"];
        assert_eq!(name_at_most(3, &nodes), "worker-1, worker-2, worker-10");
        let four = [&nodes[..], &["worker-3"]].concat();
        assert_eq!(name_at_most(3, &four), "worker-1, worker-2 and 2 others");
    }
}
