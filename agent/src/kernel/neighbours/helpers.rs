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

type Reaches = &'static [(usize, Reach)];

const LOOKUP: Reaches = &[(2, Reach::Key)];
const UPDATE: Reaches = &[(2, Reach::Key), (3, Reach::Value)];
const SECOND: Reaches = &[(2, Reach::Next)];
const THIRD: Reaches = &[(3, Reach::Next)];

/// Arguments, reach by argument, and the helpers that have them.
const HELPERS: &[(u8, Reaches, &str)] = &[
    (
        0,
        &[],
        "bpf_get_prandom_u32 bpf_user_rnd_u32 bpf_get_smp_processor_id bpf_get_raw_cpu_id \
         bpf_ktime_get_ns bpf_ktime_get_boot_ns bpf_ktime_get_coarse_ns bpf_jiffies64",
    ),
    (
        1,
        &[],
        "bpf_get_socket_cookie bpf_get_netns_cookie bpf_get_hash_recalc bpf_set_hash_invalid \
         bpf_skb_vlan_pop bpf_sk_release bpf_get_route_realm bpf_get_cgroup_classid",
    ),
    (
        2,
        &[],
        "bpf_redirect bpf_redirect_peer bpf_skb_pull_data bpf_skb_change_type bpf_set_hash",
    ),
    (
        2,
        LOOKUP,
        "bpf_map_lookup_elem bpf_map_delete_elem array_map_lookup_elem percpu_array_map_lookup_elem \
         __htab_map_lookup_elem htab_map_lookup_elem htab_lru_map_lookup_elem \
         htab_percpu_map_lookup_elem htab_lru_percpu_map_lookup_elem trie_lookup_elem \
         htab_map_delete_elem htab_lru_map_delete_elem trie_delete_elem",
    ),
    (
        3,
        &[],
        "bpf_clone_redirect bpf_skb_change_head bpf_skb_change_tail bpf_skb_change_proto \
         bpf_skb_vlan_push bpf_skb_set_tstamp bpf_sk_assign bpf_tail_call",
    ),
    (3, SECOND, "bpf_skb_get_tunnel_opt bpf_skb_set_tunnel_opt"),
    (4, &[], "bpf_skb_adjust_room"),
    (
        4,
        UPDATE,
        "bpf_map_update_elem array_map_update_elem htab_map_update_elem htab_lru_map_update_elem \
         trie_update_elem",
    ),
    (4, THIRD, "bpf_skb_load_bytes"),
    (
        4,
        SECOND,
        "bpf_skb_get_tunnel_key bpf_skb_set_tunnel_key bpf_redirect_neigh bpf_skb_fib_lookup",
    ),
    (MOST, THIRD, "bpf_skb_load_bytes_relative bpf_skb_store_bytes"),
    (
        MOST,
        SECOND,
        "bpf_ringbuf_output bpf_tc_sk_lookup_tcp bpf_tc_sk_lookup_udp bpf_tc_skc_lookup_tcp",
    ),
    (MOST, &[(1, Reach::Next), (3, Reach::Next)], "bpf_csum_diff"),
    (MOST, &[(4, Reach::Next)], "bpf_skb_event_output"),
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
        let known: BTreeMap<&str, (u8, Reaches)> = HELPERS
            .iter()
            .flat_map(|(count, reach, names)| names.split(' ').map(move |name| (name, (*count, *reach))))
            .collect();
        let symbols = symbols.lines().filter_map(|line| {
            let mut parts = line.split(' ');
            let (address, name) = (parts.next()?, parts.nth(1)?);
            if name != BASE && !known.contains_key(name) {
                return None;
            }
            let address = u64::from_str_radix(address, 16).ok()?;
            (address != 0).then_some((address, name))
        });
        let found: Vec<(u64, &str)> = symbols.collect();
        let Some((base, _)) = found.iter().find(|(_, name)| *name == BASE) else {
            return Self::default();
        };
        let mut helpers = Self::default();
        for (address, name) in &found {
            let operand = i32::try_from(address.wrapping_sub(*base).cast_signed()).ok();
            let (Some(operand), Some((count, reach))) = (operand, known.get(*name)) else {
                continue;
            };
            // Code that several names share counts with the most arguments of any of them.
            let most = helpers.arguments.entry(operand).or_insert(*count);
            *most = (*most).max(*count);
            for (argument, reach) in *reach {
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
    fn a_helper_is_known_by_its_distance_and_an_unknown_one_takes_five_arguments() {
        let symbols = "ffffffff81000000 T __bpf_call_base\nffffffff81000010 T bpf_redirect\n\
                       ffffffff80fffff0 t bpf_ktime_get_ns\nffffffff81000020 T bpf_sk_fullsock\t[module]\n";
        let helpers = Helpers::read(symbols);
        assert_eq!(
            [0x10, -0x10, 0x20, 0].map(|operand| helpers.arguments(operand)),
            [2, 0, 5, 5]
        );
    }

    #[test]
    fn hidden_or_malformed_kernel_symbols_identify_no_helper() {
        let hidden = "0000000000000000 T __bpf_call_base\n0000000000000000 T bpf_redirect\n";
        assert_eq!(Helpers::read(hidden), Helpers::default());
        assert_eq!(Helpers::read("nonsense\n\n- -"), Helpers::default());
    }
}
