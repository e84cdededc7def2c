//! The manager that a write is made by, among the managers of an object.

use super::super::WriteContext;
use super::super::read::api_version;
use super::super::times::{self, Precision};
use super::field_set::FieldSet;
use super::managers::{Manager, ManagerOperation, Managers, Owned};

/// Returns the writer.
pub fn manager(write: &WriteContext<'_>, operation: ManagerOperation) -> Manager {
    let name = if write.manager.is_empty() { "unknown" } else { write.manager };
    Manager {
        name: name.to_owned(),
        operation,
        version: if operation == ManagerOperation::Apply { String::new() } else { api_version(write.definition) },
        subresource: write.subresource.unwrap_or_default().to_owned(),
    }
}

/// Sets the time of a manager to that of the write.
pub fn touch(managers: &mut Managers, manager: &Manager, write: &WriteContext<'_>) {
    if let Some(owned) = managers.0.get_mut(manager) {
        owned.time = Some(times::write(write.now, Precision::Seconds));
    }
}

/// Returns an entry for a manager that owns nothing yet.
pub fn owner_of_nothing(write: &WriteContext<'_>) -> Owned {
    Owned { fields: FieldSet::default(), version: api_version(write.definition), time: None }
}
