//! The programs, the scanner and the process on a real kernel. As root, `cargo xtask test` runs
//! each module in a process of its own.
#![allow(clippy::unwrap_used, reason = "a test panics")]

mod bad_input;
#[allow(dead_code, reason = "the lab uses the rest")]
#[path = "../../../lab/src/agent.rs"]
mod launcher;
mod lifecycle;
mod packet_socket;
mod programs;

/// A kubeconfig of a cluster at a port of loopback where nothing listens. Without a CA of its own,
/// those of the system would have to be there.
const UNREACHABLE: &str = concat!(
    r#"{"apiVersion": "v1", "kind": "Config", "current-context": "c",
  "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1", "certificate-authority-data": ""#,
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUJHekNCenFBREFnRUNBZ0VCTUFVR0F5dGxjREFNTVFvd0NBWURWUVFEREFGNE1D",
    "QVhEVEkyTVRFeU56QXoKTlRBek1Wb1lEekl4TWpZeE1UQXpNRE0xTURNeFdqQU1NUW93Q0FZRFZRUUREQUY0TUNvd0JRWURLMlZ3QXlF",
    "QQpoRWFQRVA2eXU5eWY1cEx0U1FmL0g5SUpHVDlHckhMQlVXSnJyM04xU0RhalV6QlJNQjBHQTFVZERnUVdCQlIwCmVEZFUvZFVSaHpt",
    "N1RhMU9XaEVIRDFWcjBEQWZCZ05WSFNNRUdEQVdnQlIwZURkVS9kVVJoem03VGExT1doRUgKRDFWcjBEQVBCZ05WSFJNQkFmOEVCVEFE",
    "QVFIL01BVUdBeXRsY0FOQkFFQ1lTbk5lRXpGVUNqd3B1VCs4T1FPdQpFM3N4SXcrZDlMUUx6R3lDSnZ0aUx3bmtVU2o4MEJTYXUvdE9i",
    "ZytVQUg1K055Y3ZCUmdBdndGRk9kVGJRZzA9Ci0tLS0tRU5EIENFUlRJRklDQVRFLS0tLS0K",
    r#""}}],
  "users": [{"name": "c", "user": {}}],
  "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}"#,
);

/// The release of the kernel that runs: `(6, 1)` of `6.1.0-9-amd64`. Some tests expect something
/// else of an older one.
fn series() -> (u32, u32) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split('.').map(|number| number.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}
