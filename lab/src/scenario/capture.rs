//! An interface for captured packets.

use anyhow::Result;

use super::process;
use crate::net::NetNs;

/// Makes it. Packets that are sent there go no further.
pub(super) fn make(netns: &NetNs) -> Result<()> {
    for arguments in [
        "link add cap0 type veth peer name cap1",
        "link set cap1 up",
        "link set cap0 up",
    ] {
        process::output(netns.command("ip").args(arguments.split(' ')))?;
    }
    Ok(())
}
