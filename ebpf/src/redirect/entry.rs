//! The entries of a redirected flow: a copy of both, and where FLOWS or OPENING has its entry.

use crate::clock;
use crate::maps::copy_of_key;
use epguard_common::{Flow, Keyed, Redirected, Return};

/// A redirected flow, and where its replies go.
#[repr(C)]
pub struct FlowPair {
    /// With the client's addresses: FLOWS or OPENING.
    pub there: Keyed<Flow, Redirected>,
    /// With the live endpoint's addresses: RETURNS or `OPENING_RETURNS`.
    pub back: Keyed<Flow, Return>,
}

/// Where a redirected flow has its entry in FLOWS or OPENING.
#[derive(Clone, Copy)]
pub struct FlowEntry(pub *mut Keyed<Flow, Redirected>);

impl FlowEntry {
    /// Copies the value; `None` if the entry now belongs to another flow.
    #[inline(always)]
    pub fn read(self, into: &mut Keyed<Flow, Redirected>) -> Option<()> {
        copy_of_key(self.0, into)
    }

    /// Notes that the flow has sent a packet now.
    #[inline(always)]
    pub fn touch(self) {
        // SAFETY: a field of an entry that stays writable for the run of the program, of this flow
        // or of one that has just got its place: then the agent removes that one a little later.
        unsafe { (&raw mut (*self.0).value.used_ns).write_volatile(clock::now_ns()) };
    }

    /// Adds flags. If two processors race, one may lose its flag: the next packet sets it again.
    #[inline(always)]
    pub fn add_flags(self, flags: u32) {
        // SAFETY: as in `touch`.
        unsafe {
            let all = &raw mut (*self.0).value.flags;
            all.write_volatile(all.read_volatile() | flags);
        }
    }

    /// Notes that the client has its own connection with these addresses at the live endpoint.
    #[inline(always)]
    pub fn take(self) {
        self.add_flags(Redirected::TAKEN);
        self.touch();
    }

    /// Replaces the flags. Races as [`FlowEntry::add_flags`].
    #[inline(always)]
    pub fn set_flags(self, flags: u32) {
        // SAFETY: as in `touch`.
        unsafe { (&raw mut (*self.0).value.flags).write_volatile(flags) };
    }

    /// Notes the endpoint's answer. A client that received it acknowledges this number.
    #[inline(always)]
    pub fn answered(self, proof: u32) {
        // SAFETY: as in `touch`.
        unsafe { (&raw mut (*self.0).value.proof).write_volatile(proof) };
        self.add_flags(Redirected::ANSWERED);
    }
}
