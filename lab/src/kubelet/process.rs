//! A container: a process in the network namespace of its pod.

use super::arguments;
use crate::net::NetNs;
use anyhow::{Context, Result};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// The path of the file by which a container reports its end, as the container sees it.
const TERMINATION_LOG: &str = "/dev/termination-log";

/// The longest message of a container that a kubelet takes.
const MESSAGE: usize = 4096;

/// A running container. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Container {
    child: Child,
    report: PathBuf,
    is_ending: bool,
}

/// Where a container runs.
pub(super) struct ContainerPlace<'a> {
    pub(super) netns: &'a NetNs,
    /// A mount namespace; none: that of this process.
    pub(super) mounts: Option<&'a Arc<File>>,
    /// A cgroup's directory; none: that of this process.
    pub(super) cgroup: Option<&'a PathBuf>,
}

/// How a container ended.
#[derive(Debug)]
pub(super) struct End {
    pub(super) code: i32,
    /// What it has reported.
    pub(super) message: String,
}

impl Container {
    /// Starts the program with the container's arguments. Its termination message is in the file
    /// `report`, and its standard output in one beside, [`log`].
    pub(super) fn start(
        place: &ContainerPlace<'_>,
        program: &Path,
        object: &Value,
        report: &Path,
    ) -> Result<Self> {
        let report_path = report.display().to_string();
        let mut command = match place.cgroup {
            Some(cgroup) => {
                // A socket belongs to the cgroup that its process was in when it made it.
                let mut shell = place.netns.command("/bin/sh");
                shell
                    .args(["-c", r#"echo 0 > "$0/cgroup.procs" && exec "$@""#])
                    .arg(cgroup)
                    .arg(program);
                shell
            }
            None => place.netns.command(program),
        };
        if let Some(mounts) = place.mounts {
            enter_mounts(&mut command, mounts);
        }
        let log = log(report);
        let output =
            File::create(&log).with_context(|| format!("cannot make {}", log.display()))?;
        command
            .args(arguments(object).map(|word| word.replace(TERMINATION_LOG, &report_path)))
            .env_clear()
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::inherit());
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", program.display()))?;
        Ok(Self {
            child,
            report: report.to_owned(),
            is_ending: false,
        })
    }

    /// How it ended; none while it runs. Asks it to end if its pod leaves.
    pub(super) fn end(&mut self, is_leaving: bool) -> Result<Option<End>> {
        if is_leaving && !self.is_ending {
            self.is_ending = true;
            let pid = Pid::from_raw(i32::try_from(self.child.id())?);
            // It may have ended meanwhile.
            let _ = kill(pid, Signal::SIGTERM);
        }
        let Some(status) = self.child.try_wait()? else {
            return Ok(None);
        };
        let mut message = fs::read(&self.report).unwrap_or_default();
        message.truncate(MESSAGE);
        let message = String::from_utf8_lossy(&message).into_owned();
        Ok(Some(End {
            code: status.code().unwrap_or(137),
            message,
        }))
    }
}

/// The file with the output of a container, which reports its end there.
pub(super) fn log(report: &Path) -> PathBuf {
    report.with_added_extension("log")
}

/// Lets the process of a command begin in a mount namespace.
pub fn enter_mounts(command: &mut Command, mounts: &Arc<File>) {
    let mounts = Arc::clone(mounts);
    // SAFETY: the closure only makes the system call setns, which is async-signal-safe, and
    // converts its error without allocating.
    unsafe {
        command.pre_exec(move || setns(&*mounts, CloneFlags::CLONE_NEWNS).map_err(io::Error::from));
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
