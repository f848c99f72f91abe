//! CONFIG and VIEW: the operator's settings, and the agent's view with its lease.

use aya_ebpf::btf_maps::Array;
use aya_ebpf::macros::btf_map;
use core::ptr::addr_of;
use epguard_common::{Action, AnswerLimits, Mode, PER_REASON, RawConfig, Reason, View};

#[btf_map]
static CONFIG: Array<RawConfig, 1> = Array::new();
#[btf_map]
static VIEW: Array<View, 1> = Array::new();

/// VIEW; `None` only if the map is missing.
#[inline(always)]
pub fn view() -> Option<View> {
    // SAFETY: one element that is only ever overwritten in place; every bit pattern is a View.
    VIEW.get_ptr(0).map(|view| unsafe { view.read() })
}

/// VIEW, unless it is idle: [`View::is_idle`].
#[inline(always)]
pub fn active() -> Option<View> {
    view().filter(|view| !view.is_idle())
}

/// The operator's settings, and the mode. Enums are read as numbers: a person may have written
/// anything with bpftool.
#[inline(always)]
pub fn config() -> Option<(*const RawConfig, Mode)> {
    let config = CONFIG.get_ptr(0)?;
    // SAFETY: an element of an array map is never freed; every bit pattern is a u32.
    let mode = unsafe { addr_of!((*config).mode).read_volatile() };
    Some((config, Mode::from_raw(mode)))
}

/// Whether the programs shall log.
#[inline(always)]
pub fn is_logged(config: *const RawConfig) -> bool {
    // SAFETY: as in `config`.
    unsafe { addr_of!((*config).debug).read_volatile() != 0 }
}

/// The operator's mode for a reason.
#[inline(always)]
pub fn mode_of(config: *const RawConfig, reason: Reason) -> Mode {
    if reason == Reason::Nothing {
        return Mode::Off;
    }
    // SAFETY: as in `config`; one of the numbers of a `PerReason`.
    Mode::from_raw(unsafe {
        let modes = addr_of!((*config).reasons).cast::<u32>();
        modes.add(place(reason)).read_volatile()
    })
}

/// The action that CONFIG holds for a reason.
#[inline(always)]
pub fn action_of(config: *const RawConfig, reason: Reason) -> Action {
    if reason == Reason::Nothing {
        return Action::Unset;
    }
    // SAFETY: as in `config`; one of the numbers of a `PerReason`.
    Action::from_raw(unsafe {
        let actions = addr_of!((*config).actions).cast::<u32>();
        actions.add(place(reason)).read_volatile()
    })
}

/// The place of a reason's number in a `PerReason`. The number is read back from memory, so that
/// the compiler keeps the mask: without it the verifier of Linux 6.1 refuses the address
/// ("unbounded memory access"), as it loses the bounds of a spilled enum.
#[inline(always)]
fn place(reason: Reason) -> usize {
    let number = reason as u32;
    // SAFETY: a variable of this function.
    let number = unsafe { (&raw const number).read_volatile() };
    number.wrapping_sub(1) as usize & (PER_REASON - 1)
}

/// The limits of answers.
#[inline(always)]
pub fn limits(config: *const RawConfig) -> AnswerLimits {
    // SAFETY: as in `config`; every bit pattern is an AnswerLimits.
    unsafe { addr_of!((*config).limits).read() }
}
