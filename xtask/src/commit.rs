//! The commit that images and releases are made of.

use std::env;

use anyhow::{Context, Result};
use jiff::Timestamp;

use crate::process::{command, read};

/// A commit of this repository.
pub(crate) struct Commit {
    /// Its full hash, with `-dirty` behind it where files have changed since.
    pub(crate) revision: String,
    /// The time of everything that is made of it, so that one commit gives the same files at any
    /// time: its committer's, or that of `SOURCE_DATE_EPOCH`.
    pub(crate) time: Timestamp,
}

impl Commit {
    /// Reads the commit that is checked out. Errors: this is no clone, or `SOURCE_DATE_EPOCH` is no
    /// number of seconds.
    pub(crate) fn read() -> Result<Self> {
        let describe = [
            "describe",
            "--always",
            "--abbrev=40",
            "--dirty",
            "--exclude=*",
        ];
        let revision = read(command("git").args(describe))
            .context("images name their commit: make them in a clone of the repository")?;
        let seconds = match env::var("SOURCE_DATE_EPOCH") {
            Ok(seconds) => seconds,
            Err(_) => read(command("git").args(["log", "-1", "--format=%ct"]))?,
        };
        let seconds: i64 = seconds
            .trim()
            .parse()
            .with_context(|| format!("SOURCE_DATE_EPOCH={seconds} is no number of seconds"))?;
        Ok(Self {
            revision: revision.trim().to_owned(),
            time: Timestamp::from_second(seconds)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commit_has_a_full_hash_and_a_time() {
        let commit = Commit::read().unwrap();
        let hash = commit.revision.trim_end_matches("-dirty");
        assert_eq!(hash.len(), 40, "{hash}");
        assert!(commit.time.as_second() > 1_700_000_000);
    }
}
