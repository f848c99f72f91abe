//! Memory that is one for all programs of a processor.

use super::instructions::load;
use super::kernel;
use aya::maps::{MapInfo, MapType};
use aya::programs::Program;
use std::collections::BTreeSet;

/// The programs only add to their values, cgroup hooks with one instruction each.
const COUNTED: [&str; 2] = ["COUNTERS", "DENIAL_COUNTS"];

#[test]
#[ignore = "needs root: loads eBPF programs"]
fn no_cgroup_hook_shares_an_element_of_its_processor_with_programs_that_interrupt_it() {
    let mut datapath = kernel::load();
    let mut maps = [BTreeSet::new(), BTreeSet::new()];
    for (name, program) in datapath.ebpf.programs_mut() {
        let _ = load(program);
        let is_hook = matches!(program, Program::CgroupSockAddr(_));
        for id in program.info().unwrap().map_ids().unwrap().unwrap() {
            let map = MapInfo::from_id(id).unwrap();
            let of_processor = matches!(
                map.map_type().unwrap(),
                MapType::PerCpuArray | MapType::PerCpuHash | MapType::LruPerCpuHash
            );
            if of_processor {
                maps[usize::from(is_hook)].insert(map.name_as_str().unwrap().to_owned());
            }
        }
        assert!(!maps[usize::from(is_hook)].is_empty(), "{name}");
    }
    let shared: Vec<_> = maps[0].intersection(&maps[1]).collect();
    // The kernel keeps 15 characters of a name.
    assert_eq!(shared, COUNTED);
}
