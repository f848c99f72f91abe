//! A kernel module that is loaded while the agent runs.

use super::world::World;
use epguard::shared::status::Cause;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root: runs the agent"]
async fn conntrack_is_read_within_a_second_after_its_module_is_loaded() {
    let modules = [
        "/sys/module/nf_conntrack",
        "/proc/sys/net/netfilter/nf_conntrack_max",
    ];
    if modules.map(Path::new).iter().any(|path| path.exists()) {
        println!("nf_conntrack is loaded: `cargo xtask kernel` begins without it");
        return;
    }
    let mut world = World::synced("late", &[]);
    let status = world.status();
    let causes: Vec<Cause> = status
        .translators
        .gaps
        .iter()
        .map(|gap| gap.cause)
        .collect();
    // Some kernels describe the entries themselves, before the module is there.
    let expected = if status.translators.conntrack {
        vec![]
    } else {
        vec![Cause::NotLoaded]
    };
    assert_eq!(causes, expected);
    assert!(
        Command::new("modprobe")
            .arg("nf_conntrack")
            .status()
            .unwrap()
            .success()
    );
    let loaded = Instant::now();
    let status = world.until("reading conntrack", |status| status.translators.conntrack);
    assert!(
        loaded.elapsed() < Duration::from_secs(2),
        "read after {:?}; a status is a second old at most",
        loaded.elapsed()
    );
    assert_eq!(status.translators.gaps, []);
}
