//! Storage: volumes, claims, classes, and what drivers say of themselves.

pub mod claims;
pub mod classes;
pub mod csi;
pub mod volumes;
