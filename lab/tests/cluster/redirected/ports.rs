//! One client port, used for a connection to the live endpoint and for one that would be redirected there.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::place::{PORT, call, connect, echo, stage, stage_on_a_bridge};
use crate::stage::{ip, netns, vip};
use epguard_lab::scenario::stage::Stage;
use socket2::{Domain, Socket, Type};

const CLIENT_PORT: u16 = 45_001;

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connection_to_the_live_endpoint_outlives_a_redirected_one_from_the_same_port() {
    outlives(&stage());
}

#[test]
#[ignore = "needs root: makes network namespaces and loads BPF programs"]
fn a_connection_from_the_port_of_a_redirected_one_survives_on_a_bridge() {
    outlives(&stage_on_a_bridge());
}

fn outlives(stage: &Stage) {
    let _servers = (echo(stage, "L"), echo(stage, "B"));
    let live = SocketAddr::new(ip(stage, "L"), PORT);
    let mut older = from_port(stage, live).unwrap();
    call(&mut older).unwrap();
    let refused = from_port(stage, vip(stage, "old/web")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused, "{refused}");
    call(&mut older).unwrap();
    // Another port is free.
    call(&mut connect(stage, "old/web").unwrap()).unwrap();
}

fn from_port(stage: &Stage, to: SocketAddr) -> std::io::Result<TcpStream> {
    let client = ip(stage, "client");
    netns(stage, "client")
        .run(|| {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
            socket.set_reuse_address(true)?;
            socket.bind(&SocketAddr::new(client, CLIENT_PORT).into())?;
            socket.connect_timeout(&to.into(), Duration::from_mins(1))?;
            socket.set_read_timeout(Some(Duration::from_mins(1)))?;
            Ok(TcpStream::from(socket))
        })
        .unwrap()
}
