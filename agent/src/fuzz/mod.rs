//! Fuzz targets for what other programs write and the agent reads. Targets of private functions
//! stand beside these.

mod objects;
mod words;
