//! The plugin behind an HTTP proxy, which alone knows the name of the API server.

use super::world::World;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;

/// A name that only the proxy resolves.
const NAME: &str = "api.corp.invalid:6443";

/// A proxy that leads every connection to one server.
struct Proxy {
    address: SocketAddr,
    /// The servers that clients named.
    asked: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let named = asked.clone();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let named = named.clone();
                thread::spawn(move || tunnel(client, server, &named));
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Answers one CONNECT, and copies octets both ways until one side ends.
fn tunnel(mut client: TcpStream, to: SocketAddr, named: &Mutex<Vec<String>>) -> io::Result<()> {
    let mut head = BufReader::new(client.try_clone()?);
    let mut line = String::new();
    head.read_line(&mut line)?;
    let server = line.split(' ').nth(1).unwrap_or_default().to_owned();
    assert!(line.starts_with("CONNECT "), "{line}");
    named.lock().unwrap().push(server);
    while line.trim() != "" {
        line.clear();
        head.read_line(&mut line)?;
    }
    let mut server = TcpStream::connect(to)?;
    client.write_all(b"HTTP/1.1 200 OK\r\n\r\n")?;
    let mut back = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut back.0, &mut back.1);
        back.1.shutdown(Shutdown::Both)
    });
    io::copy(&mut head, &mut server)?;
    server.shutdown(Shutdown::Both)
}

/// The kubeconfig of a world, in which the server has another name.
fn renamed(world: &World, proxy_url: Option<SocketAddr>) -> String {
    let text = std::fs::read_to_string(&world.kubeconfig).unwrap();
    let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
    let cluster = &mut config["clusters"][0]["cluster"];
    cluster["server"] = format!("https://{NAME}").into();
    cluster["tls-server-name"] = "127.0.0.1".into();
    if let Some(proxy) = proxy_url {
        cluster["proxy-url"] = format!("http://{proxy}").into();
    }
    config.to_string()
}

fn output(mut command: Command) -> (Option<i32>, String) {
    let done = command.output().unwrap();
    let text = [done.stdout, done.stderr].concat();
    (done.status.code(), String::from_utf8_lossy(&text).into())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_goes_through_the_proxy_of_the_environment_or_of_the_kubeconfig_and_names_it() {
    let world = World::new();
    let proxy = Proxy::to(world.server.address);
    let folder = tempfile::tempdir().unwrap();
    let run = |own: Option<SocketAddr>, variables: &[(&str, String)]| {
        let kubeconfig = folder.path().join("config");
        std::fs::write(&kubeconfig, renamed(&world, own)).unwrap();
        let mut command = world.command("status");
        for name in ["HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"] {
            command.env_remove(name);
        }
        command.env("KUBECONFIG", kubeconfig);
        command.envs(variables.iter().cloned());
        output(command)
    };
    let url = format!("http://{}", proxy.address);

    for (own, variables) in [
        (None, vec![("HTTPS_PROXY", url.clone())]),
        (None, vec![("https_proxy", proxy.address.to_string())]),
        (Some(proxy.address), vec![("NO_PROXY", "*".to_owned())]),
    ] {
        let (code, text) = run(own, &variables);
        assert_eq!(code, Some(0), "{variables:?}: {text}");
        assert!(text.contains("3 nodes: all is well"), "{text}");
        let asked = proxy.asked();
        assert!(
            !asked.is_empty() && asked.iter().all(|server| server == NAME),
            "{asked:?}"
        );
    }

    let excluded = [
        ("HTTPS_PROXY", url),
        ("NO_PROXY", "10.0.0.0/8,.corp.invalid".to_owned()),
    ];
    let (code, text) = run(None, &excluded);
    assert_eq!((code, proxy.asked()), (Some(2), vec![]), "{text}");
    assert!(
        text.contains(&format!("API server https://{NAME}/ (kubeconfig ")),
        "{text}"
    );

    // An address at which no proxy listens.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let away = listener.local_addr().unwrap();
    drop(listener);
    for (own, variables) in [
        (
            None,
            vec![("HTTPS_PROXY", format!("http://user:s3cret@{away}"))],
        ),
        (Some(away), vec![]),
    ] {
        let (code, text) = run(own, &variables);
        let named = format!(", context lab, through proxy http://{away}): ");
        assert!(code == Some(2) && text.contains(&named), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
}
