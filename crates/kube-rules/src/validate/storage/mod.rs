//! Storage: volumes, claims, classes, and drivers.

mod access_modes;
pub mod attachments;
pub mod claims;
pub mod classes;
pub mod csi;
pub mod volumes;
