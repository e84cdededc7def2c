//! Fields that an apply of a manifest would leave on a live object, although the manifest alone decides about them:
//! additions of others to a pod template, an item of a list whose key somebody has changed, and keys that have left a
//! Secret's `stringData`.
//!
//! A server-side apply removes only fields of its own manager. So the surplus is written over to belay in
//! `managedFields`; the apply that follows removes it, in the same write that sets the rest.

use serde_json::{Map, Value, json};

use super::field_path::Step;
use super::field_set::{join, push, segment, take_out, text};
use super::ignored_fields::IgnoredFields;
use super::list_items::{Below, keys_of};
use super::managers::{drop_empty, with_managers};
use super::owned::{is_belays, owned_fields};
use super::recreated_object::BEFORE;
use super::string_data;
use crate::rollout::{marks, workload};

/// The manager of a field, or of a whole object, that does not say who wrote it.
pub const UNKNOWN_MANAGER: &str = "somebody";

/// A field that somebody else has changed or added.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForeignField {
    /// The place: `spec.template.spec.containers[name=web].image`.
    pub path: String,
    /// The field manager that wrote it.
    pub manager: String,
}

/// The reach of an apply into additions of others to a pod template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// A manifest is applied: the mark of a restart stays.
    Manifest,
    /// A revision is restored: its template is to be exactly as it was.
    Revision,
}

/// The surplus of one live object.
#[derive(Clone, Debug, PartialEq)]
pub struct Surplus {
    /// The fields, with the managers that have added them.
    pub fields: Vec<ForeignField>,
    /// True when some of it is in the pod template.
    pub in_template: bool,
    /// True when the server may write some of it again, as a default.
    pub may_be_defaults: bool,
    /// The set of the fields, as `managedFields` has it.
    set: Map<String, Value>,
    managers: Vec<Value>,
}

impl Surplus {
    /// Returns the surplus of `live` beside `body`, which belay would send. Fields that have the same value in `defaulted`,
    /// the object as the server would have it without the surplus, do not count.
    #[must_use]
    pub fn of(
        live: &Value,
        body: &Value,
        ignored: &IgnoredFields,
        reach: Reach,
        defaulted: Option<&Value>,
    ) -> Option<Surplus> {
        let entries = live["metadata"]["managedFields"].as_array()?;
        let mut found = Surplus {
            fields: Vec::new(),
            in_template: false,
            may_be_defaults: false,
            set: Map::new(),
            managers: Vec::with_capacity(entries.len() + 1),
        };
        let mut own = None;
        for entry in entries {
            if is_belays(entry) {
                own = Some(entry.clone());
                continue;
            }
            let mut entry = entry.clone();
            let counts = entry.get("subresource").is_none()
                // Updates of belay itself, as when a ReplicationController is rolled, are nobody else's.
                && (reach == Reach::Revision || entry["manager"] != BEFORE && entry["manager"] != marks::FIELD_MANAGER)
                // The labels by which the command distinguishes pods are in the selector, too.
                && entry["manager"] != marks::ROLLING_UPDATE_MANAGER;
            if let Some(fields) = entry["fieldsV1"].as_object_mut().filter(|_| counts) {
                let template = template_path(body);
                let mut walk =
                    Walk { ignored, reach, template: template.as_deref(), path: Vec::new(), leaves: Vec::new() };
                let seen = Seen { sent: Some(body), live: Some(live), defaulted };
                let taken = walk.object(fields, seen);
                let manager = entry["manager"].as_str().unwrap_or(UNKNOWN_MANAGER).to_owned();
                found.note(walk.leaves, &manager);
                join(&mut found.set, &taken);
                drop_empty(Some(&mut entry["fieldsV1"]));
            }
            if entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()) {
                found.managers.push(entry);
            }
        }
        let mut own = own.unwrap_or_else(|| new_entry(body));
        let left = string_data::left_keys(live, body);
        if !left.is_empty() {
            string_data::own_as_data(&mut own);
            let data = left.iter().map(|name| (format!("f:{name}"), json!({}))).collect::<Map<_, _>>();
            found.fields.extend(left.iter().map(|name| ForeignField {
                path: format!("data{}", segment(name)),
                manager: marks::FIELD_MANAGER.to_owned(),
            }));
            join(&mut found.set, &Map::from_iter([("f:data".to_owned(), Value::Object(data))]));
        }
        found.fields.sort();
        found.fields.dedup();
        if found.set.is_empty() {
            return None;
        }
        if !own["fieldsV1"].is_object() {
            own["fieldsV1"] = json!({});
        }
        if let Some(fields) = own["fieldsV1"].as_object_mut() {
            join(fields, &found.set);
        }
        found.managers.push(own);
        Some(found)
    }

    /// Returns the JSON patch that writes the surplus over to belay. It fails if the object has changed meanwhile.
    #[must_use]
    pub fn patch(&self, live: &Value) -> Value {
        with_managers(live, self.managers.clone())
    }

    /// Takes the surplus out of an object.
    pub fn take_out(&self, object: &mut Value) {
        take_out(object, &self.set);
    }

    /// Returns the JSON patch that would take the surplus out of `live`, for a dry run.
    #[must_use]
    pub fn removal(&self, live: &Value) -> Value {
        let mut pruned = live.clone();
        self.take_out(&mut pruned);
        let parts = self.set.keys().filter_map(|key| key.strip_prefix("f:"));
        let operations = parts.map(|part| json!({"op": "replace", "path": format!("/{part}"), "value": pruned[part]}));
        operations.collect()
    }

    fn note(&mut self, leaves: Vec<Leaf>, manager: &str) {
        for leaf in leaves {
            self.in_template |= leaf.in_template;
            self.may_be_defaults |= !leaf.is_item;
            self.fields.push(ForeignField { path: leaf.path, manager: manager.to_owned() });
        }
    }
}

/// Returns the fields of `body` that others have taken from belay on `live`, and their additions beside it.
#[must_use]
pub fn foreign_fields(live: &Value, body: &Value, ignored: &IgnoredFields) -> Vec<ForeignField> {
    let mut found: Vec<ForeignField> = Vec::new();
    let own = owned_fields(live);
    let sent = ignored.leave(body.clone(), Some(live));
    for entry in live["metadata"]["managedFields"].as_array().into_iter().flatten() {
        // Nobody but a controller writes a status. A person scales through a subresource.
        if is_belays(entry) || entry["subresource"] == "status" {
            continue;
        }
        let manager = entry["manager"].as_str().unwrap_or(UNKNOWN_MANAGER);
        if let Some(fields) = entry["fieldsV1"].as_object() {
            taken(fields, own, &sent, &mut String::new(), &mut |path| {
                found.push(ForeignField { path: path.to_owned(), manager: manager.to_owned() });
            });
        }
    }
    if let Some(surplus) = Surplus::of(live, body, ignored, Reach::Manifest, None) {
        found.extend(surplus.fields.into_iter().filter(|field| field.manager != marks::FIELD_MANAGER));
    }
    found.sort();
    found.dedup();
    found
}

/// Visits the fields that are in a set, are sent, and are not belay's.
fn taken(
    fields: &Map<String, Value>,
    own: Option<&Map<String, Value>>,
    sent: &Value,
    path: &mut String,
    visit: &mut impl FnMut(&str),
) {
    let sent = Below::of(Some(sent));
    for (key, inner) in fields.iter().filter(|(key, _)| *key != ".") {
        let Some(sent) = sent.at(key) else { continue };
        let own = own.and_then(|own| own.get(key)).map(|own| own.as_object());
        let length = path.len();
        push(path, key);
        let inner = inner.as_object().filter(|inner| inner.keys().any(|key| key != "."));
        match (inner, own) {
            (None, None) => visit(path),
            (Some(inner), own) => taken(inner, own.flatten(), sent, path, visit),
            (None, Some(_)) => {}
        }
        path.truncate(length);
    }
}

/// A field of the surplus.
struct Leaf {
    path: String,
    in_template: bool,
    /// True when it is a whole item of a list, which no server adds by itself.
    is_item: bool,
}

/// The same place in the sent body, in the live object and in the defaulted one.
#[derive(Clone, Copy)]
struct Seen<'a> {
    sent: Option<&'a Value>,
    live: Option<&'a Value>,
    defaulted: Option<&'a Value>,
}

/// The same, of which parts are asked for.
struct SeenBelow<'a> {
    sent: Below<'a>,
    live: Below<'a>,
    defaulted: Option<Below<'a>>,
}

impl<'a> SeenBelow<'a> {
    fn of(seen: Seen<'a>) -> SeenBelow<'a> {
        let defaulted = seen.defaulted.map(|value| Below::of(Some(value)));
        SeenBelow { sent: Below::of(seen.sent), live: Below::of(seen.live), defaulted }
    }

    fn at(&self, key: &str) -> Seen<'a> {
        let defaulted = self.defaulted.as_ref().map(|value| value.at(key).unwrap_or(&Value::Null));
        Seen { sent: self.sent.at(key), live: self.live.at(key), defaulted }
    }
}

/// A walk through the fields of one manager.
struct Walk<'a> {
    ignored: &'a IgnoredFields,
    reach: Reach,
    /// The keys that lead to the pod template, if there is one.
    template: Option<&'a [String]>,
    path: Vec<String>,
    leaves: Vec<Leaf>,
}

impl Walk<'_> {
    /// Takes the surplus out of the fields of an object. Returns it.
    fn object(&mut self, fields: &mut Map<String, Value>, seen: Seen<'_>) -> Map<String, Value> {
        let names: Vec<String> = fields.keys().filter(|key| *key != "." && *key != "f:metadata").cloned().collect();
        let (mut surplus, seen) = (Map::new(), SeenBelow::of(seen));
        for name in names.iter().filter(|name| *name != "f:status") {
            self.field(fields, name, seen.at(name), &mut surplus);
        }
        surplus
    }

    fn below(&mut self, fields: &mut Map<String, Value>, seen: Seen<'_>) -> Map<String, Value> {
        let names: Vec<String> = fields.keys().filter(|key| *key != ".").cloned().collect();
        // Outside a pod template others may add any field.
        let only_sent =
            !self.is_in_template() && !self.leads_to_template() && !is_keyed_with_a_missing_item(fields, seen);
        let (mut surplus, seen) = (Map::new(), SeenBelow::of(seen));
        for name in &names {
            let seen = seen.at(name);
            if !only_sent || seen.sent.is_some() {
                self.field(fields, name, seen, &mut surplus);
            }
        }
        surplus
    }

    fn field(&mut self, fields: &mut Map<String, Value>, name: &str, seen: Seen<'_>, surplus: &mut Map<String, Value>) {
        let Some(inner) = fields.get_mut(name) else { return };
        self.path.push(name.to_owned());
        let is_item = !name.starts_with("f:");
        let is_leaf = inner.as_object().is_none_or(|inner| inner.keys().all(|key| key == "."));
        if seen.sent.is_none() && (is_item || is_leaf) {
            let counts = self.is_decided_by_manifest(is_item) && !self.is_exempt() && !is_default(seen);
            if counts && seen.live.is_some_and(|live| !live.is_null()) {
                self.leaves.push(Leaf { path: text(&self.path), in_template: self.is_in_template(), is_item });
                surplus.extend(fields.remove(name).map(|inner| (name.to_owned(), inner)));
            }
        } else if let Some(inner) = inner.as_object_mut() {
            let mut taken = self.below(inner, seen);
            if !taken.is_empty() && inner.keys().all(|key| key == ".") {
                inner.remove(".");
                if seen.sent.is_none() {
                    taken.insert(".".to_owned(), json!({}));
                }
            }
            if inner.is_empty() {
                // A field without any in it would be one of its own.
                fields.remove(name);
            }
            if !taken.is_empty() {
                surplus.insert(name.to_owned(), Value::Object(taken));
            }
        }
        self.path.pop();
    }

    fn is_in_template(&self) -> bool {
        self.template.is_some_and(|template| self.path.starts_with(template))
    }

    fn leads_to_template(&self) -> bool {
        self.template.is_some_and(|template| template.starts_with(&self.path))
    }

    /// Returns true when the manifest alone decides about this place: the whole of a pod template, and a list of which
    /// an item is gone.
    fn is_decided_by_manifest(&self, is_item: bool) -> bool {
        let template = self.template.is_some_and(|template| self.path.len() > template.len());
        (template && self.is_in_template()) || (is_item && !self.leads_to_template())
    }

    /// Returns true when somebody else may have this field all the same.
    fn is_exempt(&self) -> bool {
        let within = self.template.map(|template| self.path.get(template.len()..).unwrap_or_default());
        let annotation = match within {
            Some([metadata, annotations, name]) if metadata == "f:metadata" && annotations == "f:annotations" => {
                name.strip_prefix("f:")
            }
            _ => None,
        };
        let is_restart = annotation == Some(marks::RESTARTED_AT) && self.reach == Reach::Manifest;
        is_restart || annotation == Some(marks::CONFIG_HASH) || self.ignored.covers(|steps| covers(steps, &self.path))
    }
}

/// Returns true when a list outside the pod template lacks an item that is sent: somebody has changed its key.
fn is_keyed_with_a_missing_item(fields: &Map<String, Value>, seen: Seen<'_>) -> bool {
    let Some(names) = fields.keys().find(|key| key.starts_with("k:")).and_then(|key| keys_of(key)) else {
        return false;
    };
    let (Some(sent), Some(live)) = (seen.sent.and_then(Value::as_array), seen.live.filter(|live| live.is_array()))
    else {
        return false;
    };
    let live = Below::of(Some(live));
    sent.iter().any(|item| {
        let own: Map<String, Value> =
            names.keys().filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect();
        !own.is_empty() && live.at(&format!("k:{}", Value::Object(own))).is_none()
    })
}

/// Returns true when the server writes the same value by itself.
fn is_default(seen: Seen<'_>) -> bool {
    seen.defaulted.is_some_and(|defaulted| seen.live == Some(defaulted))
}

/// Returns true when these steps lead to a place in `managedFields`, or above it.
fn covers(steps: &[Step], path: &[String]) -> bool {
    let fits = |(step, key): (&Step, &String)| match (step, key.strip_prefix("f:")) {
        (Step::Name(name), Some(own)) => name == own,
        (Step::EachItem, None) => true,
        (Step::ItemWith(name, value), None) => keys_of(key).is_some_and(|keys| {
            let own = keys.get(name).map(|own| own.as_str().map_or_else(|| own.to_string(), str::to_owned));
            own.as_ref() == Some(value)
        }),
        _ => false,
    };
    steps.len() <= path.len() && steps.iter().zip(path).all(fits)
}

/// Returns the keys of `managedFields` that lead to the pod template of an object.
fn template_path(body: &Value) -> Option<Vec<String>> {
    let api_version = body["apiVersion"].as_str()?;
    let group = api_version.split_once('/').map_or("", |(group, _)| group);
    let kind = body["kind"].as_str()?;
    // The template of a Job can't change.
    let path = workload::pod_spec_path(group, kind).filter(|_| kind != "Job")?;
    let (_, template) = path.split_last()?;
    (!template.is_empty()).then(|| template.iter().map(|name| format!("f:{name}")).collect())
}

fn new_entry(body: &Value) -> Value {
    json!({"manager": marks::FIELD_MANAGER, "operation": "Apply", "apiVersion": body["apiVersion"],
        "fieldsType": "FieldsV1", "fieldsV1": {}})
}

#[cfg(test)]
mod tests;
