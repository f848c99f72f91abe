//! What the verdict on a packet or a call looks up, and the choice of an action. It keeps what it
//! finds, for the report.

use crate::copies::is_copy;
use crate::found::Found;
use crate::frame::{Frame as _, Origin};
use crate::maps;
use crate::redirect::{self, NextHop};
use crate::reject::{Hook, Seeker, find_way, limit};
use crate::skb::Skb;
use crate::telemetry::Evidence;
use aya_ebpf::EbpfContext as _;
use core::cell::Cell;
use epguard_common::{
    Action, ActionModel, Addr, DenialKey, EgressModel, Intent, Meant, Mode, Model, Packet, Proof,
    Rate, RawConfig, Reason, Role, Suspect, Uid, View,
};

/// The lookups for one packet or call to an IP that may be a suspect.
pub struct Lookup<'a, F> {
    pub frame: &'a F,
    pub view: &'a View,
    pub config: *const RawConfig,
    pub mode: Mode,
    /// Where the packet is judged; of a call, after the load balancer.
    pub hook: Hook,
    /// The entry of its destination, with the flags.
    pub suspect: Option<(*mut Suspect, u32)>,
    /// What the translators recorded.
    pub found: Found,
    /// The endpoint, if `found` is a translation; its Service has a number if it has denials.
    pub key: &'a DenialKey,
    /// What the client asked for, if `found` is a translation.
    pub meant: &'a Meant,
    /// The denial that was found.
    pub denial: Cell<Option<maps::Denied>>,
}

impl<F: Origin> Model for Lookup<'_, F> {
    #[inline(always)]
    fn suspect(&self, _: &Addr) -> Option<u32> {
        self.suspect.map(|(_, flags)| flags)
    }

    #[inline(always)]
    fn intent(&self, _: &Packet) -> Intent {
        match self.found {
            Found::Nothing => Intent::NoConnection,
            Found::Unreadable => Intent::Unreadable,
            _ if self.key.service.is_some() => Intent::Endpoint(*self.key),
            _ => Intent::None,
        }
    }

    #[inline(always)]
    fn denial(&self, key: &DenialKey) -> Option<Proof> {
        let denied = maps::denial(key)?;
        self.denial.set(Some(denied));
        Some(denied.proof())
    }

    #[inline(always)]
    fn mode(&self) -> Mode {
        self.mode
    }

    #[inline(always)]
    fn mode_of(&self, reason: Reason) -> Mode {
        maps::mode_of(self.config, reason)
    }

    #[inline(always)]
    fn lease_is_valid(&self) -> bool {
        self.view.lease_is_valid(self.frame.now_ns())
    }
}

impl<F> Lookup<'_, F> {
    /// The action of the denial that was found; unset if it has none.
    #[inline(always)]
    pub fn own_action(&self) -> Action {
        self.denial
            .get()
            .map_or(Action::Unset, |denied| denied.action())
    }
}

impl<F> Evidence for Lookup<'_, F> {
    #[inline(always)]
    fn rate(&self) -> Option<*mut Rate> {
        // SAFETY: a field of an entry that stays there for the run of the program.
        self.suspect
            .map(|(suspect, _)| unsafe { &raw mut (*suspect).rate })
    }

    #[inline(always)]
    fn write_uids(&self, dead: *mut Uid, owner: *mut Uid) {
        if let Some(denied) = self.denial.get() {
            denied.write_uids(self.key, dead, owner);
        }
    }

    #[inline(always)]
    fn key(&self) -> &DenialKey {
        self.key
    }

    #[inline(always)]
    fn client(&self) -> (&Addr, u16) {
        (&self.meant.client, self.meant.client_port)
    }
}

impl<'a> ActionModel for Lookup<'_, Skb<'a>> {
    type Octets = Skb<'a>;

    #[inline(always)]
    fn octets(&self) -> &Skb<'a> {
        self.frame
    }

    #[inline(always)]
    fn own_action(&self) -> Action {
        Lookup::own_action(self)
    }

    #[inline(always)]
    fn configured_action(&self, reason: Reason) -> Action {
        maps::action_of(self.config, reason)
    }

    /// The destination of [`Work`](crate::work::Work) keeps the endpoint.
    #[inline(always)]
    fn choose_backend(&self, packet: &Packet) -> bool {
        if self.found != Found::Conntrack || self.frame.is_tagged() {
            return false;
        }
        let destination = self.frame.work.destination.get_mut();
        destination.through = 0;
        maps::choose_backend(packet, self.key, &mut destination.backend)
    }

    #[inline(always)]
    fn is_backend_live(&self) -> bool {
        redirect::is_live(&self.frame.work.destination.get().backend)
    }

    #[inline(always)]
    fn has_route_to_backend(&self, _: &Packet) -> bool {
        let context = self.frame.as_ptr().cast();
        if redirect::next_hop(context) != NextHop::Found as u32 {
            return false;
        }
        // Nothing at an interface without hooks translates answers back, and none come from a relay
        // itself.
        let through = self.frame.work.destination.get().through;
        maps::role(through).is_some_and(|role| role != Role::Relay)
            && find_way(context, Seeker::Replies as u32) != 0
    }

    #[inline(always)]
    fn is_to_many(&self) -> bool {
        self.frame.is_to_many()
    }

    #[inline(always)]
    fn has_room(&self) -> bool {
        limit::has_room(self.config, self, self.frame.now_ns())
    }

    #[inline(always)]
    fn has_way(&self) -> bool {
        let seeker = match (self.hook, self.found) {
            (Hook::Ingress, _) => return true,
            (Hook::Egress, Found::Socket) => Seeker::Socket,
            (Hook::Egress, _) => Seeker::AfterDnat,
        };
        find_way(self.frame.as_ptr().cast(), seeker as u32) != 0
    }
}

impl EgressModel for Lookup<'_, Skb<'_>> {
    #[inline(always)]
    fn is_redirected(&self, packet: &Packet) -> bool {
        if self.view.flows == 0 || self.found != Found::Conntrack {
            return false;
        }
        if packet.opens() {
            redirect::forget_closed(self.frame.work);
        }
        redirect::find_destination(self.frame.work)
    }

    #[inline(always)]
    fn is_copy(&self) -> bool {
        is_copy(self.frame)
    }
}
