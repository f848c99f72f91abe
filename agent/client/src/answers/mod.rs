//! What the verbs answer: each document, and its text for people.

pub mod audit;
pub mod drops;
pub mod status;
pub mod sysdump;
pub mod why;
