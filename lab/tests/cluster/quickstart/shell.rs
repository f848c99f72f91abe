//! A shell on node-a, in a folder with what the pages use of the repository.

use std::fs::{self, Permissions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use epguard_lab::scenario::cluster::Cluster;
use epguard_lab::wait;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Printed after each command.
const END: &str = "<<end>>";
/// Printed before an exit code.
const CODE: &str = "<<exit code>>";

pub(crate) struct Shell {
    bash: Child,
    input: ChildStdin,
    output: Arc<Mutex<String>>,
    folder: TempDir,
}

impl Shell {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let folder = scratch.path();
        let bin = folder.join("bin");
        let here = folder.join("repository");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(here.join("target/image")).unwrap();
        fs::write(folder.join("kubeconfig"), cluster.api.kubeconfig()).unwrap();
        // A build takes minutes, and its command is tested elsewhere; the agent runs without a
        // container here.
        program(&bin, "cargo", "#!/bin/sh\n[ \"$*\" = \"xtask image\" ]\n");
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        // Helm's own engine, which is a library.
        let helm = format!(
            "#!/bin/sh\n[ \"$*\" = 'install epguard deploy/chart -n epguard --create-namespace' ] || exit 1\n\
             echo '[[\"install\", {{}}]]' | {}/target/tools/helm/bin/python deploy/helm.py \"$KUBECONFIG\" | tee /dev/stderr | \
             grep -q '\"status\": \"deployed\"'\n",
            root.display()
        );
        program(&bin, "helm", &helm);
        let epguard = epguard_lab::process::epguard().unwrap();
        let plugin = epguard_lab::process::plugin().unwrap();
        for (file, link) in [
            (&*kubectl(), bin.join("kubectl")),
            (&*epguard, bin.join("epguard")),
            (&*plugin, here.join("target/image/kubectl-epguard")),
            (&*root.join("deploy"), here.join("deploy")),
        ] {
            std::os::unix::fs::symlink(file, link).unwrap();
        }
        let node = &cluster.topology.node("node-a").unwrap().netns;
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            bin.display()
        );
        let mut bash = node
            .command("bash")
            .current_dir(here)
            .env("PATH", path)
            .env("KUBECONFIG", folder.join("kubeconfig"))
            .env("HOME", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let input = bash.stdin.take().unwrap();
        let mut stdout = bash.stdout.take().unwrap();
        let output = Arc::new(Mutex::new(String::new()));
        let seen = Arc::clone(&output);
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(length @ 1..) = stdout.read(&mut chunk) {
                seen.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&chunk[..length]));
            }
        });
        let mut shell = Self {
            bash,
            input,
            output,
            folder: scratch,
        };
        shell.run("exec 2>&1; set -e", || {});
        shell
    }

    /// Runs commands that must succeed, and returns their output.
    pub(crate) fn run(&mut self, commands: &str, meanwhile: impl FnMut()) -> String {
        self.give(commands);
        self.await_output(END, commands, meanwhile)
    }

    /// Repeats commands, which may fail, until their output contains a text.
    pub(crate) fn run_until_it_says(
        &mut self,
        text: &str,
        commands: &str,
        mut meanwhile: impl FnMut(),
    ) -> String {
        let said = wait::value(Duration::ZERO, || {
            let seen = self.run(&format!("set +e\n{commands}\nset -e"), &mut meanwhile);
            Ok(if seen.contains(text) {
                Ok(seen)
            } else {
                Err(unsaid(commands, text, &seen))
            })
        });
        said.unwrap()
    }

    /// Runs a command until its output contains a text, then ends it. SIGINT would be ignored if
    /// the tests ran in the background of a shell.
    pub(crate) fn run_until(
        &mut self,
        commands: &str,
        text: &str,
        meanwhile: impl FnMut(),
    ) -> String {
        self.give(&format!("set +e\n{commands}\nset -e"));
        let seen = self.await_output(text, commands, meanwhile);
        let bash = self.bash.id();
        let children = fs::read_to_string(format!("/proc/{bash}/task/{bash}/children")).unwrap();
        let child = children.split_whitespace().next();
        let child = child.unwrap_or_else(|| panic!("{commands} has ended: {seen}"));
        kill(Pid::from_raw(child.parse().unwrap()), Signal::SIGTERM).unwrap();
        self.await_output(END, commands, || {})
    }

    /// Runs a command, and returns its exit code and its output. It reads nothing.
    pub(crate) fn exit_code(&mut self, command: &str, meanwhile: impl FnMut()) -> (i32, String) {
        let script = format!("set +e\n{{ {command}\n}} </dev/null\necho \"{CODE}$?\"\nset -e");
        let output = self.run(&script, meanwhile);
        let (output, code) = output.rsplit_once(CODE).unwrap();
        (code.trim().parse().unwrap(), output.to_owned())
    }

    /// What the pages put into `/usr/local/bin` goes into a folder of this shell's `PATH`.
    fn give(&mut self, commands: &str) {
        let bin = self.folder.path().join("bin").display().to_string();
        let commands = commands.replace("/usr/local/bin", &bin);
        self.output.lock().unwrap().clear();
        writeln!(self.input, "{commands}\necho '{END}'").unwrap();
    }

    fn await_output(&mut self, text: &str, commands: &str, mut meanwhile: impl FnMut()) -> String {
        let said = wait::value(Duration::from_millis(20), || {
            let seen = self.output.lock().unwrap().clone();
            if seen.contains(text) {
                return Ok(Ok(seen.replace(END, "")));
            }
            let ended = self.bash.try_wait().unwrap();
            assert!(ended.is_none(), "{commands} failed: {seen}");
            meanwhile();
            Ok(Err(unsaid(commands, text, &seen)))
        });
        said.unwrap()
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.bash.kill();
        let _ = self.bash.wait();
    }
}

fn unsaid(commands: &str, text: &str, seen: &str) -> String {
    format!("{commands} does not say {text:?}: {seen}")
}

/// The path of the real kubectl.
fn kubectl() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut all = std::env::split_paths(&path).map(|folder| folder.join("kubectl"));
    all.find(|file| file.is_file())
        .expect("kubectl, which `cargo xtask setup` installs")
}

fn program(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
}
