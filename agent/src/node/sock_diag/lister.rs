//! Lists sockets on a thread of its own: the kernel walks over all its sockets for each list, some milliseconds on a large node.

use super::{Connected, connected_to};
use epguard_common::Vip;
use std::{io, sync, thread};
use tokio::sync::mpsc::{self, Receiver};

/// The way to the thread.
#[derive(Debug)]
pub struct Lister(sync::mpsc::Sender<Vec<Vip>>);

/// What [`connected_to`] returned.
pub type Listed = io::Result<Vec<Connected>>;

impl Lister {
    /// Starts the thread. It lives as long as both ends of it do.
    ///
    /// Errors: no thread can be made.
    pub fn start() -> io::Result<(Self, Receiver<Listed>)> {
        let (ask, asked) = sync::mpsc::channel::<Vec<Vip>>();
        let (answer, answers) = mpsc::channel(1);
        let list = move || {
            for vips in asked {
                if answer.blocking_send(connected_to(&vips)).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("sockets".to_owned()).spawn(list)?;
        Ok((Self(ask), answers))
    }

    /// Asks for the sockets that are connected to these. False if the thread has ended.
    #[must_use]
    pub fn ask(&self, vips: Vec<Vip>) -> bool {
        self.0.send(vips).is_ok()
    }
}
