//! Bodies in protobuf, which kubectl and Helm send where their clients know an object's type: those
//! of the kinds that they send so here (k8s.io/api `generated.proto`). Answers stay JSON.

use k8s_openapi::ByteString;
use serde_json::{Map, Value, json};

use crate::api::ApiError;

/// The content type.
pub(super) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// First octets of every body (k8s.io/apimachinery runtime/serializer/protobuf).
const MAGIC: &[u8] = b"k8s\0";

/// The object in JSON: of its metadata what [`metadata`] reads, the type and data of a Secret, and
/// the time that `DeleteOptions` give. Other fields are left out. Errors: octets that are no
/// protobuf, other kinds, and preconditions of a deletion.
pub(super) fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let envelope = body.strip_prefix(MAGIC).ok_or_else(malformed)?;
    let envelope = Message::read(envelope)?;
    let type_meta = envelope.message(1)?;
    let object = envelope.message(2)?;
    let kind = type_meta.text(2);
    let mut decoded = json!({"apiVersion": type_meta.text(1), "kind": kind});
    match &*kind {
        "Namespace" => {}
        "Secret" => {
            decoded["type"] = object.text(3).into();
            let data = object.entries(2)?;
            let data = data.map(|(key, value)| (key, json!(ByteString(value.to_vec()))));
            decoded["data"] = data.collect::<Map<_, _>>().into();
        }
        "DeleteOptions" => {
            if object.all(2).next().is_some() {
                return Err(unread("preconditions of a deletion"));
            }
            decoded["gracePeriodSeconds"] = json!(object.number(1));
            return Ok(decoded);
        }
        other => return Err(unread(other)),
    }
    decoded["metadata"] = metadata(&object.message(1)?)?;
    Ok(decoded)
}

/// The fields of `ObjectMeta` that clients set here.
fn metadata(message: &Message<'_>) -> Result<Value, ApiError> {
    let mut metadata = json!({});
    for (number, field) in [
        (1, "name"),
        (2, "generateName"),
        (3, "namespace"),
        (5, "uid"),
        (6, "resourceVersion"),
    ] {
        let text = message.text(number);
        if !text.is_empty() {
            metadata[field] = text.into();
        }
    }
    for (number, field) in [(11, "labels"), (12, "annotations")] {
        let entries = message.entries(number)?;
        let entries = entries.map(|(key, value)| (key, text(value).into()));
        let entries: Map<String, Value> = entries.collect();
        if !entries.is_empty() {
            metadata[field] = entries.into();
        }
    }
    Ok(metadata)
}

/// The fields of a message in their order.
struct Message<'a>(Vec<Field<'a>>);

struct Field<'a> {
    number: u64,
    content: Content<'a>,
}

enum Content<'a> {
    Number(u64),
    Octets(&'a [u8]),
}

impl<'a> Message<'a> {
    fn read(mut octets: &'a [u8]) -> Result<Self, ApiError> {
        let mut fields = Vec::new();
        while !octets.is_empty() {
            let tag = varint(&mut octets)?;
            let value = varint(&mut octets)?;
            let content = match tag & 7 {
                0 => Content::Number(value),
                2 => {
                    let length = usize::try_from(value).map_err(|_| malformed())?;
                    let (field, rest) = octets.split_at_checked(length).ok_or_else(malformed)?;
                    octets = rest;
                    Content::Octets(field)
                }
                _ => return Err(malformed()),
            };
            fields.push(Field {
                number: tag >> 3,
                content,
            });
        }
        Ok(Self(fields))
    }

    fn all(&self, number: u64) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter_map(move |field| match field.content {
            Content::Octets(octets) if field.number == number => Some(octets),
            _ => None,
        })
    }

    fn message(&self, number: u64) -> Result<Message<'a>, ApiError> {
        Message::read(self.all(number).next().unwrap_or_default())
    }

    fn text(&self, number: u64) -> String {
        text(self.all(number).next().unwrap_or_default())
    }

    fn number(&self, number: u64) -> Option<u64> {
        self.0.iter().find_map(|field| match field.content {
            Content::Number(value) if field.number == number => Some(value),
            _ => None,
        })
    }

    /// Keys and values of a map.
    fn entries(&self, number: u64) -> Result<impl Iterator<Item = (String, &'a [u8])>, ApiError> {
        let mut entries = Vec::new();
        for entry in self.all(number) {
            let entry = Message::read(entry)?;
            let value = entry.all(2).next().unwrap_or_default();
            entries.push((entry.text(1), value));
        }
        Ok(entries.into_iter())
    }
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

/// A number of 7 bits in each octet, the lowest first.
fn varint(octets: &mut &[u8]) -> Result<u64, ApiError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = octets.split_first().ok_or_else(malformed)?;
        *octets = rest;
        number |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(malformed())
}

fn unread(what: &str) -> ApiError {
    let message = format!("{what} in protobuf: not read here");
    ApiError::new(415, "UnsupportedMediaType", message)
}

fn malformed() -> ApiError {
    ApiError::bad_request("body is not protobuf of Kubernetes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of octets, each shorter than 128.
    fn field(number: u8, octets: &[u8]) -> Vec<u8> {
        let length = u8::try_from(octets.len()).unwrap();
        [&[number << 3 | 2, length], octets].concat()
    }

    fn body(kind: &str, object: &[u8]) -> Vec<u8> {
        let type_meta = [field(1, b"v1"), field(2, kind.as_bytes())].concat();
        [MAGIC, &field(1, &type_meta), &field(2, object)].concat()
    }

    #[test]
    fn what_clients_send_in_protobuf_is_read_and_other_kinds_and_preconditions_are_refused() {
        let entry = |key: &[u8], value: &[u8]| [field(1, key), field(2, value)].concat();
        let metadata = [field(1, b"a"), field(3, b""), field(11, &entry(b"k", b"v"))].concat();
        let metadata = field(1, &metadata);
        let secret = [
            &*metadata,
            &field(2, &entry(b"d", b"\xff")),
            &field(3, b"t"),
        ]
        .concat();
        let named = json!({"name": "a", "labels": {"k": "v"}});
        for (body, expected) in [
            (
                body("Namespace", &metadata),
                Ok(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": named})),
            ),
            (
                body("Secret", &secret),
                Ok(
                    json!({"apiVersion": "v1", "kind": "Secret", "metadata": named, "type": "t", "data": {"d": "/w=="}}),
                ),
            ),
            (
                // 300 seconds.
                body("DeleteOptions", &[8, 0xac, 2]),
                Ok(json!({"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 300})),
            ),
            (body("DeleteOptions", &field(2, b"")), Err(415)),
            (body("Pod", &metadata), Err(415)),
            (body("Secret", &secret[..secret.len() - 1]), Err(400)),
            (b"{}".to_vec(), Err(400)),
            ([MAGIC, &[0xff; 11]].concat(), Err(400)),
        ] {
            assert_eq!(decode(&body).map_err(|error| error.code), expected);
        }
    }
}
