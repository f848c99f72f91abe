//! Problems of packets that show no Service.

use super::problem::Problem;
use crate::shared::status::{Cause, Gap, Translators};

/// All problems of this kind.
pub fn unrecorded(translators: &Translators) -> impl Iterator<Item = Problem> {
    translators.gaps.iter().map(gap)
}

/// The problem of packets that have no record for this cause.
pub fn gap(gap: &Gap) -> Problem {
    let detail = &gap.detail;
    let (what, remedy) = match gap.cause {
        Cause::Kernel => (
            format!("packets that netfilter translates show no Service: {detail}"),
            "`terminated` and socket load balancers are judged all the same; see docs/limits.md",
        ),
        Cause::NotLoaded => (
            format!("no translator of Services was found: {detail}"),
            "kube-proxy loads it; epguard reads it within a second",
        ),
        Cause::Ipvs => (
            format!("what IPVS translates shows no Service: {detail}"),
            "sysctl -w net.ipv4.vs.conntrack=1, as kube-proxy sets it",
        ),
        Cause::Flowtable => (
            format!("packets that the flowtable {detail} of nftables forwards show no Service"),
            "established connections that it has taken over pass; the first packets of each are judged",
        ),
        Cause::Cilium => (detail.clone(), "what other translators record is judged"),
        Cause::Unreadable => (
            format!("{detail} to suspects passed, as their conntrack entries contradict them"),
            "another program changes addresses behind netfilter, or epguard reads this kernel wrongly: report it with \
             `epguard sysdump`",
        ),
    };
    Problem::new(what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use strum::VariantArray as _;

    #[test]
    fn each_cause_is_a_problem_that_names_its_detail_and_a_remedy() {
        for cause in Cause::VARIANTS {
            let problem = gap(&Gap { cause: *cause, detail: "this one".into() });
            assert!(problem.what.contains("this one") && problem.remedy.len() > 20, "{cause:?}");
        }
    }
}
