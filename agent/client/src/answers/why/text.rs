//! The text of `epguard why`: verdicts first, denials before all others, then owners, evidence, and
//! where to mend it.

use super::explain::Explanation;
use super::fix::fix;
use super::owners::OwnerSpan;
use super::why_verdict::WhyVerdict;
use crate::shared::output::after;
use crate::shared::screen::{BAD, CAUTION, GOOD, Screen, duration};
use clap::builder::styling::Style;
use jiff::Timestamp;
use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::SocketAddr;

impl Explanation {
    /// The whole answer as text, with colours.
    pub fn to_text(&self, screen: Screen) -> String {
        let when = if self.now { " (now)" } else { "" };
        let mut text = format!("{} at {}{when}, mode {} now\n", self.ip, self.at, self.mode);
        if self.verdicts.is_empty() {
            let _ = writeln!(text, "\nVERDICT unknown: {}", self.why_no_verdict());
        }
        for verdict in self.denials_first() {
            let _ = writeln!(text, "\nVERDICT {}", self.verdict_line(verdict));
            let _ = writeln!(text, "  because: {}", verdict.because);
            let _ = writeln!(text, "  what would change it: {}", verdict.change);
        }
        if !self.passing.is_empty() {
            let _ = writeln!(text, "\nPASSING all the same");
        }
        for passing in &self.passing {
            let _ = writeln!(text, "  {passing}");
        }
        let none = if self.owners.is_empty() {
            ": none that the API showed"
        } else {
            ""
        };
        let _ = writeln!(text, "\nOWNERS{none}");
        for span in &self.owners {
            let _ = writeln!(text, "  {}", self.owner_line(span, screen));
        }
        let truncated = if self.truncated {
            "; earlier events were dropped"
        } else {
            ""
        };
        let since = self.time(&self.since, screen);
        let _ = writeln!(text, "\nEVIDENCE since {since}{truncated}");
        for event in &self.evidence {
            let at = self.time(&event.at, screen);
            let _ = writeln!(text, "  {at}  {}", uids(&event.what, screen));
        }
        if let Some(fix) = fix(self) {
            let _ = writeln!(text, "\nfix: {fix}");
        }
        text.truncate(text.trim_end().len());
        screen.fold(&text)
    }

    fn denials_first(&self) -> Vec<&WhyVerdict> {
        let mut verdicts: Vec<&WhyVerdict> = self.verdicts.iter().collect();
        verdicts.sort_by_key(|verdict| verdict.rank());
        verdicts
    }

    fn why_no_verdict(&self) -> String {
        if self.at < self.since {
            format!("the agent's history of this IP begins at {}", self.since)
        } else {
            "no matching Service lists it on that port, or did in the last 10 minutes".to_owned()
        }
    }

    fn verdict_line(&self, verdict: &WhyVerdict) -> String {
        let endpoint = match verdict.port {
            Some(port) => SocketAddr::new(self.ip, port).to_string(),
            None => self.ip.to_string(),
        };
        let aim = match &verdict.service {
            Some(service) => format!(
                "{service} -> {endpoint}{}",
                after(" ", verdict.protocol.as_ref())
            ),
            None => format!("{endpoint} itself"),
        };
        let reason = match &verdict.reason {
            Some(reason) => format!(" ({reason})"),
            None => String::new(),
        };
        let name = &verdict.verdict;
        let style = style_of(name);
        format!("{aim}: {style}{name}{style:#}{reason}")
    }

    fn owner_line(&self, span: &OwnerSpan, screen: Screen) -> String {
        let from = self.time(&span.from, screen);
        let earlier = if span.or_earlier { " or earlier" } else { "" };
        let now = if self.now { "now" } else { "then" };
        let to = match &span.to {
            Some(to) => self.time(to, screen),
            None => Cow::Borrowed(now),
        };
        let ended = after(", ", span.ended.as_ref());
        let node = after(" on ", span.node.as_ref());
        let uid = short_uid(&span.uid, screen);
        let pod = &span.pod;
        format!("{from}{earlier} to {to}{ended}: {pod} ({uid}){node}")
    }

    /// A time, as long before the moment of the verdicts; in full where that is asked for.
    fn time<'a>(&self, time: &'a str, screen: Screen) -> Cow<'a, str> {
        if screen.full {
            return time.into();
        }
        let moment: Result<Timestamp, _> = self.at.parse();
        let then: Result<Timestamp, _> = time.parse();
        let (Ok(moment), Ok(then)) = (moment, then) else {
            return time.into();
        };
        let ms = moment
            .as_millisecond()
            .saturating_sub(then.as_millisecond());
        let Ok(ms) = u64::try_from(ms) else {
            return time.into();
        };
        let before = if self.now { "ago" } else { "before" };
        format!("{} {before}", duration(ms)).into()
    }
}

fn style_of(verdict: &str) -> Style {
    match verdict {
        "deny" => BAD,
        "stopped" => CAUTION,
        "pass" => GOOD,
        _ => Style::new(),
    }
}

/// Length of a UID of the API, and of its first group.
const UID: usize = 36;
const SHORT: usize = 8;

/// The text with each UID shortened; in full where that is asked for.
fn uids(text: &str, screen: Screen) -> String {
    let words = text.split(' ').map(|word| {
        let uid = word
            .strip_prefix('(')
            .and_then(|word| word.strip_suffix(')'));
        match uid {
            Some(uid) => format!("({})", short_uid(uid, screen)),
            None => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

/// The first group of a UID. What has another form stays.
fn short_uid(text: &str, screen: Screen) -> &str {
    let is_uid = text.len() == UID
        && text
            .bytes()
            .all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if is_uid && !screen.full {
        &text[..SHORT]
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::evidence::EvidenceEvent;
    use super::*;
    use crate::shared::screen::{TESTED, assert_fits};
    use clap::builder::StyledStr;
    use std::net::Ipv4Addr;

    const LONG: &str = "396d1ce1-14f7-422e-a59e-2d865508a451";

    fn explanation() -> Explanation {
        let verdict = |service: &str, verdict: &'static str| WhyVerdict {
            service: Some(service.into()),
            port: Some(8080),
            protocol: Some("TCP".into()),
            verdict: verdict.into(),
            because: "shop/web-7c5d6f89bd-vrggx is meant, which is dead; no pod has the IP".into(),
            change: "shop/web listing the IP for a live pod; 10 minutes in which it does not"
                .into(),
            ..WhyVerdict::default()
        };
        Explanation {
            ip: Ipv4Addr::new(10, 244, 1, 10).into(),
            at: "2026-11-23T22:00:00.000Z".into(),
            now: true,
            mode: "enforce".into(),
            verdicts: vec![
                verdict("shop/api", "pass"),
                verdict("shop/old", "stopped"),
                verdict("shop/web", "deny"),
            ],
            passing: Vec::new(),
            owners: vec![OwnerSpan {
                pod: "shop/web-7c5d6f89bd-vrggx".into(),
                uid: LONG.into(),
                node: Some("worker-1".into()),
                from: "2026-11-23T21:00:00.000Z".into(),
                or_earlier: true,
                to: Some("2026-11-23T21:59:50.000Z".into()),
                ended: Some("dead".into()),
            }],
            evidence: vec![EvidenceEvent {
                at: "2026-11-23T21:59:50.000Z".into(),
                rv: 7,
                what: format!("pod shop/a ({LONG}) on worker-1 shows the IP"),
            }],
            since: "2026-11-23T21:00:00.000Z".into(),
            truncated: false,
        }
    }

    fn bare(explanation: &Explanation, screen: Screen) -> String {
        StyledStr::from(explanation.to_text(screen)).to_string()
    }

    #[test]
    fn denials_come_first_and_each_verdict_has_its_colour() {
        let text = explanation().to_text(Screen::default());
        let lines = text.lines().filter(|line| line.starts_with("VERDICT"));
        assert_eq!(
            lines.collect::<Vec<_>>(),
            [
                format!("VERDICT shop/web -> 10.244.1.10:8080 TCP: {BAD}deny{BAD:#}"),
                format!("VERDICT shop/old -> 10.244.1.10:8080 TCP: {CAUTION}stopped{CAUTION:#}"),
                format!("VERDICT shop/api -> 10.244.1.10:8080 TCP: {GOOD}pass{GOOD:#}"),
            ]
        );
    }

    #[test]
    fn times_and_uids_are_short_until_full_ones_are_asked_for() {
        let mut asked = explanation();
        let short = bare(&asked, Screen::default());
        let owner = "  60 min ago or earlier to 10 s ago, dead: shop/web-7c5d6f89bd-vrggx (396d1ce1) on worker-1\n";
        let event = "  10 s ago  pod shop/a (396d1ce1) on worker-1 shows the IP\n";
        assert!(short.contains(owner) && short.contains(event), "{short}");

        let full = Screen {
            full: true,
            width: None,
        };
        let full = bare(&asked, full);
        let owner = format!(
            "  2026-11-23T21:00:00.000Z or earlier to 2026-11-23T21:59:50.000Z, dead: shop/web-7c5d6f89bd-vrggx ({LONG}) on worker-1\n"
        );
        let event =
            format!("  2026-11-23T21:59:50.000Z  pod shop/a ({LONG}) on worker-1 shows the IP\n");
        assert!(full.contains(&owner) && full.contains(&event), "{full}");

        asked.now = false;
        let earlier = bare(&asked, Screen::default());
        assert!(earlier.contains("  10 s before  pod shop/a"), "{earlier}");
        asked.evidence[0].at = "soon".into();
        let unknown = bare(&asked, Screen::default());
        assert!(unknown.contains("  soon  pod shop/a"), "{unknown}");
    }

    #[test]
    fn the_last_line_is_the_fix() {
        let text = bare(&explanation(), Screen::default());
        assert!(text.lines().last().unwrap().starts_with("fix: "), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_screen() {
        for width in TESTED {
            let screen = Screen {
                width: Some(width),
                full: false,
            };
            assert_fits(&bare(&explanation(), screen), screen);
        }
    }
}
