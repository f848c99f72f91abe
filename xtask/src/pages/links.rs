//! Links and anchors between pages.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::SUMMARY;
use super::markdown::parts;
use crate::files::File;
use crate::place::REPOSITORY;

/// Folders of the sources. A page may name a file there in backticks.
const FOLDERS: [&str; 7] = [
    "agent/", "common/", "deploy/", "docs/", "ebpf/", "lab/", "xtask/",
];

/// A line for each link whose file or heading does not exist, and for each file that is named and
/// does not. Addresses on other machines are not followed, but a heading at the repository's own
/// address is one of the README.
pub(super) fn broken(pages: &[File], root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for page in pages {
        let parts = parts(&page.text);
        for link in parts.links {
            if let Some(why) = error(page, &link, pages, root) {
                found.push(format!("{}: {link}: {why}", page.name));
            }
        }
        let missing = parts
            .spans
            .iter()
            .filter(|span| is_path(span) && !root.join(span).exists());
        found.extend(missing.map(|span| format!("{}: {span}: there is no such file", page.name)));
    }
    found
}

/// True for the path of one file or folder. Capitals stand for any name.
fn is_path(span: &str) -> bool {
    FOLDERS.iter().any(|folder| span.starts_with(folder))
        && span.bytes().all(|octet: u8| {
            octet.is_ascii_lowercase() || octet.is_ascii_digit() || b"/._-".contains(&octet)
        })
}

fn error(page: &File, link: &str, pages: &[File], root: &Path) -> Option<&'static str> {
    if let Some(anchor) = link
        .strip_prefix(REPOSITORY)
        .and_then(|rest| rest.strip_prefix('#'))
    {
        return missing_heading(Path::new("README.md"), anchor, pages);
    }
    if link.starts_with("https://") || link.starts_with("http://") {
        return None;
    }
    let (file, anchor) = link
        .split_once('#')
        .map_or((link, None), |(file, anchor)| (file, Some(anchor)));
    let target = if file.is_empty() {
        PathBuf::from(&page.name)
    } else {
        resolved(&page.name, file)
    };
    if page.name.starts_with("docs/") && !target.starts_with("docs") {
        return Some("leads out of the book: write https://... or name the file without a link");
    }
    if target == Path::new(SUMMARY) || !root.join(&target).exists() {
        return Some("there is no such file");
    }
    missing_heading(&target, anchor?, pages)
}

fn missing_heading(target: &Path, anchor: &str, pages: &[File]) -> Option<&'static str> {
    let headed = pages.iter().find(|page| Path::new(&page.name) == target);
    let anchors = headed.map(|page| anchors(&page.text)).unwrap_or_default();
    (!anchors.contains(anchor)).then_some("there is no such heading")
}

/// The path from the root to `link`, as `page` writes it.
fn resolved(page: &str, link: &str) -> PathBuf {
    let folder = Path::new(page).parent().unwrap_or(Path::new(""));
    let mut path = PathBuf::new();
    for part in folder.join(link).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            part => path.push(part),
        }
    }
    path
}

/// The anchors that GitHub and mdBook give to the headings of a page: a repeated heading gets a
/// number.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    for heading in parts(text).headings {
        let plain = anchor(&heading);
        let numbered = (1..).map(|number| format!("{plain}-{number}"));
        let free = std::iter::once(plain.clone())
            .chain(numbered)
            .find(|anchor| !anchors.contains(anchor));
        anchors.extend(free);
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    });
    kept.collect::<String>().to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(name: &str, text: &str) -> File {
        File {
            name: name.into(),
            text: text.into(),
        }
    }

    #[test]
    fn a_link_to_a_missing_file_heading_or_out_of_the_book_is_named() {
        let root = crate::process::root();
        let pages = [
            page("README.md", "[a](docs/b.md#two--words) [c](docs/none.md)"),
            page(
                "docs/b.md",
                "# B\n## Two & words\n[d](#b) [e](#none) [f](../README.md) [g](https://example.org/none)",
            ),
            page(
                "docs/limits.md",
                "[h](../docs/limits.md) `xtask/src/main.rs` `xtask/none.rs` `lab/NAME.rs`",
            ),
        ];
        let found = broken(&pages, root);
        let named: Vec<&str> = found
            .iter()
            .filter_map(|error| error.split(": ").nth(1))
            .collect();
        // The page docs/b.md does not exist here, so only links to its own headings work.
        assert_eq!(
            named,
            [
                "docs/b.md#two--words",
                "docs/none.md",
                "#b",
                "#none",
                "../README.md",
                "xtask/none.rs"
            ]
        );
    }

    #[test]
    fn a_heading_at_the_repositorys_address_is_one_of_the_readme() {
        let links = format!("[a]({REPOSITORY}#one) [b]({REPOSITORY}#two) [c]({REPOSITORY}/wiki#x)");
        let pages = [page("README.md", "# One"), page("docs/b.md", &links)];
        let found = broken(&pages, crate::process::root());
        let expected = format!("docs/b.md: {REPOSITORY}#two: there is no such heading");
        assert_eq!(found, [expected]);
    }

    #[test]
    fn anchors_are_those_of_github() {
        let found = anchors("# Why `epguard lint` is slow, sometimes\n## A\n## A\n");
        let expected = ["a", "a-1", "why-epguard-lint-is-slow-sometimes"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }
}
