//! Storage: volumes, claims and classes.

mod access_modes;
pub mod claims;
pub mod classes;
pub mod volumes;
