//! Fuzzes the restore: the state restores any contents of the maps, and the plan leads back from them.

use super::terminated;
use crate::fuzz::harness::run;
use epguard_common::{
    Addr, Backend, Backends, DenialKey, MAX_BACKENDS, RawDenial, ServiceNumber, Suspect, Terminated, Uid, Vip,
};
use epguard_core::facts::{Fact, Presence, Watched};
use epguard_core::plan;
use epguard_core::state::{Changes, Ipam, Ranges, Settings, State, Tables};
use std::time::Duration;

/// Random octets, in the order of the maps' fields; zeros behind the end.
struct Octets<'a>(&'a [u8]);

impl Octets<'_> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_at(N.min(self.0.len()));
        self.0 = rest;
        let mut octets = [0; N];
        octets[..head.len()].copy_from_slice(head);
        octets
    }

    /// One of few addresses, so that the maps' entries meet.
    fn addr(&mut self) -> Addr {
        let [host, odd] = self.take();
        match odd {
            0xff => Addr { octets: self.take() },
            _ => Addr::v4([10, 244, 1, host % 8]),
        }
    }

    fn u16(&mut self) -> u16 {
        u16::from_ne_bytes(self.take())
    }

    fn u32(&mut self) -> u32 {
        u32::from_ne_bytes(self.take())
    }

    fn uid(&mut self) -> Uid {
        Uid { octets: self.take() }
    }

    /// One of few numbers, so that the maps' entries meet, or any.
    fn service(&mut self) -> ServiceNumber {
        let [number, odd] = self.take();
        let number = match odd {
            0xff => self.u32(),
            _ => u32::from(number % 8),
        };
        ServiceNumber { number }
    }

    fn target(&mut self) -> DenialKey {
        DenialKey::new(self.addr(), self.service(), self.u16(), self.take::<1>()[0])
    }
}

fn tables(octets: &[u8]) -> Tables {
    let (mut octets, mut tables) = (Octets(octets), Tables::default());
    while !octets.0.is_empty() {
        match octets.take::<1>()[0] % 5 {
            0 => {
                let target = octets.target();
                let raw = RawDenial {
                    dead_uid: octets.uid(),
                    owner_uid: octets.uid(),
                    boot_id: octets.uid(),
                    reason: octets.u32(),
                    uid_state: octets.u32(),
                    mode: octets.u32(),
                    held: octets.u32(),
                    action: octets.u32(),
                };
                tables.denied.extend(raw.checked().map(|denial| (target, denial)));
            }
            1 => {
                let flags = octets.u32();
                let suspect = Suspect { flags, ..Suspect::default() };
                tables.suspects.insert(octets.addr(), suspect);
            }
            2 => {
                let vip = Vip {
                    addr: octets.addr(),
                    port: octets.u16(),
                    protocol: octets.take::<1>()[0],
                    reserved: 0,
                };
                tables.services.insert(vip, octets.service());
            }
            3 => {
                let backends = Backends {
                    count: octets.u32(),
                    sticky: octets.u32(),
                    live: [Backend::default(); MAX_BACKENDS],
                };
                tables.backends.insert(octets.target(), backends);
            }
            _ => {
                let entry = Terminated {
                    dead_uid: octets.uid(),
                    lifted_ns: u64::from_ne_bytes(octets.take()),
                    ..Terminated::default()
                };
                tables.terminated.insert(octets.addr(), terminated::orphan_ip(&entry));
            }
        }
    }
    tables
}

#[test]
fn pinned_maps() {
    let whole: Vec<u8> = (0..=255).collect();
    let mut denying = vec![0, 3, 0, 1, 0, 80, 0, 6];
    denying.extend([0xaa; 48]);
    denying.extend([1, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0]);
    denying.extend([0; 8]);
    let seeds = vec![whole, denying.repeat(4), [2, 9, 0, 80, 0, 6, 1, 0].repeat(3)];
    run("pinned-maps", seeds, &[], |octets| {
        let restored = tables(octets);
        let mut state =
            State::new(Settings { node: "node-a".into(), ipam: Ipam::Auto, ranges: Ranges::default() });
        state.restore(restored.clone());
        let now = Duration::from_secs(1);
        state.apply(now, Fact::Presence(Presence::Held(vec![])));
        for watched in Watched::ALWAYS {
            state.apply(now, watched.empty());
        }
        state.tick(now + Duration::from_mins(20));
        assert!(state.is_synced());
        // No Service is known, so no denial stays.
        assert!(state.tables().denied.is_empty(), "{:?}", state.tables().denied);
        let changes = Changes::between(&restored, state.tables());
        let _ = plan::tables(&restored, state.tables(), &changes);
    });
}
