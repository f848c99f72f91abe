//! Counts the lines to maintain: product and harness, without tests and recordings.

use std::path::Path;

use anyhow::Result;

use crate::files::read_all;
use crate::ladder::Count;

/// Folders: first the product, then its development tools.
const ROOMS: [&str; 5] = ["common", "ebpf", "agent", "lab", "xtask"];

/// Prints the lines of each folder and their sum.
pub(crate) fn count() -> Result<Count> {
    let mut all = 0;
    for room in ROOMS {
        let files = read_all(room, "rs")?.into_iter();
        let lines: usize = files
            .map(|file| maintained(Path::new(&file.name), &file.text))
            .sum();
        println!("{room:8}{lines:7}");
        all += lines;
    }
    println!("{:8}{all:7}", "all");
    Ok(Count { passed: 1, failed: 0 })
}

/// Lines of a file outside of tests, which are files of their own or the last module of a file.
fn maintained(file: &Path, text: &str) -> usize {
    let is_test = |name: &str| {
        let name = name.trim_end_matches(".rs");
        ["tests", "testing", "fuzz"].contains(&name) || name.ends_with("_tests") || name.ends_with("_fuzz")
    };
    if file.iter().any(|part| is_test(&part.to_string_lossy())) {
        return 0;
    }
    let inline = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..inline].lines().count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_and_test_modules_are_not_counted() {
        let text = "fn a() {}\n\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(maintained(Path::new("agent/src/a.rs"), text), 2);
        for file in [
            "agent/tests/a.rs",
            "agent/src/a/tests.rs",
            "agent/src/a_tests.rs",
            "agent/src/fuzz/a.rs",
            "agent/src/a_fuzz.rs",
        ] {
            assert_eq!(maintained(Path::new(file), text), 0, "{file}");
        }
    }
}
