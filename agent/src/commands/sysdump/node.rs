//! The state of this node over netlink and bpf(2), where no tools are installed: one line for each thing.

use super::Parts;
use crate::node::netlink;
use crate::node::netlink::netfilter::{self, Message, at, attributes, number, string};
use anyhow::{Context as _, Result};
use aya::maps::loaded_maps;
use aya::programs::loaded_programs;
use std::fmt::Write as _;

/// `linux/netfilter/nf_tables.h`: `NFT_MSG_GETRULE` of `NFNL_SUBSYS_NFTABLES`, and attributes of its answer.
const GET_RULE: u16 = 0x0a07;
const TABLE: u16 = 1;
const CHAIN: u16 = 2;
const HANDLE: u16 = 3;
const EXPRESSIONS: u16 = 4;
const NAME: u16 = 1;
const DATA: u16 = 2;

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
    let others = [("bpf-programs.txt", programs), ("bpf-maps.txt", maps), ("netfilter-rules.txt", rules())];
    tables.chain(others.map(|(name, content)| (name.to_owned(), content))).collect()
}

fn lines(lines: impl Iterator<Item = Result<String>>) -> Result<Vec<u8>> {
    let lines = lines.collect::<Result<Vec<_>>>()?;
    Ok(lines.iter().flat_map(|line| [line, "\n"]).collect::<String>().into_bytes())
}

/// Rules of nftables, those of iptables-nft included: family, table, chain, handle and, in hexadecimal, each expression.
fn rules() -> Result<Vec<u8>> {
    netfilter::dump(GET_RULE, write_rule).context("cannot list rules (nftables)")
}

fn write_rule(to: &mut Vec<u8>, rule: Message<'_>) {
    let text = |kind| string(rule.attributes, &[kind]).unwrap_or_default();
    let handle = number(rule.attributes, &[HANDLE]).unwrap_or_default();
    let mut line = format!("family {} {} {} {handle}:", rule.family, text(TABLE), text(CHAIN));
    let expressions = at(rule.attributes, &[EXPRESSIONS]).unwrap_or_default();
    for (_, expression) in attributes(expressions) {
        let name = string(expression, &[NAME]).unwrap_or_default();
        let _ = write!(line, " {name}(");
        for octet in at(expression, &[DATA]).unwrap_or_default() {
            let _ = write!(line, "{octet:02x}");
        }
        line.push(')');
    }
    line.push('\n');
    to.extend(line.bytes());
}
