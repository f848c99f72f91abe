//! Tests against the kernel, each in a network namespace of its own.

use super::*;
use std::process::Command;

const ROUTED: Addr = Addr::v4([10, 244, 1, 10]);
const BRIEF: Addr = Addr::v4([10, 244, 1, 11]);
const NEIGHBOUR: Addr = Addr::v4([10, 9, 0, 7]);

#[test]
#[ignore = "needs root: makes a network namespace"]
fn holders_are_sent_while_requested_and_default_routes_always() {
    let test = async {
        let (ask, asked) = watch::channel(false);
        let (tx, mut rx) = mpsc::channel(8);
        let sent = async {
            ip("link add index 70 va type veth peer name vb");
            ip("address add 10.9.0.1/24 dev va");
            ip("link set va up");
            ip("neighbour add 10.9.0.7 lladdr 02:00:00:00:00:07 dev va");
            ip("route add 10.244.1.10/32 via 10.9.0.2 table 100");
            ip("route add default via 10.9.0.2 table 100");
            until(&mut rx, |event| *event == Event::Defaults(BTreeSet::new())).await;
            ip("route add default via 10.9.0.2");
            let next = rx.recv().await.unwrap();
            assert_eq!(next, Event::Defaults(BTreeSet::from([70])), "nobody asks for holders");
            ask.send(true).unwrap();
            until(&mut rx, |event| holds(event, &[ROUTED, NEIGHBOUR])).await;
            ip("route add 10.244.1.11/32 via 10.9.0.2");
            ip("route delete 10.244.1.11/32 via 10.9.0.2");
            until(&mut rx, |event| matches!(event, Event::Announced(ips) if ips.contains(&BRIEF))).await;
            ip("neighbour delete 10.9.0.7 dev va");
            let gone = |event: &Event| holds(event, &[ROUTED]) && !holds(event, &[NEIGHBOUR]);
            until(&mut rx, gone).await;
            ask.send(false).unwrap();
            until(&mut rx, |event| *event == Event::Held(None)).await;
        };
        tokio::select! {
            () = presence(tx, asked) => panic!("the receiver is there"),
            done = tokio::time::timeout(Duration::from_secs(20), sent) => done.expect("an event is missing"),
        }
    };
    let thread = std::thread::spawn(move || {
        // SAFETY: unshare takes no pointers; it only changes the calling thread.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNET) }, 0);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(test);
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn holds(event: &Event, wanted: &[Addr]) -> bool {
    matches!(event, Event::Held(Some(ips)) if wanted.iter().all(|ip| ips.contains(ip)))
}

async fn until(rx: &mut mpsc::Receiver<Event>, wanted: impl Fn(&Event) -> bool) {
    while !wanted(&rx.recv().await.unwrap()) {}
}

fn ip(command: &str) {
    let status = Command::new("ip").args(command.split(' ')).status();
    assert!(status.unwrap().success(), "{command}");
}
