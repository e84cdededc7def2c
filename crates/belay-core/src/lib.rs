//! THE PURE PART OF BELAY. Text to objects, and decisions about them.
//!
//! Nothing here reads a file, asks a server or looks at a clock: facts and the time are arguments, so that the same inputs give
//! the same answer. The manifest of this crate names no runtime and no client, and must not.

pub mod manifest;
pub mod rollout;
pub mod span;
