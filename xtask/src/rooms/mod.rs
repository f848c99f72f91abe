//! Modules have no circles: among the modules of one folder none needs itself by way of others.
//!
//! ```text
//! sources -> modules and the paths they name -> arrows between modules -> for each folder: is there a circle?
//! ```
//!
//! A module and the modules in its own folder may need each other: the folder is one place, with `mod.rs` as its door.

mod circle;
mod source;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use crate::ladder::Count;
use crate::process::root;
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

/// Checks each crate and prints each circle with the files that close it.
pub(crate) fn check() -> Result<Count> {
    let mut count = Count::default();
    for folder in CRATES {
        let sources = Crate::read(&root().join(folder))?;
        let circles = circles(&sources.arrows());
        for circle in &circles {
            println!("{folder}: {circle}");
        }
        count.failed += u32::try_from(circles.len()).unwrap_or(u32::MAX);
    }
    count.passed = (count.failed == 0).into();
    Ok(count)
}

/// A circle in each folder that has one, as text.
fn circles(arrows: &BTreeSet<(Module, Module)>) -> Vec<String> {
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
        .filter_map(|(folder, graph)| Some((*folder, circle::find(graph)?)));
    found
        .map(|(folder, circle)| {
            let arrows = circle.iter().zip(circle.iter().cycle().skip(1));
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

    fn circles_of(arrows: &[(&str, &str)]) -> Vec<String> {
        let arrows = arrows.iter().map(|(from, to)| (module(from), module(to)));
        circles(&arrows.collect())
    }

    #[test]
    fn rooms_that_need_each_other_are_a_circle_directly_or_through_a_third() {
        let found = circles_of(&[
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
    fn a_circle_within_a_folder_is_found_and_a_folder_may_need_its_own_mod_file() {
        let within = [("state::judge", "state::world"), ("state::world", "state::judge")];
        assert_eq!(circles_of(&within).len(), 1);
        let door = [("state::judge", "state"), ("state", "state::judge")];
        assert_eq!(circles_of(&door), Vec::<String>::new());
    }
}
