//! The protocol of clients and servers: a request is a number on a line, its reply repeats the number and names the pod.
//! The number distinguishes a reply from a late one to an earlier request on the same socket.

use std::sync::atomic::{AtomicU64, Ordering};

/// A request number that this process has not used yet.
pub(super) fn request() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The bytes of a request, at least `size` of them.
pub(super) fn encode(request: u64, size: usize) -> Vec<u8> {
    format!("{request:<0$}\n", size.saturating_sub(1)).into_bytes()
}

/// The reply of the pod of this name.
pub(super) fn reply(received: &[u8], name: &str) -> Vec<u8> {
    let request = String::from_utf8_lossy(received);
    format!("{} {name}\n", request.trim_end()).into_bytes()
}

/// The name of the pod that replied, if this is a reply to the request.
pub(super) fn replier(received: &[u8], request: u64) -> Option<String> {
    let (number, name) = std::str::from_utf8(received).ok()?.trim_end().split_once(' ')?;
    (number.parse() == Ok(request)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_to_another_request_is_not_taken() {
        let sent = encode(7, 0);
        assert_eq!(replier(&reply(&sent, "shop/a-1"), 7), Some("shop/a-1".to_owned()));
        assert_eq!(replier(&reply(&sent, "shop/a-1"), 8), None);
        assert_eq!(replier(b"banana", 7), None);
        let long = encode(7, 4000);
        assert_eq!(long.len(), 4000);
        assert_eq!(replier(&reply(&long[..2048], "shop/a-1"), 7), Some("shop/a-1".to_owned()));
    }
}
