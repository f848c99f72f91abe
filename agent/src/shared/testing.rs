//! What tests of several modules use.

use std::ops::Deref;
use std::path::{Path, PathBuf};

/// An empty directory of one test, removed with it.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Self {
        let path = std::env::temp_dir().join(format!("epguard-test-{:x}", fastrand::u64(..)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
