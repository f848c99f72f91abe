//! Problems that keep the sockets of the node's own processes from being followed.

use super::problem::{Problem, first};
use crate::shared::status::NodeSockets;

/// How many processes are named.
const NAMED: usize = 5;

/// All problems of this kind. An agent that has not hooked any cgroup yet has none.
pub fn unfollowed(sockets: &NodeSockets) -> Vec<Problem> {
    let root = &sockets.root;
    if root.is_empty() {
        return vec![];
    }
    if let Some(program) = &sockets.exclusive {
        return vec![Problem::new(
            format!(
                "sockets of the node's own processes are not followed: {program} was attached without \
                 BPF_F_ALLOW_MULTI, so it runs only where no other program is"
            ),
            "traffic of pods is judged all the same; a newer version of that program's project attaches it \
             beside others (Cilium: from 1.14 on)",
        )];
    }
    let below = format!(
        "start processes in a cgroup below it, as systemd does; or pass --cgroup {root}, which some versions of Cilium \
         do not tolerate (docs/troubleshooting.md)"
    );
    if sockets.cgroups.is_empty() {
        let what = format!("sockets of the node's own processes are not followed: {root} has no cgroups");
        return vec![Problem::new(what, below)];
    }
    let mut problems = Vec::new();
    for cgroup in sockets.cgroups.iter().filter(|cgroup| !cgroup.attached) {
        let path = &cgroup.path;
        let why = cgroup.error.as_deref().unwrap_or("not attached yet");
        problems.push(Problem::new(
            format!("sockets of processes in {path} are not followed: {why}"),
            format!("it is tried again every 10 seconds; see the programs there: bpftool cgroup show {path}"),
        ));
    }
    if !sockets.outside.is_empty() {
        let named = first(&sockets.outside, NAMED);
        let what = format!("sockets of processes in the root cgroup are not followed: {named}");
        problems.push(Problem::new(what, below));
    }
    if sockets.left_out > 0 {
        problems.push(Problem::new(
            format!(
                "{} sockets of the node's own processes were connected to a Service before it had a denial, and were too \
                 many to be followed",
                sockets.left_out
            ),
            "their packets pass; traffic of pods and newer connections are judged all the same",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::status::CgroupHooks;

    fn whats(sockets: &NodeSockets) -> Vec<String> {
        unfollowed(sockets)
            .into_iter()
            .map(|problem| problem.what)
            .collect()
    }

    fn hooked() -> NodeSockets {
        NodeSockets {
            root: "/c".into(),
            cgroups: vec![CgroupHooks {
                path: "/c/system.slice".into(),
                attached: true,
                error: None,
            }],
            ..NodeSockets::default()
        }
    }

    #[test]
    fn hooked_cgroups_are_no_problem() {
        assert_eq!(unfollowed(&hooked()), []);
        assert_eq!(unfollowed(&NodeSockets::default()), []);
    }

    #[test]
    fn a_cgroup_that_cannot_be_hooked_is_named_beside_those_that_are() {
        let mut sockets = hooked();
        sockets.cgroups.push(CgroupHooks {
            path: "/c/user.slice".into(),
            attached: false,
            error: Some("EPERM".into()),
        });
        assert_eq!(
            whats(&sockets),
            ["sockets of processes in /c/user.slice are not followed: EPERM"]
        );
    }

    #[test]
    fn processes_in_the_root_cgroup_are_named_with_a_remedy_that_names_the_root() {
        let mut sockets = hooked();
        sockets.outside = (1..=7).map(|pid| format!("sshd ({pid})")).collect();
        let problems = unfollowed(&sockets);
        assert_eq!(
            problems[0].what,
            "sockets of processes in the root cgroup are not followed: sshd (1), sshd (2), sshd (3), sshd (4), sshd (5) \
             and 2 more"
        );
        assert!(
            problems[0].remedy.contains("--cgroup /c,"),
            "{}",
            problems[0].remedy
        );
    }

    #[test]
    fn a_root_without_cgroups_and_an_exclusive_program_are_problems() {
        let mut sockets = hooked();
        sockets.cgroups.clear();
        assert_eq!(
            whats(&sockets),
            ["sockets of the node's own processes are not followed: /c has no cgroups"]
        );
        sockets.exclusive = Some("sock4_connect (id 7) at /c".into());
        assert!(whats(&sockets)[0].contains("sock4_connect (id 7) at /c"));
    }
}
