//! Why packets of a Service with a denial pass all the same: no translator shows the Service that they are aimed at.

use super::Explanation;
use crate::commands::status::gap;
use crate::shared::status::{Gap, Translators};

/// A line for each cause; none if no Service has a denial in this answer, or if it is about an earlier time.
pub(super) fn passing(explanation: &Explanation, translators: &Translators) -> Vec<String> {
    let mut verdicts = explanation.verdicts.iter();
    let is_denied = verdicts.any(|verdict| verdict.service.is_some() && verdict.verdict != "pass");
    if !explanation.now || !is_denied {
        return Vec::new();
    }
    let line = |one: &Gap| format!("{}: {}", one.cause.outcome(), gap(one).what);
    translators.gaps.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;
    use crate::shared::status::Cause;
    use std::net::{IpAddr, Ipv4Addr};

    fn answer(verdict: &'static str, service: Option<&str>, now: bool) -> Explanation {
        Explanation {
            ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
            at: String::new(),
            now,
            mode: "enforce".into(),
            verdicts: vec![Verdict {
                service: service.map(Into::into),
                verdict: verdict.into(),
                reason: Some("reused".into()),
                ..Verdict::default()
            }],
            passing: Vec::new(),
            owners: Vec::new(),
            evidence: Vec::new(),
            since: String::new(),
            truncated: false,
        }
    }

    #[test]
    fn packets_without_a_readable_record_are_named_beside_a_denial_of_a_service() {
        let gaps = [(Cause::Flowtable, "ip web/f"), (Cause::Unreadable, "7 packets")];
        let translators = Translators {
            gaps: gaps.map(|(cause, detail)| Gap { cause, detail: detail.into() }).into(),
            ..Translators::default()
        };
        let mut denied = answer("deny", Some("shop/web"), true);
        denied.passing = passing(&denied, &translators);
        assert_eq!(
            denied.passing,
            [
                "no-connection: packets that the flowtable ip web/f of nftables forwards show no Service",
                "unreadable-connection: 7 packets to suspects passed, as their conntrack entries contradict them"
            ]
        );
        let text = denied.text();
        assert!(text.contains("\nPASSING all the same\n  no-connection: "), "{text}");
        for (verdict, service, now) in
            [("pass", Some("shop/web"), true), ("deny", None, true), ("deny", Some("shop/web"), false)]
        {
            assert_eq!(passing(&answer(verdict, service, now), &translators), [""; 0]);
        }
        let known = Translators::default();
        assert_eq!(passing(&answer("hold", Some("shop/web"), true), &known), [""; 0]);
    }
}
