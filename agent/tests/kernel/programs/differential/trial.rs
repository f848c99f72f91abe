//! Runs frames through programs and oracle, and compares.

use super::*;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

const PROGRAMS: [Program; 4] = [
    Program::Xdp,
    Program::Ingress,
    Program::Egress,
    Program::Both,
];

/// Where `struct __sk_buff` has what other programs keep in a packet: mark, priority, cb; each
/// filled with its octet.
const KEPT: [(Range<usize>, u8); 3] = [(8..12, 0xa5), (32..36, 0x5a), (48..68, 0xc3)];

/// Counted beside denials, by the time.
const BY_TIME: [Outcome; 2] = [Outcome::EventLost, Outcome::EventSuppressed];

/// What any longer run has to count.
pub const REACHED: [Outcome; 12] = [
    Outcome::Dropped,
    Outcome::Observed,
    Outcome::Off,
    Outcome::LeaseExpired,
    Outcome::NoConnection,
    Outcome::UnreadableConnection,
    Outcome::NoIntent,
    Outcome::NotDenied,
    Outcome::Established,
    Outcome::Draining,
    Outcome::Lifted,
    Outcome::AnswerSuppressed,
];

pub struct Trial {
    pub rig: Rig,
    counted: Counts,
}

impl Trial {
    pub fn new() -> Self {
        let mut rig = node::rig();
        let counted = rig.counts();
        Self { rig, counted }
    }

    /// What programs and oracle have counted for frames that run one after the other, or how they
    /// differ. No packet has come from an orphan IP before.
    pub fn run(&mut self, tables: &Tables, frames: &[Vec<u8>]) -> Result<Counts, String> {
        self.rig.tracked = Some(tables.connection);
        let mut oracle = Oracle::new(tables);
        let mut differences = String::new();
        for (number, frame) in frames.iter().enumerate() {
            // Each program is the first one that a frame from an orphan IP meets.
            for turn in 0..PROGRAMS.len() {
                let program = PROGRAMS[(number + turn) % PROGRAMS.len()];
                let lifted = oracle.lifted.len();
                let expected = oracle.stops(program, frame);
                let stopped = self.stops(program, frame);
                if stopped != Ok(expected) {
                    let _ = writeln!(
                        differences,
                        "{program:?}: oracle stops {expected}, program {stopped:?}"
                    );
                }
                // At once: another program lifts what this one has missed.
                if oracle.lifted.len() > lifted && self.lifted(tables) != oracle.lifted {
                    let _ = writeln!(differences, "{program:?}: oracle lifts {:?}", oracle.lifted);
                }
            }
        }
        let counts = self.counts();
        if counts != oracle.counts {
            let _ = writeln!(
                differences,
                "oracle counts {:#?}, programs {counts:#?}",
                oracle.counts
            );
        }
        let lifted = self.lifted(tables);
        if lifted != oracle.lifted {
            let _ = writeln!(
                differences,
                "oracle lifts {:?}, programs {lifted:?}",
                oracle.lifted
            );
        }
        for addr in lifted {
            tables.unlift(&mut self.rig, &addr);
        }
        if differences.is_empty() {
            Ok(counts)
        } else {
            Err(differences)
        }
    }

    /// Whether the program stops the frame; an error if it does anything else.
    fn stops(&mut self, program: Program, frame: &[u8]) -> Result<bool, String> {
        let name = match program {
            Program::Xdp => {
                let (action, left) = self.rig.turn_xdp(frame);
                return match action {
                    XDP_DROP => Ok(true),
                    XDP_PASS if left == frame => Ok(false),
                    _ => Err(format!("action {action}, frame {left:02x?}")),
                };
            }
            Program::Ingress => "epguard_from",
            Program::Egress => "epguard_to",
            Program::Both => BOTH,
        };
        let mut context: Context = [0; 192];
        for (place, octet) in KEPT {
            context[place].fill(octet);
        }
        let ran = self.rig.repeat(name, frame, context, 1);
        let is_kept = KEPT
            .into_iter()
            .all(|(place, _)| ran.context[place.clone()] == context[place]);
        match ran.action {
            DROP if ran.frame == frame => Ok(true),
            PASS if ran.frame == frame && is_kept => Ok(false),
            action => Err(format!(
                "action {action}, context {:02x?}, frame {:02x?}",
                ran.context, ran.frame
            )),
        }
    }

    /// What the programs have counted since the last call.
    pub fn counts(&mut self) -> Counts {
        let before = std::mem::replace(&mut self.counted, self.rig.counts());
        let since = self.counted.iter().map(|(of, count)| {
            let before = before.get(of).copied().unwrap_or_default();
            (*of, count.since(before))
        });
        since
            .filter(|((_, outcome), count)| {
                !BY_TIME.contains(outcome) && *count != Count::default()
            })
            .collect()
    }

    /// Orphan IPs that have sent a packet.
    pub fn lifted(&mut self, tables: &Tables) -> BTreeSet<Addr> {
        tables
            .terminated
            .keys()
            .filter(|addr| {
                let entry: Option<Terminated> = self.rig.get_keyed("TERMINATED", *addr);
                entry.is_none_or(|entry| entry.lifted_ns != 0)
            })
            .copied()
            .collect()
    }

    /// The difference, and the frame that shows it, cut as far as it still does.
    pub fn explain(&mut self, tables: &Tables, frames: &[Vec<u8>], difference: &str) -> String {
        let mut differs = |frame: &[u8]| self.run(tables, &[frame.to_vec()]).err();
        let Some(found) = frames.iter().find(|frame| differs(frame).is_some()) else {
            return format!("only one after the other: {difference}\n{}", hex(frames));
        };
        let mut cut = (least(found)..=found.len()).map(|length| &found[..length]);
        let shown = cut.find_map(|frame| {
            Some(format!(
                "{}frame {}",
                differs(frame)?,
                hex(&[frame.to_vec()])
            ))
        });
        shown.unwrap_or_else(|| format!("{difference}frame {}", hex(std::slice::from_ref(found))))
    }
}

/// Frames as text, one in a line.
pub fn hex(frames: &[Vec<u8>]) -> String {
    frames
        .iter()
        .map(|frame: &Vec<u8>| {
            frame
                .iter()
                .fold(String::new(), |text, octet| text + &format!("{octet:02x}"))
                + "\n"
        })
        .collect()
}

pub fn add(sum: &mut Counts, counts: &Counts) {
    for (of, count) in counts {
        let all = sum.entry(*of).or_default();
        *all = all.plus(*count);
    }
}
