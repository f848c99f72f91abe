//! Finds the two carriers in the running kernel's `struct sk_buff`.
//!
//! The kernel translates each access to `__sk_buff` into one to its own struct. So small programs that access both
//! fields are loaded, and their translation shows the offsets. Loads and stores are translated by different code of the
//! kernel: they must agree.

use super::helpers::Helpers;
use super::insn::{Insn, class, jmp, mode};
use super::uses::Carrier;
use crate::kernel::datapath::programs;
use anyhow::{Context as _, Result, bail};
use aya_obj::generated::bpf_prog_type::BPF_PROG_TYPE_SCHED_CLS;
use std::sync::OnceLock;

/// Offsets in octets, and other facts that are known only at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Offset of `tc_index` in `sk_buff`.
    pub tc_index: i32,
    /// Offset of `tc_classid` in `sk_buff`: `sk_buff.cb` and `qdisc_skb_cb.tc_classid`.
    pub tc_classid: i32,
    /// Operands of calls of the helpers that read any kernel memory; none if unknown. The kernel shows the distance of a
    /// helper's code in place of its number, or 0 to those who may not see addresses.
    pub probes: Option<Vec<i32>>,
    /// Arguments and reach of helpers. Read when the first program is analysed: most nodes have none.
    pub helpers: OnceLock<Helpers>,
}

impl Layout {
    /// Reads the layout from the kernel. Needs `CAP_BPF` and `CAP_NET_ADMIN`, and `CAP_PERFMON` for the helpers.
    pub fn of_kernel() -> Result<Self> {
        let translated = translate(&accesses()).context("cannot see how the kernel translates tc_index")?;
        let mut layout = Self::read(&translated)?;
        layout.probes = translate(&probes())
            .ok()
            .and_then(|translated| calls(&translated));
        Ok(layout)
    }

    /// The carrier's offset in octets from the start of `sk_buff`.
    #[must_use]
    pub const fn offset(&self, carrier: Carrier) -> i32 {
        match carrier {
            Carrier::TcIndex => self.tc_index,
            Carrier::TcClassid => self.tc_classid,
        }
    }

    /// Arguments and reach of this kernel's helpers.
    #[must_use]
    pub fn helpers(&self) -> &Helpers {
        self.helpers.get_or_init(Helpers::of_kernel)
    }

    /// Whether a call with this operand may read any kernel memory.
    #[must_use]
    pub fn may_probe(&self, operand: i32) -> bool {
        let Some(probes) = &self.probes else {
            return true;
        };
        operand == 0 || probes.contains(&operand)
    }

    fn read(translated: &[Insn]) -> Result<Self> {
        let halfwords = |class: u8| -> Vec<i32> {
            let of_class =
                |insn: &&Insn| insn.class() == class && insn.mode() == mode::MEM && insn.size() == 2;
            let accesses = translated.iter().filter(of_class);
            accesses.map(|insn| i32::from(insn.off)).collect()
        };
        match (&halfwords(class::LDX)[..], &halfwords(class::STX)[..]) {
            (loads @ [tc_index, tc_classid], stores) if loads == stores => Ok(Self {
                tc_index: *tc_index,
                tc_classid: *tc_classid,
                probes: None,
                helpers: OnceLock::new(),
            }),
            (loads, stores) => bail!(
                "the kernel's loads of tc_index and tc_classid are at {loads:?}, its stores at {stores:?}: their offsets are unknown"
            ),
        }
    }
}

/// Offsets in `struct __sk_buff`, `linux/bpf.h`.
const TC_INDEX: i16 = 44;
const TC_CLASSID: i16 = 72;

/// `r0 = *(u32 *)(r1 + field); *(u32 *)(r1 + field) = r0` for both fields.
fn accesses() -> Vec<Insn> {
    let both = [TC_INDEX, TC_CLASSID].into_iter().flat_map(|off| {
        let load = insn(class::LDX | mode::MEM, 0, 1, off, 0);
        [load, insn(class::STX | mode::MEM, 1, 0, off, 0)]
    });
    both.chain(end()).collect()
}

/// `bpf_probe_read_kernel` and `bpf_probe_read_kernel_str`. The older `bpf_probe_read` is for tracing programs only.
const PROBES: [i32; 2] = [113, 115];

/// Instructions that call each of [`PROBES`] with eight octets of the stack as destination.
fn probes() -> Vec<Insn> {
    let calls = PROBES.into_iter().flat_map(|helper| {
        [
            insn(0xbf, 1, 10, 0, 0),
            insn(0x07, 1, 0, 0, -8),
            insn(0xb7, 2, 0, 0, 8),
            insn(0xb7, 3, 0, 0, 0),
            insn(class::JMP | jmp::CALL, 0, 0, 0, helper),
        ]
    });
    calls.chain(end()).collect()
}

fn end() -> [Insn; 2] {
    [insn(0xb7, 0, 0, 0, 0), insn(class::JMP | jmp::EXIT, 0, 0, 0, 0)]
}

const fn insn(code: u8, dst: u8, src: u8, off: i16, imm: i32) -> Insn {
    Insn {
        code,
        dst,
        src,
        off,
        imm,
    }
}

fn translate(program: &[Insn]) -> Result<Vec<Insn>> {
    let octets: Vec<u8> = program.iter().flat_map(|insn| insn.encode()).collect();
    let program =
        programs::load(BPF_PROG_TYPE_SCHED_CLS, None, &octets).context("cannot load a small program")?;
    let information = programs::information(&program)?;
    let translated = information
        .instructions
        .context("the kernel withholds instructions")?;
    Ok(Insn::decode(&translated))
}

/// Operands of all calls; none if one is hidden.
fn calls(translated: &[Insn]) -> Option<Vec<i32>> {
    let calls = translated
        .iter()
        .filter(|insn| insn.code == class::JMP | jmp::CALL);
    let operands: Vec<i32> = calls.map(|insn| insn.imm).collect();
    (operands.len() == PROBES.len() && !operands.contains(&0)).then_some(operands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_those_of_loads_and_stores_that_agree() {
        let halfword = |class, off| insn(class | mode::MEM | 0x08, 0, 1, off, 0);
        let mut translated = vec![
            halfword(class::LDX, 160),
            halfword(class::STX, 160),
            halfword(class::LDX, 46),
            halfword(class::STX, 46),
        ];
        let layout = Layout::read(&translated).unwrap();
        assert_eq!((layout.tc_index, layout.tc_classid), (160, 46));
        translated[3].off = 48;
        assert!(Layout::read(&translated).is_err());
        // A kernel without CONFIG_NET_SCHED translates tc_index to the constant 0.
        assert!(Layout::read(&translated[2..]).is_err());
    }

    #[test]
    fn a_call_with_a_hidden_operand_counts_as_a_read_of_every_bit() {
        let layout = Layout {
            tc_index: 160,
            tc_classid: 46,
            probes: Some(vec![7]),
            helpers: OnceLock::new(),
        };
        assert!(layout.may_probe(7) && layout.may_probe(0) && !layout.may_probe(8));
        assert!(
            Layout {
                probes: None,
                ..layout
            }
            .may_probe(8)
        );
    }

    #[test]
    #[ignore = "needs root: loads eBPF programs"]
    fn this_kernel_shows_where_the_fields_lie_and_which_calls_read_memory() {
        let layout = Layout::of_kernel().unwrap();
        println!("{layout:?}");
        // `qdisc_skb_cb.tc_classid` is 6 octets into `cb`, which begins at a multiple of 8 (`include/net/sch_generic.h`).
        assert_eq!(layout.tc_classid % 8, 6);
        assert_eq!(layout.tc_index % 2, 0);
        assert_eq!(layout.probes.unwrap().len(), PROBES.len());
    }
}
