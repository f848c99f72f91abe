//! Names of the pods that denials are about: they outlive the pods, since a packet may come after
//! its pod is gone.
//!
//! `<run-dir>/names.json` has them for the agent's next process. Pinned maps hold UIDs only, and
//! the API no longer shows a pod that is gone.

use super::kept_file::KeptFile;
use crate::shared::drops::NOBODY;
use crate::shared::run_dir::NAMES;
use anyhow::Result;
use epguard_common::{DenialKey, Uid};
use epguard_core::facts::ObjectName;
use epguard_core::state::{Changes, State};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// How many names are stored, about 100 bytes each. After a restart, further denials show UIDs.
const MOST: usize = 4_096;

/// Denials that are looked at at once: a millisecond or two. One namespace can have 30,000.
const AT_ONCE: usize = 4_096;

/// The names, and the file that has them now or soon.
#[derive(Debug)]
pub struct Names {
    pods: BTreeMap<Uid, ObjectName>,
    /// Those of them that denials refer to, as far as these were looked at since all of them were.
    found: BTreeMap<Uid, ObjectName>,
    /// The denial that was looked at last; none if all were.
    last: Option<DenialKey>,
    /// Whether names were added since the file was written.
    is_unsaved: bool,
    file: KeptFile<BTreeMap<String, ObjectName>>,
}

impl Names {
    /// Reads the file. A file that does not exist, or cannot be read, holds no names. Errors: no
    /// thread can be started.
    pub fn load(run_dir: &Path) -> Result<Self> {
        let path = run_dir.join(NAMES);
        let pods = fs::read(&path)
            .ok()
            .and_then(|text| parse(&text))
            .unwrap_or_default();
        let file = KeptFile::new(path, "pods that are gone are named by UID")?;
        Ok(Self {
            pods,
            found: BTreeMap::new(),
            last: None,
            is_unsaved: false,
            file,
        })
    }

    /// The names that denials refer to; at first those of the file.
    pub const fn known(&self) -> &BTreeMap<Uid, ObjectName> {
        &self.pods
    }

    /// Adds the names that changed denials refer to.
    pub fn add(&mut self, state: &State, changes: &Changes) {
        let tables = state.tables();
        let denied = changes
            .denied
            .iter()
            .filter_map(|key| tables.denied.get(key));
        let denied = denied.flat_map(|denial| [denial.dead_uid, denial.owner_uid]);
        for uid in denied.chain(orphaned(state)) {
            if let Some(name) = state.pod_name(uid) {
                self.found.insert(uid, name.clone());
                self.pods.entry(uid).or_insert_with(|| {
                    self.is_unsaved = true;
                    name.clone()
                });
            }
        }
    }

    /// Looks at some denials; after the last one, keeps the names that they refer to, and drops all
    /// others.
    pub fn keep(&mut self, state: &State) {
        let from = state.tables().denied.from(self.last.unwrap_or_default());
        let next = from
            .filter(|(key, _)| Some(**key) != self.last)
            .take(AT_ONCE);
        let next: Vec<(DenialKey, [Uid; 2])> = next
            .map(|(key, denial)| (*key, [denial.dead_uid, denial.owner_uid]))
            .collect();
        let is_end = next.len() < AT_ONCE;
        let mut pods: Vec<Uid> = next.iter().flat_map(|(_, pods)| *pods).collect();
        if is_end {
            self.last = None;
            pods.extend(orphaned(state));
        } else {
            self.last = next.last().map(|(key, _)| *key);
        }
        for uid in pods {
            if let Some(name) = self.name(state, uid).cloned() {
                self.found.insert(uid, name);
            }
        }
        if is_end {
            let names = std::mem::take(&mut self.found);
            self.store(names);
        }
    }

    /// Stores these names, and queues the write unless they are unchanged. A failure is logged
    /// once: only names depend on it.
    fn store(&mut self, names: BTreeMap<Uid, ObjectName>) {
        if !std::mem::take(&mut self.is_unsaved) && names == self.pods {
            return;
        }
        let first = names.iter().take(MOST);
        self.file.store(
            first
                .map(|(uid, name)| (uid.to_string(), name.clone()))
                .collect(),
        );
        self.pods = names;
    }

    /// The name of a pod; also of a deleted pod while a denial refers to it.
    pub fn name<'a>(&'a self, state: &'a State, uid: Uid) -> Option<&'a ObjectName> {
        state.pod_name(uid).or_else(|| self.pods.get(&uid))
    }

    /// The name of a pod as text: its UID if the name is not known, [`NOBODY`] for [`Uid::NONE`].
    pub fn text(&self, state: &State, uid: Uid) -> String {
        if uid == Uid::NONE {
            return NOBODY.to_owned();
        }
        self.name(state, uid)
            .map_or_else(|| uid.to_string(), ToString::to_string)
    }
}

/// The pods whose IPs are orphans.
fn orphaned(state: &State) -> impl Iterator<Item = Uid> {
    state
        .tables()
        .terminated
        .values()
        .map(|orphan_ip| orphan_ip.dead)
}

fn parse(text: &[u8]) -> Option<BTreeMap<Uid, ObjectName>> {
    let names: BTreeMap<String, ObjectName> = serde_json::from_slice(text).ok()?;
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
    use std::process::Command;
    use tempfile::tempdir;

    fn name(pod: &str) -> ObjectName {
        ObjectName::new("shop", pod)
    }

    fn load(run_dir: &Path) -> BTreeMap<Uid, ObjectName> {
        Names::load(run_dir).unwrap().known().clone()
    }

    #[test]
    fn stored_pod_names_are_read_by_the_next_process() {
        let run_dir = tempdir().unwrap();
        let uid = Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5e0").unwrap();
        let mut names = Names::load(run_dir.path()).unwrap();
        assert!(names.known().is_empty());
        names.store([(uid, name("a"))].into());
        drop(names);
        assert_eq!(load(run_dir.path()), BTreeMap::from([(uid, name("a"))]));
        let mut names = Names::load(run_dir.path()).unwrap();
        names.store(BTreeMap::new());
        drop(names);
        assert!(load(run_dir.path()).is_empty());
    }

    #[test]
    fn a_hung_disk_stops_only_the_writing_of_pod_names() {
        let run_dir = tempdir().unwrap();
        // Opening a pipe for writing blocks until a reader opens it.
        let aside = run_dir.path().join("names.json.new");
        assert!(
            Command::new("mkfifo")
                .arg(&aside)
                .status()
                .unwrap()
                .success()
        );
        let mut names = Names::load(run_dir.path()).unwrap();
        let uid = Uid::parse("145c3e45-83c2-43e7-82af-16a616c6f5e0").unwrap();
        for pod in ["a", "b"] {
            names.store([(uid, name(pod))].into());
        }
        assert_eq!(names.known()[&uid], name("b"));
        assert!(!fs::read(aside).unwrap().is_empty());
        names.store([(uid, name("c"))].into());
        drop(names);
        assert_eq!(load(run_dir.path())[&uid], name("c"));
    }

    #[test]
    fn an_unreadable_file_of_pod_names_is_replaced() {
        let run_dir = tempdir().unwrap();
        for text in ["", "{", "[]", r#"{"": ["shop", "a"]}"#] {
            fs::write(run_dir.path().join("names.json"), text).unwrap();
            assert!(load(run_dir.path()).is_empty(), "{text}");
        }
    }
}
