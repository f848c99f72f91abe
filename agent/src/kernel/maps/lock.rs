//! Locks on the directories where maps are pinned.
//!
//! bpffs holds no ordinary files, but `flock` works on its directories, also between containers
//! that mount the same bpffs.

use super::pinned::directory;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long to wait for the lock: a change of CONFIG takes much less.
const PATIENCE: Duration = Duration::from_secs(1);

/// Time between two attempts.
const PAUSE: Duration = Duration::from_millis(5);

/// Takes the lock of a pin directory for the life of one agent: two agents would write the same
/// maps.
///
/// None if the directory cannot be made or opened: then the datapath cannot be loaded either, with
/// an error that names the remedy.
///
/// Errors: another agent holds it.
pub fn only_agent(pin_dir: &Path) -> Result<Option<File>> {
    let Ok(directory) = fs::create_dir_all(pin_dir).and_then(|()| File::open(pin_dir)) else {
        return Ok(None);
    };
    directory.try_lock().with_context(|| {
        format!(
            "another epguard agent holds {}: stop it, or give another --pin-dir",
            pin_dir.display()
        )
    })?;
    Ok(Some(directory))
}

/// Takes the same lock for a command that removes what is pinned: no agent starts meanwhile. None
/// if there is no such directory.
///
/// Errors: an agent holds it. It would go on without hooks, and would not attach them again before
/// it restarts.
pub fn no_agent(pin_dir: &Path) -> Result<Option<File>> {
    let Ok(directory) = File::open(pin_dir) else {
        return Ok(None);
    };
    directory.try_lock().with_context(|| {
        format!(
            "an epguard agent uses {} and would protect nothing until it restarts: stop it first, or let everything pass with \
             `epguard mode off`, or give --force",
            pin_dir.display()
        )
    })?;
    Ok(Some(directory))
}

/// Takes the lock of CONFIG until the file is dropped. The agent and `epguard mode` and
/// `epguard action` each change a part of CONFIG: a process that reads it and writes it back
/// without the lock undoes another's change.
///
/// Errors: no maps are pinned there; another process holds the lock for a second.
pub fn hold_config(pin_dir: &Path) -> Result<File> {
    let path = directory(pin_dir);
    let directory = File::open(&path).with_context(|| {
        format!(
            "no maps at {}: is `epguard agent` running with this --pin-dir?",
            path.display()
        )
    })?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        match directory.try_lock() {
            Ok(()) => return Ok(directory),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => sleep(PAUSE),
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "another process holds the lock of {}: see `lslocks`, and try again",
                    path.display()
                )
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::{TempDir, tempdir};

    fn scratch() -> TempDir {
        let pin_dir = tempdir().unwrap();
        fs::create_dir_all(directory(pin_dir.path())).unwrap();
        pin_dir
    }

    #[test]
    fn a_change_of_config_waits_for_another_one_for_a_bounded_time() {
        let pin_dir = scratch();
        let held = hold_config(pin_dir.path()).unwrap();
        let refused = hold_config(pin_dir.path()).unwrap_err().to_string();
        assert!(
            refused.contains("another process holds the lock of"),
            "{refused}"
        );
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| drop(hold_config(pin_dir.path()).unwrap()));
            drop(held);
            waiting.join().unwrap();
        });
    }

    #[test]
    fn one_agent_has_a_pin_directory_and_changes_config_beside_that_lock() {
        let pin_dir = scratch();
        let only = only_agent(pin_dir.path()).unwrap();
        assert!(only.is_some());
        let refused = only_agent(pin_dir.path()).unwrap_err().to_string();
        assert!(
            refused.starts_with("another epguard agent holds"),
            "{refused}"
        );
        drop(hold_config(pin_dir.path()).unwrap());
        drop(only);
        assert!(only_agent(pin_dir.path()).unwrap().is_some());
    }

    #[test]
    fn pins_are_removed_only_while_no_agent_runs_and_none_starts_meanwhile() {
        let pin_dir = scratch();
        let agent = only_agent(pin_dir.path()).unwrap();
        let refused = no_agent(pin_dir.path()).unwrap_err().to_string();
        assert!(
            refused.starts_with("an epguard agent uses") && refused.contains("stop it first"),
            "{refused}"
        );
        drop(agent);
        let removing = no_agent(pin_dir.path()).unwrap();
        assert!(removing.is_some() && only_agent(pin_dir.path()).is_err());
        let absent = pin_dir.path().join("absent");
        assert!(no_agent(&absent).unwrap().is_none() && !absent.exists());
    }
}
