//! Label selectors, for manifests that no API server has seen: `app=web,tier!=cache,track in (a, b),!old`.

use std::str::FromStr;

use serde_json::Value;

/// Conditions on labels, all of which must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Condition>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Is(String, Vec<String>),
    /// Also if the label is missing.
    IsNot(String, Vec<String>),
    Exists(String),
    Missing(String),
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Selector, String> {
        let conditions: Result<Vec<Condition>, String> = parts(text).map(|part| condition(part.trim())).collect();
        Ok(Selector(conditions?))
    }
}

impl Selector {
    /// Returns true when the object has such labels.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let label = |name: &String| object["metadata"]["labels"].get(name).and_then(Value::as_str);
        self.0.iter().all(|condition| match condition {
            Condition::Is(name, values) => label(name).is_some_and(|is| values.iter().any(|value| value == is)),
            Condition::IsNot(name, values) => !label(name).is_some_and(|is| values.iter().any(|value| value == is)),
            Condition::Exists(name) => label(name).is_some(),
            Condition::Missing(name) => label(name).is_none(),
        })
    }
}

/// Returns the parts between commas that are not in brackets.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    text.split(move |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        c == ',' && depth == 0
    })
}

fn condition(text: &str) -> Result<Condition, String> {
    let wrong =
        || format!("{text:?} is no condition on a label; say KEY=VALUE, KEY!=VALUE, KEY in (A, B), KEY or !KEY");
    let name = |name: &str| {
        let name = name.trim();
        let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if plain { Ok(name.to_owned()) } else { Err(wrong()) }
    };
    if let Some((key, value)) = text.split_once("!=") {
        return Ok(Condition::IsNot(name(key)?, vec![value.trim().to_owned()]));
    }
    if let Some((key, value)) = text.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Ok(Condition::Is(name(key)?, vec![value.trim().to_owned()]));
    }
    if let Some(rest) = text.strip_suffix(')') {
        let (head, values) = rest.split_once('(').ok_or_else(wrong)?;
        let values = values.split(',').map(|value| value.trim().to_owned()).collect();
        let head = head.trim_end();
        return if let Some(key) = head.strip_suffix(" notin") {
            Ok(Condition::IsNot(name(key)?, values))
        } else {
            Ok(Condition::Is(name(head.strip_suffix(" in").ok_or_else(wrong)?)?, values))
        };
    }
    match text.strip_prefix('!') {
        Some(key) => Ok(Condition::Missing(name(key)?)),
        None => Ok(Condition::Exists(name(text)?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn labels_are_selected_as_the_api_server_does() {
        let object = json!({"metadata": {"labels": {"app": "web", "a.b/c": "x"}}});
        for (text, fits) in [
            ("app=web", true),
            ("app==web,a.b/c", true),
            ("app!=web", false),
            ("tier!=web", true),
            ("app in (api, web),!old", true),
            ("app notin (api, web)", false),
            ("tier in (a)", false),
            ("!app", false),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().matches(&object), fits, "{text}");
        }
        for text in ["", "a b", "app in web", "=x", "app in (a", ","] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
