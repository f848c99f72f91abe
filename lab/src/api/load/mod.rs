//! Reads objects from files of any size. Lists are read item by item, so that a file is never in memory as a whole.

mod documents;

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context, Result};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use documents::Documents;

/// Octets that are read at once.
const BUFFER: usize = 1024 * 1024;

/// Passes each object of a YAML or JSON file to `take`, those in lists too, and stops at the first error of `take`.
pub(super) fn objects(path: &Path, take: impl FnMut(Value) -> Result<()>) -> Result<()> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut taker = Taker { take, taken: 0, refused: None };
    let read = read(BufReader::with_capacity(BUFFER, file), &mut taker);
    match taker.refused {
        Some(error) => Err(error.context(format!("{}, object {}", path.display(), taker.taken + 1))),
        None => read.with_context(|| {
            format!("{} is no YAML or JSON of objects after object {}", path.display(), taker.taken)
        }),
    }
}

fn read(mut stream: impl BufRead, taker: &mut Taker<impl FnMut(Value) -> Result<()>>) -> Result<()> {
    if is_json(&mut stream)? {
        while skip_space(&mut stream)? {
            Document(taker).deserialize(&mut serde_json::Deserializer::from_reader(&mut stream))?;
        }
        return Ok(());
    }
    let mut documents = Documents::new(stream);
    while documents.advance() {
        let options = serde_saphyr::options! { strict_booleans: true, budget: None };
        serde_saphyr::with_deserializer_from_reader_with_options(&mut documents, options, |yaml| {
            Document(taker).deserialize(yaml)
        })?;
    }
    Ok(())
}

/// True if the stream begins like a JSON object: with a brace and a quote.
fn is_json(stream: &mut impl BufRead) -> Result<bool> {
    skip_space(stream)?;
    let mut begin = stream.fill_buf()?.iter().filter(|octet| !octet.is_ascii_whitespace());
    Ok(begin.next() == Some(&b'{') && begin.next() == Some(&b'"'))
}

/// Returns false at the end of the stream.
fn skip_space(stream: &mut impl BufRead) -> Result<bool> {
    loop {
        let buffer = stream.fill_buf()?;
        let space = buffer.iter().take_while(|octet| octet.is_ascii_whitespace()).count();
        let (is_over, has_more) = (buffer.is_empty(), space < buffer.len());
        stream.consume(space);
        if is_over || has_more {
            return Ok(has_more);
        }
    }
}

/// Takes objects until one is refused.
struct Taker<F> {
    take: F,
    taken: usize,
    refused: Option<anyhow::Error>,
}

impl<F: FnMut(Value) -> Result<()>> Taker<F> {
    fn take<E: de::Error>(&mut self, object: Value) -> Result<(), E> {
        if let Err(error) = (self.take)(object) {
            self.refused = Some(error);
            return Err(E::custom("refused"));
        }
        self.taken += 1;
        Ok(())
    }
}

/// An object, or a list of objects.
struct Document<'a, F>(&'a mut Taker<F>);

impl<'de, F: FnMut(Value) -> Result<()>> DeserializeSeed<'de> for Document<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<()>> Visitor<'de> for Document<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or a list of objects")
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self(taker) = self;
        let mut object = Map::new();
        let mut early = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                let item = Item::of(&object);
                early = Some(map.next_value_seed(Items { item, taker })?);
            } else {
                object.insert(key, map.next_value()?);
            }
        }
        let Some(early) = early else {
            return taker.take(Value::Object(object));
        };
        let item = Item::of(&object);
        let is_list = item.is_some();
        for object in early {
            taker.take(Item::complete(item.as_ref(), object))?;
        }
        if is_list {
            return Ok(());
        }
        let kind = object.get("kind").unwrap_or(&Value::Null);
        Err(de::Error::custom(format!("an object of kind {kind} has items: only lists may")))
    }
}

/// The type of a list's items, which need none of their own.
struct Item {
    /// Empty for the kind `List`.
    kind: String,
    api_version: Value,
}

impl Item {
    /// None if the kind is missing so far, or is no list.
    fn of(list: &Map<String, Value>) -> Option<Self> {
        let kind = list.get("kind")?.as_str()?.strip_suffix("List")?.to_owned();
        let api_version = list.get("apiVersion").cloned().unwrap_or_default();
        Some(Self { kind, api_version })
    }

    /// The item with its type.
    fn complete(item: Option<&Self>, mut object: Value) -> Value {
        if let Some(Self { kind, api_version }) = item
            && object.is_object()
            && object["kind"].is_null()
        {
            object["kind"] = kind.as_str().into();
            object["apiVersion"] = api_version.clone();
        }
        object
    }
}

/// The items of a list. Those without a type are returned where the list's own is not known yet.
struct Items<'a, F> {
    item: Option<Item>,
    taker: &'a mut Taker<F>,
}

impl<'de, F: FnMut(Value) -> Result<()>> DeserializeSeed<'de> for Items<'_, F> {
    type Value = Vec<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<()>> Visitor<'de> for Items<'_, F> {
    type Value = Vec<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the items of a list")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Vec<Value>, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vec<Value>, A::Error> {
        let mut early = Vec::new();
        while let Some(object) = items.next_element::<Value>()? {
            if self.item.is_none() && object["kind"].is_null() {
                early.push(object);
            } else {
                self.taker.take(Item::complete(self.item.as_ref(), object))?;
            }
        }
        Ok(early)
    }
}

#[cfg(test)]
mod tests;
