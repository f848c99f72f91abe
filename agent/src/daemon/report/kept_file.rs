//! A small file in the run directory, for the agent's next process.

use anyhow::{Context as _, Result};
use nix::libc;
use serde::Serialize;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

/// A file that has the content that was stored last, now or soon. A thread writes it: a slow disk
/// must not stop the agent.
#[derive(Debug)]
pub struct KeptFile<T> {
    /// Sends each new content to the thread; none once the thread is to end.
    write: Option<Sender<T>>,
    writer: Option<JoinHandle<()>>,
}

impl<T: Serialize + Send + 'static> KeptFile<T> {
    /// Starts the thread. `without` says what the next process lacks if the file cannot be written.
    /// Errors: no thread can be started.
    pub fn new(path: PathBuf, without: &'static str) -> Result<Self> {
        let (write, contents) = mpsc::channel();
        let writer = thread::Builder::new()
            .name("files".into())
            .spawn(move || write_each(&path, &contents, without))
            .with_context(|| format!("cannot start the thread without which {without}"))?;
        Ok(Self {
            write: Some(write),
            writer: Some(writer),
        })
    }

    /// Queues the write of a content.
    pub fn store(&self, content: T) {
        if let Some(write) = &self.write {
            // An error would mean that the thread panicked, which is in the log.
            let _ = write.send(content);
        }
    }
}

impl<T> Drop for KeptFile<T> {
    /// Waits until everything is written.
    fn drop(&mut self) {
        self.write = None;
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

/// Writes each content that arrives; of several that wait, only the last. Logs once that it fails.
fn write_each<T: Serialize>(path: &Path, contents: &Receiver<T>, without: &str) {
    let mut failed = false;
    while let Ok(content) = contents.recv() {
        let content = contents.try_iter().last().unwrap_or(content);
        let written = write(path, &content);
        if let Err(error) = written.as_ref().map_err(|error| format!("{error:#}"))
            && !failed
        {
            tracing::warn!("after a restart {without}: {error}");
        }
        failed = written.is_err();
    }
}

/// Replaces the file in one step: a reader sees the old one or the new one.
fn write<T: Serialize>(path: &Path, content: &T) -> Result<()> {
    let text = serde_json::to_vec(content).context("cannot write JSON")?;
    let aside = path.with_extension("json.new");
    let mut options = OpenOptions::new();
    // Permissions as of the status socket: only root reads names. Not through a link.
    options.create(true).write(true).truncate(true);
    options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options
        .open(&aside)
        .and_then(|mut file| file.write_all(&text))
        .and_then(|()| fs::rename(&aside, path))
        .with_context(|| format!("cannot write {}", path.display()))
}
