//! Servers that answer with their pod's name.

use super::client::unless_closing;
use crate::net::NetNs;
use anyhow::{Context, Result};
use socket2::{Domain, Socket, Type};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, Runtime};

/// The running process of a pod: serves TCP and UDP ports on all addresses of its namespace, and
/// keeps TCP connections open. Dropping it kills it: every socket is closed at once. The effect on
/// its peers depends on whether the pod's link still exists ([`crate::net::Topology::remove_pod`]).
/// Drop it outside of async code: it owns a tokio runtime.
#[derive(Debug)]
pub struct Server {
    responder: Arc<Responder>,
    _runtime: Runtime,
}

#[derive(Debug)]
struct Responder {
    name: String,
    requests: AtomicU64,
}

impl Server {
    /// Starts serving in `netns`; the ports accept when this returns.
    pub fn start(netns: &NetNs, name: &str, ports: &[u16]) -> Result<Self> {
        let bound = netns
            .io(|| unless_closing(|| bind_all(ports)))
            .with_context(|| format!("cannot bind the ports {ports:?} of {name}"))?;
        let responder = Arc::new(Responder {
            name: name.to_owned(),
            requests: AtomicU64::new(0),
        });
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name(format!("server {name}"))
            .enable_io()
            .build()?;
        for (listener, socket) in bound {
            runtime.spawn(serve_connections(listener, Arc::clone(&responder)));
            runtime.spawn(serve_datagrams(socket, Arc::clone(&responder)));
        }
        Ok(Self {
            responder,
            _runtime: runtime,
        })
    }

    /// How many requests have arrived, answered or not.
    pub fn requests(&self) -> u64 {
        self.responder.requests.load(Ordering::Relaxed)
    }
}

/// Sockets of each of these ports.
fn bind_all(ports: &[u16]) -> io::Result<Vec<(std::net::TcpListener, std::net::UdpSocket)>> {
    ports.iter().map(|port| bind(*port)).collect()
}

/// A socket of each protocol for both address families.
fn bind(port: u16) -> io::Result<(std::net::TcpListener, std::net::UdpSocket)> {
    Ok((
        dual_stack(Type::STREAM, port)?.into(),
        dual_stack(Type::DGRAM, port)?.into(),
    ))
}

fn dual_stack(kind: Type, port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV6, kind.nonblocking(), None)?;
    socket.set_only_v6(false)?;
    if kind == Type::STREAM {
        // On a node connections of an earlier server may still be closing.
        socket.set_reuse_address(true)?;
    }
    socket.bind(&SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)).into())?;
    if kind == Type::STREAM {
        socket.listen(1024)?;
    }
    Ok(socket)
}

/// Ends with the first error of the listening socket; there is none while its file descriptor is
/// open.
async fn serve_connections(
    listener: std::net::TcpListener,
    responder: Arc<Responder>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        tokio::spawn(serve_stream(stream, Arc::clone(&responder)));
    }
}

/// As [`serve_connections`].
async fn serve_datagrams(socket: std::net::UdpSocket, responder: Arc<Responder>) -> io::Result<()> {
    let socket = UdpSocket::from_std(socket)?;
    let mut datagram = [0; 2048];
    loop {
        let (length, client) = socket.recv_from(&mut datagram).await?;
        let _ = socket
            .send_to(&responder.answer(&datagram[..length]), client)
            .await;
    }
}

async fn serve_stream(stream: TcpStream, responder: Arc<Responder>) -> io::Result<()> {
    let mut stream = BufReader::new(stream);
    let mut line = Vec::new();
    while stream.read_until(b'\n', &mut line).await? > 0 {
        stream.write_all(&responder.answer(&line)).await?;
        line.clear();
    }
    Ok(())
}

impl Responder {
    fn answer(&self, request: &[u8]) -> Vec<u8> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        reply(request, &self.name)
    }
}

/// A request number that this process has not used yet.
pub(super) fn request() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The bytes of a request, at least `size` of them.
pub(super) fn encode(request: u64, size: usize) -> Vec<u8> {
    format!("{request:<0$}\n", size.saturating_sub(1)).into_bytes()
}

/// The reply of the pod of this name.
pub(super) fn reply(received: &[u8], name: &str) -> Vec<u8> {
    let request = String::from_utf8_lossy(received);
    format!("{} {name}\n", request.trim_end()).into_bytes()
}

/// The name of the pod that replied, if this is a reply to the request.
pub(super) fn replier(received: &[u8], request: u64) -> Option<String> {
    let (number, name) = std::str::from_utf8(received)
        .ok()?
        .trim_end()
        .split_once(' ')?;
    (number.parse() == Ok(request)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_to_another_request_is_not_taken() {
        let sent = encode(7, 0);
        assert_eq!(
            replier(&reply(&sent, "shop/a-1"), 7),
            Some("shop/a-1".to_owned())
        );
        assert_eq!(replier(&reply(&sent, "shop/a-1"), 8), None);
        assert_eq!(replier(b"banana", 7), None);
        let long = encode(7, 4000);
        assert_eq!(long.len(), 4000);
        assert_eq!(
            replier(&reply(&long[..2048], "shop/a-1"), 7),
            Some("shop/a-1".to_owned())
        );
    }
}
