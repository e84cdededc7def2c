//! Storage: volumes, claims, classes, and drivers.

pub mod claims;
pub mod classes;
pub mod csi;
pub mod volumes;
