//! Reads the lines of a stream. When many come, it lets some more gather before it reads on: to
//! wake up for each costs more than to read it.

use futures::FutureExt as _;
use futures::io::{AsyncBufRead, AsyncBufReadExt as _};
use std::io;
use std::time::Duration;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// So many lines within this time are a crowd. Of fewer, each is read as it comes.
const CROWD: usize = 4;
const WITHIN: Duration = Duration::from_millis(10);

/// How long a crowded stream is left alone, once it was read to its end.
const PAUSE: Duration = Duration::from_millis(8);

/// How often the connection may run, to hand over what it has received, before the stream counts as
/// read to its end.
const TURNS: u32 = 3;

/// When the last lines came, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Lines {
    last: [Option<Instant>; CROWD],
    /// True once the stream was read to its end.
    pub(super) was_empty: bool,
}

impl Lines {
    /// Reads a line without its end. If dropped and called again with the same buffer, it
    /// continues. False: the stream is over. An incomplete last line is then dropped; the server
    /// sends it again to a watch that resumes.
    ///
    /// Lines `gather` only if they are changes: a list comes as fast as it is read.
    pub(super) async fn next_line(
        &mut self,
        stream: &mut (impl AsyncBufRead + Unpin),
        line: &mut Vec<u8>,
        gather: bool,
    ) -> io::Result<bool> {
        if !gather {
            return read_line(stream, line).await;
        }
        for _ in 0..TURNS {
            if let Some(read) = read_line(stream, line).now_or_never() {
                self.count_line();
                return read;
            }
            yield_now().await;
        }
        if self.is_crowded() {
            sleep(PAUSE).await;
        }
        self.was_empty = true;
        let read = read_line(stream, line).await;
        self.count_line();
        read
    }

    /// Stores that a line was read now.
    fn count_line(&mut self) {
        self.last.rotate_left(1);
        self.last[CROWD - 1] = Some(Instant::now());
    }

    fn is_crowded(&self) -> bool {
        self.last[0].is_some_and(|oldest| oldest.elapsed() < WITHIN)
    }
}

async fn read_line(
    stream: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
) -> io::Result<bool> {
    stream.read_until(b'\n', line).await?;
    Ok(line.pop_if(|last| *last == b'\n').is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::channel::mpsc::{UnboundedSender, unbounded};
    use futures::{StreamExt as _, TryStreamExt as _};
    use tokio::time::timeout;

    /// A stream that shows what is sent.
    fn stream() -> (UnboundedSender<String>, impl AsyncBufRead + Unpin) {
        let (sender, texts) = unbounded::<String>();
        (sender, texts.map(Ok::<_, io::Error>).into_async_read())
    }

    /// How long a line takes that is sent after so many others were read in a row.
    async fn after(lines: usize) -> Duration {
        let (sender, mut stream) = stream();
        let (mut reader, mut line) = (Lines::default(), Vec::new());
        sender.unbounded_send("a\n".repeat(lines)).unwrap();
        for _ in 0..lines {
            assert!(
                reader
                    .next_line(&mut stream, &mut line, true)
                    .await
                    .unwrap()
            );
        }
        line.clear();
        let begun = Instant::now();
        let send = async {
            sleep(Duration::from_micros(100)).await;
            sender.unbounded_send("b\n".into()).unwrap();
        };
        let (read, ()) = tokio::join!(reader.next_line(&mut stream, &mut line, true), send);
        assert!(read.unwrap() && line == b"b");
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_line_is_read_as_it_comes_and_one_after_many_others_a_little_later() {
        let ms = Duration::from_millis;
        assert!(after(1).await < ms(2));
        assert!(after(CROWD - 1).await < ms(2));
        assert!((PAUSE..PAUSE + ms(2)).contains(&after(CROWD).await));
        assert!((PAUSE..PAUSE + ms(2)).contains(&after(40).await));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_is_given_up_loses_nothing() {
        let (sender, mut stream) = stream();
        let (mut reader, mut line) = (Lines::default(), Vec::new());
        sender.unbounded_send("ab".into()).unwrap();
        for _ in 0..3 {
            let read = timeout(
                Duration::from_millis(1),
                reader.next_line(&mut stream, &mut line, true),
            );
            assert!(read.await.is_err());
        }
        sender.unbounded_send("c\nd".into()).unwrap();
        assert!(
            reader
                .next_line(&mut stream, &mut line, true)
                .await
                .unwrap()
        );
        assert_eq!(line, b"abc");
        drop(sender);
        line.clear();
        assert!(
            !reader
                .next_line(&mut stream, &mut line, true)
                .await
                .unwrap(),
            "incomplete"
        );
    }
}
