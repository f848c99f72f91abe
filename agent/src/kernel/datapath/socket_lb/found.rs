//! Finds the programs of a socket load balancer, and checks that ours run before and after them.

use crate::kernel::datapath::cgroups::is_cgroup2;
use crate::kernel::datapath::pins::Pins;
use crate::kernel::datapath::programs::read_program_name;
use crate::kernel::datapath::{bpf, own};
use anyhow::{Context as _, Result};
use aya_obj::generated::bpf_attach_type;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

/// Our own programs begin with this.
const OWN: &str = "epguard_";

/// The cgroup of a load balancer, and its programs there.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// Its directory.
    pub cgroup: PathBuf,
    /// Programs with their ids, such as `cil_sock4_conne (id 7)`.
    pub programs: Vec<String>,
}

/// The outermost cgroup, from this one up, to which other projects attached programs at these hooks. Any such program may
/// replace the destination of a call.
pub fn find(cgroup: &Path, hooks: &[bpf_attach_type], pins: &Pins) -> Result<Option<Found>> {
    let mut found = None;
    for path in cgroup.ancestors().take_while(|path| is_cgroup2(path)) {
        let mut programs = Vec::new();
        for hook in hooks {
            programs.extend(foreign_at(path, *hook, pins)?.into_values());
        }
        if !programs.is_empty() {
            found = Some(Found { cgroup: path.to_owned(), programs });
        }
    }
    Ok(found)
}

/// The programs of other projects that are attached to this cgroup itself, by their ids.
pub fn foreign_at(cgroup: &Path, hook: bpf_attach_type, pins: &Pins) -> Result<BTreeMap<u32, String>> {
    let cannot = || format!("cannot list the programs of {}", cgroup.display());
    let directory = File::open(cgroup).with_context(cannot)?;
    let (ids, _) = bpf::cgroup_programs(directory.as_fd(), hook).with_context(cannot)?;
    let named = |id| foreign(id, pins).map(|name| (id, name));
    Ok(ids.into_iter().filter_map(named).collect())
}

/// The program of another project with this id; none for one of ours, and for one that has gone. Without `CAP_SYS_ADMIN` ours are
/// known by their pins.
pub fn foreign(id: u32, pins: &Pins) -> Option<String> {
    match read_program_name(id) {
        Ok(name) => (!name.starts_with(OWN)).then(|| format!("{name} (id {id})")),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let ours = own::pinned(pins).is_ok_and(|ours| ours.contains(&id));
            (!ours).then(|| format!("program {id}"))
        }
        Err(_) => None,
    }
}

/// Whether, of the programs that run, `before` is in front of all foreign ones and `after` behind them. None: not expected
/// here. A hook without foreign programs is in order.
pub fn surrounds(
    running: &[u32],
    before: Option<u32>,
    after: Option<u32>,
    is_foreign: impl Fn(&u32) -> bool,
) -> bool {
    let place = |id: u32| running.iter().position(|running| *running == id);
    let (Some(first), Some(last)) =
        (running.iter().position(&is_foreign), running.iter().rposition(&is_foreign))
    else {
        return true;
    };
    before.is_none_or(|id| place(id).is_some_and(|place| place < first))
        && after.is_none_or(|id| place(id).is_some_and(|place| place > last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_must_run_before_the_first_and_after_the_last_foreign_program() {
        let table: [(&[u32], bool); 7] = [
            (&[1, 7, 2], true),
            (&[5, 1, 7, 8, 2, 6], true),
            (&[7, 1, 2], false),
            (&[1, 2, 7], false),
            (&[1, 7, 2, 8], false),
            (&[1, 7], false),
            (&[1, 2], true),
        ];
        for (running, expected) in table {
            let found = surrounds(running, Some(1), Some(2), |id| *id >= 7);
            assert_eq!(found, expected, "{running:?}");
        }
        assert!(surrounds(&[7, 2], None, Some(2), |id| *id >= 7));
        assert!(surrounds(&[1, 7], Some(1), None, |id| *id >= 7));
    }
}
