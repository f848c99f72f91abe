//! What the kernel's own filters and queueing disciplines do with the carriers, from its source, Linux 6.18.

use super::uses::{FieldUse, Use};
use crate::kernel::datapath::netlink::Filter;
use aya_obj::generated::bpf_prog_type;

/// The use of the carriers by a filter of its kind, added to that of its program. `decides`: it is at a clsact qdisc,
/// where the kernel writes the class of an accepted packet to `tc_index` (`tc_run()` in `net/core/dev.c`).
#[must_use]
pub fn filter(filter: &Filter, program: Use, decides: bool) -> Use {
    let minor = u16::try_from(filter.classid & 0xffff).unwrap_or_default();
    let mut uses = program;
    let classes = match filter.kind.as_str() {
        // cls_bpf_classify() writes the filter's class to tc_classid before the program runs, which may change it. Without
        // direct action, the program's result is the class.
        "bpf" => {
            uses.tc_classid |= write(minor);
            if filter.direct_action {
                minor | program.tc_classid.sets
            } else {
                u16::MAX
            }
        }
        "u32" | "flower" | "matchall" => minor,
        "fw" | "route" => u16::MAX,
        // Their "meta" expressions read tc_index.
        "basic" | "cgroup" | "flow" | "tcindex" => {
            uses.tc_index.reads = u16::MAX;
            u16::MAX
        }
        _ => return Use::UNKNOWN,
    };
    if decides {
        uses.tc_index |= write(classes);
    }
    uses
}

/// True for a hash table of u32 filters, which the kernel lists among them: numbers of its entries begin at 1.
#[must_use]
pub fn is_table(filter: &Filter) -> bool {
    filter.kind == "u32" && filter.handle.is_multiple_of(0x1000)
}

/// Whether filters can be attached to classes of a qdisc of this kind: where its `Qdisc_class_ops` have a `tcf_block` for
/// them. Unknown kinds may.
#[must_use]
pub fn is_classful(kind: &str) -> bool {
    !is_among(CLASSLESS, kind)
}

/// The use of the carriers by a queueing discipline. One of a kind that Linux doesn't have may be a BPF program.
#[must_use]
pub fn qdisc(kind: &str) -> Use {
    let tc_index = match kind {
        // The virtual queue's number, which it also writes (GRED_VQ_MASK in net/sched/sch_gred.c).
        "gred" => FieldUse {
            reads: 0xf,
            sets: 0xf,
            clears: 0xf,
        },
        // Linux before 6.3.
        "dsmark" => FieldUse::UNKNOWN,
        kind if is_among(KINDS, kind) || is_teql(kind) => FieldUse::NONE,
        _ => return Use::UNKNOWN,
    };
    Use {
        tc_index,
        ..Use::NONE
    }
}

/// Kinds of queueing disciplines in `net/sched`, from Linux 5.14 to 6.18, without those that use a carrier.
const KINDS: &str = "atm bfifo blackhole cake cake_mq cbq cbs choke clsact codel drr dualpi2 etf ets fq fq_codel fq_pie \
                     hfsc hhf htb ingress mq mqprio multiq netem noop noqueue pfifo pfifo_fast pfifo_head_drop pie plug \
                     prio qfq red sfb sfq skbprio taprio tbf";

/// Those whose classes take no filters: their `Qdisc_class_ops` have no `tcf_block`.
const CLASSLESS: &str = "noqueue pfifo bfifo pfifo_fast fq fq_codel codel cake tbf netem sfq mq red pie";

fn is_among(kinds: &str, kind: &str) -> bool {
    kinds.split(' ').any(|known| known == kind)
}

/// `teql0`, `teql1`, ...
fn is_teql(kind: &str) -> bool {
    kind.strip_prefix("teql")
        .is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

const fn write(bits: u16) -> FieldUse {
    FieldUse {
        reads: 0,
        sets: bits,
        clears: u16::MAX,
    }
}

/// The types of programs that may meet a packet of any network namespace.
#[must_use]
pub fn name_of(kind: u32) -> Option<&'static str> {
    use bpf_prog_type as t;
    let names = [
        (t::BPF_PROG_TYPE_SOCKET_FILTER, "socket_filter"),
        (t::BPF_PROG_TYPE_SCHED_ACT, "sched_act"),
        (t::BPF_PROG_TYPE_CGROUP_SKB, "cgroup_skb"),
        (t::BPF_PROG_TYPE_LWT_IN, "lwt_in"),
        (t::BPF_PROG_TYPE_LWT_OUT, "lwt_out"),
        (t::BPF_PROG_TYPE_LWT_XMIT, "lwt_xmit"),
        (t::BPF_PROG_TYPE_LWT_SEG6LOCAL, "lwt_seg6local"),
        (t::BPF_PROG_TYPE_SK_SKB, "sk_skb"),
        (t::BPF_PROG_TYPE_EXT, "ext"),
        (t::BPF_PROG_TYPE_NETFILTER, "netfilter"),
    ];
    let found = names.into_iter().find(|(of, _)| *of as u32 == kind);
    found.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, classid: u32, direct_action: bool) -> Use {
        let made = Filter {
            kind: kind.to_owned(),
            classid,
            direct_action,
            ..Filter::default()
        };
        filter(&made, Use::NONE, true)
    }

    #[test]
    fn a_filter_sets_the_minor_number_of_its_class() {
        assert_eq!(of("u32", 0x1_0005, false).tc_index, write(5));
        assert_eq!(of("u32", 0x1_0005, false).tc_classid, FieldUse::NONE);
        let bpf = of("bpf", 0x1_0005, true);
        assert_eq!((bpf.tc_index, bpf.tc_classid), (write(5), write(5)));
        assert_eq!(of("bpf", 0, false).tc_index, write(u16::MAX));
    }

    #[test]
    fn the_class_that_a_program_chooses_reaches_tc_index() {
        let mut program = Use::NONE;
        program.tc_classid = write(0x30);
        let made = Filter {
            kind: "bpf".to_owned(),
            direct_action: true,
            ..Filter::default()
        };
        assert_eq!(filter(&made, program, true).tc_index, write(0x30));
        assert_eq!(filter(&made, program, false).tc_index, FieldUse::NONE);
    }

    #[test]
    fn filters_with_expressions_read_every_bit_and_unknown_kinds_also_write_every_bit() {
        assert_eq!(of("basic", 0, false).tc_index.reads, u16::MAX);
        assert_eq!(of("tcindex", 0, false).tc_index.reads, u16::MAX);
        assert_eq!(of("new", 0, false), Use::UNKNOWN);
    }

    #[test]
    fn gred_uses_four_bits_and_a_qdisc_of_an_unknown_kind_all() {
        assert_eq!(qdisc("gred").tc_index.reads, 0xf);
        assert!(qdisc("fq_codel").is_none() && qdisc("teql0").is_none());
        assert_eq!(qdisc("bpf_fq"), Use::UNKNOWN);
        assert_eq!(qdisc("teql"), Use::UNKNOWN);
    }
}
