//! The documents of a YAML stream.

use std::io::{self, BufRead, Read};

/// Octets that are looked at together. A longer line arrives in pieces.
const PIECE: u64 = 64 * 1024;

/// Reads one document after the other: the reader ends at each line `---`, and [`Documents::advance`] goes on behind it.
pub(super) struct Documents<R> {
    stream: R,
    piece: Vec<u8>,
    /// Octets of the piece that were read.
    read: usize,
    /// True at the end of a document.
    ended: bool,
    /// True at the end of the stream.
    over: bool,
}

impl<R: BufRead> Documents<R> {
    pub(super) fn new(stream: R) -> Self {
        Self { stream, piece: Vec::new(), read: 0, ended: true, over: false }
    }

    /// Begins the next document. False if there is none.
    pub(super) fn advance(&mut self) -> bool {
        self.ended = self.over;
        !self.over
    }

    fn next_piece(&mut self) -> io::Result<()> {
        let begins_line = self.piece.last().is_none_or(|last| *last == b'\n');
        self.piece.clear();
        self.read = 0;
        self.stream.by_ref().take(PIECE).read_until(b'\n', &mut self.piece)?;
        self.over = self.piece.is_empty();
        self.ended = self.over;
        if begins_line && is_separator(&self.piece) {
            self.read = SEPARATOR.len();
            self.ended = true;
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Documents<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.ended && self.read == self.piece.len() {
            self.next_piece()?;
        }
        if self.ended {
            return Ok(0);
        }
        let length = buffer.len().min(self.piece.len() - self.read);
        buffer[..length].copy_from_slice(&self.piece[self.read..self.read + length]);
        self.read += length;
        Ok(length)
    }
}

const SEPARATOR: &[u8] = b"---";

fn is_separator(line: &[u8]) -> bool {
    let rest = line.strip_prefix(SEPARATOR);
    rest.is_some_and(|rest| rest.first().is_none_or(u8::is_ascii_whitespace))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn documents(text: &str) -> Vec<String> {
        let mut documents = Documents::new(text.as_bytes());
        let mut read = Vec::new();
        while documents.advance() {
            let mut document = String::new();
            documents.read_to_string(&mut document).unwrap();
            read.push(document);
        }
        read
    }

    #[test]
    fn a_line_of_three_dashes_ends_a_document() {
        assert_eq!(documents("a: 1\n---\nb: 2\n"), ["a: 1\n", "\nb: 2\n"]);
        assert_eq!(documents("--- {a: 1}\n---\r\nb"), ["", " {a: 1}\n", "\r\nb"]);
        assert_eq!(documents(""), [""]);
    }

    #[test]
    fn dashes_elsewhere_end_nothing() {
        let text = format!("a: |\n  ---\n---b: 1\n{}\n", "-".repeat(100_000));
        assert_eq!(documents(&text), [text]);
    }
}
