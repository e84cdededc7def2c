//! The containers of a pod, and which of them are meant.

use anyhow::bail;
use serde_json::{Map, Value, json};

use crate::cli::worktree::edit_op::{at, key, pod_spec};
use belay_core::manifest::ObjectKey;
use belay_core::manifest::edit::Step;

/// One container of an object.
#[derive(Clone, Debug)]
pub(super) struct Container<'v> {
    pub name: &'v str,
    /// `containers` or `initContainers`
    pub list: &'static str,
    pub value: &'v Value,
    /// From the object to it.
    pub path: Vec<Step>,
}

/// Returns the containers of an object, in the order in which they are written; those that begin first come last, as
/// kubectl lists them.
pub(super) fn containers<'v>(object: &ObjectKey, value: &'v Value) -> Vec<Container<'v>> {
    let Some(spec) = pod_spec(object) else { return Vec::new() };
    let mut found = Vec::new();
    for list in ["containers", "initContainers"] {
        for (index, value) in at(value, &spec)[list].as_array().into_iter().flatten().enumerate() {
            let path = spec.iter().cloned().chain([key(list), Step::Item(index)]).collect();
            found.push(Container { name: value["name"].as_str().unwrap_or_default(), list, value, path });
        }
    }
    found
}

/// Returns a strategic merge patch of containers that keeps their order: each with its name and its changed fields.
pub(super) fn patch_of(
    object: &ObjectKey,
    value: &Value,
    changes: Vec<(&Container<'_>, Map<String, Value>)>,
) -> Map<String, Value> {
    let mut spec = Map::new();
    for (container, mut change) in changes {
        change.insert("name".to_owned(), json!(container.name));
        if let Some(list) = spec.entry(container.list).or_insert_with(|| json!([])).as_array_mut() {
            list.retain(|there| there["name"] != container.name);
            list.push(change.into());
        }
        let all = containers(object, value);
        let names = all.iter().filter(|other| other.list == container.list).map(|other| json!({"name": other.name}));
        spec.insert(format!("$setElementOrder/{}", container.list), names.collect());
    }
    spec
}

/// Returns those whose name fits a pattern, in which `*` stands for anything.
///
/// # Errors
/// Fails when there is none; the error names the existing ones.
pub(super) fn matching<'v>(object: &ObjectKey, value: &'v Value, pattern: &str) -> anyhow::Result<Vec<Container<'v>>> {
    let all = containers(object, value);
    let found: Vec<Container<'_>> = all.iter().filter(|container| fits(pattern, container.name)).cloned().collect();
    if found.is_empty() {
        let names: Vec<&str> = all.iter().map(|container| container.name).collect();
        bail!("unable to find container named {pattern:?}; {object} has {}", names.join(", "));
    }
    Ok(found)
}

fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(found) => left = &left[found + part.len()..],
            None => return false,
        }
    }
    left.len() >= last.len() && left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything() {
        for (pattern, name, wanted) in [
            ("*", "app", true),
            ("app", "app", true),
            ("app", "app2", false),
            ("a*", "app", true),
            ("*p", "app", true),
            ("a*p", "ap", true),
            ("a*x*p", "a1x2p", true),
            ("a*p", "a", false),
            ("ap*pp", "app", false),
        ] {
            assert_eq!(fits(pattern, name), wanted, "{pattern} {name}");
        }
    }
}
