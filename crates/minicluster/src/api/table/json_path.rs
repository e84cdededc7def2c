//! The part of JSONPath that definitions of columns and fields use: `.spec.replicas`, `.a['b.c']`, `.list[0]`,
//! `.list[*].x`, `.status.conditions[?(@.type=="Ready")].status`.

use serde_json::Value;

/// Returns the values at a path; none if it leads nowhere or is not understood.
#[must_use]
pub(super) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let path = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut found = vec![object];
    let mut rest = path;
    while !rest.is_empty() && !found.is_empty() {
        let Some((step, after)) = step(rest) else { return Vec::new() };
        found = found.into_iter().flat_map(|value| step.take(value)).collect();
        rest = after;
    }
    found
}

enum JsonPathStep<'p> {
    Field(String),
    Index(i64),
    All,
    Where { path: &'p str, equal: bool, value: &'p str },
    Nothing,
}

impl JsonPathStep<'_> {
    fn take<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match self {
            JsonPathStep::Nothing => vec![value],
            JsonPathStep::Field(name) => value.get(name.as_str()).into_iter().collect(),
            JsonPathStep::Index(index) => {
                let items = value.as_array().map_or(&[][..], Vec::as_slice);
                let from_end =
                    index.unsigned_abs().try_into().ok().and_then(|back: usize| items.len().checked_sub(back));
                let place = if *index < 0 { from_end } else { usize::try_from(*index).ok() };
                place.and_then(|place| items.get(place)).into_iter().collect()
            }
            JsonPathStep::All => match value {
                Value::Array(items) => items.iter().collect(),
                Value::Object(members) => members.values().collect(),
                _ => Vec::new(),
            },
            JsonPathStep::Where { path, equal, value: wanted } => {
                let items = value.as_array().into_iter().flatten();
                let holds =
                    |item: &&Value| find(item, path).first().is_some_and(|found| (text(found) == *wanted) == *equal);
                items.filter(holds).collect()
            }
        }
    }
}

/// Returns a value as text: without quotes if it is text.
#[must_use]
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn step(path: &str) -> Option<(JsonPathStep<'_>, &str)> {
    if let Some(rest) = path.strip_prefix('[') {
        let end = closing(rest)?;
        let (inside, after) = (&rest[..end], &rest[end + 1..]);
        let inside = inside.trim();
        if inside == "*" {
            return Some((JsonPathStep::All, after));
        }
        if let Some(filter) = inside.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
            let (path, equal, value) = condition(filter)?;
            return Some((JsonPathStep::Where { path, equal, value }, after));
        }
        if let Some(name) = quoted(inside) {
            return Some((JsonPathStep::Field(name.to_owned()), after));
        }
        return inside.parse().ok().map(|index| (JsonPathStep::Index(index), after));
    }
    let rest = path.strip_prefix('.').unwrap_or(path);
    if rest.is_empty() || rest.starts_with('[') {
        return Some((JsonPathStep::Nothing, rest));
    }
    let mut name = String::new();
    let mut characters = rest.char_indices();
    let mut end = rest.len();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => {
                end = at;
                break;
            }
            other => name.push(other),
        }
    }
    let step = if name == "*" { JsonPathStep::All } else { JsonPathStep::Field(name) };
    Some((step, &rest[end..]))
}

/// Returns the place of the bracket that closes the one before; brackets in quotes do not count.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, ']') => return Some(at),
            _ => {}
        }
    }
    None
}

fn condition(filter: &str) -> Option<(&str, bool, &str)> {
    let (path, equal, value) = match filter.split_once("==") {
        Some((path, value)) => (path, true, value),
        None => filter.split_once("!=").map(|(path, value)| (path, false, value))?,
    };
    let value = value.trim();
    Some((path.trim().strip_prefix('@')?, equal, quoted(value).unwrap_or(value)))
}

fn quoted(text: &str) -> Option<&str> {
    ['"', '\''].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{find, text};

    #[test]
    fn paths_lead_to_values() {
        let object = json!({
            "spec": { "replicas": 3, "list": ["a", "b"], "a.b": { "c": true } },
            "status": { "conditions": [{ "type": "Ready", "status": "True" }, { "type": "Old", "status": "False" }] },
        });
        let at = |path: &str| find(&object, path).into_iter().map(text).collect::<Vec<_>>();
        assert_eq!(at(".spec.replicas"), ["3"]);
        assert_eq!(at("{.spec.list[1]}"), ["b"]);
        assert_eq!(at(".spec.list[-1]"), ["b"]);
        assert_eq!(at(".spec.list[*]"), ["a", "b"]);
        assert_eq!(at(".spec['a.b'].c"), ["true"]);
        assert_eq!(at(".spec.a\\.b.c"), ["true"]);
        assert_eq!(at(".status.conditions[?(@.type==\"Ready\")].status"), ["True"]);
        assert_eq!(at(".status.conditions[?(@.type!='Ready')].type"), ["Old"]);
        assert_eq!(at(".status.conditions[*].type"), ["Ready", "Old"]);
        for nowhere in [".spec.none", ".spec.list[9]", ".spec.list[", ".spec.list[x]", ".status[?(@.x)]", "[[["] {
            assert!(at(nowhere).is_empty(), "{nowhere}");
        }
    }
}
