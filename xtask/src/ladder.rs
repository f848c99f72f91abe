//! A run of steps: each with a heading and a count, all of them run, the sum at the end.

use std::io::{BufRead, BufReader, IsTerminal, Write, pipe};
use std::iter;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::process::{exit, name};
use crate::watchdog::Watchdog;

/// Longer than any step takes on a slow machine, also one that yields to the others all the time: a
/// step that hangs must be named, and must not keep the others from running.
const LIMIT: Duration = Duration::from_mins(25);

/// Checks or tests that passed and failed.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) passed: u32,
    pub(crate) failed: u32,
}

/// A command to run as a step.
pub(crate) struct Planned {
    pub(crate) title: String,
    pub(crate) counted: Counted,
    pub(crate) command: Command,
    /// Whether it runs once more, alone, if it failed beside others: it waits for what a busy
    /// machine may be late with. The second result counts.
    pub(crate) again: bool,
}

/// The source of a step's result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counted {
    /// By its exit status: one check.
    ByExit,
    /// By its output: `test result: ok. 3 passed; 0 failed; ...` or `3 passed, 0 failed`.
    ByOutput,
}

/// The steps so far.
#[derive(Default)]
pub(crate) struct Ladder {
    done: Vec<Step>,
}

struct Step {
    title: String,
    outcome: StepOutcome,
    took: Duration,
    /// What a failed command printed, to be shown last: the beginning of a long log may be cut off.
    failure: Vec<u8>,
}

enum StepOutcome {
    Counted(Count),
    /// Not run, with the reason.
    LeftOut(String),
}

impl Ladder {
    /// Runs `command` to its end under the heading `title`; a failure is recorded, and the next
    /// step runs all the same.
    pub(crate) fn run_within(
        &mut self,
        most: Duration,
        title: &str,
        counted: Counted,
        mut command: Command,
    ) {
        self.check(title, || {
            count(&mut command, counted, limit(most), &mut std::io::stdout())
        });
    }

    /// Runs the commands of all queues at the same time, of each queue so many at once, in their
    /// order. Each one's output follows when it has ended, that of a failed one once more before
    /// the summary.
    pub(crate) fn run_together(&mut self, queues: impl IntoIterator<Item = (Vec<Planned>, usize)>) {
        let queues: Vec<_> = queues
            .into_iter()
            .map(|(steps, at_once)| (Mutex::new(steps.into_iter()), at_once))
            .collect();
        let (ended, results) = mpsc::channel();
        let mut failed_beside_others = Vec::new();
        std::thread::scope(|scope| {
            for steps in queues
                .iter()
                .flat_map(|(steps, at_once)| iter::repeat_n(steps, *at_once))
            {
                let ended = ended.clone();
                scope.spawn(move || {
                    let next = || steps.lock().ok()?.next();
                    while let Some(mut planned) = next() {
                        println!("running: {}", planned.title);
                        let (step, output) = planned.run();
                        let _ = ended.send((planned, step, output));
                    }
                });
            }
            drop(ended);
            for (planned, step, output) in results {
                print_output(&planned.title, &output);
                if planned.again && !step.failure.is_empty() {
                    failed_beside_others.push(planned);
                } else {
                    self.done.push(step);
                }
            }
        });
        for mut planned in failed_beside_others {
            println!("\nonce more, alone: {}", planned.title);
            planned.title += ", again";
            let (step, output) = planned.run();
            print_output(&planned.title, &output);
            self.done.push(step);
        }
    }

    /// Runs a check of this program under the heading `title`.
    pub(crate) fn check(&mut self, title: &str, check: impl FnOnce() -> Result<Count>) {
        println!("\n== {title}");
        let start = Instant::now();
        let count = check().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Count {
                passed: 0,
                failed: 1,
            }
        });
        let title = title.into();
        let outcome = StepOutcome::Counted(count);
        self.done.push(Step {
            title,
            outcome,
            took: start.elapsed(),
            failure: Vec::new(),
        });
    }

    /// Runs a check of this program that passes if it finds nothing. Prints what it finds.
    pub(crate) fn find(&mut self, title: &str, find: impl FnOnce() -> Result<Vec<String>>) {
        self.check(title, || {
            let found = find()?;
            for line in &found {
                println!("{line}");
            }
            Ok(Count {
                passed: found.is_empty().into(),
                failed: u32::try_from(found.len())?,
            })
        });
    }

    /// Records that `title` was not run, which counts neither as passed nor as failed.
    pub(crate) fn leave_out(&mut self, title: &str, why: &str) {
        println!("\n== {title}\nleft out: {why}");
        let title = title.into();
        let outcome = StepOutcome::LeftOut(why.into());
        self.done.push(Step {
            title,
            outcome,
            took: Duration::ZERO,
            failure: Vec::new(),
        });
    }

    /// Prints the table and, as the last line, `N passed, N failed`.
    pub(crate) fn finish(self) -> ExitCode {
        for Step { title, failure, .. } in self.done.iter().filter(|step| !step.failure.is_empty())
        {
            println!(
                "\n== {title}, which failed\n{}",
                String::from_utf8_lossy(failure).trim_end()
            );
        }
        println!("\n== Summary");
        let mut sum = Count::default();
        for Step {
            title,
            outcome,
            took,
            ..
        } in &self.done
        {
            match outcome {
                StepOutcome::Counted(Count { passed, failed }) => {
                    let verdict = if *failed == 0 { "ok" } else { "FAILED" };
                    println!(
                        "{title:<28}{verdict:<8}{passed:>5} passed {failed:>4} failed {:>7.1} s",
                        took.as_secs_f32()
                    );
                    sum.passed += passed;
                    sum.failed += failed;
                }
                StepOutcome::LeftOut(why) => println!("{title:<28}left out: {why}"),
            }
        }
        println!("{} passed, {} failed", sum.passed, sum.failed);
        exit(sum.failed == 0)
    }
}

impl Planned {
    /// A step that runs once.
    pub(crate) fn new(title: &str, counted: Counted, command: Command) -> Self {
        Self {
            title: title.into(),
            counted,
            command,
            again: false,
        }
    }

    /// Runs it to its end. Returns all that it printed, too.
    fn run(&mut self) -> (Step, Vec<u8>) {
        let start = Instant::now();
        let mut output = Vec::new();
        let count = count(&mut self.command, self.counted, limit(LIMIT), &mut output)
            .unwrap_or_else(|error| {
                output.extend(format!("error: {error:#}\n").bytes());
                Count {
                    passed: 0,
                    failed: 1,
                }
            });
        let failure = if count.failed > 0 {
            output.clone()
        } else {
            Vec::new()
        };
        let title = self.title.clone();
        let outcome = StepOutcome::Counted(count);
        (
            Step {
                title,
                outcome,
                took: start.elapsed(),
                failure,
            },
            output,
        )
    }
}

fn print_output(title: &str, output: &[u8]) {
    println!(
        "\n== {title}\n{}",
        String::from_utf8_lossy(output).trim_end()
    );
}

/// The limit for a step; none at a terminal, where a user sees that a step hangs and Ctrl-C has to
/// reach it.
fn limit(most: Duration) -> Option<Duration> {
    (!std::io::stdin().is_terminal()).then_some(most)
}

/// Runs `command`, passing what it prints on to `out` line by line while counting. After `limit` it
/// is killed, with all processes that it started.
fn count(
    command: &mut Command,
    counted: Counted,
    limit: Option<Duration>,
    out: &mut impl Write,
) -> Result<Count> {
    let name = name(command);
    writeln!(out, "$ {name}")?;
    let (printed, end) = pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(end.try_clone()?)
        .stderr(end);
    if limit.is_some() {
        command.process_group(0);
    }
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {name}"))?;
    // The command holds this end of the pipe, too.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let watchdog = limit.map(|limit| Watchdog::new(child.id(), limit));
    let mut sum = Count::default();
    for line in BufReader::new(printed).split(b'\n') {
        let line = line?;
        out.write_all(&line)?;
        out.write_all(b"\n")?;
        if let Some(Count { passed, failed }) = parse(String::from_utf8_lossy(&line).trim_end()) {
            sum.passed += passed;
            sum.failed += failed;
        }
    }
    let killed = watchdog.is_some_and(Watchdog::has_killed);
    if let Some(limit) = limit
        && killed
    {
        writeln!(
            out,
            "error: {name} did not end within {limit:?} and was killed"
        )?;
    }
    let success = child.wait()?.success() && !killed;
    if success && counted == Counted::ByOutput && sum == Count::default() {
        writeln!(out, "error: {name} reported neither a pass nor a failure")?;
    }
    Ok(judge(counted, success, sum))
}

/// The final count: a command that failed counts a failure, in spite of its output. One that had to
/// print counts and did not has run nothing.
fn judge(counted: Counted, success: bool, sum: Count) -> Count {
    match counted {
        Counted::ByExit => Count {
            passed: success.into(),
            failed: (!success).into(),
        },
        Counted::ByOutput if !success || sum == Count::default() => Count {
            failed: sum.failed.max(1),
            ..sum
        },
        Counted::ByOutput => sum,
    }
}

fn parse(line: &str) -> Option<Count> {
    let words: Vec<&str> = line
        .split([' ', ',', ';'])
        .filter(|word| !word.is_empty())
        .collect();
    let words = match words.as_slice() {
        ["test", "result:", _, rest @ ..] => rest,
        all @ [_, _, _, _] => all,
        _ => return None,
    };
    match words {
        [passed, "passed", failed, "failed", ..] => Some(Count {
            passed: passed.parse().ok()?,
            failed: failed.parse().ok()?,
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str, counted: Counted) -> (u32, u32) {
        let mut command = crate::process::command("/bin/sh");
        let count = count(
            command.args(["-c", script]),
            counted,
            None,
            &mut std::io::sink(),
        )
        .unwrap();
        (count.passed, count.failed)
    }

    /// The counts of a step that fails when it runs first, and again if asked for.
    fn outcome(again: bool) -> (u32, u32) {
        let folder = tempfile::tempdir().unwrap();
        let mut command = crate::process::command("/bin/sh");
        command
            .args(["-c", "[ -e ran ] || { touch ran; exit 1; }"])
            .current_dir(&folder);
        let step = Planned {
            again,
            ..Planned::new("late", Counted::ByExit, command)
        };
        let mut ladder = Ladder::default();
        ladder.run_together([(vec![step], 1)]);
        let [
            Step {
                outcome: StepOutcome::Counted(count),
                ..
            },
        ] = &ladder.done[..]
        else {
            panic!("one step")
        };
        (count.passed, count.failed)
    }

    #[test]
    fn only_a_step_that_may_be_late_runs_again_and_then_its_second_result_counts() {
        assert_eq!((outcome(false), outcome(true)), ((0, 1), (1, 0)));
    }

    #[test]
    fn counts_are_read_from_cargo_test_and_from_closing_lines() {
        let line =
            "test result: FAILED. 3 passed; 2 failed; 1 ignored; 0 measured; finished in 0.00s";
        assert_eq!(
            parse(line),
            Some(Count {
                passed: 3,
                failed: 2
            })
        );
        assert_eq!(
            parse("21 passed, 0 failed"),
            Some(Count {
                passed: 21,
                failed: 0
            })
        );
        assert_eq!(parse("calls: 21 passed, 0 failed so far"), None);
        assert_eq!(parse("test a_test ... ok"), None);
    }

    #[test]
    fn a_step_has_the_sum_of_its_counts_and_a_failure_of_its_own_or_if_it_counts_nothing() {
        for (script, counted, count) in [
            (
                "echo '2 passed, 0 failed'; echo '3 passed, 0 failed'",
                Counted::ByOutput,
                (5, 0),
            ),
            (
                "echo '2 passed, 0 failed'; exit 101",
                Counted::ByOutput,
                (2, 1),
            ),
            ("exit 1", Counted::ByExit, (0, 1)),
            ("echo done", Counted::ByOutput, (0, 1)),
            ("echo done", Counted::ByExit, (1, 0)),
        ] {
            assert_eq!(sh(script, counted), count, "{script}");
        }
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_children_and_counts_as_a_failure() {
        let mut command = crate::process::command("/bin/sh");
        command.args(["-c", "echo '2 passed, 0 failed'; sleep 1000 | sleep 1000"]);
        let limit = Some(Duration::from_secs(2));
        let mut output = Vec::new();
        let sum = count(&mut command, Counted::ByOutput, limit, &mut output).unwrap();
        assert_eq!(
            sum,
            Count {
                passed: 2,
                failed: 1
            }
        );
        let output = String::from_utf8(output).unwrap();
        assert!(
            output.ends_with("did not end within 2s and was killed\n"),
            "{output}"
        );
    }
}
