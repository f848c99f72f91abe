//! An `epguard agent` as a child process: starts it, waits for it, ends it. All tests and the lab
//! start agents here.
//!
//! The agent's integration tests include this file, so it uses nothing of the lab.

use nix::libc;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use epguard::shared::status::{self, Status};

/// Capabilities of `deploy/epguard.yaml`, by their numbers (linux/capability.h): `NET_ADMIN`,
/// `PERFMON`, `BPF`.
pub const CAPABILITIES: [u32; 3] = [12, 38, 39];

/// Time limit for actions that take an agent milliseconds.
const PATIENCE: Duration = Duration::from_mins(1);

/// What every agent is given on its command line.
#[derive(Clone, Copy, Debug)]
pub struct AgentSetup<'a> {
    /// `--node-name`.
    pub node: &'a str,
    /// Content of the file for `--kubeconfig`.
    pub kubeconfig: &'a str,
    /// `--run-dir`.
    pub run_dir: &'a Path,
    /// `--pin-dir`.
    pub pin_dir: &'a Path,
}

impl AgentSetup<'_> {
    /// Writes the kubeconfig into the run directory, and returns the arguments of `epguard`,
    /// `agent` first.
    pub fn arguments(&self) -> Result<Vec<OsString>> {
        let kubeconfig = self.run_dir.join("kubeconfig");
        fs::write(&kubeconfig, self.kubeconfig)
            .with_context(|| format!("cannot write {}", kubeconfig.display()))?;
        let mut arguments: Vec<OsString> =
            vec!["agent".into(), "--node-name".into(), self.node.into()];
        for (flag, path) in [
            ("--kubeconfig", &*kubeconfig),
            ("--run-dir", self.run_dir),
            ("--pin-dir", self.pin_dir),
        ] {
            arguments.extend([flag.into(), path.into()]);
        }
        Ok(arguments)
    }
}

/// A running agent; dropping it kills it. What it attached and pinned stays.
#[derive(Debug)]
pub struct AgentProcess {
    child: Child,
    run_dir: PathBuf,
}

impl AgentProcess {
    /// Runs `command`, which is `epguard agent` or becomes it, with the [`CAPABILITIES`] of the
    /// deployment, and appends its output to `agent.log` in `run_dir`. The kernel kills the agent
    /// if the calling thread ends first.
    pub fn start(command: Command, run_dir: &Path) -> Result<Self> {
        Self::start_with(&CAPABILITIES, command, run_dir)
    }

    /// The same with other capabilities.
    pub fn start_with(kept: &[u32], mut command: Command, run_dir: &Path) -> Result<Self> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(log(run_dir))
            .context("cannot make the agent's log")?;
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let kept = kept.to_vec();
        // SAFETY: `confine` is made for it.
        unsafe { command.pre_exec(move || confine(&kept)) };
        let child = command
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().display()))?;
        let run_dir = run_dir.to_owned();
        Ok(Self { child, run_dir })
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The whole log so far, with that of earlier agents in the same run directory.
    pub fn log(&self) -> String {
        fs::read_to_string(log(&self.run_dir)).unwrap_or_default()
    }

    /// Waits until `wrong` finds no fault in the status. An error if the agent ends before, or
    /// after a minute.
    pub fn until(
        &mut self,
        failing: &str,
        wrong: impl Fn(&Status) -> Option<String>,
    ) -> Result<Status> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = status::current(&self.run_dir);
            let missing = match &seen {
                Ok(status) => wrong(status),
                Err(error) => Some(format!("{error:#}")),
            };
            let Some(missing) = missing else { return seen };
            if let Some(exit) = self.ended()? {
                let log = self.log();
                bail!(
                    "the agent ended: {exit}: {}",
                    log.lines().last().unwrap_or_default()
                );
            }
            ensure!(
                Instant::now() < deadline,
                "the agent {failing} in {PATIENCE:?}: {missing}"
            );
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The exit status; none while the agent runs.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .context("cannot watch the agent's process")
    }

    /// Waits until the agent ends by itself, for a minute at most.
    pub fn await_end(&mut self) -> Result<ExitStatus> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(exit) = self.ended()? {
                return Ok(exit);
            }
            ensure!(
                Instant::now() < deadline,
                "the agent still runs after {PATIENCE:?}: {}",
                self.log()
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal and waits for the end.
    pub fn end(mut self, signal: i32) -> Result<ExitStatus> {
        let pid = i32::try_from(self.child.id())?;
        // SAFETY: no pointers; the agent is our own child, not waited for yet.
        let failed = unsafe { libc::kill(pid, signal) };
        ensure!(failed == 0, "cannot send signal {signal} to the agent");
        self.await_end()
    }
}

impl Drop for AgentProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Drops all other capabilities and the ways to get them back, as a container runtime does. The
/// agent must not outlive a lab or a test that is killed.
///
/// For `pre_exec`: it makes system calls that are async-signal-safe, changes only this process, and
/// allocates nothing.
pub fn confine(kept: &[u32]) -> io::Result<()> {
    set_option(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong)?;
    for capability in (0..=63).filter(|capability| !kept.contains(capability)) {
        match set_option(libc::PR_CAPBSET_DROP, capability.into()) {
            // A number that the kernel does not know.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            dropped => dropped?,
        }
    }
    set_option(libc::PR_SET_NO_NEW_PRIVS, 1)
}

/// Sets an option of this process that takes a number.
fn set_option(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: no pointers; each option changes only this process.
    if unsafe { libc::prctl(option, value, 0, 0, 0) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn log(run_dir: &Path) -> PathBuf {
    run_dir.join("agent.log")
}
