//! Runs `ip -batch` in a namespace.
