//! The node that this process is on: its network namespace and its clock.

use anyhow::{Context as _, Result};
use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::GetStruct;

/// `SO_NETNS_COOKIE` of the network namespace that this process is in. Linux 5.14.
pub fn netns_cookie() -> Result<u64> {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0")
        .or_else(|_| std::net::UdpSocket::bind("0.0.0.0:0"))
        .context("cannot make a socket")?;
    getsockopt(&socket, NetnsCookie).context("cannot read the network namespace's cookie")
}

/// The option. Its length is always 8: nix would panic at another one.
#[derive(Debug, Clone, Copy)]
struct NetnsCookie;

nix::getsockopt_impl!(
    NetnsCookie,
    libc::SOL_SOCKET,
    libc::SO_NETNS_COOKIE,
    u64,
    GetStruct<u64>
);

/// Numbers of the interfaces of this network namespace.
pub fn interfaces() -> std::io::Result<Vec<u32>> {
    Ok(named_interfaces()?
        .into_iter()
        .map(|(number, _)| number)
        .collect())
}

/// Numbers and names of the interfaces of this network namespace.
pub fn named_interfaces() -> std::io::Result<Vec<(u32, String)>> {
    let interfaces = nix::net::if_::if_nameindex()?;
    let named = |interface: &nix::net::if_::Interface| {
        let name = interface.name().to_string_lossy();
        (interface.index(), name.into_owned())
    };
    Ok(interfaces.iter().map(named).collect())
}
