//! TERMINATED. The agent learns from the node's routes who is gone, some time after the API has said so.

use std::net::IpAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use epguard::kernel::maps::KeyedMap;
use epguard_common::{Addr, Terminated};

/// Waits until the datapath takes the address for one that nobody holds.
pub fn await_vacancy(pin_dir: &Path, address: IpAddr, patience: Duration) -> Result<()> {
    let terminated = KeyedMap::<Addr, Terminated>::pinned(pin_dir, "TERMINATED")?;
    let deadline = Instant::now() + patience;
    while terminated.get(&address.into()).is_err() {
        ensure!(
            Instant::now() < deadline,
            "{address} is not in TERMINATED after {patience:?}"
        );
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
