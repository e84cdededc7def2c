//! Checks that a value fits its schema: every complaint, in the real server's words.

use serde_json::Value;

use super::super::words::{quote, quoted_list};
use super::schema::{Others, Schema};
use super::walk::CustomWalk;
use super::{formats, numbers, types};
use crate::api_error::Cause;

/// Returns everything that is wrong. `field` is where the value is (empty for a whole object). A fault that was in
/// `old`, too, may stay.
pub fn check(value: &Value, old: Option<&Value>, schema: &Schema, field: &str) -> Vec<Cause> {
    let mut walk = CustomWalk { field, path: String::new(), causes: Vec::new() };
    walk.value(value, old, schema);
    walk.causes
}

impl CustomWalk<'_> {
    fn value(&mut self, value: &Value, old: Option<&Value>, schema: &Schema) {
        if old == Some(value) || (value.is_null() && schema.nullable) {
            return;
        }
        if let Some((shown, wanted)) = types::misfit(value, schema) {
            self.wrong_type(shown, &wanted);
        }
        self.combinations(value, old, schema);
        let limits = &schema.limits;
        match value {
            Value::String(text) => {
                self.text(text, schema);
                if let Some(format) = &limits.format
                    && !formats::is_of(format, text)
                {
                    self.wrong_type(text, format);
                }
            }
            Value::Number(number) => numbers::check(self, number, schema),
            Value::Array(items) => self.items(items, old, schema),
            _ => {}
        }
        if !limits.one_of.is_empty() && !limits.one_of.contains(value) {
            let allowed: Vec<String> =
                limits.one_of.iter().map(|one| one.as_str().map_or_else(|| one.to_string(), str::to_owned)).collect();
            let allowed = quoted_list(allowed.iter().map(String::as_str));
            let message = format!("Unsupported value: {}: supported values: {allowed}", shown(value));
            self.say("FieldValueNotSupported", message);
        }
        if let Value::Object(_) = value {
            self.fields(value, old, schema);
        }
    }

    fn text(&mut self, text: &str, schema: &Schema) {
        let limits = &schema.limits;
        let length = text.chars().count() as u64;
        if let Some(most) = limits.length.most.filter(|most| length > *most) {
            let bytes = if most == 1 { "byte" } else { "bytes" };
            self.say("FieldValueTooLong", format!("Too long: may not be more than {most} {bytes}"));
        } else if let Some(least) = limits.length.least.filter(|least| length < *least) {
            self.invalid(&quote(text), &format!("should be at least {least} chars long"));
        } else if let Some((pattern, Some(regex))) = &limits.pattern
            && !regex.is_match(text)
        {
            self.invalid(&quote(text), &format!("should match '{pattern}'"));
        }
    }

    fn items(&mut self, items: &[Value], old: Option<&Value>, schema: &Schema) {
        if let Some(inner) = &schema.items {
            let length = self.path.len();
            for (index, item) in items.iter().enumerate() {
                self.path.push_str(&format!("[{index}]"));
                self.value(item, same_item(item, old, schema), inner);
                self.path.truncate(length);
            }
        }
        let (limits, count) = (&schema.limits, items.len() as u64);
        if let Some(least) = limits.items.least.filter(|least| count < *least) {
            self.invalid(&count.to_string(), &format!("should have at least {least} items"));
        }
        if let Some(most) = limits.items.most.filter(|most| count > *most) {
            self.too_many(count, most);
        }
        let twice = |(index, item): (usize, &Value)| items[..index].contains(item);
        if limits.unique && items.iter().enumerate().any(twice) {
            self.invalid("\"\"", "shouldn't contain duplicates");
        }
    }

    fn fields(&mut self, value: &Value, old: Option<&Value>, schema: &Schema) {
        let Value::Object(entries) = value else { return };
        let (limits, count) = (&schema.limits, entries.len() as u64);
        if let Some(least) = limits.fields.least.filter(|least| count < *least) {
            return self.invalid(&count.to_string(), &format!("should have at least {least} properties"));
        }
        if let Some(most) = limits.fields.most.filter(|most| count > *most) {
            return self.too_many(count, most);
        }
        let length = self.path.len();
        for name in limits.required.iter().filter(|name| !entries.contains_key(*name)) {
            self.enter(name);
            self.say("FieldValueRequired", "Required value".to_owned());
            self.path.truncate(length);
        }
        for (name, value) in entries {
            let inner = match (schema.fields.get(name), &schema.others) {
                (Some(inner), _) => {
                    self.enter(name);
                    inner
                }
                (None, Others::Of(inner)) => {
                    // The real server puts the dot even if nothing is before it.
                    self.path.push('.');
                    self.path.push_str(name);
                    inner
                }
                (None, _) => continue,
            };
            self.value(value, old.and_then(|old| old.get(name)), inner);
            self.path.truncate(length);
        }
    }

    /// Returns the complaints of a part of a schema about a value.
    fn part(&self, value: &Value, old: Option<&Value>, schema: &Schema) -> Vec<Cause> {
        let mut walk = CustomWalk { field: self.field, path: self.path.clone(), causes: Vec::new() };
        walk.value(value, old, schema);
        walk.causes
    }

    fn combinations(&mut self, value: &Value, old: Option<&Value>, schema: &Schema) {
        let limits = &schema.limits;
        let path = quote(&self.path);
        if !limits.any_of.is_empty() {
            let parts: Vec<_> = limits.any_of.iter().map(|part| self.part(value, old, part)).collect();
            if parts.iter().all(|part| !part.is_empty()) {
                self.placeless(&format!("{path} must validate at least one schema (anyOf)"));
                self.causes.extend(parts.into_iter().next().unwrap_or_default());
            }
        }
        if !limits.one_schema_of.is_empty() {
            let parts: Vec<_> = limits.one_schema_of.iter().map(|part| self.part(value, old, part)).collect();
            let found = parts.iter().filter(|part| part.is_empty()).count();
            if found == 0 {
                self.placeless(&format!("{path} must validate one and only one schema (oneOf). Found none valid"));
                self.causes.extend(parts.into_iter().next().unwrap_or_default());
            } else if found > 1 {
                self.placeless(&format!(
                    "{path} must validate one and only one schema (oneOf). Found {found} valid alternatives"
                ));
            }
        }
        if !limits.all_of.is_empty() {
            let parts: Vec<_> = limits.all_of.iter().map(|part| self.part(value, old, part)).collect();
            let held = parts.iter().filter(|part| part.is_empty()).count();
            if held < parts.len() {
                self.causes.extend(parts.into_iter().flatten());
                let none = if held == 0 { ". None validated" } else { "" };
                self.placeless(&format!("{path} must validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = &limits.not
            && self.part(value, old, not).is_empty()
        {
            self.placeless(&format!("{path} must not validate the schema (not)"));
        }
    }
}

/// Returns the item of an older list that an item has come from, if keys identify it.
fn same_item<'a>(item: &Value, old: Option<&'a Value>, schema: &Schema) -> Option<&'a Value> {
    let Some(kube_facts::ListKind::Map(keys)) = &schema.list else { return None };
    old?.as_array()?.iter().find(|old| keys.iter().all(|key| old.get(key) == item.get(key)))
}

/// Returns a value as errors show it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), quote)
}
