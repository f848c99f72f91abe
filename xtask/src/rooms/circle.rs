//! The shortest circle in a graph.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The names on a shortest circle, in the order of its arrows; `None` without one.
pub(super) fn find<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Option<Vec<&'a str>> {
    let circles = graph.keys().filter_map(|start| back_to(graph, start));
    circles.min_by_key(Vec::len)
}

/// The shortest way from a node to itself.
fn back_to<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>, start: &'a str) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(node) = queue.pop_front() {
        for next in graph.get(node).into_iter().flatten() {
            if *next == start {
                let mut way = vec![node];
                while let Some(before) = came_from.get(way[way.len() - 1]) {
                    way.push(before);
                }
                way.reverse();
                return Some(way);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, node);
                queue.push_back(next);
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
    fn the_shortest_circle_is_found() {
        let arrows = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "c")];
        assert_eq!(find(&graph(&arrows)), Some(vec!["c", "d"]));
    }

    #[test]
    fn dependencies_in_one_direction_are_no_circle() {
        assert_eq!(find(&graph(&[("a", "b"), ("a", "c"), ("b", "c")])), None);
    }
}
