//! What an agent keeps in its `--run-dir`.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::Path;

/// The lock of the agent that runs.
pub const LOCK: &str = "lock";
/// Names of pods, for the next agent.
pub const NAMES: &str = "names.json";
/// Services that are only observed because a denial was wrong, for the next agent.
pub const DEMOTED: &str = "demoted.json";
/// The status socket.
pub const SOCKET: &str = "status.sock";

/// Removes all of it, and the directory unless it is a mount or has other files. Does nothing while
/// an agent runs there. Returns the paths that it removed.
pub fn remove(run_dir: &Path) -> Vec<String> {
    let lock = File::open(run_dir.join(LOCK));
    let is_held = lock.as_ref().is_ok_and(|lock| lock.try_lock().is_err());
    if is_held { Vec::new() } else { clear(run_dir) }
}

/// The same for the agent that runs there itself, at its end.
pub fn clear(run_dir: &Path) -> Vec<String> {
    let mut removed = Vec::new();
    // The lock goes last: the next agent may start once it is gone.
    for path in [NAMES, DEMOTED, SOCKET, LOCK].map(|name| run_dir.join(name)) {
        match fs::remove_file(&path) {
            Ok(()) => removed.push(path.display().to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => tracing::warn!("cannot remove {}: {error}", path.display()),
        }
    }
    if fs::remove_dir(run_dir).is_ok() {
        removed.push(run_dir.display().to_string());
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_but_what_is_not_ours_and_what_an_agent_uses() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for name in [LOCK, NAMES, SOCKET, "mine"] {
            fs::write(dir.join(name), "").unwrap();
        }
        let held = File::open(dir.join(LOCK)).unwrap();
        held.lock().unwrap();
        assert_eq!(remove(dir), Vec::<String>::new());
        drop(held);
        assert_eq!(remove(dir).len(), 3);
        assert!(dir.join("mine").exists());
        fs::remove_file(dir.join("mine")).unwrap();
        assert_eq!(remove(dir), [dir.display().to_string()]);
        assert_eq!(remove(dir), Vec::<String>::new());
    }
}
