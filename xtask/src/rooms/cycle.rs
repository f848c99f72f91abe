//! The shortest cycle in a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The names on a shortest cycle, in the order of its arrows; `None` without one.
pub(super) fn find<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Option<Vec<&'a str>> {
    let cycles = graph.keys().filter_map(|start| back_to(graph, start));
    cycles.min_by_key(Vec::len)
}

/// The shortest way from a node to itself.
fn back_to<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut seen = BTreeSet::new();
    let mut ways = VecDeque::from([vec![start]]);
    while let Some(way) = ways.pop_front() {
        for &next in graph.get(way[way.len() - 1]).into_iter().flatten() {
            if next == start {
                return Some(way);
            }
            if seen.insert(next) {
                ways.push_back([way.as_slice(), &[next]].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph<'a>(arrows: &[(&'a str, &'a str)]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let mut graph: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for (from, to) in arrows {
            graph.entry(*from).or_default().insert(*to);
        }
        graph
    }

    #[test]
    fn the_shortest_cycle_is_found() {
        let arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "c")];
        assert_eq!(find(&graph(&arrows)), Some(vec!["c", "d"]));
    }

    #[test]
    fn dependencies_in_one_direction_are_no_cycle() {
        assert_eq!(find(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
    }
}
