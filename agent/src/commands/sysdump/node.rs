//! The state of this node over netlink and bpf(2), where no tools are installed: one line for each thing.

use super::Parts;
use crate::node::netlink;
use anyhow::{Context as _, Result};
use aya::maps::loaded_maps;
use aya::programs::loaded_programs;

/// The parts.
pub(super) async fn parts() -> Parts {
    let tables = netlink::tables().await.into_iter();
    let tables = tables.map(|(name, messages)| {
        let lines =
            messages.map(|messages| lines(messages.iter().map(|message| anyhow::Ok(format!("{message:?}")))));
        (format!("netlink-{name}.txt"), lines.flatten())
    });
    let programs = lines(loaded_programs().map(|program| {
        let program = program.context("cannot list BPF programs")?;
        Ok(format!(
            "{} type {} name {} tag {:016x} maps {:?}",
            program.id(),
            program.program_type() as u32,
            program.name_as_str().unwrap_or_default(),
            program.tag(),
            program.map_ids().ok().flatten().unwrap_or_default(),
        ))
    }));
    let maps = lines(loaded_maps().map(|map| {
        let map = map.context("cannot list BPF maps")?;
        Ok(format!(
            "{} type {:?} name {} key {} value {} max_entries {}",
            map.id(),
            map.map_type().ok(),
            map.name_as_str().unwrap_or_default(),
            map.key_size(),
            map.value_size(),
            map.max_entries(),
        ))
    }));
    let others = [("bpf-programs.txt", programs), ("bpf-maps.txt", maps)];
    tables.chain(others.map(|(name, content)| (name.to_owned(), content))).collect()
}

fn lines(lines: impl Iterator<Item = Result<String>>) -> Result<Vec<u8>> {
    let lines = lines.collect::<Result<Vec<_>>>()?;
    Ok(lines.iter().flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
}
