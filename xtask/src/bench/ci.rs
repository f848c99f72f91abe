//! The step of `cargo xtask test`: ratios of program test runs, from short runs of the packets.
//!
//! Other work slows a process down, and a process may place its programs badly in memory. So a ratio fails only if it misses its
//! limit and margin in each of a few processes.

use std::collections::BTreeMap;

use anyhow::Result;

use super::check::{Checked, check};
use super::form;
use super::measure;
use super::name::Name;
use crate::ladder::Count;

const RUNS: usize = 3;

/// Runs the packets until no ratio has missed its limit in all runs.
pub(crate) fn check_packets() -> Result<Count> {
    let mut missed: Option<BTreeMap<String, String>> = None;
    let mut checks = 0;
    for _ in 0..RUNS {
        let mut command = Name::Packet.command();
        let tables = measure(command.env(form::QUICK, "1"))?;
        let Checked { kept, missed: now } = check(&tables, true);
        checks = kept + u32::try_from(now.len())?;
        let again = in_both(missed, now);
        for line in again.values() {
            println!("missed: {line}");
        }
        let none = again.is_empty();
        missed = Some(again);
        if none {
            break;
        }
    }
    let failed = u32::try_from(missed.map_or(0, |missed| missed.len()))?;
    Ok(Count {
        passed: checks - failed,
        failed,
    })
}

/// What missed in the runs before and in this one.
fn in_both(
    before: Option<BTreeMap<String, String>>,
    mut now: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    if let Some(before) = before {
        now.retain(|row, _| before.contains_key(row));
    }
    now
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_misses_in_each_run_fails() {
        let run = |rows: &[&str]| -> BTreeMap<String, String> {
            rows.iter().map(|row| ((*row).into(), String::new())).collect()
        };
        let first = in_both(None, run(&["a", "b"]));
        assert_eq!(first, run(&["a", "b"]));
        assert_eq!(in_both(Some(first), run(&["b", "c"])), run(&["b"]));
    }
}
