//! BPF programs and maps, one a line. epguard's own are opened by their pins, for which the agent's
//! rights are enough. The kernel lists those of the whole node for `CAP_SYS_ADMIN` alone, which the
//! agent does not have by default.

use super::lines_of;
use crate::kernel::datapath::{Pins, bpf};
use anyhow::{Context as _, Result};
use aya::maps::{MapError, MapInfo, loaded_maps};
use aya::programs::{ProgramError, ProgramInfo, loaded_programs};
use std::path::Path;

/// The programs at epguard's links, then all programs of the node.
pub(super) fn programs(pin_dir: &Path) -> Result<Vec<u8>> {
    let (links, _) = Pins::in_directory(pin_dir).all()?;
    let own = links
        .iter()
        .map(|pin| at_link(pin))
        .collect::<Result<Vec<_>>>()?;
    Ok(part_text(
        own,
        loaded_programs().map(program).collect(),
        "programs",
    ))
}

/// epguard's maps, then all maps of the node.
pub(super) fn maps(pin_dir: &Path) -> Result<Vec<u8>> {
    let (_, pins) = Pins::in_directory(pin_dir).all()?;
    let own = pins
        .iter()
        .map(|pin| pinned_map(pin))
        .collect::<Result<Vec<_>>>()?;
    Ok(part_text(own, loaded_maps().map(map).collect(), "maps"))
}

/// Lines about epguard's own, then about all. If the kernel does not list all, the last line names
/// what is left out, and why.
fn part_text(own: Vec<String>, all: Result<Vec<String>>, what: &str) -> Vec<u8> {
    let rest = all.unwrap_or_else(|error| {
        vec![format!(
            "left out: other {what} of the node: {error:#}: run epguard sysdump as root on the node"
        )]
    });
    lines_of(own.into_iter().chain(rest))
}

fn at_link(pin: &Path) -> Result<String> {
    let shown = pin.display();
    let link = bpf::open(pin)?.with_context(|| format!("{shown} is gone"))?;
    let program =
        bpf::link_program(&link).with_context(|| format!("cannot read the link {shown}"))?;
    Ok(format!("{program} at the link {shown}"))
}

fn pinned_map(pin: &Path) -> Result<String> {
    let shown = pin.display();
    let info = MapInfo::from_pin(pin).with_context(|| format!("cannot open the map {shown}"))?;
    Ok(format!("{} at {shown}", describe(&info)))
}

fn program(program: Result<ProgramInfo, ProgramError>) -> Result<String> {
    let program = program.context("cannot list BPF programs")?;
    Ok(format!(
        "{} type {} name {} tag {:016x} maps {:?}",
        program.id(),
        program.program_type() as u32,
        program.name_as_str().unwrap_or_default(),
        program.tag(),
        program.map_ids().ok().flatten().unwrap_or_default(),
    ))
}

fn map(map: Result<MapInfo, MapError>) -> Result<String> {
    Ok(describe(&map.context("cannot list BPF maps")?))
}

fn describe(map: &MapInfo) -> String {
    format!(
        "{} type {:?} name {} key {} value {} max_entries {}",
        map.id(),
        map.map_type().ok(),
        map.name_as_str().unwrap_or_default(),
        map.key_size(),
        map.value_size(),
        map.max_entries(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn what_the_kernel_does_not_list_is_named_with_its_cause_behind_our_own() {
        let own = || vec!["7 at the link L".to_owned()];
        let all = part_text(own(), Ok(vec!["8 name other".to_owned()]), "programs");
        assert_eq!(
            String::from_utf8(all).unwrap(),
            "7 at the link L\n8 name other\n"
        );
        let left_out =
            String::from_utf8(part_text(own(), Err(anyhow!("no right")), "programs")).unwrap();
        let expected = "7 at the link L\nleft out: other programs of the node: no right: run epguard sysdump as root on the node\n";
        assert_eq!(left_out, expected);
    }
}
