//! Custom resource definitions: what they add to what is served, and their own life.

mod lifecycle;
mod names;
mod resources;

pub use lifecycle::hold_back;
