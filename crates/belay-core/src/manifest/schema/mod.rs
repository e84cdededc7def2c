//! Objects against the shape of their kind: every field that an API server would refuse, all at once.
//!
//! The measure is a server's strict answer to the apply that belay sends. An object that such a server accepts is never
//! a complaint; refusals that need the cluster are left to its dry run.

mod custom;
mod meant;
mod nearest;
mod path;
mod quantity;
mod required;
mod values;

use serde_json::Value;

use kube_facts::{Field, List, ListKind, Map, Struct, Type};

use super::report::{Report, Showing, Subject, Words};
use super::yaml::{At, Child, Span};

pub use custom::{CustomShape, Definition};
pub use nearest::nearest;
pub(super) use path::{FieldPath, Step};

/// The server whose rules count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rules {
    /// Kubernetes' own types.
    BuiltIn,
    /// The schema of a custom resource definition: null is only taken where the schema says so, and so is the empty text.
    Custom,
}

/// Complains about everything in `at` that doesn't fit `ty`.
pub(super) fn check(report: &mut Report<'_>, subject: &Subject, at: At<'_>, ty: &Type, rules: Rules) {
    let mut walk = Walk::new(report, subject, rules);
    walk.value(at, at.span(), ty, None);
}

/// Complains about everything in an object's `metadata` that no API server takes.
pub(super) fn check_metadata(report: &mut Report<'_>, subject: &Subject, metadata: Child<'_>) {
    let mut walk = Walk::new(report, subject, Rules::BuiltIn);
    walk.path.push(Step::Field("metadata"));
    walk.value(metadata.at, metadata.key, required::object_meta(), None);
}

struct Walk<'w, 't, 'p> {
    report: &'w mut Report<'t>,
    subject: &'w Subject,
    rules: Rules,
    path: FieldPath<'p>,
    /// The structs that are entered, outermost first, and how long the path to each is.
    ancestors: Vec<(&'p Struct, usize)>,
    /// True when this is below `status`, which an apply leaves alone.
    in_status: bool,
    unknown_fields: UnknownFields,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum UnknownFields {
    Refused,
    Ignored,
}

impl<'w, 't, 'p> Walk<'w, 't, 'p> {
    fn new(report: &'w mut Report<'t>, subject: &'w Subject, rules: Rules) -> Walk<'w, 't, 'p> {
        Walk {
            report,
            subject,
            rules,
            path: FieldPath::default(),
            ancestors: Vec::new(),
            in_status: false,
            unknown_fields: UnknownFields::Refused,
        }
    }

    fn value(&mut self, at: At<'p>, key: Span, ty: &'p Type, field: Option<&'p Field>) {
        if at.value().is_null() {
            return self.null(at, key, ty, field);
        }
        let name = if let Type::Named(name) = ty { &**name } else { "" };
        if let Some(inner) = required::schema_or(name, at.value()) {
            // A server reads the levels below without looking for unknown fields.
            let strictness = std::mem::replace(&mut self.unknown_fields, UnknownFields::Ignored);
            self.value(at, key, inner, field);
            self.unknown_fields = strictness;
            return;
        }
        match ty.resolve() {
            Type::Struct(inner) => self.structure(at, key, name, inner),
            Type::Map(map) => self.map(at, key, map),
            Type::List(list) => self.list(at, key, list),
            Type::Scalar(scalar) => {
                let wrong = values::wrong(at.value(), *scalar, self.rules, at.span().slice(self.report.text()));
                if let Some(wrong) = wrong {
                    self.wrong_value(at, key, wrong);
                } else if let Some(field) = field {
                    self.one_of(at, key, field);
                }
            }
            Type::Named(_) | Type::Any => {}
        }
    }

    /// Checks null: Kubernetes' own types take it for nothing; a custom schema must say that it does.
    fn null(&mut self, at: At<'p>, key: Span, ty: &'p Type, field: Option<&'p Field>) {
        let taken = match field {
            Some(field) => field.nullable || field.default.is_some(),
            None => false,
        };
        if self.rules == Rules::Custom && !taken && !matches!(ty.resolve(), Type::Any) && self.path.depth() > 1 {
            let message = format!("{} may not be null", self.path);
            self.complain(at, key, message, Some("write a value, or leave it out".to_owned()));
        }
    }

    fn structure(&mut self, at: At<'p>, key: Span, name: &'p str, inner: &'p Struct) {
        if !at.value().is_object() {
            let wrong = values::Wrong::new("a mapping of fields", at.value());
            return self.wrong_value(at, key, wrong);
        }
        if inner.embedded {
            self.embedded(at, key);
        }
        self.missing(at, key, name, inner);
        self.ancestors.push((inner, self.path.depth()));
        for child in at.children() {
            let Some(field) = inner.fields.get(child.name) else {
                if !inner.open
                    && self.unknown_fields == UnknownFields::Refused
                    && !(inner.embedded && matches!(child.name, "apiVersion" | "kind" | "metadata"))
                {
                    self.unknown(child, inner);
                }
                continue;
            };
            let outer = self.in_status;
            self.in_status |= self.path.depth() == 0 && child.name == "status";
            self.path.push(Step::Field(child.name));
            self.value(child.at, child.key, &field.ty, Some(field));
            self.path.pop();
            self.in_status = outer;
        }
        self.ancestors.pop();
    }

    /// Checks a whole object inside a custom one.
    fn embedded(&mut self, at: At<'p>, key: Span) {
        for name in ["apiVersion", "kind"] {
            if at.text(name).is_none_or(str::is_empty) {
                let message = format!("{} needs {name}", self.path);
                self.report.add(self.subject, Words::at_key(key, message));
            }
        }
        if let Some(metadata) = at.entry("metadata") {
            self.path.push(Step::Field("metadata"));
            let rules = std::mem::replace(&mut self.rules, Rules::BuiltIn);
            self.value(metadata.at, metadata.key, required::object_meta(), None);
            self.rules = rules;
            self.path.pop();
        }
    }

    fn missing(&mut self, at: At<'p>, key: Span, name: &'p str, inner: &'p Struct) {
        if self.in_status {
            return;
        }
        let custom = (self.rules == Rules::Custom).then_some(inner.required.iter().map(String::as_str));
        let built_in = (self.rules == Rules::BuiltIn).then(|| required::fields(name).iter().copied());
        for field in custom.into_iter().flatten().chain(built_in.into_iter().flatten()) {
            let there = match at.value().get(field) {
                None => false,
                // A custom schema takes an explicit null for a wrong value, which is said elsewhere.
                Some(Value::Null) => self.rules == Rules::Custom,
                Some(Value::Array(items)) => !items.is_empty() || !required::not_empty(name, field),
                Some(_) => true,
            };
            if !there {
                let message = match self.path.depth() {
                    0 => format!("{field} is missing"),
                    _ => format!("{field} is missing in {}", self.path),
                };
                // If there is no key, the object itself begins with one.
                let span =
                    Span { start: key.start, end: if key.start.line == key.end.line { key.end } else { key.start } };
                self.report.add(self.subject, Words::at_key(span, message));
            }
        }
    }

    fn map(&mut self, at: At<'p>, key: Span, map: &'p Map) {
        if !at.value().is_object() {
            return self.wrong_value(at, key, values::Wrong::new("a mapping", at.value()));
        }
        for child in at.children() {
            self.path.push(Step::Field(child.name));
            self.value(child.at, child.key, &map.values, None);
            self.path.pop();
        }
    }

    fn list(&mut self, at: At<'p>, key: Span, list: &'p List) {
        if !at.value().is_array() {
            return self.wrong_value(at, key, values::Wrong::list(at.value(), at.span().slice(self.report.text())));
        }
        for (index, child) in at.children().enumerate() {
            self.path.push(Step::Item(index));
            if child.at.value().is_null() && list.kind != ListKind::Atomic && self.rules == Rules::BuiltIn {
                self.complain(child.at, child.key, format!("{} is empty", self.path), None);
            }
            self.value(child.at, child.key, &list.items, None);
            self.path.pop();
        }
        // Below an open part, server-side apply has one owner for the whole.
        if self.unknown_fields == UnknownFields::Refused {
            self.twice(at, list);
        }
    }

    /// Complains about items that server-side apply can't tell apart.
    fn twice(&mut self, at: At<'p>, list: &'p List) {
        let ListKind::Map(keys) = &list.kind else {
            if list.kind == ListKind::Set {
                self.same(at, |value| (value.is_string() || value.is_number()).then(|| value.to_string()), "value");
            }
            return;
        };
        let Type::Struct(inner) = list.items.resolve() else { return };
        let default = |key: &String| inner.fields.get(key).and_then(|field| field.default.clone());
        let identity = |value: &Value| {
            let parts: Vec<Value> =
                keys.iter().map(|key| value.get(key).cloned().or_else(|| default(key)).unwrap_or_default()).collect();
            parts.iter().any(|part| !part.is_null()).then(|| Value::Array(parts).to_string())
        };
        for (index, child) in at.children().enumerate() {
            let built_in = self.rules == Rules::BuiltIn;
            let there = |key: &String| child.at.value().get(key).is_some() || default(key).is_some();
            if built_in && child.at.value().is_object() && !keys.iter().any(there) {
                let message = format!("{}[{index}] needs {}", self.path, keys.join(" or "));
                let span = Span { start: child.key.start, end: child.key.start };
                self.report.add(self.subject, Words::at_value(span, message));
            }
        }
        self.same(at, identity, &keys.join(" and "));
    }

    fn same(&mut self, at: At<'p>, identity: impl Fn(&Value) -> Option<String>, what: &str) {
        let mut seen = std::collections::BTreeMap::new();
        for child in at.children() {
            let Some(identity) = identity(child.at.value()) else { continue };
            let Some(first) = seen.insert(identity, child.key) else { continue };
            let words = Words::at_value(child.key, format!("another item of {} has the same {what}", self.path))
                .hint("server-side apply tells the items apart by it; leave one of them out")
                .also(first, "this one");
            self.report.add(self.subject, words);
        }
    }

    fn one_of(&mut self, at: At<'p>, key: Span, field: &'p Field) {
        let value = at.value();
        let unset = self.rules == Rules::BuiltIn && value == "";
        if field.one_of.is_empty() || field.one_of.contains(value) || unset || self.in_status {
            return;
        }
        let names: Vec<&str> = field.one_of.iter().filter_map(Value::as_str).filter(|name| !name.is_empty()).collect();
        let written = value.as_str().unwrap_or_default();
        let open = self.subject.showing == Showing::Everything;
        let near = if self.report.is_short() { nearest(written, names.iter().copied()) } else { None };
        let hint = match near {
            Some(name) if open => format!("did you mean {name}?"),
            _ if names.len() <= 8 => format!("one of {}", names.join(", ")),
            _ => format!("one of {}, …", names[..8].join(", ")),
        };
        let message = format!("{} has a value that it can't have", self.path);
        self.complain(at, key, message, Some(hint));
    }

    fn wrong_value(&mut self, at: At<'p>, key: Span, wrong: values::Wrong) {
        let message = match self.path.depth() {
            0 => format!("an object must be {}, not {}", wrong.expected, wrong.found),
            _ => format!("{} must be {}, not {}", self.path, wrong.expected, wrong.found),
        };
        let hint = wrong.hint.filter(|_| self.subject.showing == Showing::Everything);
        self.complain(at, key, message, hint.or(wrong.general_hint));
    }

    fn complain(&mut self, at: At<'p>, key: Span, message: String, hint: Option<String>) {
        // A value that may be secret is not shown, its key is.
        let open = self.subject.showing == Showing::Everything;
        let words = if open { Words::at_value(at.span(), message) } else { Words::at_key(key, message) };
        self.report.add(self.subject, words.maybe_hint(hint));
    }

    fn unknown(&mut self, child: Child<'p>, inner: &'p Struct) {
        let message = match self.path.depth() {
            0 => format!("there is no field {}", self.subject.name(child.name)),
            _ => format!("there is no field {} in {}", self.subject.name(child.name), self.path),
        };
        let words = Words::at_key(child.key, message).maybe_hint(self.meant(child.name, inner));
        self.report.add(self.subject, words);
    }

    /// Returns the likely meaning of an unknown field: one with nearly the same name, or one of the same name
    /// elsewhere.
    fn meant(&self, name: &str, inner: &Struct) -> Option<String> {
        if !self.report.is_short() {
            return None;
        }
        let below = || meant::below(name, inner).map(|path| format!("it belongs into {path}"));
        let mut outer = self.ancestors.iter().rev().skip(1).enumerate();
        let outer =
            outer.find(|(_, (outer, _))| outer.fields.contains_key(name)).map(|(levels, (_, depth))| (levels, *depth));
        match (nearest(name, inner.fields.keys().map(String::as_str)), outer) {
            (Some(near), _) => Some(format!("did you mean {near}?")),
            (None, Some((0, _))) => Some(format!("it belongs one level up, beside {}", self.path.last_field())),
            (None, Some((_, 0))) => Some("it belongs to the object itself".to_owned()),
            (None, Some((_, depth))) => Some(format!("it belongs into {}", self.path.prefix(depth))),
            (None, None) => below(),
        }
    }
}
