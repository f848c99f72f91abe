//! Surveys one network namespace again and again.

use super::found::{Found, Survey, together};
use super::scanner::{Scanner, Walked};
use super::uses::Use;
use super::walk::Walk;
use crate::kernel::datapath::node;
use crate::shared::clock::of_thread;
use anyhow::{Context as _, Result};
use aya_obj::generated::bpf_prog_type;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// How long the result of a walk holds where nothing can make it worse: a neighbour that went is noticed that late.
const LASTS: Duration = Duration::from_secs(5);

/// A walk that takes less is made each time. To avoid longer ones, all programs of the kernel are read, attached or
/// not.
const DEAR: Duration = Duration::from_millis(5);

/// How many surveys are made at most if programs end meanwhile.
const ATTEMPTS: usize = 3;

impl Scanner {
    /// Finds everything but the programs with these ids. An error means that anything may be there.
    ///
    /// XDP programs are left out: they run before a packet has an `sk_buff`. So are programs that trace the kernel: they
    /// may see a packet, and decide nothing about it.
    ///
    /// Where walking hooks and tail calls takes long, it is done only when it can change the result: if some classifier
    /// of this kernel, attached or not, uses more than the last walk found, if one that was found is gone, and every 5
    /// seconds otherwise. Walking takes the kernel's lock of all interfaces, and reads maps of up to 65,535 programs.
    ///
    /// A program that ends meanwhile may have made room for another: then the survey is repeated, up to three in all.
    pub fn survey(&mut self, own: &BTreeSet<u32>) -> Result<Survey> {
        for _ in 1..ATTEMPTS {
            let (survey, whole) = self.attempt(own)?;
            if whole {
                return Ok(survey);
            }
        }
        Ok(self.attempt(own)?.0)
    }

    /// Surveys once. True if no program ended meanwhile.
    fn attempt(&mut self, own: &BTreeSet<u32>) -> Result<(Survey, bool)> {
        self.refresh()?;
        let names = node::named_interfaces().context("cannot list interfaces")?;
        let walked = self.walked.take().filter(|walked| walked.took >= DEAR);
        let most = walked.as_ref().map_or(Use::UNKNOWN, |_| self.classifiers(own));
        let mut walk = Walk {
            scanner: self,
            own,
            names: names.into_iter().collect(),
            called: BTreeMap::new(),
            found: Vec::new(),
            ended: false,
        };
        walk.anywhere();
        walk.qdiscs()?;
        let mut found = walk.take();
        let elsewhere = together(&found);
        let holds = |walked: &Walked| walk.scanner.holds(walked, most, elsewhere);
        let walked = if let Some(walked) = walked.filter(holds) {
            walked
        } else {
            let (began, read) = (of_thread(), walk.scanner.programs.read_so_far());
            walk.hooks()?;
            let found = walk.take();
            let only_walked = walk.scanner.programs.read_so_far() == read;
            Walked {
                found,
                at: Instant::now(),
                took: if only_walked {
                    of_thread().saturating_sub(began)
                } else {
                    Duration::ZERO
                },
            }
        };
        let whole = !walk.ended;
        found.extend(walked.found.iter().cloned());
        self.walked = Some(walked);
        Ok((Survey { found }, whole))
    }

    /// The possible use by all foreign classifiers of this kernel together. At a hook, the kernel copies `tc_classid`.
    fn classifiers(&mut self, own: &BTreeSet<u32>) -> Use {
        let classifier = bpf_prog_type::BPF_PROG_TYPE_SCHED_CLS as u32;
        let is_foreign = |(id, kind): &(u32, u32)| *kind == classifier && !own.contains(id);
        let ids: Vec<(u32, u32)> = self.programs.kinds().filter(is_foreign).collect();
        let mut most = Use::NONE;
        for (id, _) in ids {
            let uses = self.programs.read(id, &self.layout).map(|program| program.uses);
            most |= uses.unwrap_or(Use::UNKNOWN);
        }
        most.tc_index.sets |= most.tc_classid.sets;
        most
    }

    fn holds(&self, walked: &Walked, most: Use, elsewhere: Use) -> bool {
        let known = together(&walked.found) | elsewhere;
        let there = |found: &Found| {
            let program = found.program.as_ref();
            program.is_none_or(|program| program.unreadable.is_none() && self.programs.has(program.id))
        };
        self.blind.is_none()
            && walked.at.elapsed() < LASTS
            && most | known == known
            && walked.found.iter().all(there)
    }

    fn refresh(&mut self) -> Result<()> {
        match self.programs.refresh() {
            Ok(()) => self.blind = None,
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                self.blind = Some(format!(
                    "programs cannot be listed without CAP_SYS_ADMIN: {error}"
                ));
            }
            Err(error) => return Err(error).context("cannot list the kernel's programs"),
        }
        Ok(())
    }
}
