//! The interfaces of the network namespace that this process is in.

/// Their numbers.
pub fn interfaces() -> std::io::Result<Vec<u32>> {
    let interfaces = nix::net::if_::if_nameindex()?;
    Ok(interfaces.iter().map(nix::net::if_::Interface::index).collect())
}
