//! Objects that another tool acts on: one warning for each kind, for a repository may have dozens of them.

use std::collections::BTreeMap;

use belay_core::manifest::{Complaint, ObjectKey, left_to_other_tool, other_tool};

/// The most objects that a warning names.
const NAMED: usize = 3;

/// Puts the warnings about such objects together by their kind, each where its first one is.
pub(super) fn told_once(warnings: Vec<Complaint>) -> Vec<Complaint> {
    let mut of_kind: BTreeMap<(String, String), Vec<ObjectKey>> = BTreeMap::new();
    let mut told = Vec::new();
    for warning in warnings {
        let Some((tool, object)) = left_to(&warning) else {
            told.push((None, warning));
            continue;
        };
        let kind = (tool.to_owned(), object.kind.clone());
        let objects = of_kind.entry(kind.clone()).or_default();
        objects.push(object.clone());
        if objects.len() == 1 {
            told.push((Some(kind), warning));
        }
    }
    let whole = |(kind, warning): (Option<(String, String)>, Complaint)| match kind
        .as_ref()
        .and_then(|kind| Some((kind, of_kind.get(kind)?)))
    {
        Some(((tool, kind), objects)) => about(tool, kind, objects, warning),
        None => warning,
    };
    told.into_iter().map(whole).collect()
}

/// Returns the tool, and the object, if a warning is that it is another tool's.
fn left_to(warning: &Complaint) -> Option<(&'static str, &ObjectKey)> {
    let object = warning.object.as_ref()?;
    let tool = other_tool(&object.group, &object.kind)?;
    (warning.message == left_to_other_tool(&object.kind, tool)).then_some((tool, object))
}

/// Returns the first warning as one about all of these objects.
fn about(tool: &str, kind: &str, objects: &[ObjectKey], first: Complaint) -> Complaint {
    let names: Vec<String> = objects.iter().take(NAMED).map(name).collect();
    let more = match objects.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let names = format!("{}{more}", names.join(", "));
    let (message, hint) = match objects.len() {
        1 => (first.message, format!("`belay import` writes the source that does the same as {names}")),
        count => (
            format!("these {count} objects of the kind {kind} are {tool}'s, and belay does not act on them"),
            format!("`belay import` writes the sources that do the same as {names}"),
        ),
    };
    Complaint { message, hint: Some(hint), ..first }
}

fn name(key: &ObjectKey) -> String {
    match &key.namespace {
        Some(namespace) => format!("{namespace}/{}", key.name),
        None => key.name.clone(),
    }
}
