//! The requests to the status socket.

use std::net::IpAddr;

/// A request that a client may write to the status socket, as one line, before it reads the status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Without a line: only the status.
    Status,
    /// `figures`: the status without the names of pods and Services, which are many.
    Figures,
    /// `ready`: only what readiness depends on.
    Ready,
    /// `alive`: an empty status, which shows only that the main loop answers.
    Alive,
    /// `release-breaker [NAMESPACE/NAME]`: carry out the pending denials, for all Services if none is named.
    ReleaseBreaker(String),
    /// `drops`: only the packets that were denied, or would have been.
    Drops,
    /// `log`: only the last lines of the agent's log.
    Log,
    /// `history IP`: only the history of the IP.
    History(IpAddr),
}

/// The lines of requests without an argument.
const LINES: [(&str, Request); 6] = [
    ("", Request::Status),
    ("figures", Request::Figures),
    ("ready", Request::Ready),
    ("alive", Request::Alive),
    ("drops", Request::Drops),
    ("log", Request::Log),
];
const RELEASE: &str = "release-breaker";
const HISTORY: &str = "history";

impl Request {
    /// The line of the request.
    #[must_use]
    pub fn line(&self) -> String {
        match self {
            Self::ReleaseBreaker(service) => format!("{RELEASE} {service}\n"),
            Self::History(ip) => format!("{HISTORY} {ip}\n"),
            other => {
                let found = LINES.iter().find(|(_, request)| request == other);
                found.map_or_else(String::new, |(line, _)| format!("{line}\n"))
            }
        }
    }

    /// Reads a line; an unknown one asks for the status.
    #[must_use]
    pub fn parse(line: &str) -> Self {
        let line = line.trim_end();
        match line.split_once(' ').unwrap_or((line, "")) {
            (RELEASE, service) => Self::ReleaseBreaker(service.to_owned()),
            (HISTORY, ip) => ip.parse().map_or(Self::Status, Self::History),
            _ => LINES.into_iter().find(|(one, _)| *one == line).map_or(Self::Status, |(_, request)| request),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_back_from_its_line() {
        for service in ["", "shop/web"] {
            let request = Request::ReleaseBreaker(service.to_owned());
            assert_eq!(Request::parse(&request.line()), request);
        }
        let request = Request::History(IpAddr::from([10, 0, 0, 1]));
        assert_eq!(Request::parse(&request.line()), request);
        assert_eq!(Request::parse("history nonsense"), Request::Status);
        for request in [Request::Figures, Request::Alive, Request::Log, Request::Drops] {
            assert_eq!(Request::parse(&request.line()), request);
        }
        assert_eq!(Request::parse(""), Request::Status);
        assert_eq!(Request::parse("release-breakers x"), Request::Status);
    }
}
