//! `epguard sysdump`: makes one archive for a bug report. It contains no credential: no file that
//! may hold one is read.

mod bpf;

use crate::commands::{audit, dump};
use crate::node::netlink;
use crate::shared::args::{PinArgs, RunArgs};
use crate::shared::output::{count, new_file};
use crate::shared::status::{self, Request, Status};
use anyhow::{Context as _, Result};
use clap::Args;
use epguard_client::answers::sysdump::{add_part, default_path, pretty_json};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Options of `epguard sysdump`.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive contains names of pods and Services, IP addresses, routes, interfaces and stale flows of this node, and no credentials.

Examples:
  epguard sysdump
  kubectl epguard sysdump                    one archive of all nodes")]
pub struct SysdumpArgs {
    /// The archive, a new file or /dev/stdout [default: epguard-sysdump-NODE-TIME.tar]
    #[arg(short, long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where the datapath is pinned.
    #[command(flatten)]
    pub pins: PinArgs,
    /// The agent's status socket.
    #[command(flatten)]
    pub run: RunArgs,
}

/// The kernel's own files about this node: the only source where the agent's container has no
/// tools.
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

/// As the archive: standard output. It is not opened, so that no file is written.
const STDOUT: &str = "/dev/stdout";

/// The most IPs whose history the archive contains.
const HISTORIES: usize = 200;

/// Names of parts, with their content.
type Parts = Vec<(String, Result<Vec<u8>>)>;

/// Writes the archive. Parts that are missing are named in its `missing.txt`. Errors: the archive
/// cannot be written.
pub async fn run(args: &SysdumpArgs) -> Result<()> {
    let status = status::ask(&args.run.run_dir, &Request::Status);
    let node = status.as_ref().map_or("node", |status| &status.node);
    let path = args
        .file
        .clone()
        .unwrap_or_else(|| default_path(Some(node)));
    let shown = path.display().to_string();
    let to: Box<dyn Write> = if shown == STDOUT {
        Box::new(io::stdout())
    } else {
        Box::new(new_file(&path)?)
    };
    let (parts, missing) = write_archive(to, collect_parts(args, status).await)?;
    eprintln!("wrote {shown}: {}, {missing} missing", count(parts, "part"));
    Ok(())
}

async fn collect_parts(args: &SysdumpArgs, status: Result<Status>) -> Parts {
    let pin_dir = &args.pins.pin_dir;
    let run_dir = &args.run.run_dir;
    let nothing = Status::default();
    let dump = dump::collect(pin_dir, status.as_ref().unwrap_or(&nothing));
    let ips = dump.as_ref().map(suspect_ips).unwrap_or_default();
    let log = status::ask(run_dir, &Request::Log)
        .map(|status| status.log.unwrap_or_default().join("\n").into_bytes());
    let own = [
        (
            "status.json",
            status.and_then(|status| pretty_json(&status)),
        ),
        (
            "drops.json",
            status::ask(run_dir, &Request::Drops).and_then(|status| pretty_json(&status.drops)),
        ),
        ("maps.json", dump.and_then(|dump| pretty_json(&dump))),
        ("log.txt", log),
        ("why.json", histories(run_dir, &ips)),
        (
            "audit.json",
            audit::collect(pin_dir, run_dir).and_then(|report| pretty_json(&report)),
        ),
        ("version.txt", Ok(env!("CARGO_PKG_VERSION").into())),
    ];
    let mut parts: Parts = own
        .into_iter()
        .map(|(name, content)| (name.to_owned(), content))
        .collect();
    parts.extend(FILES.map(|path| {
        let content = fs::read(path).with_context(|| format!("cannot read {path}"));
        (
            format!("{}.txt", path.trim_start_matches('/').replace('/', "-")),
            content,
        )
    }));
    parts.extend(node_parts(pin_dir).await);
    parts
}

/// The state of this node over netlink and bpf(2), where no tools are installed: one line for each
/// thing.
async fn node_parts(pin_dir: &Path) -> Parts {
    let tables = netlink::tables().await.into_iter();
    let tables = tables.map(|(name, messages)| {
        let content = messages
            .map(|messages| lines_of(messages.iter().map(|message| format!("{message:?}"))));
        (format!("netlink-{name}.txt"), content)
    });
    let others = [
        ("bpf-programs.txt", bpf::programs(pin_dir)),
        ("bpf-maps.txt", bpf::maps(pin_dir)),
    ];
    tables
        .chain(others.map(|(name, content)| (name.to_owned(), content)))
        .collect()
}

/// The content of a part, with a line for each text.
fn lines_of(texts: impl Iterator<Item = String>) -> Vec<u8> {
    texts
        .flat_map(|text| [text, "\n".to_owned()])
        .collect::<String>()
        .into_bytes()
}

/// Writes the parts, and counts them and those that are missing.
fn write_archive(to: impl Write, parts: Parts) -> Result<(usize, usize)> {
    let all = parts.len();
    let mut archive = tar::Builder::new(to);
    let mut missing = Vec::new();
    for (name, content) in parts {
        match content {
            Ok(content) => add_part(&mut archive, Path::new(&name), &content)?,
            Err(error) => missing.push(format!("{name}: {error:#}\n")),
        }
    }
    add_part(
        &mut archive,
        Path::new("missing.txt"),
        missing.concat().as_bytes(),
    )?;
    archive.finish().context("cannot finish the archive")?;
    Ok((all - missing.len(), missing.len()))
}

/// The IPs that packets are, or were, denied to.
fn suspect_ips(dump: &Value) -> BTreeSet<IpAddr> {
    let rows = ["suspects", "terminated"]
        .into_iter()
        .filter_map(|table| dump[table].as_array());
    let ips = rows
        .flatten()
        .filter_map(|row| row["ip"].as_str()?.parse().ok());
    ips.collect()
}

/// The agent's history of each IP, as `epguard why -o json` shows it for one.
fn histories(run_dir: &Path, ips: &BTreeSet<IpAddr>) -> Result<Vec<u8>> {
    let mut histories = Vec::new();
    for ip in ips.iter().take(HISTORIES) {
        histories.extend(status::ask(run_dir, &Request::History(*ip))?.history);
    }
    pretty_json(&histories)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;
    use tempfile::tempdir;

    #[test]
    fn a_missing_part_is_named_and_the_archive_has_the_others() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("sysdump.tar");
        let content = [
            ("a.txt", Ok(b"here".to_vec())),
            ("b.txt", Err(anyhow!("no right"))),
            ("c.txt", Ok(vec![])),
        ];
        let content = content
            .map(|(name, content)| (name.to_owned(), content))
            .into();
        assert_eq!(
            write_archive(new_file(&path).unwrap(), content).unwrap(),
            (2, 1)
        );
        let mut parts = Vec::new();
        let mut tar = tar::Archive::new(fs::File::open(&path).unwrap());
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().display().to_string();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            parts.push((name, content));
        }
        let part =
            |name: &str, content: &str| (format!("epguard-sysdump/{name}"), content.to_owned());
        assert_eq!(
            parts,
            [
                part("a.txt", "here"),
                part("c.txt", ""),
                part("missing.txt", "b.txt: no right\n")
            ]
        );
    }

    #[tokio::test]
    async fn an_archive_is_a_new_private_file_and_never_written_through_a_link_or_over_a_file() {
        let folder = tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("kept"), "kept").unwrap();
        std::os::unix::fs::symlink(path("kept"), path("link")).unwrap();
        std::os::unix::fs::symlink(path("absent"), path("dangling")).unwrap();
        let sysdump = |name: &str| {
            let args = SysdumpArgs {
                file: Some(path(name)),
                pins: PinArgs {
                    pin_dir: path("none"),
                },
                run: RunArgs {
                    run_dir: path("none"),
                },
            };
            async move { run(&args).await.map_err(|error| format!("{error:#}")) }
        };
        for name in ["kept", "link", "dangling", "."] {
            assert!(
                sysdump(name).await.unwrap_err().contains("cannot make"),
                "{name}"
            );
        }
        sysdump("new").await.unwrap();
        let mode = fs::metadata(path("new")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read(path("kept")).unwrap(), b"kept");
        assert!(!path("absent").exists());
    }
}
