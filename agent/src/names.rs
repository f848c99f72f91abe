//! `<run-dir>/names.json`: names of the pods that denials are about, for the agent's next process. Pinned maps hold UIDs only,
//! and the API no longer shows a pod that is gone.

use crate::facts::Name;
use anyhow::{Context as _, Result};
use epguard_common::Uid;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Names that are kept, about 100 bytes each; denials beyond are named by UID after a restart.
const MOST: usize = 4_096;

/// The file, and what stands in it.
#[derive(Debug)]
pub struct Names {
    path: PathBuf,
    written: BTreeMap<Uid, Name>,
    failed: bool,
}

impl Names {
    /// Reads the file. One that is not there, or cannot be read, holds no names.
    #[must_use]
    pub fn load(run_dir: &Path) -> Self {
        let path = run_dir.join("names.json");
        let written = fs::read(&path).ok().and_then(|text| parse(&text));
        Self {
            path,
            written: written.unwrap_or_default(),
            failed: false,
        }
    }

    /// The names in the file.
    #[must_use]
    pub fn known(&self) -> &BTreeMap<Uid, Name> {
        &self.written
    }

    /// Writes these names, unless the same stand there. A failure is logged once: only names depend on it.
    pub fn keep(&mut self, names: impl Iterator<Item = (Uid, Name)>) {
        let names: BTreeMap<Uid, Name> = names.take(MOST).collect();
        if names == self.written {
            return;
        }
        match self.write(&names) {
            Ok(()) => (self.written, self.failed) = (names, false),
            Err(error) if !self.failed => {
                tracing::warn!("pods that are gone will be named by UID after a restart: {error:#}");
                self.failed = true;
            }
            Err(_) => {}
        }
    }

    /// Replaces the file in one step: a reader sees the old one or the new one.
    fn write(&self, names: &BTreeMap<Uid, Name>) -> Result<()> {
        let names: BTreeMap<String, &Name> =
            names.iter().map(|(uid, name)| (uid.to_string(), name)).collect();
        let text = serde_json::to_vec(&names).context("cannot write JSON")?;
        let aside = self.path.with_extension("json.new");
        let mut options = OpenOptions::new();
        // As the status socket: only root reads names.
        options.create(true).write(true).truncate(true).mode(0o600);
        options
            .open(&aside)
            .and_then(|mut file| file.write_all(&text))
            .and_then(|()| fs::rename(&aside, &self.path))
            .with_context(|| format!("cannot write {}", self.path.display()))
    }
}

fn parse(text: &[u8]) -> Option<BTreeMap<Uid, Name>> {
    let names: BTreeMap<String, Name> = serde_json::from_slice(text).ok()?;
    let names = names.into_iter().take(MOST);
    Some(
        names
            .filter_map(|(uid, name)| Some((Uid::parse(&uid)?, name)))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("epguard-names-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn name(pod: &str) -> Name {
        ("shop".into(), pod.into())
    }

    #[test]
    fn names_that_were_kept_are_there_for_the_next_process() {
        let run_dir = directory("kept");
        let uid = Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5e0").unwrap();
        let mut names = Names::load(&run_dir);
        assert!(names.known().is_empty());
        names.keep([(uid, name("a"))].into_iter());
        assert_eq!(Names::load(&run_dir).known(), &BTreeMap::from([(uid, name("a"))]));
        names.keep(std::iter::empty());
        assert!(Names::load(&run_dir).known().is_empty());
        fs::remove_dir_all(run_dir).unwrap();
    }

    #[test]
    fn a_file_that_cannot_be_read_holds_no_names_and_is_replaced() {
        let run_dir = directory("broken");
        for text in ["", "{", "[]", r#"{"": ["shop", "a"]}"#] {
            fs::write(run_dir.join("names.json"), text).unwrap();
            assert!(Names::load(&run_dir).known().is_empty(), "{text}");
        }
        fs::remove_dir_all(run_dir).unwrap();
    }
}
