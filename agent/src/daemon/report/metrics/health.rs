//! `/readyz`: does the agent do its work? `/healthz` asks only if the main loop answers, since a restart helps
//! against nothing else. It does not help against an unreachable API server, nor against an interface that cannot be
//! hooked.

use crate::shared::status::Status;

/// A condition of readiness: `sync`, `hooks` or `lease`, and why it does not hold; none if it does.
pub type Check = (&'static str, Option<String>);

/// The condition in the format of the API server's own `/readyz?verbose`.
pub fn line((name, failure): &Check) -> String {
    match failure {
        None => format!("[+]{name} ok"),
        Some(why) => format!("[-]{name} failed: {why}"),
    }
}

/// The conditions of readiness: everything was listed, every selected interface is hooked, and denials are under a
/// lease.
pub fn readiness(status: &Status) -> [Check; 3] {
    let down = status.watches.iter().filter(|(_, watch)| !watch.up);
    let down: Vec<&str> = down.map(|(name, _)| name.as_str()).collect();
    let unsynced = (!status.synced).then(|| match &down[..] {
        [] => "everything is listed anew".to_owned(),
        down => format!("not listed yet: {}", down.join(", ")),
    });
    let interfaces = status.interfaces.iter();
    let mut bare = interfaces.filter(|at| !at.attached && !at.waiting);
    let unhooked = bare.next().map(|at| {
        let why = at.error.as_deref().unwrap_or("not attached");
        format!("{}: {why}", at.name)
    });
    let ended = (status.denies() && status.lease_ms <= 0).then(|| {
        let age = status.view_age_ms.map(|ms| format!("{} s", ms / 1000));
        let age = age.as_deref().unwrap_or("unknown");
        format!("the view is too old ({age}), so nothing is denied")
    });
    [("sync", unsynced), ("hooks", unhooked), ("lease", ended)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::{Attachment, Watch};
    use epguard_core::facts::Watched;
    use epguard_core::state::IpState;

    fn ready() -> Status {
        let mut status = Status {
            synced: true,
            lease_ms: -1,
            view_age_ms: Some(31_000),
            interfaces: vec![Attachment { name: "eth0".into(), attached: true, ..Attachment::default() }],
            ..Status::default()
        };
        status.watches.insert(Watched::Pods, Watch::default());
        status
    }

    fn lines(status: &Status) -> Vec<String> {
        readiness(status).iter().map(line).collect()
    }

    #[test]
    fn an_agent_that_denies_nothing_is_ready_without_a_lease() {
        assert_eq!(lines(&ready()), ["[+]sync ok", "[+]hooks ok", "[+]lease ok"]);
    }

    #[test]
    fn an_agent_is_ready_while_an_interface_waits_for_the_cni() {
        let mut status = ready();
        let waiting = Attachment { waiting: true, ..Attachment::default() };
        status.interfaces.push(waiting);
        assert_eq!(lines(&status)[1], "[+]hooks ok");
    }

    #[test]
    fn each_failure_names_the_missing_part() {
        let mut status = ready();
        status.synced = false;
        status.interfaces[0].attached = false;
        status.figures.ips.insert(IpState::Terminated, 1);
        assert_eq!(
            lines(&status),
            [
                "[-]sync failed: not listed yet: pods",
                "[-]hooks failed: eth0: not attached",
                "[-]lease failed: the view is too old (31 s), so nothing is denied",
            ]
        );
        status.lease_ms = 1;
        assert_eq!(lines(&status)[2], "[+]lease ok");
    }
}
