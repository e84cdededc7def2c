//! The file: found or created, its format, its damage; and the meaning of its rows.

pub(in crate::history) mod aside;
pub(in crate::history) mod connection;
pub(in crate::history) mod damage;
pub(in crate::history) mod deleted;
pub(in crate::history) mod file;
pub(in crate::history) mod format;
pub(in crate::history) mod rows;
pub(in crate::history) mod upgrade;
