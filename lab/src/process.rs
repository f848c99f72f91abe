//! Runs programs to their end, and asks running ones over HTTP; the processor that a thread runs
//! on.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nix::sched::{CpuSet, sched_getcpu, sched_setaffinity};
use nix::unistd::Pid;

/// Runs a program that must succeed, and returns its standard output.
pub fn output(command: &mut Command) -> Result<String> {
    let name = name(command);
    let output = command
        .output()
        .with_context(|| format!("cannot run {name}"))?;
    ensure!(output.status.success(), "{name} failed: {}", cause(&output));
    String::from_utf8(output.stdout).with_context(|| format!("{name} wrote no UTF-8"))
}

/// Runs a program that reads this from its standard input. `package` is what to install if there is
/// no such program.
pub fn with_input(command: &mut Command, input: &str, package: &str) -> Result<Output> {
    let name = name(command);
    let piped = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = piped
        .spawn()
        .with_context(|| format!("cannot run {name} (install {package})"))?;
    let mut stdin = child
        .stdin
        .take()
        .context("the program has no standard input")?;
    stdin
        .write_all(input.as_bytes())
        .with_context(|| format!("cannot write to {name}"))?;
    drop(stdin);
    child
        .wait_with_output()
        .with_context(|| format!("cannot wait for {name}"))
}

/// What a program wrote about its failure, on one line.
pub fn cause(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr)
        .trim()
        .replace('\n', "; ")
}

fn name(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

/// The agent's binary: in the folder of this one, or the path in `EPGUARD`.
pub fn epguard() -> Result<PathBuf> {
    match std::env::var_os("EPGUARD") {
        Some(path) => Ok(path.into()),
        None => beside_this_one("epguard"),
    }
}

/// kubectl's plugin: in the folder of this program.
pub fn plugin() -> Result<PathBuf> {
    beside_this_one("kubectl-epguard")
}

fn beside_this_one(name: &str) -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's path")?;
    let folders = own.ancestors().skip(1).take(2);
    let found = folders
        .map(|folder| folder.join(name))
        .find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "there is no {name} beside {}: run `cargo xtask build`",
            own.display()
        )
    })
}

/// The code and the body of the answer to a request over HTTP, within a minute. In the network
/// namespace of the calling thread.
pub fn get(address: &str, path: &str) -> io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_mins(1)))?;
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
}

/// Keeps the calling thread on the processor that it is on. Threads that it starts stay there, too.
pub fn pin_to_processor() -> io::Result<()> {
    let mut here = CpuSet::new();
    here.set(sched_getcpu()?)?;
    Ok(sched_setaffinity(Pid::from_raw(0), &here)?)
}
