//! Surveys again and again, on a thread of its own: the kernel may hold its lock of all interfaces for long.

use super::{Scanner, Survey};
use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;
use tokio::sync::mpsc;

/// Time between surveys. When a neighbour comes, epguard stops writing within a second: four surveys, one of which may
/// be slow.
const INTERVAL: Duration = Duration::from_millis(250);

/// Nice value of the thread. A survey takes milliseconds; one that a busy node delays for a second costs every denial.
const PRIORITY: libc::c_int = -10;

/// Surveys this network namespace until the receiver is closed. `own`: ids of our programs, with those of an earlier
/// process.
///
/// Errors: no thread can be made.
pub fn follow(own: BTreeSet<u32>, to: mpsc::Sender<Result<Survey, String>>) -> std::io::Result<()> {
    let survey = move || {
        // SAFETY: takes no pointers, and means the calling thread. Without CAP_SYS_NICE the thread stays as it is.
        let _ = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, PRIORITY) };
        let mut scanner = Err("not tried yet".to_owned());
        loop {
            if scanner.is_err() {
                scanner = Scanner::new().map_err(|error| format!("{error:#}"));
            }
            let survey = match &mut scanner {
                Ok(scanner) => scanner.survey(&own).map_err(|error| format!("{error:#}")),
                Err(error) => Err(error.clone()),
            };
            if to.blocking_send(survey).is_err() {
                return;
            }
            thread::sleep(INTERVAL);
        }
    };
    thread::Builder::new()
        .name("neighbours".to_owned())
        .spawn(survey)
        .map(drop)
}
