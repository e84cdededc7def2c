//! The nodes: their status, their registration, their Leases.

mod addresses;
mod registration;
mod spec;

pub use addresses::Addresses;
pub use registration::{heartbeat, register};
pub use spec::{NodeSpec, SpecPlace};
