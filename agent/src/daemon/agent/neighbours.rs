//! What the survey of foreign programs decides: which bits the datapath may use, and which programs may wipe them.

use super::Agent;
use crate::kernel::neighbours::{Found, Place, Survey};
use crate::shared::clock::boot as now;
use crate::shared::status::Attachment;
use anyhow::Result;
use epguard_core::carrier::{self, Carrier, Decision, Foreign, IntentCarrier, Permission};
use std::collections::BTreeMap;
use std::time::Duration;

/// Longest age of a survey. An older one permits nothing: a neighbour may have appeared since.
const MAX_AGE: Duration = Duration::from_secs(1);

/// What the surveys showed about the neighbours.
#[derive(Debug)]
pub(super) struct Neighbours {
    choice: IntentCarrier,
    permission: Permission,
    decision: Decision,
    /// TCX programs behind our ingress hooks that may wipe what packets carry, by interface.
    wipers: BTreeMap<u32, Vec<String>>,
    /// True if any program or filter may wipe them.
    may_wipe: bool,
    /// `CLOCK_BOOTTIME` of the last survey.
    surveyed: Option<Duration>,
}

impl Neighbours {
    /// Before the first survey.
    pub(super) fn new(choice: IntentCarrier, permitted: u16) -> Self {
        Self {
            choice,
            permission: Permission::of(permitted),
            decision: Decision::default(),
            wipers: BTreeMap::new(),
            may_wipe: false,
            surveyed: None,
        }
    }

    /// True after the first survey. Before it no lease may be renewed, or an earlier process's permission would stay
    /// in force.
    pub(super) const fn are_known(&self) -> bool {
        self.surveyed.is_some()
    }
}

impl Agent {
    /// Applies a survey. `Err`: the survey failed, for this reason, so any neighbour may exist.
    pub fn on_survey(&mut self, survey: &Result<Survey, String>) -> Result<()> {
        let foreign: Result<Vec<Foreign>, &str> = match survey {
            Ok(survey) => Ok(survey.found.iter().filter_map(foreign).collect()),
            Err(error) => Err(error),
        };
        let decision = carrier::decide(self.neighbours.choice, foreign.as_deref().map_err(|error| *error));
        self.neighbours.wipers = survey.as_ref().map(wipers).unwrap_or_default();
        let may_wipe = |survey: &Survey| survey.found.iter().any(|found| found.may_wipe(true));
        self.neighbours.may_wipe = survey.as_ref().is_ok_and(may_wipe);
        self.neighbours.surveyed = Some(now());
        self.permit(decision)
    }

    /// Takes the permission back if the last survey is older than [`MAX_AGE`].
    pub(super) fn void_old_surveys(&mut self) -> Result<()> {
        let fresh = |at: Duration| now().saturating_sub(at) <= MAX_AGE;
        if self.neighbours.surveyed.is_none_or(fresh) {
            return Ok(());
        }
        self.permit(Decision {
            why: "the programs on this node's interfaces were not read for more than a second".to_owned(),
            ..Decision::default()
        })
    }

    fn permit(&mut self, decision: Decision) -> Result<()> {
        let wiped = self.neighbours.may_wipe;
        let bits = self.neighbours.permission.next(decision.in_use.bits(), now());
        self.writer.permit(bits, wiped)?;
        let decision = if bits == decision.in_use.bits() {
            decision
        } else {
            Decision {
                in_use: Carrier::None,
                why: format!(
                    "{} comes next, once no packet carries old numbers",
                    decision.in_use.as_str()
                ),
                ..decision
            }
        };
        let known = &self.neighbours.decision;
        if (known.in_use, &known.why, &known.decided_by)
            != (decision.in_use, &decision.why, &decision.decided_by)
        {
            let by = decision.decided_by.join(", ");
            tracing::info!(
                carrier = decision.in_use.as_str(),
                why = decision.why,
                by,
                "intent carrier"
            );
            self.neighbours.decision = decision;
        }
        Ok(())
    }

    /// The interfaces, each with all programs and filters that may wipe what packets carry there.
    pub(super) fn hooked_interfaces(&self) -> impl Iterator<Item = Attachment> {
        self.attachments.list().map(|attachment| {
            let mut attachment = attachment.clone();
            let wipers = self.neighbours.wipers.get(&attachment.ifindex);
            attachment.after.extend(wipers.into_iter().flatten().cloned());
            attachment
        })
    }

    /// The carrier in use, for the status.
    pub(super) fn carrier(&self) -> Decision {
        let services_without_room = match self.neighbours.decision.in_use {
            Carrier::TcIndexHigh => self.state.services_without_high_slot(),
            Carrier::TcIndex | Carrier::None => 0,
        };
        Decision {
            services_without_room,
            ..self.neighbours.decision.clone()
        }
    }
}

/// The bits that a foreign program uses; none if it uses neither field. Where programs cannot be listed at all
/// (`CAP_SYS_ADMIN`), programs at hooks are known to exist and count as unreadable. Of the program kinds that are at
/// no interface, none is known to read the fields.
fn foreign(found: &Found) -> Option<Foreign> {
    if found.program.is_none() && found.at == Place::Anywhere {
        return None;
    }
    let (index, class) = (found.uses.tc_index, found.uses.tc_classid);
    let bits = index.reads | index.sets | class.reads | class.sets;
    let label = match &found.program {
        Some(program) => format!("{} (id {})", program.name, program.id),
        None => found.place.clone(),
    };
    let assumed = (found.program.as_ref()).is_some_and(|program| program.unreadable.is_some());
    (bits != 0).then_some(Foreign { label, bits, assumed })
}

/// TCX programs behind our ingress hook that may wipe what packets carry, by interface. Filters are already in the
/// chains.
fn wipers(survey: &Survey) -> BTreeMap<u32, Vec<String>> {
    let mut wipers = BTreeMap::<u32, Vec<String>>::new();
    for found in &survey.found {
        if let (Some(ifindex), Place::Tcx { ingress: true }, true) =
            (found.ifindex, found.at, found.may_wipe(true))
        {
            let name = found
                .program
                .as_ref()
                .map_or(&found.place, |program| &program.name);
            wipers
                .entry(ifindex)
                .or_default()
                .push(format!("ingress: tcx {name}"));
        }
    }
    wipers
}
