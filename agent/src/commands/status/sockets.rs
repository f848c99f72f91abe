//! Problems that keep the sockets of the node's own processes from being followed.

use super::problem::Problem;
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
        return vec![Problem {
            what: format!(
                "sockets of the node's own processes are not followed: {program} was attached without \
                 BPF_F_ALLOW_MULTI, so it runs only where no other program is"
            ),
            remedy: "traffic of pods is judged all the same; a newer version of that program's project attaches it \
                     beside others (Cilium: from 1.14 on)"
                .to_owned(),
        }];
    }
    if sockets.cgroups.is_empty() {
        return vec![Problem {
            what: format!("sockets of the node's own processes are not followed: {root} has no cgroups"),
            remedy: below(root),
        }];
    }
    let failed = sockets.cgroups.iter().filter(|cgroup| !cgroup.attached);
    let mut problems: Vec<Problem> = failed
        .map(|cgroup| Problem {
            what: format!(
                "sockets of processes in {} are not followed: {}",
                cgroup.path,
                cgroup.error.as_deref().unwrap_or("not attached yet")
            ),
            remedy: format!(
                "it is tried again every 10 seconds; see the programs there: bpftool cgroup show {}",
                cgroup.path
            ),
        })
        .collect();
    if !sockets.outside.is_empty() {
        let named = sockets.outside.iter().take(NAMED).cloned().collect::<Vec<_>>();
        let more = match sockets.outside.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        problems.push(Problem {
            what: format!(
                "sockets of processes in the root cgroup are not followed: {}{more}",
                named.join(", ")
            ),
            remedy: below(root),
        });
    }
    if sockets.left_out > 0 {
        problems.push(Problem {
            what: format!(
                "{} sockets of the node's own processes were connected to a Service before it had a denial, and were too \
                 many to be followed",
                sockets.left_out
            ),
            remedy: "their packets pass; traffic of pods and newer connections are judged all the same".to_owned(),
        });
    }
    problems
}

fn below(root: &str) -> String {
    format!(
        "start processes in a cgroup below it, as systemd does; or pass --cgroup {root}, which some versions of Cilium \
         do not tolerate (docs/troubleshooting.md)"
    )
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
