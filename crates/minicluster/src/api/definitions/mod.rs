//! Custom resource definitions: the kinds that they add, and their own life.

mod lifecycle;
mod names;
mod resources;

pub use lifecycle::hold_back;
