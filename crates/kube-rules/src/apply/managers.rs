//! `metadata.managedFields`: who owns which fields, since when.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::super::times::{self, Precision};
use super::super::value_ext::ValueExt;
use super::super::words::quote;
use super::field_set::FieldSet;

/// So many managers that update are kept apart; the oldest of more become one.
pub const MOST_UPDATERS: usize = 10;
const ANCIENT: &str = "ancient-changes";

/// The operation of a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ManagerOperation {
    /// Server-side apply.
    Apply,
    /// Any other write.
    Update,
}

impl ManagerOperation {
    fn name(self) -> &'static str {
        match self {
            ManagerOperation::Apply => "Apply",
            ManagerOperation::Update => "Update",
        }
    }
}

/// The name: in the order in which the real server sorts its names for them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// The name.
    pub name: String,
    /// The operation.
    pub operation: ManagerOperation,
    /// Through which version; empty for appliers, which are the same in every version.
    pub version: String,
    /// Through which subresource; empty for none.
    pub subresource: String,
}

impl Manager {
    /// Returns its name in errors: `"kubectl-client-side-apply" using apps/v1`.
    pub fn shown(&self) -> String {
        let mut shown = quote(&self.name);
        if !self.subresource.is_empty() {
            shown.push_str(&format!(" with subresource {}", quote(&self.subresource)));
        }
        if self.operation == ManagerOperation::Update {
            shown.push_str(&format!(" using {}", self.version));
        }
        shown
    }

    /// Returns true when an entry of `managedFields` is of this one.
    pub fn has(&self, entry: &Value) -> bool {
        identity(entry) == [&self.name, self.operation.name(), &self.version, &self.subresource]
    }
}

/// The fields of a manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    /// The fields.
    pub fields: FieldSet,
    /// The version that they are of.
    pub version: String,
    /// The time of the last write, in the stored form.
    pub time: Option<String>,
}

/// All managers of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Managers(pub BTreeMap<Manager, Owned>);

impl Managers {
    /// Reads `managedFields`.
    ///
    /// # Errors
    /// For entries that are not as the server writes them.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a Value>) -> Result<Managers, String> {
        let mut managers = Managers::default();
        for (index, entry) in entries.into_iter().enumerate() {
            let operation = match entry.text("operation") {
                "Apply" => ManagerOperation::Apply,
                "Update" => ManagerOperation::Update,
                _ => return Err("operation must be `Apply` or `Update`".to_owned()),
            };
            let version = entry.text("apiVersion");
            if version.is_empty() {
                return Err("apiVersion must not be empty".to_owned());
            }
            match entry.text("fieldsType") {
                "FieldsV1" => {}
                "" => return Err(format!("missing fieldsType in managed fields entry {index}")),
                other => return Err(format!("invalid fieldsType {} in managed fields entry {index}", quote(other))),
            }
            let fields = match entry.some("fieldsV1") {
                Some(fields) => FieldSet::read(fields)?,
                None => FieldSet::default(),
            };
            let manager = Manager {
                name: entry.text("manager").to_owned(),
                operation,
                version: if operation == ManagerOperation::Apply { String::new() } else { version.to_owned() },
                subresource: entry.text("subresource").to_owned(),
            };
            let time = entry.some("time").and_then(Value::as_str).map(str::to_owned);
            managers.0.insert(manager, Owned { fields, version: version.to_owned(), time });
        }
        Ok(managers)
    }

    /// Returns `managedFields`.
    pub fn write(self) -> Vec<Value> {
        self.write_beside(Vec::new())
    }

    /// Returns `managedFields` of these and of others that are written already, in the real server's order: by
    /// operation, time, name, version, subresource.
    pub fn write_beside(self, others: Vec<Value>) -> Vec<Value> {
        let mut entries = others;
        entries.extend(self.0.into_iter().map(|(manager, owned)| write(manager, owned)));
        entries.sort_by(|one, other| order(one).cmp(&order(other)));
        entries
    }

    /// Takes managers away that own nothing.
    pub fn drop_empty(&mut self) {
        self.0.retain(|_, owned| !owned.fields.is_empty());
    }

    /// Makes one of the oldest updaters if there are too many.
    pub fn cap(&mut self) {
        let is_updater = |manager: &&Manager| manager.operation == ManagerOperation::Update;
        let mut updaters: Vec<Manager> = self.0.keys().filter(is_updater).cloned().collect();
        if updaters.len() <= MOST_UPDATERS {
            return;
        }
        updaters.sort_by_key(|manager| (self.0[manager].time.clone(), manager.clone()));
        let mut count = updaters.len();
        let mut first_of_version: BTreeMap<String, Manager> = BTreeMap::new();
        for manager in updaters {
            if count <= MOST_UPDATERS {
                return;
            }
            let version = manager.version.clone();
            let Some(first) = first_of_version.get(&version).cloned() else {
                first_of_version.insert(version, manager);
                continue;
            };
            let bucket = Manager {
                name: ANCIENT.to_owned(),
                operation: ManagerOperation::Update,
                version,
                subresource: String::new(),
            };
            if !self.0.contains_key(&bucket)
                && let Some(owned) = self.0.remove(&first)
            {
                self.0.insert(bucket.clone(), owned);
            }
            if let (Some(owned), Some(into)) = (self.0.remove(&manager), self.0.get_mut(&bucket)) {
                into.fields.unite(owned.fields);
                into.time = owned.time;
            }
            count -= 1;
        }
    }
}

/// Returns `managedFields` after a write by a manager that owned its changes.
pub fn renewed(mut entries: Vec<Value>, writer: &Manager, now: Timestamp) -> Vec<Value> {
    let time = times::write(now, Precision::Seconds);
    for entry in entries.iter_mut().filter(|entry| writer.has(entry)) {
        entry["time"] = Value::from(time.as_str());
    }
    entries.sort_by(|one, other| order(one).cmp(&order(other)));
    entries
}

/// Returns the identity of a manager.
fn identity(entry: &Value) -> [&str; 4] {
    let operation = entry.text("operation");
    let version = if operation == ManagerOperation::Apply.name() { "" } else { entry.text("apiVersion") };
    [entry.text("manager"), operation, version, entry.text("subresource")]
}

/// Returns true when each entry is of another manager. A scale can leave two of one, of which the next write keeps the
/// later.
pub fn are_distinct(entries: &[Value]) -> bool {
    let mut others = entries.iter();
    while let Some(entry) = others.next() {
        if others.as_slice().iter().any(|other| identity(other) == identity(entry)) {
            return false;
        }
    }
    true
}

/// Returns the sort key of an entry.
fn order(entry: &Value) -> [&str; 5] {
    ["operation", "time", "manager", "apiVersion", "subresource"].map(|name| entry.text(name))
}

fn write(manager: Manager, owned: Owned) -> Value {
    let mut entry = json!({
        "operation": manager.operation.name(), "apiVersion": owned.version,
        "fieldsType": "FieldsV1", "fieldsV1": owned.fields.write(),
    });
    let texts =
        [("manager", manager.name), ("subresource", manager.subresource), ("time", owned.time.unwrap_or_default())];
    for (name, text) in texts {
        if !text.is_empty() {
            entry[name] = Value::String(text);
        }
    }
    entry
}

/// Returns true when `managedFields` are to start from nothing: an empty list, or one empty entry.
pub fn is_reset(entries: Option<&Value>) -> bool {
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(serde_json::Map::is_empty),
        _ => false,
    }
}

/// Takes the entries of `managedFields` out of an object.
pub fn take_managed(object: &mut Value) -> Option<Value> {
    object["metadata"].as_object_mut()?.remove("managedFields")
}

/// Puts the entries of `managedFields` into an object, if there are any.
pub fn put_managed(object: &mut Value, entries: Vec<Value>) {
    if !entries.is_empty() {
        object["metadata"]["managedFields"] = Value::Array(entries);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Managers, is_reset};

    fn entry(name: &str, second: usize) -> Value {
        json!({
            "manager": name, "operation": "Update", "apiVersion": "v1", "time": format!("2030-01-01T00:00:{second:02}Z"),
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": { format!("f:{name}"): {} } },
        })
    }

    #[test]
    fn the_oldest_of_many_updaters_become_one() {
        let entries: Vec<Value> = (0..12).map(|index| entry(&format!("m{index:02}"), 30 - index)).collect();
        let mut managers = Managers::read(&entries).unwrap();
        managers.cap();
        let written = managers.write();
        let names: Vec<&str> = written.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
        assert_eq!(names, ["ancient-changes", "m08", "m07", "m06", "m05", "m04", "m03", "m02", "m01", "m00"]);
        assert_eq!(written[0]["fieldsV1"], json!({ "f:data": { "f:m09": {}, "f:m10": {}, "f:m11": {} } }));
        assert_eq!(written[0]["time"], "2030-01-01T00:00:21Z");
    }

    #[test]
    fn entries_are_sorted_by_operation_then_time() {
        let mut entries = vec![entry("b", 1), entry("a", 1), entry("c", 0)];
        entries.push(json!({
            "manager": "z", "operation": "Apply", "apiVersion": "v1", "time": "2031-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": { "f:data": {} },
        }));
        let written = Managers::read(&entries).unwrap().write();
        let names: Vec<&str> = written.iter().map(|entry| entry["manager"].as_str().unwrap()).collect();
        assert_eq!(names, ["z", "c", "a", "b"]);
    }

    #[test]
    fn an_empty_list_or_entry_is_a_reset() {
        assert!(is_reset(Some(&json!([]))));
        assert!(is_reset(Some(&json!([{}]))));
        assert!(!is_reset(Some(&json!([{ "manager": "a" }]))));
        assert!(!is_reset(None));
    }
}
