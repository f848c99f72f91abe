//! `cargo xtask book`: the pages of `docs/` as a site with search, in `target/book`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::process::{command, root, run as run_command};
use crate::tools;

/// mdBook.
const VERSION: &str = "0.5.4";

/// Where `docs/book.toml` puts the site, below the repository's root.
const SITE: &str = "target/book";

/// Builds the site, with mdBook that is built first if it is not there.
pub(crate) fn run() -> Result<ExitCode> {
    let only_search = ["--no-default-features", "--features", "search"];
    let mdbook = tools::cargo_tool("mdbook", VERSION, &only_search)?;
    run_command(command(mdbook).args(["build", "docs"]))?;
    let site = root().join(SITE);
    has_search(&site)?;
    println!("book: {}", site.join("index.html").display());
    Ok(ExitCode::SUCCESS)
}

/// mdBook without its feature `search` builds a site that has none, and does not fail.
fn has_search(site: &Path) -> Result<()> {
    let files = fs::read_dir(site).with_context(|| format!("cannot read {}", site.display()))?;
    for file in files {
        if file?
            .file_name()
            .to_string_lossy()
            .starts_with("searchindex")
        {
            return Ok(());
        }
    }
    bail!(
        "{} has no search index: remove target/tools/bin/mdbook, which was built without search",
        site.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_without_a_search_index_is_refused() {
        let site = tempfile::tempdir().unwrap();
        fs::write(site.path().join("index.html"), "").unwrap();
        let why = has_search(site.path()).unwrap_err().to_string();
        assert!(why.contains("no search index"), "{why}");
        fs::write(site.path().join("searchindex-1a2b.js"), "").unwrap();
        has_search(site.path()).unwrap();
    }

    #[test]
    fn the_site_is_where_the_configuration_puts_it() {
        let configuration = fs::read_to_string(root().join("docs/book.toml")).unwrap();
        let line = format!("build-dir = \"../{SITE}\"");
        assert!(
            configuration.lines().any(|one| one == line),
            "{configuration}"
        );
    }
}
