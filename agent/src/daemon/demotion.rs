//! A denial that was wrong: its Service is only observed from then on.

use crate::daemon::report::Names;
use crate::daemon::report::kept_file::KeptFile;
use crate::kernel::maps::Writer;
use crate::shared::run_dir::DEMOTED;
use anyhow::Result;
use clap::ValueEnum;
use epguard_core::facts::ObjectName;
use epguard_core::state::{Contradiction, Cost, Finding, State};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// What to do with a Service after a wrong denial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnWrongDeny {
    /// Only observe it until `epguard breaker --release` ends that
    Observe,
    /// Only log and count it
    Ignore,
}

/// The Services that are only observed because a denial was wrong, and the file that has them for
/// the next agent.
#[derive(Debug)]
pub struct Demotions {
    on_wrong_deny: OnWrongDeny,
    stored: BTreeSet<ObjectName>,
    file: KeptFile<BTreeSet<ObjectName>>,
}

impl Demotions {
    /// Reads the file. One that does not exist, or cannot be read, holds no Services. Errors: no
    /// thread can be started.
    pub fn load(run_dir: &Path, on_wrong_deny: OnWrongDeny) -> Result<Self> {
        let path = run_dir.join(DEMOTED);
        let text = fs::read(&path).unwrap_or_default();
        let stored = serde_json::from_slice(&text).unwrap_or_default();
        let file = KeptFile::new(path, "Services with a wrong denial are enforced again")?;
        Ok(Self {
            on_wrong_deny,
            stored,
            file,
        })
    }

    /// Has the Services of an earlier agent observed only.
    pub fn restore(&self, now: Duration, state: &mut State) {
        for service in &self.stored {
            state.demote(now, service);
        }
    }

    /// Logs the wrong denials, and has their Services observed only if so told, unless no packet
    /// was stopped. Without a Service, the reason is, on the whole node.
    ///
    /// Errors: CONFIG cannot be written.
    pub fn tick(
        &mut self,
        now: Duration,
        state: &mut State,
        writer: &mut Writer,
        names: &Names,
    ) -> Result<()> {
        for finding in state.take_findings() {
            let cost = match self.on_wrong_deny {
                OnWrongDeny::Observe => finding.cost(),
                OnWrongDeny::Ignore => None,
            };
            log(state, names, &finding, cost);
            match cost {
                Some(Cost::Service(service)) => state.demote(now, service),
                Some(Cost::Reason(reason)) => writer.config.demote(reason)?,
                None => {}
            }
        }
        if state.is_synced() && self.stored != *state.demoted() {
            self.stored.clone_from(state.demoted());
            self.file.store(self.stored.clone());
        }
        Ok(())
    }
}

fn log(state: &State, names: &Names, finding: &Finding, cost: Option<Cost<'_>>) {
    let Finding {
        case,
        packets,
        contradiction,
    } = finding;
    let evidence = match contradiction {
        Contradiction::HeldUnpublished(uid) => {
            format!("{} held the IP without showing it", names.text(state, *uid))
        }
        Contradiction::MeantIsAlive => "the pod that was meant is alive".to_owned(),
        Contradiction::Listed(uid) => format!(
            "a slice of the Service lists {} at the IP",
            names.text(state, *uid)
        ),
    };
    tracing::error!(
        reason = case.reason.as_str(),
        service = case.service.as_ref().map_or_else(|| "none".to_owned(), ToString::to_string),
        endpoint = %std::net::SocketAddr::new(case.ip.ip(), case.port),
        protocol = case.protocol,
        meant = names.text(state, case.meant),
        hit = names.text(state, packets.owner),
        reported = packets.reported,
        first_ms = packets.first.as_millis(),
        last_ms = packets.last.as_millis(),
        stopped = packets.stopped,
        evidence,
        "wrong deny{}",
        match cost {
            None => "",
            Some(Cost::Service(_)) => ": this Service is only observed from now on",
            Some(Cost::Reason(_)) => ": this reason is only observed from now on",
        }
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[test]
    fn the_next_agent_observes_the_services_that_the_last_one_did_and_none_of_an_unreadable_file() {
        let run_dir = tempdir().unwrap();
        let web: ObjectName = ObjectName::new("shop", "web");
        let load = || Demotions::load(run_dir.path(), OnWrongDeny::Observe).unwrap();
        let demotions = load();
        assert!(demotions.stored.is_empty());
        demotions.file.store([web.clone()].into());
        drop(demotions);
        let mut state = State::default();
        load().restore(Duration::ZERO, &mut state);
        assert_eq!(*state.demoted(), BTreeSet::from([web]));
        fs::write(run_dir.path().join(DEMOTED), "{").unwrap();
        assert!(load().stored.is_empty());
    }
}
