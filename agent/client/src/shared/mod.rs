//! Arguments, the API's client, the documents of the agent, and how text is printed.

pub mod args;
pub mod calls;
pub mod cards;
pub mod choice;
pub mod client;
pub mod drops;
pub mod output;
pub mod plain;
pub mod proxy;
pub mod screen;
pub mod status;
