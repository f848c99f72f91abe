//! Which proxy leads to an API server, as kubectl chooses it.
//!
//! kube would compare `NO_PROXY` with the host of the proxy, and not with that of the server.

use super::output::after;
use anyhow::{Context as _, ensure};
use hyper::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::config::Kubeconfig;
use std::net::IpAddr;

/// The environment's proxy, and the hosts that are reached without it.
#[derive(Debug, Clone, Default)]
pub struct ProxyVariables {
    /// `HTTPS_PROXY`.
    pub proxy: Option<String>,
    /// `NO_PROXY`, a list with commas.
    pub excluded: Option<String>,
}

impl ProxyVariables {
    /// Reads the variables, in capitals or small.
    pub fn from_env() -> Self {
        Self {
            proxy: variable("HTTPS_PROXY"),
            excluded: variable("NO_PROXY"),
        }
    }
}

fn variable(name: &str) -> Option<String> {
    let names = [name.to_owned(), name.to_lowercase()];
    let mut values = names.iter().filter_map(|name| std::env::var(name).ok());
    values.find(|value| !value.trim().is_empty())
}

/// The `proxy-url` of a context's cluster.
pub fn of_context(file: &Kubeconfig, context: Option<&str>) -> Option<String> {
    let context = context?;
    let named = file.contexts.iter().find(|named| named.name == context)?;
    let cluster = &named.context.as_ref()?.cluster;
    let named = file.clusters.iter().find(|named| named.name == *cluster)?;
    let url = named.cluster.as_ref()?.proxy_url.clone()?;
    Some(url).filter(|url| !url.trim().is_empty())
}

/// The proxy for a server: the kubeconfig's own, or the environment's unless `NO_PROXY` or a
/// loopback address excludes the server. Errors: it is no URL.
pub fn choose(
    server: &Uri,
    of_context: Option<String>,
    variables: &ProxyVariables,
) -> anyhow::Result<Option<Uri>> {
    if let Some(url) = of_context {
        return parse(&url).context("proxy-url of the kubeconfig").map(Some);
    }
    let Some(url) = &variables.proxy else {
        return Ok(None);
    };
    let proxy = parse(url).context("HTTPS_PROXY")?;
    let excluded = variables.excluded.as_deref().unwrap_or_default();
    let matcher = Matcher::builder()
        .all("http://proxy.invalid")
        .no(items_for(excluded, server))
        .build();
    let is_through = matcher.intercept(server).is_some() && !is_loopback(server);
    Ok(is_through.then_some(proxy))
}

/// A proxy as errors name it: without the user and the password that its URL may have.
pub fn name(proxy: &Uri) -> String {
    let scheme = proxy.scheme_str().unwrap_or("http");
    let host = proxy.host().unwrap_or_default();
    let port = after(":", proxy.port_u16());
    format!("{scheme}://{host}{port}")
}

/// A URL; a host alone is a proxy that speaks HTTP.
fn parse(url: &str) -> anyhow::Result<Uri> {
    let url = url.trim();
    let full = if url.contains("://") {
        url.to_owned()
    } else {
        format!("http://{url}")
    };
    let url: Uri = full.parse().context("is no URL of a proxy")?;
    // kube's own error has the URL, which may have a password.
    ensure!(
        matches!(url.scheme_str(), Some("http" | "https" | "socks5")),
        "its scheme is neither http, https nor socks5"
    );
    Ok(url)
}

/// The items of a `NO_PROXY` that concern the server's port, in the form that the matcher knows:
/// without `:PORT`, and `.example` for `*.example`.
fn items_for(excluded: &str, server: &Uri) -> String {
    let usual = if server.scheme_str() == Some("http") {
        80
    } else {
        443
    };
    let port = server.port_u16().unwrap_or(usual);
    let mut items = Vec::new();
    for item in excluded.split(',') {
        let item = item.trim();
        let host = match with_port(item) {
            Some((_, of)) if of != port => continue,
            Some((host, _)) => host,
            None => item,
        };
        items.push(match host.strip_prefix('*') {
            Some(domain) if domain.starts_with('.') => domain,
            _ => host,
        });
    }
    items.join(",")
}

/// The host and the port of `HOST:PORT`. An IPv6 address without brackets has no port.
fn with_port(item: &str) -> Option<(&str, u16)> {
    let (host, port) = item.rsplit_once(':')?;
    if host.contains(':') && !host.ends_with(']') {
        return None;
    }
    Some((host.trim_matches(['[', ']']), port.parse().ok()?))
}

fn is_loopback(server: &Uri) -> bool {
    let host = server.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse().is_ok_and(|ip: IpAddr| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(server: &str, own: Option<&str>, proxy: &str, excluded: &str) -> Option<String> {
        let variables = ProxyVariables {
            proxy: Some(proxy.to_owned()).filter(|text| !text.is_empty()),
            excluded: Some(excluded.to_owned()),
        };
        let chosen = choose(&server.parse().unwrap(), own.map(str::to_owned), &variables);
        chosen.unwrap().map(|uri| uri.to_string())
    }

    #[test]
    fn a_server_that_no_proxy_names_is_reached_directly() {
        let [name, address] = ["https://api.corp.example:6443", "https://10.0.0.1:6443"];
        let proxy = "http://user:secret@proxy.example:3128";
        let found = Some(format!("{proxy}/"));
        for (server, excluded, expected) in [
            (name, "", &found),
            (name, "other.example, ,", &found),
            // The proxy's own host is no server.
            (name, "proxy.example", &found),
            (name, ".corp.example", &None),
            (name, "corp.example,", &None),
            (name, "*", &None),
            (address, "10.0.0.0/8", &None),
            (address, "10.0.0.1", &None),
            (address, "10.1.0.0/16", &found),
            (address, "10.0.0.1:6443", &None),
            (address, "10.0.0.1:8443", &found),
            (name, "*.corp.example", &None),
            (name, "api.corp.example:6443", &None),
            (name, "api.corp.example:443", &found),
            ("https://127.0.0.1:6443", "", &None),
            ("https://[::1]:6443", "", &None),
            ("https://localhost:6443", "", &None),
        ] {
            let chosen = through(server, None, proxy, excluded);
            assert_eq!(&chosen, expected, "{server} {excluded}");
        }
        assert_eq!(through(name, None, "", ""), None);
        let short = through(name, None, "proxy.example:3128", "");
        assert_eq!(short.as_deref(), Some("http://proxy.example:3128/"));
    }

    #[test]
    fn a_proxy_is_named_without_its_password() {
        for (url, named) in [
            (
                "http://user:s3cret@proxy.example:3128",
                "http://proxy.example:3128",
            ),
            ("socks5://[::1]:1080/", "socks5://[::1]:1080"),
            ("https://proxy.example", "https://proxy.example"),
        ] {
            assert_eq!(name(&url.parse().unwrap()), named);
        }
    }

    #[test]
    fn the_kubeconfigs_own_proxy_leads_to_every_server() {
        let own = Some("socks5://127.0.0.1:1080");
        for server in ["https://127.0.0.1:6443", "https://api.example"] {
            let chosen = through(server, own, "http://proxy.example", "*");
            assert_eq!(chosen.as_deref(), Some("socks5://127.0.0.1:1080/"));
        }
    }

    #[test]
    fn an_error_about_a_proxy_does_not_have_its_password() {
        let variables = ProxyVariables {
            proxy: Some("socks5h://user:s3cret@proxy.example".into()),
            excluded: None,
        };
        let error = choose(&"https://api.example".parse().unwrap(), None, &variables);
        let error = format!("{:#}", error.unwrap_err());
        assert!(
            error.starts_with("HTTPS_PROXY: its scheme is neither") && !error.contains("s3cret"),
            "{error}"
        );
    }

    #[test]
    fn a_variable_that_is_no_url_is_named() {
        let variables = ProxyVariables {
            proxy: Some("http://a b".into()),
            excluded: None,
        };
        let error = choose(&"https://api.example".parse().unwrap(), None, &variables);
        let error = format!("{:#}", error.unwrap_err());
        assert!(
            error.starts_with("HTTPS_PROXY: is no URL of a proxy"),
            "{error}"
        );
    }
}
