//! Orphan IPs (TERMINATED). The agent needs the node's routes for them, some time after the API shows that the pod is dead.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use epguard::kernel::maps::KeyedMap;
use epguard_common::{Addr, Terminated};

use crate::wait;

/// Waits until TERMINATED has the address.
pub fn await_orphan_ip(pin_dir: &Path, address: IpAddr) -> Result<()> {
    let terminated = KeyedMap::<Addr, Terminated>::pinned(pin_dir, "TERMINATED")?;
    wait::until(Duration::from_millis(5), || {
        Ok(wait::holds(terminated.get(&address.into()).is_ok(), || {
            format!("{address} is not in TERMINATED")
        }))
    })
}
