//! Fields that belay writes when it creates an object and leaves alone afterwards.
//!
//! Server-side apply removes owned fields that are not sent. So belay sends the live value of an ignored field until
//! somebody else owns it.

use serde_json::{Map, Value, json};

use super::cluster_fields::cluster_fields;
use super::field_path::{FieldPath, Step};
use super::list_items::{Below, ItemKeys};
use super::owned::owned_fields;
use crate::rollout::template_hash;

/// The fields of one object that are left alone once it is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IgnoredFields {
    fields: Vec<FieldPath>,
}

impl IgnoredFields {
    /// Returns these fields.
    #[must_use]
    pub fn of<'a>(fields: impl IntoIterator<Item = &'a FieldPath>) -> IgnoredFields {
        IgnoredFields { fields: fields.into_iter().cloned().collect() }
    }

    /// Returns the same, and the number of pods, which an autoscaler decides on.
    #[must_use]
    pub fn and_replicas(mut self) -> IgnoredFields {
        if !self.leaves_replicas() {
            let steps = ["spec", "replicas"].map(|name| Step::Name(name.to_owned())).to_vec();
            self.fields.push(FieldPath { text: "/spec/replicas".to_owned(), steps });
        }
        self
    }

    /// Returns true when no field is ignored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Returns true when the number of pods is ignored.
    #[must_use]
    pub fn leaves_replicas(&self) -> bool {
        self.fields.iter().any(|field| field.text == "/spec/replicas")
    }

    /// Returns true when a field of the pod template is ignored.
    #[must_use]
    pub fn is_in_template(&self) -> bool {
        self.of_template().next().is_some()
    }

    /// Returns the fields that are of the pod template.
    pub(in crate::rollout) fn in_template(&self) -> Vec<FieldPath> {
        self.of_template().cloned().collect()
    }

    /// Returns true when the steps to one of the fields fit.
    pub(super) fn covers(&self, fits: impl Fn(&[Step]) -> bool) -> bool {
        self.fields.iter().any(|field| fits(&field.steps))
    }

    fn of_template(&self) -> impl Iterator<Item = &FieldPath> {
        let first = |field: &FieldPath, name: &str, at: usize| {
            field.steps.get(at).is_none_or(|step| matches!(step, Step::Name(own) if own == name))
        };
        self.fields.iter().filter(move |field| first(field, "spec", 0) && first(field, "template", 1))
    }

    /// Returns the part of `body` that is sent to an object that is `live`. If there is none yet, it is all of `body`
    /// but the fields that the cluster writes itself.
    #[must_use]
    pub fn leave(&self, mut body: Value, live: Option<&Value>) -> Value {
        let clusters = cluster_fields(&body);
        let Some(live) = live else {
            clusters.iter().for_each(|field| take_out(&mut body, &field.steps));
            return body;
        };
        let owned = owned_fields(live);
        let fields = self.fields.iter().map(|field| &field.steps).chain(clusters.iter().map(|field| &field.steps));
        fields.for_each(|steps| leave(&mut body, live, owned, steps));
        body
    }

    /// Returns a short name for a pod template as far as it is not left alone; see [`template_hash`].
    #[must_use]
    pub fn template_hash(&self, template: &Value) -> String {
        if !self.is_in_template() {
            return template_hash(template);
        }
        let mut object = json!({"spec": {"template": template}});
        self.fields.iter().for_each(|field| take_out(&mut object, &field.steps));
        template_hash(&object["spec"]["template"])
    }
}

/// The part of a value that belay owns, from `managedFields`: nothing, all of it (without fields in it), or these
/// fields.
type Owned<'a> = Option<&'a Map<String, Value>>;

fn is_whole(owned: &Map<String, Value>) -> bool {
    owned.keys().all(|key| key == ".")
}

fn below<'a>(owned: Owned<'a>, key: &str) -> Owned<'a> {
    let fields = owned?;
    if is_whole(fields) { Some(fields) } else { fields.get(key)?.as_object() }
}

/// Puts belay's part of the fields at these steps into `body` as it is live, and takes the rest of them out.
fn leave(body: &mut Value, live: &Value, owned: Owned<'_>, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else { return };
    match (body, step) {
        (Value::Object(fields), Step::Name(name)) => leave_field(fields, name, live, owned, rest),
        (Value::Array(items), _) if rest.is_empty() => leave_items(items, step, live, owned),
        (Value::Array(items), _) => {
            let counterparts = Counterparts::of(live, owned);
            for (at, item) in items.iter_mut().enumerate().filter(|(at, item)| step.selects(item, *at)) {
                // An item that is not there yet is written as the manifest says.
                if let Some((live, owned)) = counterparts.of_item(item, at) {
                    leave(item, live, owned, rest);
                }
            }
        }
        _ => {}
    }
}

fn leave_field(fields: &mut Map<String, Value>, name: &str, live: &Value, owned: Owned<'_>, rest: &[Step]) {
    let (live, owned) = (live.get(name), below(owned, &format!("f:{name}")));
    if rest.is_empty() {
        match live.zip(owned) {
            Some((live, owned)) => drop(fields.insert(name.to_owned(), part(live, owned))),
            None => drop(fields.remove(name)),
        }
        return;
    }
    let is_empty = |value: &Value| value.as_object().is_some_and(Map::is_empty);
    match fields.get_mut(name) {
        Some(inner) => {
            let was_empty = is_empty(inner);
            leave(inner, live.unwrap_or(&Value::Null), owned, rest);
            if is_empty(inner) && !was_empty {
                fields.remove(name);
            }
        }
        None => {
            // The manifest does not have it any more; the fields below it are left alone all the same.
            let Some((live @ Value::Object(_), owned)) = live.zip(owned) else { return };
            let mut inner = json!({});
            leave(&mut inner, live, Some(owned), rest);
            if !is_empty(&inner) {
                fields.insert(name.to_owned(), inner);
            }
        }
    }
}

/// Does the same for whole items of a list.
fn leave_items(items: &mut Vec<Value>, step: &Step, live: &Value, owned: Owned<'_>) {
    let mut at = 0..;
    items.retain(|item| at.next().is_some_and(|at| !step.selects(item, at)));
    let Some(owned) = owned else { return };
    let keys = ItemKeys::of(owned);
    let live = live.as_array().into_iter().flatten().enumerate();
    for (_, live) in live.filter(|(at, live)| step.selects(live, *at)) {
        if is_whole(owned) {
            items.push(live.clone());
        } else if let Some((key, of_it)) = keys.naming(live) {
            items.push(item_part(key, live, of_it));
        }
    }
}

/// The live items of a list, by the items of a body.
struct Counterparts<'a> {
    live: &'a [Value],
    items: Below<'a>,
    owned: Owned<'a>,
    /// The keys of the items of which belay owns fields; `None` if the list has one owner as a whole.
    keys: Option<ItemKeys<'a>>,
}

impl<'a> Counterparts<'a> {
    fn of(live: &'a Value, owned: Owned<'a>) -> Counterparts<'a> {
        let list = Some(live).filter(|live| live.is_array());
        let keys = owned.filter(|fields| !is_whole(fields)).map(ItemKeys::of);
        let live: &[Value] = live.as_array().map_or(&[], Vec::as_slice);
        Counterparts { live, items: Below::of(list), owned, keys }
    }

    /// Returns the live counterpart of a body's item, with belay's part of it.
    fn of_item(&self, item: &Value, at: usize) -> Option<(&'a Value, Owned<'a>)> {
        if let Some((key, of_it)) = self.keys.as_ref().and_then(|keys| keys.naming(item)) {
            return Some((self.items.at(key)?, of_it.as_object()));
        }
        let found = match item.get("name") {
            Some(name) => self.items.at(&format!("k:{}", json!({"name": name})))?,
            None => self.live.get(at)?,
        };
        match self.keys {
            // Others own this item.
            Some(_) => Some((found, None)),
            // A list that has one owner as a whole can only be sent as a whole.
            None => Some((found, Some(self.owned.unwrap_or(&EMPTY)))),
        }
    }
}

static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);

/// Returns the part of a live value that belay owns.
fn part(live: &Value, owned: &Map<String, Value>) -> Value {
    if is_whole(owned) {
        return live.clone();
    }
    match live {
        Value::Object(fields) => {
            let own = fields.iter().filter_map(|(name, live)| {
                let owned = owned.get(&format!("f:{name}"))?.as_object()?;
                Some((name.clone(), part(live, owned)))
            });
            Value::Object(own.collect())
        }
        Value::Array(items) => {
            let keys = ItemKeys::of(owned);
            let own = items.iter().filter_map(|live| {
                let (key, owned) = keys.naming(live)?;
                Some(item_part(key, live, owned))
            });
            Value::Array(own.collect())
        }
        other => other.clone(),
    }
}

/// Returns the same for an item of a list, with its keys.
fn item_part(key: &str, live: &Value, owned: &Value) -> Value {
    let mut own = owned.as_object().map_or_else(|| live.clone(), |owned| part(live, owned));
    let keys = key.strip_prefix("k:").and_then(|keys| serde_json::from_str::<Map<String, Value>>(keys).ok());
    if let (Some(own), Some(keys)) = (own.as_object_mut(), keys) {
        own.extend(keys);
    }
    own
}

/// Takes the fields at these steps out of a value.
fn take_out(value: &mut Value, steps: &[Step]) {
    let Some((step, rest)) = steps.split_first() else { return };
    match (value, step) {
        (Value::Object(fields), Step::Name(name)) if rest.is_empty() => drop(fields.remove(name)),
        (Value::Object(fields), Step::Name(name)) => {
            fields.get_mut(name).into_iter().for_each(|inner| take_out(inner, rest));
        }
        (Value::Array(items), _) => {
            let mut at = 0..;
            items.retain_mut(|item| {
                let selected = at.next().is_some_and(|at| step.selects(item, at));
                if selected && !rest.is_empty() {
                    take_out(item, rest);
                }
                !selected || !rest.is_empty()
            });
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::marks;

    fn left(fields: &[&str]) -> IgnoredFields {
        let fields: Vec<FieldPath> = fields.iter().map(|field| field.parse().unwrap()).collect();
        IgnoredFields::of(&fields)
    }

    fn live(spec: Value, owned: Value) -> Value {
        json!({"metadata": {"managedFields": [
            {"manager": marks::FIELD_MANAGER, "operation": "Apply", "fieldsV1": {"f:spec": owned}}]}, "spec": spec})
    }

    fn sent(fields: &[&str], spec: Value, live: &Value) -> Value {
        left(fields).leave(json!({"spec": spec}), Some(live))["spec"].clone()
    }

    #[test]
    fn what_belay_owns_is_sent_as_it_is_and_what_others_own_is_not() {
        let own = live(json!({"replicas": 4}), json!({"f:replicas": {}}));
        assert_eq!(sent(&["/spec/replicas"], json!({"replicas": 2}), &own), json!({"replicas": 4}));
        assert_eq!(sent(&["/spec/replicas"], json!({}), &own), json!({"replicas": 4}), "nor does it go with its line");
        let theirs = live(json!({"replicas": 4, "paused": true}), json!({"f:paused": {}}));
        let all = json!({"replicas": 2, "paused": true});
        assert_eq!(sent(&["/spec/replicas"], all, &theirs), json!({"paused": true}));
        let body = json!({"spec": {"replicas": 2}});
        assert_eq!(IgnoredFields::default().and_replicas().leave(body.clone(), None), body, "what is new is whole");
        assert_eq!(IgnoredFields::default().leave(body.clone(), Some(&own)), body);
    }

    #[test]
    fn of_a_field_with_several_owners_only_belays_part_is_sent() {
        let live = live(
            json!({"resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "1"}}}),
            json!({"f:resources": {"f:limits": {"f:cpu": {}}}}),
        );
        let body = json!({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}});
        assert_eq!(sent(&["/spec/resources"], body, &live), json!({"resources": {"limits": {"cpu": "2"}}}));
    }

    #[test]
    fn items_are_found_by_what_they_are_known_by() {
        let live = live(
            json!({"containers": [{"name": "proxy", "image": "proxy:9"}, {"name": "web", "image": "web:5", "tty": true}]}),
            json!({"f:containers": {"k:{\"name\":\"web\"}": {".": {}, "f:name": {}, "f:image": {}}}}),
        );
        let containers = json!({"containers": [{"name": "web", "image": "web:1"}, {"name": "new", "image": "new:1"}]});
        let expected = json!({"containers": [{"name": "web", "image": "web:5"}, {"name": "new", "image": "new:1"}]});
        assert_eq!(sent(&["/spec/containers/*/image"], containers.clone(), &live), expected, "a new item is whole");
        assert_eq!(sent(&["/spec/containers/[name=web]/image"], containers.clone(), &live), expected);
        assert_eq!(sent(&["/spec/containers/[name=new]/image"], containers.clone(), &live), containers);
        let whole = sent(&["/spec/containers/[name=web]"], containers, &live);
        assert_eq!(whole["containers"][1], json!({"name": "web", "image": "web:5"}));
        let theirs = json!({"containers": [{"name": "proxy", "image": "proxy:1"}]});
        assert_eq!(sent(&["/spec/containers/*/image"], theirs, &live), json!({"containers": [{"name": "proxy"}]}));
    }

    #[test]
    fn a_list_that_has_one_owner_is_sent_whole_with_the_field_as_it_is() {
        let live = live(json!({"rules": [{"host": "a", "port": 2}, {"host": "b", "port": 3}]}), json!({"f:rules": {}}));
        let rules = json!({"rules": [{"host": "a", "port": 1}, {"host": "c", "port": 1}]});
        let second = json!({"rules": [{"host": "a", "port": 1}, {"host": "c", "port": 3}]});
        assert_eq!(sent(&["/spec/rules/1/port"], rules.clone(), &live), second);
        let first = json!({"rules": [{"host": "a", "port": 2}, {"host": "c", "port": 1}]});
        assert_eq!(sent(&["/spec/rules/[host=a]/port"], rules, &live), first);
    }

    #[test]
    fn nothing_empty_is_left_where_all_was_taken_out() {
        let theirs = live(json!({"limits": {"cpu": "1"}}), json!({"f:paused": {}}));
        assert_eq!(
            sent(&["/spec/limits/cpu"], json!({"limits": {"cpu": "2"}, "paused": true}), &theirs),
            json!({"paused": true})
        );
    }

    #[test]
    fn templates_are_compared_without_what_is_left_alone() {
        let template =
            |image: &str, cpu: u32| json!({"spec": {"containers": [{"name": "web", "image": image, "cpu": cpu}]}});
        let left = left(&["/spec/template/spec/containers/*/cpu"]);
        assert!(left.is_in_template());
        assert_eq!(left.template_hash(&template("web:1", 1)), left.template_hash(&template("web:1", 2)));
        assert_ne!(left.template_hash(&template("web:1", 1)), left.template_hash(&template("web:2", 1)));
        assert!(!IgnoredFields::default().and_replicas().is_in_template());
    }
}
