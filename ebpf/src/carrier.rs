//! Numbers that packets carry between epguard's hooks: only in the bits that the agent permits ([`View::carrier`]), and only
//! while a mode is on and the lease runs. No other file reads or writes `tc_index` and `tc_classid`.

use crate::frame::Origin as _;
use crate::maps;
use crate::skb::Skb;
use aya_ebpf::EbpfContext as _;
use aya_ebpf::bindings::__sk_buff;
use epguard_common::{Force, JUDGED, Mode, Role, Slot, View};

impl Skb {
    /// What is in force.
    #[inline(always)]
    pub fn force(&self, view: &View) -> Force {
        let mode = maps::config().map_or(Mode::Off, |(_, mode, _)| mode);
        Force::of(mode, view, || self.now_ns())
    }

    /// The number that the packet carries; 0: none.
    #[inline(always)]
    pub fn carried(&self, view: &View) -> u16 {
        // SAFETY: a field of the program's own context.
        view.carried(unsafe { (*self.sk_buff()).tc_index })
    }

    /// Writes a number for the next hook; 0 removes an older one. False if that is not permitted.
    ///
    /// Both fields get it: where a later TCX program returns PASS, the kernel copies `tc_classid` to `tc_index`. The old value
    /// of `tc_classid` is left over from other uses of `skb->cb`.
    #[inline(always)]
    pub fn carry(&self, view: &View, number: u16) -> bool {
        let sk_buff = self.sk_buff();
        // SAFETY: fields of the program's own context, which TC programs may read and write.
        unsafe {
            let (index, class) = ((*sk_buff).tc_index, (*sk_buff).tc_classid);
            if view.carried(index) == number && view.carried(class) == number {
                return true;
            }
            if !view.can_carry(number) || self.force(view) != Force::On {
                return false;
            }
            (*sk_buff).tc_index = view.carrying(index, number);
            (*sk_buff).tc_classid = view.carrying(class, number);
        }
        true
    }

    /// Takes `carried` off a packet that leaves, so that it has the fields that it would have without epguard. Where
    /// another egress hook of epguard follows, a packet of the node's own sockets carries [`JUDGED`] there: a tunnel's outer
    /// packet still belongs to the socket of the inner one.
    #[inline(always)]
    pub fn hand_on(&self, view: &View, carried: u16) {
        if view.carrier == 0 || carried == 0 && !self.has_socket() {
            return;
        }
        let (ours, answer) = (carried == JUDGED || self.has_socket(), view.is_answer(carried));
        let last = !ours && !answer || self.leaves_by_last_hook();
        if !last && answer {
            return;
        }
        self.relabel(view, carried, if ours && !last { JUDGED } else { 0 });
    }

    /// Whether no other egress hook of epguard follows.
    #[inline(always)]
    fn leaves_by_last_hook(&self) -> bool {
        matches!(maps::role(self.sk_ifindex()), Some(Role::Pod | Role::Uplink))
    }

    /// Replaces the number of a packet that leaves. In `tc_classid` only a number that epguard wrote: at egress the field
    /// holds data of the IP layer in `skb->cb`.
    #[inline(always)]
    pub fn relabel(&self, view: &View, carried: u16, number: u16) -> bool {
        if carried == number {
            return true;
        }
        if !view.can_carry(number) || self.force(view) != Force::On {
            return false;
        }
        let sk_buff = self.sk_buff();
        // SAFETY: as in `carry`.
        unsafe {
            (*sk_buff).tc_index = view.carrying((*sk_buff).tc_index, number);
            let class = (*sk_buff).tc_classid;
            if carried != 0 && view.carried(class) == carried {
                (*sk_buff).tc_classid = view.carrying(class, number);
            }
        }
        true
    }

    /// Marks a rewritten packet as an answer of epguard, and clears `skb->mark` (Cilium keeps the sender's identity there,
    /// Calico its verdicts). False without a carrier.
    #[inline(always)]
    pub fn make_answer(&self, view: &View) -> bool {
        // SAFETY: a field of the program's own context that TC programs may write.
        unsafe { (*self.sk_buff()).mark = 0 };
        self.carry(view, view.answer)
    }

    /// The slot that the packet carries.
    #[inline(always)]
    pub fn carried_slot(&self, view: &View) -> Slot {
        Slot::from_carried(self.carried(view))
    }

    /// Whether a socket of this node sent the packet.
    #[inline(always)]
    pub fn has_socket(&self) -> bool {
        // SAFETY: a field of the program's own context, compared with null only.
        !unsafe { (*self.sk_buff()).__bindgen_anon_2.sk }.is_null()
    }

    #[inline(always)]
    fn sk_ifindex(&self) -> u32 {
        // SAFETY: a field of the program's own context.
        unsafe { (*self.sk_buff()).ifindex }
    }

    #[inline(always)]
    fn sk_buff(&self) -> *mut __sk_buff {
        self.as_ptr().cast()
    }
}
