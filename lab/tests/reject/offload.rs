//! Checksums that somebody has to complete, and devices without Ethernet headers.
