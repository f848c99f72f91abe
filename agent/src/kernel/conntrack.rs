//! Where the programs find a packet's conntrack entry in this kernel's memory.

use super::btf::{Btf, Member};
use anyhow::{Context as _, Result, bail, ensure};
use aya::programs::ProgramType;
use aya::sys::{BpfHelper, is_helper_supported};
use epguard_common::{Entry, Tuple};
use std::mem::{offset_of, size_of};
use std::path::Path;

const VMLINUX: &str = "/sys/kernel/btf/vmlinux";
const MODULE: &str = "/sys/kernel/btf/nf_conntrack";

/// Where `_nfct` lies in `struct sk_buff`.
///
/// Errors: programs cannot read the kernel's memory, or the kernel has no conntrack. Then no packet
/// is judged by its entry.
pub fn nfct_at() -> Result<u32> {
    ensure!(
        can_read_kernel(),
        "this kernel lets no TC program read its memory: with kernel lockdown that is the mode `confidentiality`; use \
         `lockdown=integrity`"
    );
    let mut kernel = Btf::default();
    kernel.add_file(Path::new(VMLINUX))?;
    let sk_buff = kernel
        .find_struct("sk_buff")
        .context("the kernel's BTF has no sk_buff")?;
    let nfct = kernel.member(sk_buff, "_nfct");
    Ok(nfct
        .context("this kernel has no conntrack (CONFIG_NF_CONNTRACK)")?
        .offset)
}

/// Whether netfilter's conntrack is in the kernel by now.
pub fn is_loaded() -> bool {
    Path::new("/sys/module/nf_conntrack").exists()
}

/// Where [`Entry`] begins in `struct nf_conn`; `None` while the module `nf_conntrack` is not
/// loaded.
///
/// Errors: the kernel's BTF does not describe the struct, or not as the programs expect it.
pub fn entry_at() -> Result<Option<u32>> {
    let mut btf = Btf::default();
    let module = Path::new(MODULE);
    btf.add_file(Path::new(VMLINUX))?;
    if module.exists() {
        btf.add_file(module)?;
    }
    let conn = btf.find_struct("nf_conn");
    if module.exists() || conn.is_some_and(|conn| btf.member(conn, "tuplehash").is_some()) {
        return read_layout(&btf).map(Some);
    }
    ensure!(
        !is_loaded(),
        "the module nf_conntrack has no BTF ({MODULE}): the kernel needs CONFIG_DEBUG_INFO_BTF_MODULES=y"
    );
    Ok(None)
}

fn find_struct(btf: &Btf, name: &str) -> Result<u32> {
    btf.find_struct(name)
        .with_context(|| format!("the kernel's BTF has no {name}"))
}

/// The member at the end of a path of nested ones, with its offset in the outermost struct.
fn member_at(btf: &Btf, type_id: u32, path: &[&str]) -> Option<Member> {
    let mut found = Member { offset: 0, type_id };
    for name in path {
        let member = btf.member(found.type_id, name)?;
        found = Member {
            offset: found.offset + member.offset,
            type_id: member.type_id,
        };
    }
    Some(found)
}

fn read_layout(btf: &Btf) -> Result<u32> {
    let conn = find_struct(btf, "nf_conn")?;
    let hash = find_struct(btf, "nf_conntrack_tuple_hash")?;
    let tuple = find_struct(btf, "nf_conntrack_tuple")?;
    let expected = [
        (&["src", "u3"][..], offset_of!(Tuple, src)),
        (&["src", "u"], offset_of!(Tuple, src_port)),
        (&["src", "l3num"], offset_of!(Tuple, family)),
        (&["dst", "u3"], offset_of!(Tuple, dst)),
        (&["dst", "u"], offset_of!(Tuple, dst_port)),
        (&["dst", "protonum"], offset_of!(Tuple, protocol)),
        (&["dst", "dir"], offset_of!(Tuple, direction)),
    ];
    for (path, offset) in expected {
        let found = member_at(btf, tuple, path).map(|member| member.offset as usize);
        if found != Some(offset) {
            bail!(
                "nf_conntrack_tuple.{} lies elsewhere than epguard expects: update epguard",
                path.join(".")
            );
        }
    }
    let hashes = btf.member(conn, "tuplehash");
    let Member {
        offset: start,
        type_id: hashes,
    } = hashes.context("nf_conn has no tuplehash")?;
    let step = btf.element(hashes).and_then(|element| btf.size(element));
    ensure!(
        step == btf.size(hash)
            && step.is_some_and(|step| step as usize == offset_of!(Entry, reply)),
        "nf_conntrack_tuple_hash has another size than epguard expects: update epguard"
    );
    ensure!(
        btf.size(tuple)
            .is_some_and(|size| size as usize == size_of::<Tuple>()),
        "nf_conntrack_tuple has another size than epguard expects: update epguard"
    );
    let inside = btf
        .member(hash, "tuple")
        .context("nf_conntrack_tuple_hash has no tuple")?;
    Ok(start + inside.offset)
}

/// Whether TC programs may read the kernel's memory.
fn can_read_kernel() -> bool {
    is_helper_supported(
        ProgramType::SchedClassifier,
        BpfHelper::BPF_FUNC_probe_read_kernel,
    )
    .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "needs root: reads the kernel's BTF and loads a program"]
    fn this_kernels_conntrack_entries_are_found() {
        assert!(can_read_kernel());
        assert!(nfct_at().unwrap() > 0);
        assert_eq!(
            entry_at().unwrap().map(|at| at % 8),
            Some(0),
            "nf_conntrack is built in here"
        );
    }
}
