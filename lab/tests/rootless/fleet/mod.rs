//! `kubectl epguard` against an API server whose pods run canned commands. Whole outputs are
//! compared with the files in `expected`.

mod denials;
mod exit_codes;
mod follow;
mod hostile;
mod incident;
mod modes;
mod proxy;
mod question;
mod refusals;
mod status;
mod sysdump;
pub mod world;
