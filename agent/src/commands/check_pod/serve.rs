//! The server: it answers each line of a connection, and each datagram, with its name.

use crate::shared::args::seconds;
use anyhow::{Context as _, Result};
use clap::Args;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::Notify;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// The line of a connection that ends the server: then its pod succeeds.
pub(super) const END: &str = "end";

/// What asks for the name. A datagram with another content is not answered: two servers would
/// answer each other without end.
pub(super) const ASK: &str = "name";

/// A connection that sends nothing for so long is closed.
const IDLE: Duration = Duration::from_secs(10);

/// Pause after a connection that could not be accepted.
const REST: Duration = Duration::from_millis(10);

/// The longest line that is read.
const LINE: u64 = 64;

/// Options of `epguard check-pod serve`.
#[derive(Debug, Args)]
pub(super) struct ServeArgs {
    /// The name that it answers with
    #[arg(long)]
    name: String,
    /// Port of TCP and UDP, for both address families
    #[arg(long, default_value = "8080")]
    port: u16,
    /// After this time it ends by itself
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = seconds(1..=86_400))]
    seconds: Duration,
}

/// Serves until a connection ends it, or until its time is over. Errors: a socket cannot be bound.
pub(super) async fn run(args: &ServeArgs) -> Result<()> {
    let server = Rc::new(Server {
        name: args.name.clone(),
        ended: Notify::new(),
    });
    let listeners = bind(args.port, TcpListener::bind).await;
    let listeners = listeners.with_context(|| format!("cannot listen on TCP {}", args.port))?;
    let sockets = bind(args.port, UdpSocket::bind).await;
    let sockets = sockets.with_context(|| format!("cannot bind UDP {}", args.port))?;
    let tasks = LocalSet::new();
    for listener in listeners {
        tasks.spawn_local(Rc::clone(&server).accept(listener));
    }
    for socket in sockets {
        tasks.spawn_local(Rc::clone(&server).answer_datagrams(socket));
    }
    let life = timeout(args.seconds, server.ended.notified());
    // Either way its work is done.
    let _ = tasks.run_until(life).await;
    Ok(())
}

/// Sockets for both families. One of IPv6 usually serves IPv4, too; then the second one cannot be
/// bound. Errors: there is none.
async fn bind<T, F>(port: u16, bind: impl Fn(SocketAddr) -> F) -> io::Result<Vec<T>>
where
    F: Future<Output = io::Result<T>>,
{
    let v6 = bind((IpAddr::from(Ipv6Addr::UNSPECIFIED), port).into()).await;
    let v4 = bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), port).into()).await;
    match (v6, v4) {
        (Err(_), Err(error)) => Err(error),
        (v6, v4) => Ok(v6.into_iter().chain(v4).collect()),
    }
}

struct Server {
    name: String,
    ended: Notify,
}

impl Server {
    async fn accept(self: Rc<Self>, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, _)) => {
                    spawn_local(Rc::clone(&self).answer_lines(stream));
                }
                // It has ended before it was accepted, or there are too many.
                Err(_) => sleep(REST).await,
            }
        }
    }

    async fn answer_lines(self: Rc<Self>, stream: TcpStream) -> io::Result<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = String::new();
            let mut limited = (&mut stream).take(LINE);
            let read = timeout(IDLE, limited.read_line(&mut line)).await??;
            if read == 0 {
                return Ok(());
            }
            stream.write_all(self.answer().as_bytes()).await?;
            if line.trim_end() == END {
                stream.shutdown().await?;
                self.ended.notify_one();
                return Ok(());
            }
        }
    }

    async fn answer_datagrams(self: Rc<Self>, socket: UdpSocket) {
        let mut datagram = [0; 64];
        loop {
            // An error is about an earlier answer.
            if let Ok((length, client)) = socket.recv_from(&mut datagram).await
                && datagram[..length].trim_ascii() == ASK.as_bytes()
            {
                let _ = socket.send_to(self.answer().as_bytes(), client).await;
            }
        }
    }

    fn answer(&self) -> String {
        format!("{}\n", self.name)
    }
}
