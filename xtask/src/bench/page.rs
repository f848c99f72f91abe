//! The reference run in docs/performance.md: each table between a comment that names it and one that ends it.

use std::fs;

use anyhow::{Context, Result, bail};

use super::{Run, write};
use crate::process::root;

/// The page, and the folder of its plots.
const PAGE: &str = "docs/performance.md";
const PLOTS: &str = "docs/performance";

/// Writes the tables of a run, with plots, over those of the page.
pub(super) fn renew(run: &Run) -> Result<()> {
    let page = root().join(PAGE);
    let mut text = fs::read_to_string(&page).with_context(|| format!("cannot read {PAGE}"))?;
    let plots = root().join(PLOTS);
    fs::create_dir_all(&plots).with_context(|| format!("cannot make {PLOTS}"))?;
    for table in &run.tables {
        let name = &table.name;
        let shown = format!(
            "{}\n\nMeasured on {}.\n\n![{}](performance/{name}.svg)",
            table.markdown(),
            run.machine,
            table.title
        );
        text = replace(&text, name, &shown)?;
        write(&plots.join(format!("{name}.svg")), &table.plot(&run.machine))?;
    }
    write(&page, &text)
}

/// The page with this text in the block of this name.
fn replace(page: &str, name: &str, text: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- bench {name} -->"), "<!-- end -->");
    let Some((before, (_, after))) = page
        .split_once(&begin)
        .and_then(|(before, rest)| Some((before, rest.split_once(end)?)))
    else {
        bail!("{PAGE} has no block of the table {name}: add lines `{begin}` and `{end}`");
    };
    Ok(format!("{before}{begin}\n\n{text}\n\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_replaces_the_one_in_its_own_block() {
        let page = "A\n<!-- bench a -->\nold\n<!-- end -->\nB\n<!-- bench b -->\n<!-- end -->\n";
        let expected = "A\n<!-- bench a -->\n\nnew\n\n<!-- end -->\nB\n<!-- bench b -->\n<!-- end -->\n";
        assert_eq!(replace(page, "a", "new").unwrap(), expected);
        let error = replace(page, "c", "new").unwrap_err().to_string();
        assert!(error.contains("`<!-- bench c -->`"), "{error}");
    }
}
