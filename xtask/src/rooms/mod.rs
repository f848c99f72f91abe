//! Modules have no cycles: among the modules of one folder none needs itself by way of others.
//!
//! ```text
//! sources -> modules and the paths they name -> arrows between modules -> for each folder: is there a cycle?
//! ```
//!
//! A module and the modules in its own folder may need each other: the folder is one place, whose `mod.rs` may name them.

mod cycle;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use source::Crate;

/// Each crate's folder of sources.
const CRATES: [&str; 6] = [
    "common/src",
    "ebpf/src",
    "agent/core/src",
    "agent/src",
    "lab/src",
    "xtask/src",
];

/// A module: the names from the crate's root down.
type Module = Vec<String>;

/// Each cycle in a crate, with the modules that close it.
pub(crate) fn check() -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in CRATES {
        let cycles = cycles(&Crate::read(folder)?.arrows());
        found.extend(cycles.iter().map(|cycle| format!("{folder}: {cycle}")));
    }
    Ok(found)
}

/// A cycle in each folder that has one, as text.
fn cycles(arrows: &BTreeSet<(Module, Module)>) -> Vec<String> {
    let mut folders: BTreeMap<&[String], BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    let mut examples: BTreeMap<(&[String], &str, &str), (&Module, &Module)> = BTreeMap::new();
    for (from, to) in arrows {
        let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
        let (Some(a), Some(b)) = (from.get(common), to.get(common)) else {
            continue;
        };
        let folder = &from[..common];
        folders.entry(folder).or_default().entry(a).or_default().insert(b);
        examples.entry((folder, a, b)).or_insert((from, to));
    }
    let found = folders
        .iter()
        .filter_map(|(folder, graph)| Some((*folder, cycle::find(graph)?)));
    found
        .map(|(folder, cycle)| {
            let arrows = cycle.iter().zip(cycle.iter().cycle().skip(1));
            let arrows = arrows.filter_map(|(a, b)| examples.get(&(folder, *a, *b)));
            let arrows: Vec<String> = arrows
                .map(|(from, to)| format!("{} needs {}", from.join("::"), to.join("::")))
                .collect();
            format!("modules need each other: {}", arrows.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(path: &str) -> Module {
        path.split("::").map(str::to_owned).collect()
    }

    fn cycles_of(arrows: &[(&str, &str)]) -> Vec<String> {
        let arrows = arrows.iter().map(|(from, to)| (module(from), module(to)));
        cycles(&arrows.collect())
    }

    #[test]
    fn rooms_that_need_each_other_are_a_cycle_directly_or_through_a_third() {
        let found = cycles_of(&[
            ("daemon::agent", "kernel::maps"),
            ("kernel::maps", "shared::status"),
            ("shared::status", "daemon::lease"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].contains("kernel::maps needs shared::status"),
            "{found:?}"
        );
    }

    #[test]
    fn a_cycle_within_a_folder_is_found_and_a_folder_may_need_its_own_mod_file() {
        let within = [("state::judge", "state::world"), ("state::world", "state::judge")];
        assert_eq!(cycles_of(&within).len(), 1);
        let door = [("state::judge", "state"), ("state", "state::judge")];
        assert_eq!(cycles_of(&door), Vec::<String>::new());
    }
}
