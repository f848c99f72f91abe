//! Small worlds for tests.

use std::path::{Path, PathBuf};

/// A folder under the system's temporary one, gone when dropped.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        use std::sync::atomic::{AtomicU32, Ordering};
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("epguard-replay-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a temporary folder");
        for (name, text) in files {
            std::fs::write(path.join(name), text).expect("a file in it");
        }
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}
