//! Damage to frames: truncation, flipped bits, octets that decide, octets too many or too few.

use super::*;

impl Generator<'_> {
    /// Frames that run one after the other: different ones, or one at so many lengths.
    pub fn batch(&mut self, size: usize) -> Vec<Vec<u8>> {
        if self.random.u8(..8) > 0 {
            return (0..size).map(|_| self.damaged()).collect();
        }
        let whole = self.frame();
        let from = self.random.usize(..whole.len());
        let lengths = (0..size).map(|more| whole.len().min(from + more));
        lengths
            .map(|length| fit(whole[..length].to_vec()))
            .collect()
    }

    /// A frame, mostly with some damage.
    fn damaged(&mut self) -> Vec<u8> {
        let mut frame = self.frame();
        let wounds = if self.random.bool() {
            0
        } else {
            self.random.u8(1..4)
        };
        for _ in 0..wounds {
            self.wound(&mut frame);
        }
        fit(frame)
    }

    fn wound(&mut self, frame: &mut Vec<u8>) {
        // Mostly in the headers.
        let end = if self.random.bool() {
            frame.len().min(80)
        } else {
            frame.len()
        };
        let at = self.random.usize(..end);
        match self.random.u8(..10) {
            0 | 1 => frame.truncate(at + 1),
            2 | 3 => {
                frame[at] = self
                    .random
                    .choice([0, 0xff, 4, 6, 17, 44, 58, 60, 0x45, 0x60, 0x81])
                    .expect("octets");
            }
            4 => frame[at] = self.random.u8(..),
            5 => frame.insert(at, self.random.u8(..)),
            6 => {
                frame.remove(at);
            }
            7 => {
                let part: Vec<u8> = frame[at..end.min(at + 16)].to_vec();
                let to = self.random.usize(..=at);
                frame.splice(to..to, part);
            }
            _ => frame[at] ^= 1 << self.random.u8(..8),
        }
        // The next wound has a place.
        frame.resize(frame.len().max(1), 0);
    }
}

/// At least as long as the kernel takes it, and at most as long as it takes it for XDP.
fn fit(mut frame: Vec<u8>) -> Vec<u8> {
    frame.truncate(1_500);
    frame.resize(frame.len().max(15), 0);
    frame.resize(frame.len().max(shortest(&frame)), 0);
    frame
}

/// The kernel runs no test on less than an Ethernet header and an octet, nor on less than the IP
/// header that the `EtherType` promises; behind a VLAN tag it doesn't look.
fn shortest(frame: &[u8]) -> usize {
    match frame[12..14] {
        [0x08, 0x00] => 14 + 20,
        [0x86, 0xdd] => 14 + 40,
        _ => 14 + 1,
    }
}

/// Octets that the kernel needs to run the frame.
pub fn least(frame: &[u8]) -> usize {
    if frame.len() < 15 {
        15
    } else {
        shortest(frame)
    }
}
