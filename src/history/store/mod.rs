//! The file: found or made, of which format, damaged or not; and what its rows are.

pub(in crate::history) mod aside;
pub(in crate::history) mod connection;
pub(in crate::history) mod damage;
pub(in crate::history) mod deleted;
pub(in crate::history) mod file;
pub(in crate::history) mod format;
pub(in crate::history) mod private;
pub(in crate::history) mod rows;
