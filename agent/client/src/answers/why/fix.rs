//! Where an operator finds the cause of a denial. Pure.
//!
//! An agent sees that an endpoint is stale, not who keeps it listed: so this names commands that
//! read, and nothing that changes an object.

use super::explain::Explanation;
use crate::shared::args;

/// What to do about the first denial, in one line; none if nothing is denied, if the question is
/// about an earlier time, or if a name could not be written into a command.
pub fn fix(explanation: &Explanation) -> Option<String> {
    if !explanation.now {
        return None;
    }
    let denials = explanation
        .verdicts
        .iter()
        .filter(|verdict| matches!(&*verdict.verdict, "deny" | "stopped"));
    let first = denials.min_by_key(|verdict| verdict.rank())?;
    let ip = explanation.ip;
    let Some(service) = &first.service else {
        return Some(format!(
            "no pod has {ip}; `kubectl epguard drops` shows the clients that still send to it, which keep an old address"
        ));
    };
    let service = args::plain_service(service)?;
    let (namespace, _) = service.split_once('/')?;
    Some(format!(
        "`kubectl epguard lint -n {namespace}` shows whether an EndpointSlice of {service} still lists {ip}, and who writes it"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::why_verdict::WhyVerdict;
    use super::*;
    use std::net::Ipv4Addr;

    fn fix_of(verdicts: &[(&'static str, Option<&str>)], now: bool) -> Option<String> {
        let verdicts = verdicts.iter().map(|(verdict, service)| WhyVerdict {
            service: service.map(str::to_owned),
            verdict: (*verdict).into(),
            ..WhyVerdict::default()
        });
        fix(&Explanation {
            ip: Ipv4Addr::new(10, 0, 0, 7).into(),
            at: String::new(),
            now,
            mode: "enforce".into(),
            verdicts: verdicts.collect(),
            passing: Vec::new(),
            owners: Vec::new(),
            evidence: Vec::new(),
            since: String::new(),
            truncated: false,
        })
    }

    #[test]
    fn a_denial_of_a_service_leads_to_lint_and_one_of_the_ip_to_its_clients() {
        let web = "`kubectl epguard lint -n shop` shows whether an EndpointSlice of shop/web still lists 10.0.0.7, and who writes it";
        let verdicts = [
            ("pass", Some("shop/api")),
            ("stopped", Some("shop/old")),
            ("deny", Some("shop/web")),
            ("deny", None),
        ];
        assert_eq!(fix_of(&verdicts, true).as_deref(), Some(web));
        let ip = "no pod has 10.0.0.7; `kubectl epguard drops` shows the clients that still send to it, which keep an old address";
        assert_eq!(fix_of(&verdicts[3..], true).as_deref(), Some(ip));
    }

    #[test]
    fn nothing_is_mended_where_packets_pass_or_where_the_time_is_over() {
        assert_eq!(fix_of(&[("pass", Some("shop/web"))], true), None);
        assert_eq!(fix_of(&[("deny", Some("shop/web"))], false), None);
        assert_eq!(fix_of(&[], true), None);
    }

    #[test]
    fn a_name_that_a_shell_would_run_is_in_no_command() {
        for name in ["shop;reboot/web", "$(x)/web", "-x/web", "web", "shop/`x`"] {
            assert_eq!(fix_of(&[("deny", Some(name))], true), None, "{name}");
        }
    }
}
