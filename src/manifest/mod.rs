//! TEXT TO OBJECTS. Pure: no I/O, no clock.
//!
//! `yaml` reads text exactly as kubectl would, each key and value with its place; `schema` knows which fields a kind has;
//! `set` turns the files of a folder at a commit into manifests, or complaints, file by file.

mod complaint;
mod object;
pub mod yaml;

pub use complaint::Complaint;
pub use object::{ObjectKey, Place};
