//! Checks the eBPF object against what is pinned, and loads it.

use super::hook::Hook;
use super::pins::{Pins, unpin};
use crate::kernel::maps;
use anyhow::{Context as _, Result, bail, ensure};
use aya::maps::MapInfo;
use aya::programs::{Program, SchedClassifier, Xdp};
use aya::{Ebpf, EbpfLoader};
use aya_obj::generated::bpf_map_type;
use std::fs;
use std::path::Path;

/// The object that `cargo xtask build` made; empty if this binary was built without it.
static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/epguard-ebpf"));

/// Loads the programs of interfaces, over the pinned maps of an earlier process where there are
/// any. `sets_error`: whether programs at cgroups may set the error of a call. `nfct_at`: see
/// [`Datapath::load`](super::Datapath::load).
pub fn load(pins: &Pins, sets_error: bool, nfct_at: u32) -> Result<Ebpf> {
    ensure!(
        !OBJECT.is_empty(),
        "this epguard was built without its eBPF object: run `cargo xtask build`"
    );
    let directory = pins.maps();
    discard_other_layouts(&directory)?;
    let sets_error = u32::from(sets_error);
    let mut loader = EbpfLoader::new();
    loader.override_global("SETS_ERROR", &sets_error, true);
    loader.override_global("NFCT_AT", &nfct_at, true);
    for name in maps::NAMES {
        loader.map_pin_path(name, directory.join(name));
    }
    let mut ebpf = loader
        .load(OBJECT)
        .map_err(|error| explain(error, "cannot load the eBPF object"))?;
    for hook in Hook::ALL {
        classifier(&mut ebpf, hook)?
            .load()
            .map_err(|error| explain(error, hook.program()))?;
    }
    Ok(ebpf)
}

/// The program of a hook.
pub fn classifier(ebpf: &mut Ebpf, hook: Hook) -> Result<&mut SchedClassifier> {
    Ok(program(ebpf, hook.program())?.try_into()?)
}

/// The XDP program.
pub fn xdp(ebpf: &mut Ebpf) -> Result<&mut Xdp> {
    Ok(program(ebpf, XDP)?.try_into()?)
}

/// The program with this name.
pub fn program<'a>(ebpf: &'a mut Ebpf, name: &str) -> Result<&'a mut Program> {
    ebpf.program_mut(name)
        .with_context(|| format!("the eBPF object has no program {name}"))
}

/// Loads the XDP program, before any map is taken out of the object. It needs more of the kernel
/// than the others do.
pub fn load_xdp(ebpf: &mut Ebpf) -> Result<()> {
    xdp(ebpf)?
        .load()
        .map_err(|error| explain(error, XDP).context("XDP needs Linux 5.18"))
}

const XDP: &str = "epguard_xdp";

/// Checks what epguard needs of the kernel, before anything is made.
pub fn check_kernel() -> Result<()> {
    let btf = Path::new("/sys/kernel/btf/vmlinux");
    ensure!(
        btf.exists(),
        "the kernel has no BTF ({}): it needs CONFIG_DEBUG_INFO_BTF=y",
        btf.display()
    );
    let [flag, version] = REAL_TIME.map(|path| fs::read_to_string(path).unwrap_or_default());
    ensure!(
        !is_real_time(&flag, &version),
        "this is a real-time kernel (PREEMPT_RT): there one packet could get the verdict of another, so epguard does not \
         start; exclude the node from the DaemonSet (nodeSelector)"
    );
    check_privileges()
}

/// What kernels with `PREEMPT_RT` show: the patched ones a flag, the mainline from 6.12 on only the
/// text of `uname -v`. Programs hand a packet over in a map of their CPU. From Linux 6.18 on such a
/// kernel may run another program there in between.
const REAL_TIME: [&str; 2] = ["/sys/kernel/realtime", "/proc/sys/kernel/version"];

fn is_real_time(flag: &str, version: &str) -> bool {
    flag.trim() == "1" || version.split(' ').any(|word| word == "PREEMPT_RT")
}

/// Checks the privileges that BPF and traffic control need.
pub fn check_privileges() -> Result<()> {
    if !nix::unistd::geteuid().is_root() {
        bail!(
            "not enough privileges: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON as uid 0 in the pod"
        );
    }
    Ok(())
}

/// Removes pinned maps of another layout. aya takes a pinned map as it is and would misread it;
/// packets that such a map denied pass. With CONFIG goes VIEW, which has the lease: no earlier
/// denial may stand in another mode than its agent's.
fn discard_other_layouts(directory: &Path) -> Result<()> {
    let object = aya_obj::Object::parse(OBJECT).context("cannot read the eBPF object")?;
    for name in maps::NAMES {
        let path = directory.join(name);
        let wanted = object
            .maps
            .get(name)
            .with_context(|| format!("the eBPF object has no map {name}"))?;
        if !path.exists() {
            continue;
        }
        let fits = MapInfo::from_pin(&path).is_ok_and(|pinned| has_layout(&pinned, wanted));
        if !fits {
            tracing::warn!(pin = %path.display(), "the pinned map has another layout: starting with an empty one");
            unpin(&path)?;
            if name == "CONFIG" {
                unpin(&directory.join("VIEW"))?;
            }
        }
    }
    Ok(())
}

fn has_layout(pinned: &MapInfo, wanted: &aya_obj::Map) -> bool {
    let kind = pinned
        .map_type()
        .is_ok_and(|kind| kind as u32 == wanted.map_type());
    // A ring buffer is as large as the pages that hold it, and its reader queries the size.
    let ring = wanted.map_type() == bpf_map_type::BPF_MAP_TYPE_RINGBUF as u32;
    let entries = ring || pinned.max_entries() == wanted.max_entries();
    kind && entries
        && pinned.key_size() == wanted.key_size()
        && pinned.value_size() == wanted.value_size()
        && pinned.map_flags() == wanted.map_flags()
}

/// Shortens an error to one line with the kernel's last message; the verifier's whole log goes to
/// the debug log.
pub fn explain(error: impl std::error::Error + Send + Sync + 'static, what: &str) -> anyhow::Error {
    let error = format!("{:#}", anyhow::Error::new(error));
    tracing::debug!(what, error, "refused");
    let said = shortened(&error);
    anyhow::anyhow!("{what}: {said} (needs Linux 5.14, CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)")
}

fn shortened(error: &str) -> String {
    // The verifier's figures follow its verdict, and then the kernel's error once more.
    let figures = ["verification time", "stack depth", "processed ", ": "];
    let is_said =
        |line: &&str| !figures.iter().any(|figure| line.starts_with(figure)) && line.len() > 1;
    let mut said = error.lines().filter(is_said);
    let first = said.next().unwrap_or_default();
    said.next_back().map_or_else(
        || first.to_owned(),
        |verdict| format!("{first} ... {verdict}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_shown_with_the_verdict_of_the_verifier_and_without_its_figures() {
        let log = "refused: 0: R1=ctx()\n1: (b7) r0 = 0\ncombined stack size of 4 calls is 528. Too large\n\
                   verification time 9 usec\nstack depth 16+0\nprocessed 9 insns\n\n: Permission denied";
        assert_eq!(
            shortened(log),
            "refused: 0: R1=ctx() ... combined stack size of 4 calls is 528. Too large"
        );
        assert_eq!(shortened("one line"), "one line");
        assert_eq!(shortened(""), "");
    }

    #[test]
    fn a_real_time_kernel_is_recognized_by_its_version_text() {
        let mainline = "#1 SMP PREEMPT_RT Debian 6.12.9-1 (2025-01-10)";
        assert!(is_real_time("1\n", "") && is_real_time("", mainline));
        assert!(!is_real_time("0\n", "#1 SMP PREEMPT_DYNAMIC @0") && !is_real_time("", ""));
    }
}
