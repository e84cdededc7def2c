//! Field selectors: `metadata.name=x,status.phase!=Running`.

use crate::api::ApiError;
use crate::api::store::{Scope, Stored};

/// All requirements must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector(Vec<FieldRequirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FieldRequirement {
    field: SelectorField,
    value: String,
    equal: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum SelectorField {
    Name,
    Namespace,
    /// By its place in the resource's list of selectable fields.
    Other(usize),
}

/// The selectable fields of a resource's objects.
pub struct Selectable<'a> {
    /// The fields besides name and namespace; those without a name can't be asked for.
    pub fields: &'a [Option<String>],
    /// True when the namespace is selectable.
    pub namespace: bool,
    /// The complaint about any other field.
    pub refusal: &'a dyn Fn(&str) -> String,
}

impl FieldSelector {
    /// Reads the text of a selector for a resource.
    ///
    /// # Errors
    /// 400 for text that is no selector and for fields that can't be asked for.
    pub fn parse(text: &str, selectable: &Selectable<'_>) -> Result<FieldSelector, ApiError> {
        let mut requirements = Vec::new();
        for term in split(text).into_iter().filter(|term| !term.is_empty()) {
            let Some((name, equal, value)) = operator(term) else {
                return Err(ApiError::bad_request(format!("invalid selector: '{text}'; can't understand '{term}'")));
            };
            let value = unescape(value).map_err(ApiError::bad_request)?;
            let field = match name {
                "metadata.name" => SelectorField::Name,
                "metadata.namespace" if selectable.namespace => SelectorField::Namespace,
                other => match selectable.fields.iter().position(|known| known.as_deref() == Some(other)) {
                    Some(index) => SelectorField::Other(index),
                    None => return Err(ApiError::bad_request((selectable.refusal)(other))),
                },
            };
            requirements.push(FieldRequirement { field, value, equal });
        }
        Ok(FieldSelector(requirements))
    }

    /// Returns true when it selects everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns true when an object fulfils it.
    #[must_use]
    pub fn matches(&self, object: &Stored) -> bool {
        self.0.iter().all(|requirement| {
            let value = match requirement.field {
                SelectorField::Name => object.name(),
                SelectorField::Namespace => object.namespace().unwrap_or_default(),
                SelectorField::Other(index) => object.fields.get(index).map_or("", |value| value),
            };
            (value == requirement.value) == requirement.equal
        })
    }

    /// Returns the one name that is asked for, if there is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.exactly(&SelectorField::Name)
    }

    /// Returns the smallest scope within `scope` that holds all that is asked for.
    #[must_use]
    pub fn narrow(&self, scope: Scope) -> Scope {
        let scope = match (scope, self.exactly(&SelectorField::Namespace)) {
            (Scope::All, Some(namespace)) if !namespace.is_empty() => Scope::Namespace(namespace.to_owned()),
            (scope, _) => scope,
        };
        match (scope, self.name()) {
            (Scope::Namespace(namespace), Some(name)) => Scope::Object(format!("{namespace}/{name}")),
            (scope, _) => scope,
        }
    }

    fn exactly(&self, field: &SelectorField) -> Option<&str> {
        self.0.iter().find(|term| term.equal && term.field == *field).map(|term| term.value.as_str())
    }
}

/// Splits at commas that are not escaped.
fn split(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            ',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

fn operator(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.find(['=', '!'])?;
    let (name, rest) = term.split_at(at);
    let (equal, value) = if let Some(value) = rest.strip_prefix("!=") {
        (false, value)
    } else if let Some(value) = rest.strip_prefix("==") {
        (true, value)
    } else {
        (true, rest.strip_prefix('=')?)
    };
    Some((name, equal, value))
}

fn unescape(value: &str) -> Result<String, String> {
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => out.push(escaped),
                other => {
                    let sequence: String = std::iter::once('\\').chain(other).collect();
                    return Err(format!("invalid field selector: invalid escape sequence: {sequence}"));
                }
            },
            ',' | '=' => return Err(format!("invalid field selector: unescaped character in value: {c}")),
            other => out.push(other),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api::store::WrittenObject;

    fn pod(phase: &str) -> Stored {
        let object = json!({ "metadata": { "name": "x", "namespace": "a" } });
        let written = WrittenObject { object, path: "a/x".into(), fields: vec![phase.to_owned()] };
        Stored::new(written, 1)
    }

    fn parse(text: &str) -> Result<FieldSelector, ApiError> {
        let fields = [Some("status.phase".to_owned()), None, Some("spec.nodeName".to_owned())];
        let refusal = |field: &str| format!("not {field}");
        FieldSelector::parse(text, &Selectable { fields: &fields, namespace: true, refusal: &refusal })
    }

    #[test]
    fn fields_are_compared() {
        for fine in ["", "metadata.name=x", "metadata.namespace==a", "status.phase!=Pending", "spec.nodeName="] {
            assert!(parse(fine).unwrap().matches(&pod("Running")), "{fine}");
        }
        for wrong in ["metadata.name=y", "status.phase=Pending,metadata.name=x", "spec.nodeName!="] {
            assert!(!parse(wrong).unwrap().matches(&pod("Running")), "{wrong}");
        }
        assert!(parse("status.phase=a\\,b").unwrap().matches(&pod("a,b")));
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused() {
        assert_eq!(parse("spec.foo=x").unwrap_err().message, "not spec.foo");
        assert_eq!(parse("spec").unwrap_err().message, "invalid selector: 'spec'; can't understand 'spec'");
        assert_eq!(parse("metadata.name=a=b").unwrap_err().code, 400);
        assert_eq!(parse("metadata.name=a\\x").unwrap_err().code, 400);
    }

    #[test]
    fn a_selector_for_one_object_narrows_the_scope() {
        let narrow = |text: &str, scope| parse(text).unwrap().narrow(scope);
        assert_eq!(narrow("metadata.name=x", Scope::Namespace("a".to_owned())), Scope::Object("a/x".to_owned()));
        assert_eq!(narrow("metadata.namespace=a", Scope::All), Scope::Namespace("a".to_owned()));
        assert_eq!(narrow("metadata.name!=x", Scope::Namespace("a".to_owned())), Scope::Namespace("a".to_owned()));
        assert_eq!(narrow("metadata.name=x", Scope::All), Scope::All);
    }
}
