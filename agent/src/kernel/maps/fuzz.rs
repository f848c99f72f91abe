//! Fuzzes the restore: the state restores any contents of the maps, and the plan leads back from
//! them.

use super::lifts;
use epguard_common::*;
use epguard_core::facts::{Fact, Presence, Routes, Watched};
use epguard_core::plan;
use epguard_core::state::{Changes, Settings, State, Tables};
use epguard_fuzz::config;
use proptest::collection::vec;
use proptest::prelude::*;
use std::time::Duration;

/// One of few addresses, so that the maps' entries meet, or any.
fn addr() -> impl Strategy<Value = Addr> {
    prop_oneof![
        9 => (0..8_u8).prop_map(|host| Addr::v4([10, 244, 1, host])),
        1 => any::<[u8; 16]>().prop_map(|octets| Addr { octets }),
    ]
}

/// One of few numbers, or any.
fn number() -> impl Strategy<Value = u32> {
    prop_oneof![9 => 0..8_u32, 1 => any::<u32>()]
}

fn service() -> impl Strategy<Value = ServiceNumber> {
    number().prop_map(|number| ServiceNumber { number })
}

fn uid() -> impl Strategy<Value = Uid> {
    any::<[u8; 16]>().prop_map(|octets| Uid { octets })
}

fn vip() -> impl Strategy<Value = Vip> {
    (addr(), any::<u16>(), 0..20_u8).prop_map(|(addr, port, protocol)| Vip {
        addr,
        port,
        protocol,
        reserved: 0,
    })
}

fn target() -> impl Strategy<Value = DenialKey> {
    let parts = (addr(), service(), any::<u16>(), 0..20_u8);
    parts.prop_map(|(addr, service, port, protocol)| DenialKey::new(addr, service, port, protocol))
}

fn denial() -> impl Strategy<Value = RawDenial> {
    let parts = (
        [uid(), uid(), uid()],
        [number(), number(), number(), number(), number()],
    );
    parts.prop_map(
        |([dead_uid, owner_uid, boot_id], [reason, uid_state, mode, stopped, action])| RawDenial {
            dead_uid,
            owner_uid,
            boot_id,
            reason,
            uid_state,
            mode,
            stopped,
            action,
        },
    )
}

fn tables() -> impl Strategy<Value = Tables> {
    let maps = (
        vec((target(), denial()), 0..9),
        vec((addr(), any::<u32>()), 0..9),
        vec((vip(), service()), 0..9),
        vec((target(), number(), any::<u32>()), 0..9),
        vec((addr(), uid(), any::<u64>()), 0..9),
    );
    maps.prop_map(
        |(denied, suspects, services, backends, terminated)| Tables {
            denied: denied
                .into_iter()
                .filter_map(|(target, raw)| Some((target, raw.checked()?)))
                .collect(),
            suspects: suspects
                .into_iter()
                .map(|(addr, flags)| {
                    (
                        addr,
                        Suspect {
                            flags,
                            ..Suspect::default()
                        },
                    )
                })
                .collect(),
            services: services.into_iter().collect(),
            backends: backends
                .into_iter()
                .map(|(target, count, sticky)| {
                    (
                        target,
                        Backends {
                            count,
                            sticky,
                            ..Backends::default()
                        },
                    )
                })
                .collect(),
            terminated: terminated
                .into_iter()
                .map(|(addr, dead_uid, lifted_ns)| {
                    let entry = Terminated {
                        dead_uid,
                        lifted_ns,
                        ..Terminated::default()
                    };
                    (addr, lifts::orphan_ip(&entry))
                })
                .collect(),
            ..Tables::default()
        },
    )
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn pinned_maps(restored in tables()) {
        let mut state = State::new(Settings { node: "node-a".into(), ..Settings::default() });
        state.restore(restored.clone());
        let now = Duration::from_secs(1);
        state.apply(now, Fact::Presence(Presence::Routes(Routes::default())));
        for watched in Watched::ALWAYS {
            state.apply(now, watched.empty());
        }
        state.tick(now + Duration::from_mins(20));
        assert!(state.is_synced());
        // No Service is known, so no denial stays.
        assert!(state.tables().denied.is_empty(), "{:?}", state.tables().denied);
        let changes = Changes::between(&restored, state.tables());
        let _ = plan::tables(&restored, state.tables(), &changes);
    }
}
