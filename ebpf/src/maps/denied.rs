//! DENIED: denied endpoints of Services.

use super::{KeyedMap, of_key};
use aya_ebpf::btf_maps::HashMap;
use aya_ebpf::macros::btf_map;
use core::ptr::{addr_of, copy_nonoverlapping};
use epguard_common::{
    Action, DenialKey, Keyed, Mode, Proof, RawDenial, Reason, Uid, UidState, capacity,
};

#[btf_map]
static DENIED: KeyedMap<DenialKey, RawDenial, { capacity::DENIED }> = HashMap::new();

/// A denial as it was found. Numbers only: the kernel refuses the BTF of an `Option` that hides in
/// an enum further inside.
#[derive(Clone, Copy)]
pub struct Denied {
    entry: *const Keyed<DenialKey, RawDenial>,
    reason: u32,
    uid_state: u32,
    mode: u32,
    stopped: u32,
    action: u32,
}

impl Denied {
    /// The proof that the denial rests on.
    #[inline(always)]
    pub fn proof(&self) -> Proof {
        Proof {
            reason: Reason::from_number(self.reason).unwrap_or(Reason::Nothing),
            uid_state: UidState::from_raw(self.uid_state).unwrap_or_default(),
            mode: Mode::from_raw(self.mode),
            stopped: self.stopped != 0,
        }
    }

    /// Writes the pods that the denial means and hits; none if the entry now belongs to another
    /// key.
    #[inline(always)]
    pub fn write_uids(&self, target: &DenialKey, dead: *mut Uid, owner: *mut Uid) {
        // SAFETY: as in `of_key`; the caller has room for two.
        let written = of_key(self.entry, target, |denial| unsafe {
            copy_nonoverlapping(addr_of!((*denial).dead_uid), dead, 1);
            copy_nonoverlapping(addr_of!((*denial).owner_uid), owner, 1);
        });
        if written.is_none() {
            // SAFETY: as above.
            unsafe {
                dead.write(Uid::NONE);
                owner.write(Uid::NONE);
            }
        }
    }

    /// The denial's own action; unset: that of CONFIG.
    #[inline(always)]
    pub fn action(&self) -> Action {
        Action::from_raw(self.action)
    }
}

/// The denial of an endpoint; `None` also if its reason is an unknown number.
#[inline(always)]
pub fn denial(target: &DenialKey) -> Option<Denied> {
    let entry = DENIED.get_ptr(target)?;
    // SAFETY: as in `of_key`.
    let denied = of_key(entry, target, |denial| unsafe {
        Denied {
            entry,
            reason: addr_of!((*denial).reason).read_volatile(),
            uid_state: addr_of!((*denial).uid_state).read_volatile(),
            mode: addr_of!((*denial).mode).read_volatile(),
            stopped: addr_of!((*denial).stopped).read_volatile(),
            action: addr_of!((*denial).action).read_volatile(),
        }
    })?;
    Reason::from_number(denied.reason)?;
    Some(denied)
}
