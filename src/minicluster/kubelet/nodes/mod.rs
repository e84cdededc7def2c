//! The nodes: what they look like, how they register, how they show that they live.

mod registration;
mod spec;

pub use registration::{heartbeat, register};
pub use spec::{NodeSpec, Place};
