//! Names may be taken: of two definitions of a group that want the same, the first keeps it.

use serde_json::{Value, json};

use crate::api::json_pointer::text;

/// The names that a definition gets, and the refused ones with the reason.
pub(super) struct Accepted {
    /// As `status.acceptedNames`.
    pub(super) names: Value,
    /// The reason and message of a conflict.
    pub(super) conflict: Option<(&'static str, String)>,
}

/// Compares with the names of other definitions of the same group.
pub(super) fn accept(definition: &Value, others: &[&Value]) -> Accepted {
    let wanted = &definition["spec"]["names"];
    let group = text(definition, "/spec/group");
    let taken: Vec<&Value> = others
        .iter()
        .filter(|other| text(other, "/spec/group") == group)
        .map(|other| &other["status"]["acceptedNames"])
        .collect();
    let resources = |names: &Value| -> Vec<String> {
        let short = names["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        [text(names, "/plural"), text(names, "/singular")].into_iter().chain(short).map(str::to_owned).collect()
    };
    let kinds = |names: &Value| [text(names, "/kind").to_owned(), text(names, "/listKind").to_owned()];
    let resource_taken =
        |name: &str| !name.is_empty() && taken.iter().any(|names| resources(names).iter().any(|known| known == name));
    let kind_taken =
        |name: &str| !name.is_empty() && taken.iter().any(|names| kinds(names).iter().any(|known| known == name));
    let mut names = json!({});
    let mut conflict = None;
    let mut refuse = |reason: &'static str, name: &str| {
        conflict.get_or_insert_with(|| (reason, format!("{name:?} is already in use")));
    };
    for (field, reason, is_taken) in [
        ("plural", "PluralConflict", &resource_taken as &dyn Fn(&str) -> bool),
        ("singular", "SingularConflict", &resource_taken),
        ("kind", "KindConflict", &kind_taken),
        ("listKind", "ListKindConflict", &kind_taken),
    ] {
        let name = wanted[field].as_str().unwrap_or_default();
        if is_taken(name) {
            refuse(reason, name);
        } else if !name.is_empty() {
            names[field] = json!(name);
        }
    }
    let short: Vec<&str> = wanted["shortNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if let Some(name) = short.iter().find(|name| resource_taken(name)) {
        refuse("ShortNamesConflict", name);
    } else if !short.is_empty() {
        names["shortNames"] = json!(short);
    }
    if let Some(categories) =
        wanted.get("categories").filter(|list| list.as_array().is_some_and(|list| !list.is_empty()))
    {
        names["categories"] = categories.clone();
    }
    for field in ["plural", "kind"] {
        if names.get(field).is_none() {
            names[field] = json!("");
        }
    }
    Accepted { names, conflict }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_keeps_its_names() {
        let names = |plural: &str, kind: &str| json!({ "plural": plural, "singular": kind, "kind": kind, "listKind": format!("{kind}List") });
        let first = json!({ "spec": { "group": "a" }, "status": { "acceptedNames": names("xs", "X") } });
        let other_group = json!({ "spec": { "group": "b" }, "status": { "acceptedNames": names("ys", "Y") } });
        let second = json!({ "spec": { "group": "a", "names": names("ys", "X") } });
        let accepted = accept(&second, &[&first, &other_group]);
        assert_eq!(accepted.names, json!({ "plural": "ys", "kind": "" }));
        assert_eq!(accepted.conflict.unwrap(), ("SingularConflict", "\"X\" is already in use".to_owned()));
        assert!(accept(&second, &[&other_group]).conflict.is_none());
    }
}
