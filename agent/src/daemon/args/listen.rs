//! Options about where the agent serves metrics and health.

use clap::Args;
use std::net::{IpAddr, SocketAddr};

/// Where metrics and health are served.
#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Where to serve /metrics over HTTP, without authentication; the metrics name no objects
    #[arg(
        long = "metrics-listen",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9467",
        value_parser = listen_address
    )]
    pub listen: SocketAddr,
    /// Where to serve /healthz and /readyz over HTTP, for the kubelet: keep it on loopback
    #[arg(
        long = "health-listen",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9468",
        value_parser = listen_address
    )]
    pub health: SocketAddr,
}

/// Reads `ADDRESS:PORT`. Brackets around the address are for IPv6 and may be there for IPv4: the
/// chart writes `[$(HOST_IP)]:9467`, and the kubelet fills in an address of the node's family.
fn listen_address(text: &str) -> Result<SocketAddr, &'static str> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    bracketed(text).ok_or("not ADDRESS:PORT, as in 192.0.2.1:9467 or [2001:db8::1]:9467")
}

fn bracketed(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.strip_prefix('[')?.split_once("]:")?;
    let address: IpAddr = address.parse().ok()?;
    Some(SocketAddr::new(address, port.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::args::parsed;

    fn metrics(listen: &str) -> Result<String, String> {
        let args: MetricsArgs = parsed(&["--metrics-listen", listen])?;
        Ok(args.listen.to_string())
    }

    #[test]
    fn an_address_in_brackets_may_be_of_either_family() {
        for (listen, read) in [
            ("192.0.2.1:9467", "192.0.2.1:9467"),
            ("[192.0.2.1]:9467", "192.0.2.1:9467"),
            ("[fd00::1]:9467", "[fd00::1]:9467"),
            ("[::]:9467", "[::]:9467"),
        ] {
            assert_eq!(metrics(listen), Ok(read.to_owned()), "{listen}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_or_lacks_a_part_is_refused_with_an_example() {
        for listen in [
            "fd00::1:9467",
            "[$(HOST_IP)]:9467",
            "[192.0.2.1]",
            "[]:9467",
            "192.0.2.1:99999",
            "[192.0.2.1]:99999",
            ":9467",
        ] {
            let error = metrics(listen).unwrap_err();
            assert!(error.contains("[2001:db8::1]:9467"), "{listen}: {error}");
        }
    }
}
