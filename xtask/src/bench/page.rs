//! The reference runs in the pages: each table between a comment that names it and one that ends it.

use std::fs;

use anyhow::{Context, Result, bail};

use super::form::Table;
use super::{Run, write};
use crate::process::root;

/// The pages, and the folder of the first one's plots.
const PAGES: [&str; 2] = ["docs/performance.md", "docs/scale.md"];
const PLOTS: &str = "docs/performance";

/// Writes the tables of a run over those of the pages. The rows of the second page have nothing in common that a plot could show.
pub(super) fn renew(run: &Run) -> Result<()> {
    let machine = without_local_version(&run.machine);
    for table in &run.tables {
        renew_one(table, machine)?;
    }
    Ok(())
}

fn renew_one(table: &Table, machine: &str) -> Result<()> {
    let name = &table.name;
    let shown = format!("{}\n\nMeasured on {machine}.", table.markdown());
    let plot = format!("\n\n![{}](performance/{name}.svg)", table.title);
    for (page, has_plots) in PAGES.into_iter().zip([true, false]) {
        let path = root().join(page);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {page}"))?;
        let plot = if has_plots { &plot } else { "" };
        let Some(text) = replace(&text, name, &(shown.clone() + plot)) else {
            continue;
        };
        if has_plots {
            let plots = root().join(PLOTS);
            fs::create_dir_all(&plots).with_context(|| format!("cannot make {}", plots.display()))?;
            write(&plots.join(format!("{name}.svg")), &table.plot(machine))?;
        }
        return write(&path, &text);
    }
    let (begin, end) = edges(name);
    bail!("no page has a block of the table {name}: add lines `{begin}` and `{end}` to one")
}

/// The machine without what its owner has appended to the kernel's version.
fn without_local_version(machine: &str) -> &str {
    const LINUX: &str = ", Linux ";
    let version = machine.rfind(LINUX).map_or(0, |at| at + LINUX.len());
    let end = machine[version..].find('-');
    end.map_or(machine, |end| &machine[..version + end])
}

/// The page with this text in the block of this name; none if it has no such block.
fn replace(page: &str, name: &str, text: &str) -> Option<String> {
    let (begin, end) = edges(name);
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(end)?;
    Some(format!("{before}{begin}\n\n{text}\n\n{end}{after}"))
}

fn edges(name: &str) -> (String, &'static str) {
    (format!("<!-- bench {name} -->"), "<!-- end -->")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kernels_own_version_is_on_the_page() {
        let shown = without_local_version("A-CPU, 2 cores, Linux 6.18.44-mine-7");
        assert_eq!(shown, "A-CPU, 2 cores, Linux 6.18.44");
        assert_eq!(without_local_version("CPU, Linux 6.18"), "CPU, Linux 6.18");
    }

    #[test]
    fn a_table_replaces_the_one_in_its_own_block() {
        let page = "A\n<!-- bench a -->\nold\n<!-- end -->\nB\n<!-- bench b -->\n<!-- end -->\n";
        let expected = "A\n<!-- bench a -->\n\nnew\n\n<!-- end -->\nB\n<!-- bench b -->\n<!-- end -->\n";
        assert_eq!(replace(page, "a", "new").unwrap(), expected);
        assert_eq!(replace(page, "c", "new"), None);
    }
}
