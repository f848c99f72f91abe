//! Fixed names for this machine's folders in binaries, so that the same source gives the same
//! binary in any folder.

use std::env;
use std::path::{Path, PathBuf};

use crate::process::root;

/// Flags for rustc that rename the sources, the dependencies and, last because the last that fits
/// counts, `more`.
pub(crate) fn renamed(more: &[(&Path, &str)]) -> Vec<String> {
    let home = env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let mut names = vec![(root(), "/epguard")];
    names.extend(home.as_deref().map(|home| (home, "/cargo")));
    names.extend(more);
    names
        .into_iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_paths_are_renamed_after_their_folder() {
        let flags = renamed(&[(&root().join("target/x"), "/target")]);
        let sources = format!("--remap-path-prefix={}=/epguard", root().display());
        assert_eq!(flags.first(), Some(&sources));
        assert!(
            flags
                .last()
                .is_some_and(|flag| flag.ends_with("target/x=/target"))
        );
    }
}
