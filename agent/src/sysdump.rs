//! `epguard sysdump`: one archive with what a bug report needs. Nothing in it is a credential: of files that may hold one,
//! none is read.

use crate::audit;
use crate::cli::{PinArgs, RunArgs};
use crate::dump::Dump;
use crate::status::{self, Request};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use jiff::Timestamp;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of `epguard sysdump`.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive holds names of pods and Services, IP addresses, routes, interfaces and stale flows of this node. It holds no credentials.

Examples:
  epguard sysdump
  kubectl -n epguard exec POD -- epguard sysdump -f /dev/stdout > node-1.tar")]
pub struct SysdumpArgs {
    /// The archive [default: epguard-sysdump-NODE-TIME.tar]
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
    /// Where the agent can be asked.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The kernel's own words about this node: all there is where the agent's container has no tools.
const FILES: [&str; 9] = [
    "/proc/version",
    "/proc/mounts",
    "/proc/net/dev",
    "/proc/net/fib_trie",
    "/proc/net/ipv6_route",
    "/proc/net/arp",
    "/proc/net/netlink",
    "/proc/sys/net/ipv4/conf/all/rp_filter",
    "/proc/sys/net/core/bpf_jit_enable",
];

/// The same in more detail, where they are installed.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("ip-link.txt", &["ip", "-details", "-statistics", "link"]),
    ("ip-route.txt", &["ip", "route", "show", "table", "all"]),
    ("ip-neighbour.txt", &["ip", "neighbour"]),
    ("bpftool-net.txt", &["bpftool", "net"]),
    ("bpftool-prog.txt", &["bpftool", "prog", "show"]),
    ("nft-ruleset.txt", &["nft", "list", "ruleset"]),
];

/// Writes the archive. What cannot be had is named in its `missing.txt`. Errors: the archive cannot be written.
pub fn run(args: &SysdumpArgs) -> Result<()> {
    let status = status::ask(&args.run.run_dir, &Request::Status);
    let node = status.as_ref().map_or("node", |status| &status.node).to_owned();
    let path = args.file.clone().unwrap_or_else(|| {
        let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
        format!("epguard-sysdump-{node}-{time}.tar").into()
    });
    let shown = path.display().to_string();
    let file = File::create(&path).with_context(|| format!("cannot write {shown}"))?;
    let mut archive = Archive::new(file);
    let dump = Dump::read(
        &args.pins.pin_dir,
        status.as_ref().unwrap_or(&status::Status::default()),
    );
    archive.add("status.json", status.and_then(|status| json(&status)))?;
    let drops = status::ask(&args.run.run_dir, &Request::Drops);
    archive.add("drops.json", drops.and_then(|status| json(&status.drops)))?;
    archive.add("maps.json", dump.and_then(|dump| json(&dump)))?;
    let audit = audit::look(&args.pins.pin_dir, &args.run.run_dir);
    archive.add("audit.json", audit.and_then(|report| json(&report)))?;
    archive.add("version.txt", Ok(env!("CARGO_PKG_VERSION").into()))?;
    for path in FILES {
        let name = format!("{}.txt", path.trim_start_matches('/').replace('/', "-"));
        archive.add(
            &name,
            fs::read(path).with_context(|| format!("cannot read {path}")),
        )?;
    }
    for (name, command) in COMMANDS {
        archive.add(name, output(command))?;
    }
    let (parts, missing) = archive.finish()?;
    eprintln!("wrote {shown}: {parts} parts, {missing} missing");
    Ok(())
}

struct Archive {
    tar: tar::Builder<File>,
    parts: usize,
    missing: Vec<String>,
}

impl Archive {
    fn new(file: File) -> Self {
        Self {
            tar: tar::Builder::new(file),
            parts: 0,
            missing: Vec::new(),
        }
    }

    fn add(&mut self, name: &str, content: Result<Vec<u8>>) -> Result<()> {
        match content {
            Ok(content) => {
                self.parts += 1;
                self.write(name, &content)
            }
            Err(error) => {
                self.missing.push(format!("{name}: {error:#}\n"));
                Ok(())
            }
        }
    }

    fn write(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let path = Path::new("epguard-sysdump").join(name);
        self.tar
            .append_data(&mut header, path, content)
            .with_context(|| format!("cannot write {name} to the archive"))
    }

    fn finish(mut self) -> Result<(usize, usize)> {
        let missing = self.missing.concat();
        self.write("missing.txt", missing.as_bytes())?;
        self.tar.finish().context("cannot finish the archive")?;
        Ok((self.parts, self.missing.len()))
    }
}

fn json<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
    serde_json::to_vec_pretty(value).context("cannot write JSON")
}

fn output(command: &[&str]) -> Result<Vec<u8>> {
    let [program, arguments @ ..] = command else {
        return Ok(Vec::new());
    };
    let line = command.join(" ");
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run `{line}`"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "`{line}` failed: {}", error.trim());
    Ok(output.stdout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_cannot_be_had_is_named_and_the_rest_is_there() {
        let path = std::env::temp_dir().join(format!("epguard-sysdump-{}.tar", std::process::id()));
        let mut archive = Archive::new(File::create(&path).unwrap());
        archive.add("a.txt", Ok(b"here".to_vec())).unwrap();
        archive.add("b.txt", output(&["false"])).unwrap();
        archive.add("c.txt", output(&["echo", "out"])).unwrap();
        assert_eq!(archive.finish().unwrap(), (2, 1));
        let mut parts = Vec::new();
        let mut tar = tar::Archive::new(File::open(&path).unwrap());
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            parts.push((name, content));
        }
        fs::remove_file(path).unwrap();
        let part = |name: &str, content: &str| (format!("epguard-sysdump/{name}"), content.to_owned());
        assert_eq!(
            parts,
            [
                part("a.txt", "here"),
                part("c.txt", "out\n"),
                part("missing.txt", "b.txt: `false` failed: \n")
            ]
        );
    }
}
