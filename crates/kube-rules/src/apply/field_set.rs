//! Sets of fields: the ownership of fields. As `fieldsV1` writes them: `f:` a field, `k:` an item by its keys, `v:` an
//! item by its value, `i:` an item by its place; `.` the thing itself besides its content.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Serialize;
use serde_json::{Map, Value};

use super::super::words::quote;
use super::shape::{Atom, atom, below};
use kube_facts::Type;

/// A set of fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeMap<String, FieldNode>);

/// The part of a field that is in the set: itself, things in it, or both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldNode {
    /// True when it is in the set besides its content.
    pub itself: bool,
    /// The part of its content that is in the set.
    pub within: FieldSet,
}

impl FieldNode {
    /// Adds everything of another.
    fn unite(&mut self, other: FieldNode) {
        self.itself |= other.itself;
        self.within.unite(other.within);
    }

    fn is_empty(&self) -> bool {
        !self.itself && self.within.0.is_empty()
    }
}

impl FieldSet {
    /// Reads the form that [`FieldSet::write`] writes.
    ///
    /// # Errors
    /// For anything else.
    pub fn read(value: &Value) -> Result<FieldSet, String> {
        let Value::Object(entries) = value else { return Err("fields must be a map".to_owned()) };
        let mut set = FieldSet::default();
        for (key, value) in entries.iter().filter(|(key, _)| *key != ".") {
            let element = normal_element(key)?;
            let within = FieldSet::read(value)?;
            let itself = value.as_object().is_some_and(|fields| fields.is_empty() || fields.contains_key("."));
            set.0.insert(element, FieldNode { itself, within });
        }
        Ok(set)
    }

    /// Returns the set as `fieldsV1` has it.
    pub fn write(self) -> Value {
        let entry = |(element, node): (String, FieldNode)| {
            let beside = node.itself && !node.within.is_empty();
            let mut value = node.within.write();
            if beside {
                value["."] = Value::Object(Map::new());
            }
            (element, value)
        };
        // Most fields have none.
        if self.is_empty() {
            return Value::Object(Map::new());
        }
        Value::Object(self.0.into_iter().map(entry).collect())
    }

    /// Returns true when anything is in both this and the output of [`FieldSet::write`].
    pub fn meets(&self, written: &Value) -> bool {
        let meet = |(element, node): (&String, &FieldNode)| match written.get(element) {
            Some(Value::Object(fields)) if node.itself && (fields.is_empty() || fields.contains_key(".")) => true,
            Some(within) => node.within.meets(within),
            None => false,
        };
        self.0.iter().any(meet)
    }

    /// Returns true when everything in this is in the output of [`FieldSet::write`].
    pub fn is_in(&self, written: &Value) -> bool {
        let is_there = |(element, node): (&String, &FieldNode)| match written.get(element) {
            Some(Value::Object(fields)) if node.itself && !fields.is_empty() && !fields.contains_key(".") => false,
            Some(within) => node.within.is_in(within),
            None => false,
        };
        self.0.iter().all(is_there)
    }

    /// Returns true when nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds one path.
    pub fn insert(&mut self, path: &[String]) {
        if let Some((first, rest)) = path.split_first() {
            // Most paths go through existing elements.
            if !self.0.contains_key(first) {
                self.0.insert(first.clone(), FieldNode::default());
            }
            if let Some(node) = self.0.get_mut(first) {
                if rest.is_empty() {
                    node.itself = true;
                } else {
                    node.within.insert(rest);
                }
            }
        }
    }

    /// Adds the present part of an element, if there is any.
    pub fn put(&mut self, node: FieldNode, element: impl Fn() -> String) {
        if node.is_empty() {
            return;
        }
        match self.0.entry(element()) {
            Entry::Vacant(place) => {
                place.insert(node);
            }
            Entry::Occupied(mut there) => there.get_mut().unite(node),
        }
    }

    /// Returns a set of paths, each written as `f:spec f:replicas`.
    pub fn of(paths: &[&str]) -> FieldSet {
        let mut set = FieldSet::default();
        for path in paths {
            set.insert(&path.split(' ').map(str::to_owned).collect::<Vec<_>>());
        }
        set
    }

    /// Returns true when an element itself is in it.
    pub fn has(&self, element: &str) -> bool {
        self.0.get(element).is_some_and(|node| node.itself)
    }

    /// Returns the part of an element that is in it, besides itself.
    pub fn within(&self, element: &str) -> Option<&FieldSet> {
        self.0.get(element).map(|node| &node.within).filter(|within| !within.is_empty())
    }

    /// Adds everything of another set.
    pub fn unite(&mut self, other: FieldSet) {
        if self.is_empty() {
            *self = other;
            return;
        }
        for (element, theirs) in other.0 {
            match self.0.entry(element) {
                Entry::Vacant(place) => {
                    place.insert(theirs);
                }
                Entry::Occupied(mut there) => there.get_mut().unite(theirs),
            }
        }
    }

    /// Returns the fields in both.
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, &|node, theirs| {
            let theirs = theirs?;
            Some(FieldNode { itself: node.itself && theirs.itself, within: node.within.intersection(&theirs.within) })
        })
    }

    /// Returns the fields that are here and not there.
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        let mut left = self.clone();
        left.subtract(other);
        left
    }

    /// Removes the fields of the other set. In place: most of a set stays when something is written.
    pub fn subtract(&mut self, other: &FieldSet) {
        self.reduce(other, &|node, theirs| {
            node.itself &= !theirs.itself;
            node.within.subtract(&theirs.within);
        });
    }

    /// Removes the fields of the other set, and everything inside them.
    pub fn leave(&mut self, other: &FieldSet) {
        self.reduce(other, &|node, theirs| {
            if theirs.itself {
                *node = FieldNode::default();
            } else {
                node.within.leave(&theirs.within);
            }
        });
    }

    fn reduce(&mut self, other: &FieldSet, by: &dyn Fn(&mut FieldNode, &FieldNode)) {
        for (element, theirs) in &other.0 {
            let Some(node) = self.0.get_mut(element) else { continue };
            by(node, theirs);
            if node.is_empty() {
                self.0.remove(element);
            }
        }
    }

    fn combine(
        &self,
        other: &FieldSet,
        join: &dyn Fn(&FieldNode, Option<&FieldNode>) -> Option<FieldNode>,
    ) -> FieldSet {
        let joined = |(element, node): (&String, &FieldNode)| {
            let node = join(node, other.0.get(element)).filter(|node| !node.is_empty())?;
            Some((element.clone(), node))
        };
        FieldSet(self.0.iter().filter_map(joined).collect())
    }

    /// Returns the set with every field of a struct that has something in it: such fields come and go with their
    /// content.
    pub fn with_named_fields(&self, ty: &Type) -> FieldSet {
        let structure = match atom(ty, None) {
            Atom::Struct(structure) => Some(structure),
            _ => None,
        };
        let add = |(element, node): (&String, &FieldNode)| {
            let within = match below(ty, element) {
                Some(inner) => node.within.with_named_fields(inner),
                None => node.within.clone(),
            };
            let named =
                element.strip_prefix("f:").is_some_and(|name| structure.is_some_and(|of| of.fields.contains_key(name)));
            let itself = node.itself || (named && !within.is_empty());
            (element.clone(), FieldNode { itself, within })
        };
        FieldSet(self.0.iter().map(add).collect())
    }

    /// Returns every path in it as people read them, `.spec.containers[name="web"].image`, those of a thing before
    /// those in it.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect("", &mut paths);
        paths
    }

    fn collect(&self, prefix: &str, paths: &mut Vec<String>) {
        for (element, node) in self.0.iter().filter(|(_, node)| node.itself) {
            let _ = node;
            paths.push(format!("{prefix}{}", shown(element)));
        }
        for (element, node) in &self.0 {
            node.within.collect(&format!("{prefix}{}", shown(element)), paths);
        }
    }
}

/// Returns the element of a field.
pub fn field(name: &str) -> String {
    ["f:", name].concat()
}

/// Returns the element of an item that is known by its value.
pub fn item(value: &Value) -> String {
    ["v:", &json(value)].concat()
}

/// Returns the element of an item that is known by some of its fields.
pub fn keyed<'a>(keys: impl IntoIterator<Item = (&'a str, &'a Value)>) -> String {
    let keys: BTreeMap<&str, &Value> = keys.into_iter().collect();
    ["k:", &json(&keys)].concat()
}

/// JSON of a value that can always be written as JSON.
fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns an element in the one way of writing it.
fn normal_element(element: &str) -> Result<String, String> {
    let parse = |text: &str| serde_json::from_str::<Value>(text).map_err(|error| error.to_string());
    match element.split_once(':') {
        Some(("f" | "i", _)) => Ok(element.to_owned()),
        Some(("k", text)) if is_plain_key(text) => Ok(element.to_owned()),
        Some(("v", text)) => Ok(item(&parse(text)?)),
        Some(("k", text)) => match parse(text)? {
            Value::Object(keys) => Ok(keyed(keys.iter().map(|(name, value)| (name.as_str(), value)))),
            _ => Err(format!("{element:?} is no key")),
        },
        _ => Err(format!("{element:?} is no part of a path")),
    }
}

/// Returns true when there is only one way of writing an item's key: one key, and its value, of plain letters.
fn is_plain_key(text: &str) -> bool {
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte));
    let inner = text.strip_prefix("{\"").and_then(|rest| rest.strip_suffix("\"}"));
    inner.and_then(|inner| inner.split_once("\":\"")).is_some_and(|(key, value)| plain(key) && plain(value))
}

/// Returns an element as people read it.
pub fn shown(element: &str) -> String {
    match element.split_once(':') {
        Some(("f", name)) => format!(".{name}"),
        Some(("v", value)) => format!("[={value}]"),
        Some(("k", keys)) => match serde_json::from_str::<Map<String, Value>>(keys) {
            Ok(keys) => {
                let keys: Vec<String> = keys.iter().map(|(name, value)| format!("{name}={}", plain(value))).collect();
                format!("[{}]", keys.join(","))
            }
            Err(_) => format!("[{keys}]"),
        },
        Some((_, index)) => format!("[{index}]"),
        None => element.to_owned(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => quote(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::FieldSet;

    #[test]
    fn sets_are_read_and_written() {
        let fields = json!({
            "f:spec": {
                "f:replicas": {},
                "f:containers": { ".": {}, "k:{\"name\":\"a\"}": { ".": {}, "f:image": {} }, "v:\"x\"": {} },
            },
        });
        let set = FieldSet::read(&fields).unwrap();
        assert_eq!(set.clone().write(), fields);
        let paths = [
            ".spec.containers",
            ".spec.replicas",
            ".spec.containers[name=\"a\"]",
            ".spec.containers[=\"x\"]",
            ".spec.containers[name=\"a\"].image",
        ];
        assert_eq!(set.paths(), paths);
        assert!(FieldSet::read(&json!({ "spec": {} })).is_err());
        assert!(FieldSet::read(&json!({ "k:{": {} })).is_err());
    }

    #[test]
    fn items_have_one_way_of_writing_what_they_are_known_by() {
        let ways = [r#"k:{"name":"a"}"#, r#"k:{"name": "a"}"#, r#"k:{"\u006eame":"a"}"#, r#"k:{ "name":"\u0061" }"#];
        for way in ways {
            let set = FieldSet::read(&json!({ "f:l": { (way): {} } })).unwrap();
            assert_eq!(set, FieldSet::of(&[r#"f:l k:{"name":"a"}"#]), "{way}");
        }
        let several = FieldSet::read(&json!({ r#"k:{"protocol":"TCP","port":80}"#: {} })).unwrap();
        assert_eq!(several.write(), json!({ r#"k:{"port":80,"protocol":"TCP"}"#: {} }));
        for wrong in [r#"k:{"a":"b","}"#, r#"k:{"a":"b":"c"}"#, r#"k:"a":"b""#] {
            assert!(FieldSet::read(&json!({ (wrong): {} })).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_set_meets_what_is_written_of_one_of_its_paths() {
        let set = FieldSet::of(&["f:spec f:containers", "f:status f:phase"]);
        assert!(set.meets(&json!({ "f:spec": { "f:containers": { ".": {}, "f:image": {} } } })));
        assert!(set.meets(&json!({ "f:status": { "f:phase": {} } })));
        assert!(!set.meets(&json!({ "f:spec": { "f:containers": { "f:image": {} } }, "f:status": {} })));
        assert!(!set.meets(&json!({ "f:metadata": {}, "f:status": { "f:phase": { "f:inner": {} } } })));
    }

    #[test]
    fn sets_are_subtracted() {
        let all = FieldSet::of(&["f:a", "f:a f:b", "f:a f:b f:c", "f:d"]);
        let some = FieldSet::of(&["f:a f:b"]);
        assert_eq!(all.difference(&some), FieldSet::of(&["f:a", "f:a f:b f:c", "f:d"]));
        let mut outside = all.clone();
        outside.leave(&some);
        assert_eq!(outside, FieldSet::of(&["f:a", "f:d"]));
        assert_eq!(all.intersection(&some), some);
    }
}
