//! Consistent lists, read object by object: an answer of any size takes the memory of its objects
//! only. Never uses resourceVersion=0, which a server may answer with any old state.

use super::collection::Collection;
use super::failure::Failure;
use super::line::{Head, Headed, ReceivedObject};
use super::request_error::RequestError;
use super::step::Step;
use anyhow::Context as _;
use epguard_core::facts::{Ignored, Object, ObjectName};
use futures::io::{AsyncBufRead, AsyncBufReadExt};
use kube::api::ListParams;
use kube::{Client, core};
use std::{pin::pin, time::Duration};
use tokio::time::timeout;

/// Longest silence of a stream: longer than a bookmark's minute. A connection as silent as that is
/// dead, though TCP may not detect it for long.
pub(super) const SILENCE: Duration = Duration::from_secs(90);

/// How much a list may take.
pub(super) struct Limits {
    /// Objects in a page; none: all of them.
    pub(super) page: Option<u32>,
    pub(super) pages: usize,
    /// Octets of a page.
    pub(super) octets: u64,
    /// Longest wait for a page to begin, and to continue.
    pub(super) patience: Duration,
}

/// Pages of all objects have 500, as in client-go.
pub(super) const WHOLE: Limits = Limits {
    page: Some(500),
    pages: usize::MAX,
    octets: u64::MAX,
    patience: SILENCE,
};
/// All objects in one answer, which no later request can miss.
pub(super) const UNPAGED: Limits = Limits {
    page: None,
    ..WHOLE
};
/// A narrow list of more stays unanswered: any tenant can cause it in all agents at once. A later
/// answer is worthless, or is requested again.
pub(super) const NARROW: Limits = Limits {
    page: Some(100),
    pages: 20,
    octets: 16 << 20,
    patience: Duration::from_secs(20),
};
/// All pods of this node, which no other agent asks for.
pub(super) const OF_NODE: Limits = Limits {
    octets: u64::MAX,
    ..NARROW
};

/// What a list has shown.
#[derive(Debug)]
pub(super) struct Listed<O> {
    pub(super) version: u64,
    /// When the list was asked for, of `CLOCK_BOOTTIME`: it holds every earlier change.
    pub(super) sent: Duration,
    pub(super) entries: Vec<ReceivedObject<O>>,
    /// False if there are more.
    pub(super) whole: bool,
}

impl<O: Object> Listed<O> {
    /// Fails unless it shows all objects, and each can be read.
    pub(super) fn require_complete(self) -> Result<Self, RequestError> {
        if !self.whole {
            return Err(RequestError::NotWhole(self.entries.len()));
        }
        let unreadable = self.entries.iter().find(|entry| entry.object.is_err());
        if let Some(entry) = unreadable {
            return Err(RequestError::Unreadable(entry.describe()));
        }
        Ok(self)
    }
}

/// Lists a collection. It is sent now, of `CLOCK_BOOTTIME`.
pub(super) async fn list<O: Object>(
    client: &Client,
    collection: &Collection,
    limits: &Limits,
    sent: Duration,
) -> Result<Listed<O>, RequestError> {
    let mut entries = Vec::new();
    let mut pages = 0;
    let mut params = ListParams {
        limit: limits.page,
        field_selector: collection.fields.clone(),
        label_selector: collection.labels.clone(),
        ..ListParams::default()
    };
    loop {
        let http = core::Request::new(&*collection.path).list(&params)?;
        let body = timeout(limits.patience, client.request_stream(http)).await??;
        let add = |json: &[u8]| entries.push(ReceivedObject::parse_listed(json));
        let head = read_page(body, limits, add).await?;
        let version = head.version().map_err(RequestError::unreadable_answer)?;
        let whole = head.next.is_empty();
        pages += 1;
        if whole || pages == limits.pages {
            return Ok(Listed {
                version,
                sent,
                entries,
                whole,
            });
        }
        params.continue_token = Some(head.next);
    }
}

/// What a command has listed of a kind.
#[derive(Debug)]
pub struct OneList<O> {
    /// The objects that could be read.
    pub objects: Vec<O>,
    /// What could not be read, of these objects and of others, in one line each.
    pub skipped: Ignored,
    /// The names of the objects that could not be read at all; empty for one without a name.
    pub unreadable: Vec<ObjectName>,
}

impl<O> Default for OneList<O> {
    fn default() -> Self {
        Self {
            objects: Vec::new(),
            skipped: Ignored::new(),
            unreadable: Vec::new(),
        }
    }
}

/// Lists everything of a kind, or everything in one namespace, for a command.
pub async fn list_once<O: Object>(
    client: &Client,
    namespace: Option<&str>,
) -> Result<OneList<O>, Failure> {
    let collection = namespace.map_or_else(Collection::all::<O>, Collection::in_namespace::<O>);
    // A command dates no proof by it.
    let sent = Duration::ZERO;
    let listed = list(client, &collection, &WHOLE, sent)
        .await
        .map_err(|error| Failure::of(Step::Once, O::PATH, &error))?;
    let mut read = OneList::default();
    for entry in listed.entries {
        let name = entry.name.clone();
        match entry.read(&mut read.skipped) {
            Some(object) => read.objects.push(object),
            None => read.unreadable.push(name),
        }
    }
    Ok(read)
}

/// Reads the answer to a list, and hands over each of its objects.
async fn read_page(
    body: impl AsyncBufRead,
    limits: &Limits,
    mut each: impl FnMut(&[u8]),
) -> Result<Head, RequestError> {
    let mut body = pin!(body);
    let mut items = Items::default();
    let mut octets = 0;
    loop {
        let chunk = timeout(limits.patience, body.fill_buf()).await??;
        if chunk.is_empty() {
            break;
        }
        for octet in chunk {
            if items.complete_with(*octet) {
                each(&items.item);
                items.item.clear();
            }
        }
        let read = chunk.len();
        octets += read as u64;
        body.consume_unpin(read);
        if octets > limits.octets {
            return Err(RequestError::TooLarge(limits.octets));
        }
    }
    let list: Headed = serde_json::from_slice(&items.rest)
        .context("not a list")
        .map_err(RequestError::unreadable_answer)?;
    Ok(list.metadata)
}

/// Splits the JSON of a list into the elements of its array `items`, the only one in the outermost
/// object, and the rest.
#[derive(Debug, Default)]
pub(super) struct Items {
    pub(super) item: Vec<u8>,
    pub(super) rest: Vec<u8>,
    depth: usize,
    /// True if depth 2 is an array.
    array: bool,
    quoted: bool,
    escaped: bool,
}

impl Items {
    /// Adds an octet. True if it completes `item`.
    pub(super) fn complete_with(&mut self, octet: u8) -> bool {
        let inside = self.array && self.depth >= 2;
        let ends = inside && self.depth == 2 && !self.quoted && matches!(octet, b',' | b']');
        let escapes = self.quoted && !self.escaped && octet == b'\\';
        match octet {
            b'"' if !self.escaped => self.quoted = !self.quoted,
            b'{' | b'[' if !self.quoted => {
                if self.depth == 1 {
                    self.array = octet == b'[';
                }
                self.depth += 1;
            }
            b'}' | b']' if !self.quoted => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.escaped = escapes;
        if inside && !ends {
            self.item.push(octet);
        } else if !inside || octet == b']' {
            self.rest.push(octet);
        }
        ends && !self.item.trim_ascii().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_is_split_into_its_items() {
        let items = [r#"{"a":["b,]}","\"],[\\"],"c":{"d":[1,2]}}"#, "7", "{}"];
        for (space, empty) in [("", "[]"), (" \n", "null")] {
            let list = |items: &str| {
                format!(
                    r#"{{"kind":"PodList",{space}"metadata":{{"resourceVersion":"7","continue":"c","x":[1,2]}},{space}"items"{space}:{items}}}"#
                )
            };
            let separator = format!("{space},{space}");
            let full = list(&format!("[{space}{}{space}]", items.join(&separator)));
            for (text, expected) in [(full.as_str(), &items[..]), (&list(empty), &[])] {
                let mut shown = Vec::new();
                let head = read_page(text.as_bytes(), &WHOLE, |item| {
                    shown.push(String::from_utf8_lossy(item).trim().to_owned());
                });
                assert_eq!(head.await.unwrap().next, "c");
                assert_eq!(shown, expected);
                for end in 0..text.len() {
                    assert!(
                        read_page(&text.as_bytes()[..end], &WHOLE, |_| {})
                            .await
                            .is_err()
                    );
                }
            }
        }
    }
}
