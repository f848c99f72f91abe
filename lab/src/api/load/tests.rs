use super::*;
use anyhow::bail;
use serde_json::json;
use std::io::{Cursor, Read};

fn read_all(text: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    let take = |object| {
        objects.push(object);
        Ok(())
    };
    let mut taker = Taker { take, taken: 0, refused: None };
    read(Cursor::new(text), &mut taker)?;
    Ok(objects)
}

#[test]
fn lists_are_read_as_their_items_and_items_without_a_kind_get_it_from_the_list() {
    let list = "kind: List\nitems:\n- {kind: Node, metadata: {name: n}}\n---\n# nothing\n---\nkind: PodList\napiVersion: v1\n\
                items:\n- {metadata: {name: p}}\n";
    let expected = [
        json!({"kind": "Node", "metadata": {"name": "n"}}),
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}),
    ];
    assert_eq!(read_all(list).unwrap(), expected);
    let json = json!({"kind": "List", "items": expected}).to_string();
    assert_eq!(read_all(&json).unwrap(), expected);
    assert_eq!(read_all(&format!("{json}\n{json}\n")).unwrap().len(), 4);
}

#[test]
fn items_may_stand_before_the_kind_of_their_list() {
    let list = r#"{"apiVersion": "v1", "items": [{"metadata": {"name": "p"}}], "kind": "PodList"}"#;
    let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}});
    assert_eq!(read_all(list).unwrap(), [pod]);
    assert_eq!(read_all("{items: null, kind: List}").unwrap(), [] as [Value; 0]);
}

#[test]
fn what_is_no_object_and_no_list_is_an_error() {
    for text in
        ["a: [", "7", "- a", r#"{"kind": "Pod""#, "{kind: Pod, items: [{kind: Pod}]}", "kind: List\nitems: 7"]
    {
        assert!(read_all(text).is_err(), "{text}");
    }
}

#[test]
fn a_list_of_more_than_250_000_yaml_nodes_is_read() {
    let mut list = "kind: PodList\napiVersion: v1\nitems:\n".to_owned();
    for number in 0..30_000 {
        list.push_str("- {metadata: {name: p");
        list.push_str(&number.to_string());
        list.push_str(", labels: {a: b, c: d}}}\n");
    }
    assert_eq!(read_all(&list).unwrap().len(), 30_000);
}

/// Repeats a text without end.
struct Endless(&'static [u8], usize);

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        for octet in &mut *buffer {
            *octet = self.0[self.1];
            self.1 = (self.1 + 1) % self.0.len();
        }
        Ok(buffer.len())
    }
}

#[test]
fn items_are_taken_as_they_are_read() {
    for (begin, item) in [
        ("kind: PodList\nitems:\n", "- {metadata: {name: p}}\n"),
        (r#"{"kind": "PodList", "items": [{}"#, r#", {"metadata": {"name": "p"}}"#),
    ] {
        let mut left = 1_000;
        let take = |_| {
            left -= 1;
            if left == 0 {
                bail!("enough");
            }
            Ok(())
        };
        let mut taker = Taker { take, taken: 0, refused: None };
        let list = BufReader::new(Cursor::new(begin).chain(Endless(item.as_bytes(), 0)));
        assert!(read(list, &mut taker).is_err());
        assert_eq!((taker.taken, taker.refused.unwrap().to_string()), (999, "enough".into()));
    }
}
