//! Problems beside a socket load balancer: calls and packets that cannot be judged.

use super::problem::Problem;
use crate::shared::status::SocketLb;

/// All problems of this kind. A node without a socket load balancer has none.
pub fn unjudged(lb: &SocketLb) -> Vec<Problem> {
    let Some(program) = lb.programs.first() else {
        return vec![];
    };
    let mut problems = Vec::new();
    if let Some(problem) = &lb.problem {
        let which = if lb.in_force { "some calls" } else { "calls" };
        problems.push(Problem::new(
            format!("{which} that {program} translates are not judged: {problem}"),
            "a load balancer that attaches with links or BPF_F_ALLOW_MULTI runs beside others. Cilium up to 1.13 does not, and \
             a later one that took over from it only once the node has rebooted; list the programs: bpftool cgroup tree",
        ));
    }
    if lb.in_force && !lb.refuses {
        problems.push(Problem::new(
            "refused calls fail with EPERM instead of ECONNREFUSED",
            "Linux 6.1 lets programs set the error",
        ));
    }
    if let [first, ..] = &lb.netkit[..] {
        let count = lb.netkit.len();
        problems.push(Problem::new(
            format!("{count} netkit devices, such as {first}: their programs may redirect packets before epguard sees them"),
            "calls are judged when they connect, and `drop` refuses them; connections from before a denial go on. Cilium with \
             bpf.datapathMode=veth has no such devices",
        ));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whats(lb: &SocketLb) -> Vec<String> {
        unjudged(lb).into_iter().map(|problem| problem.what).collect()
    }

    fn hooked() -> SocketLb {
        SocketLb {
            programs: vec!["cil_sock4_conne (id 7)".into()],
            in_force: true,
            refuses: true,
            ..SocketLb::default()
        }
    }

    #[test]
    fn without_a_load_balancer_and_with_one_that_is_hooked_there_is_no_problem() {
        let none = SocketLb { netkit: vec!["nk0".into()], ..SocketLb::default() };
        assert_eq!([whats(&none), whats(&hooked())], [vec![], Vec::<String>::new()]);
    }

    #[test]
    fn each_way_to_be_blind_is_a_problem() {
        let failed = SocketLb { in_force: false, problem: Some("EPERM".into()), ..hooked() };
        assert_eq!(whats(&failed), ["calls that cil_sock4_conne (id 7) translates are not judged: EPERM"]);
        let older = SocketLb { refuses: false, ..hooked() };
        assert!(whats(&older)[0].contains("EPERM"));
        let netkit = SocketLb { netkit: vec!["nk0".into(), "nk1".into()], ..hooked() };
        assert!(whats(&netkit)[0].starts_with("2 netkit devices, such as nk0"));
    }
}
