//! The arguments of helpers: how many (registers behind them hold values from earlier), and how far a helper reaches
//! behind an address.
//!
//! The kernel shows a call as the distance of the helper's code from `__bpf_call_base`, and /proc/kallsyms has the
//! addresses. The numbers are those of `include/uapi/linux/bpf.h`; a helper that is not listed counts with five
//! arguments, and may reach anywhere.

use std::collections::BTreeMap;
use std::fs;

/// Arguments and reach of helpers, by the operand of a call.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Helpers {
    arguments: BTreeMap<i32, u8>,
    /// By operand and argument.
    reach: BTreeMap<(i32, usize), Reach>,
}

/// How many octets behind an address a helper reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// As many as the number in the next argument.
    Next,
    /// A key of the map in the first argument.
    Key,
    /// A value of that map.
    Value,
}

/// The most arguments that a call takes.
pub const MOST: u8 = 5;

const NONE: &[&str] = &[
    "bpf_get_prandom_u32",
    "bpf_user_rnd_u32",
    "bpf_get_smp_processor_id",
    "bpf_get_raw_cpu_id",
    "bpf_ktime_get_ns",
    "bpf_ktime_get_boot_ns",
    "bpf_ktime_get_coarse_ns",
    "bpf_jiffies64",
];
const ONE: &[&str] = &[
    "bpf_get_socket_cookie",
    "bpf_get_netns_cookie",
    "bpf_get_hash_recalc",
    "bpf_set_hash_invalid",
    "bpf_skb_vlan_pop",
    "bpf_sk_release",
    "bpf_get_route_realm",
    "bpf_get_cgroup_classid",
];
const TWO: &[&str] = &[
    "bpf_map_lookup_elem",
    "bpf_map_delete_elem",
    "array_map_lookup_elem",
    "percpu_array_map_lookup_elem",
    "__htab_map_lookup_elem",
    "htab_map_lookup_elem",
    "htab_lru_map_lookup_elem",
    "htab_percpu_map_lookup_elem",
    "htab_lru_percpu_map_lookup_elem",
    "trie_lookup_elem",
    "htab_map_delete_elem",
    "htab_lru_map_delete_elem",
    "trie_delete_elem",
    "bpf_redirect",
    "bpf_redirect_peer",
    "bpf_skb_pull_data",
    "bpf_skb_change_type",
    "bpf_set_hash",
];
const THREE: &[&str] = &[
    "bpf_clone_redirect",
    "bpf_skb_change_head",
    "bpf_skb_change_tail",
    "bpf_skb_change_proto",
    "bpf_skb_vlan_push",
    "bpf_skb_get_tunnel_opt",
    "bpf_skb_set_tunnel_opt",
    "bpf_skb_set_tstamp",
    "bpf_sk_assign",
    "bpf_tail_call",
];
const FOUR: &[&str] = &[
    "bpf_map_update_elem",
    "array_map_update_elem",
    "htab_map_update_elem",
    "htab_lru_map_update_elem",
    "trie_update_elem",
    "bpf_skb_load_bytes",
    "bpf_skb_get_tunnel_key",
    "bpf_skb_set_tunnel_key",
    "bpf_skb_adjust_room",
    "bpf_redirect_neigh",
    "bpf_skb_fib_lookup",
];

const LOOKUP: &[(usize, Reach)] = &[(2, Reach::Key)];
const UPDATE: &[(usize, Reach)] = &[(2, Reach::Key), (3, Reach::Value)];
const SECOND: &[(usize, Reach)] = &[(2, Reach::Next)];
const THIRD: &[(usize, Reach)] = &[(3, Reach::Next)];

const REACH: &[(&str, &[(usize, Reach)])] = &[
    ("bpf_map_lookup_elem", LOOKUP),
    ("bpf_map_delete_elem", LOOKUP),
    ("array_map_lookup_elem", LOOKUP),
    ("percpu_array_map_lookup_elem", LOOKUP),
    ("__htab_map_lookup_elem", LOOKUP),
    ("htab_map_lookup_elem", LOOKUP),
    ("htab_lru_map_lookup_elem", LOOKUP),
    ("htab_percpu_map_lookup_elem", LOOKUP),
    ("htab_lru_percpu_map_lookup_elem", LOOKUP),
    ("trie_lookup_elem", LOOKUP),
    ("htab_map_delete_elem", LOOKUP),
    ("htab_lru_map_delete_elem", LOOKUP),
    ("trie_delete_elem", LOOKUP),
    ("bpf_map_update_elem", UPDATE),
    ("array_map_update_elem", UPDATE),
    ("htab_map_update_elem", UPDATE),
    ("htab_lru_map_update_elem", UPDATE),
    ("trie_update_elem", UPDATE),
    ("bpf_skb_load_bytes", THIRD),
    ("bpf_skb_load_bytes_relative", THIRD),
    ("bpf_skb_store_bytes", THIRD),
    ("bpf_skb_fib_lookup", SECOND),
    ("bpf_skb_get_tunnel_key", SECOND),
    ("bpf_skb_set_tunnel_key", SECOND),
    ("bpf_skb_get_tunnel_opt", SECOND),
    ("bpf_skb_set_tunnel_opt", SECOND),
    ("bpf_redirect_neigh", SECOND),
    ("bpf_ringbuf_output", SECOND),
    ("bpf_tc_sk_lookup_tcp", SECOND),
    ("bpf_tc_sk_lookup_udp", SECOND),
    ("bpf_tc_skc_lookup_tcp", SECOND),
    ("bpf_csum_diff", &[(1, Reach::Next), (3, Reach::Next)]),
    ("bpf_skb_event_output", &[(4, Reach::Next)]),
];

const BASE: &str = "__bpf_call_base";

impl Helpers {
    /// The helpers of the running kernel; empty if it hides its addresses.
    #[must_use]
    pub fn of_kernel() -> Self {
        Self::read(&fs::read_to_string("/proc/kallsyms").unwrap_or_default())
    }

    /// How many arguments a call with this operand takes at most.
    #[must_use]
    pub fn arguments(&self, operand: i32) -> u8 {
        self.arguments.get(&operand).copied().unwrap_or(MOST)
    }

    /// How far a call with this operand reaches behind an argument; none if that is not known.
    #[must_use]
    pub fn reach(&self, operand: i32, argument: usize) -> Option<Reach> {
        self.reach.get(&(operand, argument)).copied()
    }

    /// `symbols`: lines of an address in hexadecimal digits, a letter and a name.
    pub(super) fn read(symbols: &str) -> Self {
        let known: BTreeMap<&str, u8> = (0..)
            .zip([NONE, ONE, TWO, THREE, FOUR])
            .flat_map(|(count, names)| names.iter().map(move |name| (*name, count)))
            .collect();
        let symbol = |line: &'_ str| {
            let mut parts = line.split(' ');
            let address = u64::from_str_radix(parts.next()?, 16)
                .ok()
                .filter(|address| *address != 0)?;
            Some((address, parts.nth(1)?.to_owned()))
        };
        let reaches: BTreeMap<&str, &[(usize, Reach)]> = REACH.iter().copied().collect();
        let wanted = |name: &str| name == BASE || known.contains_key(name) || reaches.contains_key(name);
        let lines = symbols
            .lines()
            .filter(|line| line.rsplit(' ').next().is_some_and(wanted));
        let found: Vec<(u64, String)> = lines.filter_map(symbol).collect();
        let Some((base, _)) = found.iter().find(|(_, name)| name == BASE) else {
            return Self::default();
        };
        let operand = |address: u64| i32::try_from(address.wrapping_sub(*base).cast_signed()).ok();
        let mut helpers = Self::default();
        for (address, name) in &found {
            let Some(operand) = operand(*address) else {
                continue;
            };
            if let Some(count) = known.get(name.as_str()) {
                // Code that several names share counts with the most arguments of any of them.
                let most = helpers.arguments.entry(operand).or_insert(*count);
                *most = (*most).max(*count);
            }
            for (argument, reach) in reaches.get(name.as_str()).into_iter().copied().flatten() {
                helpers.reach.insert((operand, *argument), *reach);
            }
        }
        helpers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_known_by_its_distance_and_takes_five_arguments_otherwise() {
        let symbols = "ffffffff81000000 T __bpf_call_base\nffffffff81000010 T bpf_redirect\n\
                       ffffffff80fffff0 t bpf_ktime_get_ns\nffffffff81000020 T bpf_sk_fullsock\t[module]\n";
        let helpers = Helpers::read(symbols);
        assert_eq!(
            [0x10, -0x10, 0x20, 0].map(|operand| helpers.arguments(operand)),
            [2, 0, 5, 5]
        );
    }

    #[test]
    fn hidden_addresses_tell_nothing() {
        let hidden = "0000000000000000 T __bpf_call_base\n0000000000000000 T bpf_redirect\n";
        assert_eq!(Helpers::read(hidden), Helpers::default());
        assert_eq!(Helpers::read("nonsense\n\n- -"), Helpers::default());
    }
}
