//! Health and metrics over real sockets, with a loop that answers and clients that do not speak.

use epguard::daemon::report::metrics::{Pages, bind, serve};
use epguard::shared::status::{Question, Status};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// More than the connections that a listener keeps at a time.
const SILENT: usize = 200;

async fn start(pages: Pages) -> SocketAddr {
    let listener = bind("127.0.0.1:0".parse().unwrap(), "--test")
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    let (ask, mut questions) = mpsc::channel::<Question>(1);
    tokio::spawn(serve(listener, pages, ask));
    tokio::spawn(async move {
        while let Some(question) = questions.recv().await {
            let _ = question.answer.send(Status::default());
        }
    });
    address
}

/// The status line; empty if the server closes the connection without an answer.
async fn get(address: SocketAddr, path: &str) -> String {
    request("GET", address, path).await.0
}

/// The status line, and the rest of the answer.
async fn request(method: &str, address: SocketAddr, path: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer).await;
    let (status, rest) = answer.split_once("\r\n").unwrap_or_default();
    (status.to_owned(), rest.to_owned())
}

async fn silent(address: SocketAddr) -> Vec<TcpStream> {
    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(address).await.unwrap());
    }
    silent
}

#[tokio::test]
async fn silent_connections_to_either_address_keep_no_probe_and_no_reader_waiting() {
    let health = start(Pages::Health).await;
    let metrics = start(Pages::Metrics("/nonexistent".into())).await;
    let connections = (silent(metrics).await, silent(health).await);
    let mut first = TcpStream::connect(health).await.unwrap();
    assert_eq!(get(health, "/healthz").await, "HTTP/1.1 200 OK");
    assert_eq!(
        get(health, "/readyz").await,
        "HTTP/1.1 503 Service Unavailable"
    );
    // There are no maps to read, but the reader gets an answer.
    assert_eq!(
        get(metrics, "/metrics").await,
        "HTTP/1.1 500 Internal Server Error"
    );
    drop(connections);
    let mut answer = Vec::new();
    let _ = first.read_to_end(&mut answer).await;
    assert_eq!(answer, b"", "it is closed at last");
}

#[tokio::test]
async fn each_address_serves_only_its_own_pages() {
    let health = start(Pages::Health).await;
    let metrics = start(Pages::Metrics("/nonexistent".into())).await;
    assert_eq!(get(health, "/metrics").await, "HTTP/1.1 404 Not Found");
    assert_eq!(get(metrics, "/healthz").await, "HTTP/1.1 404 Not Found");
}

#[tokio::test]
async fn methods_other_than_get_and_head_are_refused_and_head_has_no_body() {
    let health = start(Pages::Health).await;
    let (status, rest) = request("HEAD", health, "/healthz").await;
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(
        rest.contains("content-length: 3") && rest.ends_with("\r\n\r\n"),
        "{rest}"
    );
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let (status, rest) = request(method, health, "/healthz").await;
        assert_eq!(status, "HTTP/1.1 405 Method Not Allowed", "{method}");
        assert!(rest.contains("allow: GET, HEAD"), "{rest}");
    }
}
