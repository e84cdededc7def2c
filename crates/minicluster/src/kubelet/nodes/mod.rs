//! The nodes: what they look like, how they register, how they show that they live.

mod addresses;
mod registration;
mod spec;

pub use addresses::Addresses;
pub use registration::{heartbeat, register};
pub use spec::{NodeSpec, SpecPlace};
