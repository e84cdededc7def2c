//! Variables of containers, and changes of them.

use std::collections::BTreeMap;

use anyhow::bail;
use serde_json::{Map, Value, json};

use super::containers::Container;
use crate::cli::worktree::edit_op::{Op, key};
use belay_core::manifest::edit::{New, Step};

/// The source of a variable's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum EnvSource {
    /// It is written out.
    Text(String),
    /// `configMapKeyRef` or `secretKeyRef`: of that object, that key.
    Reference { field: &'static str, name: String, key: String },
}

/// The changes of variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variables {
    pub set: BTreeMap<String, EnvSource>,
    /// The names in the order in which they were said.
    pub order: Vec<String>,
    pub remove: Vec<String>,
    pub overwrite: bool,
    /// The pattern for containers.
    pub containers: String,
}

impl Variables {
    /// Sets one.
    pub(super) fn set(&mut self, name: &str, source: EnvSource) -> anyhow::Result<()> {
        named(name)?;
        if self.set.insert(name.to_owned(), source).is_none() {
            self.order.push(name.to_owned());
        }
        Ok(())
    }

    fn in_order(&self) -> impl Iterator<Item = (&String, &EnvSource)> {
        self.order.iter().filter_map(|name| self.set.get_key_value(name))
    }

    pub(super) fn of_container(&self, container: &Container<'_>, ops: &mut Vec<Op>) -> anyhow::Result<()> {
        let env = container.value["env"].as_array().map(Vec::as_slice).unwrap_or_default();
        let list = [container.path.clone(), vec![key("env")]].concat();
        let index = |name: &str| env.iter().rposition(|there| there["name"] == name);
        let mut new = Vec::new();
        for (name, source) in self.in_order() {
            match index(name) {
                Some(at) => {
                    let path = [list.clone(), vec![Step::Item(at)]].concat();
                    self.change(&env[at], path, name, source, ops)?;
                }
                None => new.push(source.item(name)),
            }
        }
        if container.value.get("env").is_none() {
            if !new.is_empty() {
                ops.push(Op::AddEntry(container.path.clone(), "env".to_owned(), New::List(new)));
            }
        } else {
            ops.extend(new.into_iter().map(|item| Op::AddItem(list.clone(), item)));
        }
        let mut gone: Vec<usize> =
            (0..env.len()).filter(|at| self.remove.iter().any(|name| env[*at]["name"] == name.as_str())).collect();
        gone.sort_unstable();
        ops.extend(gone.into_iter().rev().map(|at| Op::RemoveItem(list.clone(), at)));
        Ok(())
    }

    /// Returns a variable that is there already.
    fn change(
        &self,
        before: &Value,
        path: Vec<Step>,
        name: &str,
        source: &EnvSource,
        ops: &mut Vec<Op>,
    ) -> anyhow::Result<()> {
        self.may_overwrite(name)?;
        if source.is(before) {
            return Ok(());
        }
        match source {
            EnvSource::Text(text) => {
                let new = New::Text(text.clone());
                match before.get("value") {
                    Some(_) => ops.push(Op::Set([path.clone(), vec![key("value")]].concat(), new)),
                    None => ops.push(Op::AddEntry(path.clone(), "value".to_owned(), new)),
                }
                if before.get("valueFrom").is_some() {
                    ops.push(Op::RemoveEntry(path, "valueFrom".to_owned()));
                }
            }
            EnvSource::Reference { .. } => {
                for field in ["valueFrom", "value"] {
                    if before.get(field).is_some() {
                        ops.push(Op::RemoveEntry(path.clone(), field.to_owned()));
                    }
                }
                ops.push(Op::AddEntry(path, "valueFrom".to_owned(), source.value_from()));
            }
        }
        Ok(())
    }

    /// Returns the changes of a container; `None` if there are none.
    pub(super) fn patch_of_one(&self, container: &Container<'_>) -> anyhow::Result<Option<Map<String, Value>>> {
        let env = container.value["env"].as_array().map(Vec::as_slice).unwrap_or_default();
        let there = |name: &String| env.iter().rev().find(|there| there["name"] == name.as_str());
        let mut changes = Vec::new();
        for (name, source) in self.in_order() {
            match there(name) {
                Some(before) => {
                    self.may_overwrite(name)?;
                    if !source.is(before) {
                        changes.push(source.patch(name));
                    }
                }
                // There is nothing to be replaced, and not every API server takes that for a new one.
                None => changes.push(source.item(name).to_value()),
            }
        }
        let gone = self.remove.iter().filter(|name| there(name).is_some());
        changes.extend(gone.map(|name| json!({"name": name, "$patch": "delete"})));
        if changes.is_empty() {
            return Ok(None);
        }
        let stay = env
            .iter()
            .filter_map(|there| there["name"].as_str())
            .filter(|name| !self.remove.iter().any(|gone| gone == name));
        let new = self.order.iter().filter(|name| there(name).is_none()).map(String::as_str);
        let order: Vec<Value> = stay.chain(new).map(|name| json!({ "name": name })).collect();
        Ok(Some(Map::from_iter([
            ("env".to_owned(), Value::from(changes)),
            ("$setElementOrder/env".to_owned(), Value::from(order)),
        ])))
    }

    fn may_overwrite(&self, name: &str) -> anyhow::Result<()> {
        if self.overwrite { Ok(()) } else { bail!("'{name}' already has a value, and --overwrite is false") }
    }
}

impl EnvSource {
    fn value_from(&self) -> New {
        match self {
            EnvSource::Text(text) => New::Text(text.clone()),
            EnvSource::Reference { field, name, key } => {
                let entries =
                    vec![("name".to_owned(), New::Text(name.clone())), ("key".to_owned(), New::Text(key.clone()))];
                New::Mapping(vec![((*field).to_owned(), New::Mapping(entries))])
            }
        }
    }

    fn item(&self, name: &str) -> New {
        let field = if matches!(self, EnvSource::Text(_)) { "value" } else { "valueFrom" };
        New::Mapping(vec![("name".to_owned(), New::Text(name.to_owned())), (field.to_owned(), self.value_from())])
    }

    fn is(&self, variable: &Value) -> bool {
        match self {
            EnvSource::Text(text) => variable["value"] == text.as_str() && variable.get("valueFrom").is_none(),
            EnvSource::Reference { .. } => {
                variable["valueFrom"] == self.value_from().to_value() && variable.get("value").is_none()
            }
        }
    }

    /// Replaces the present value.
    fn patch(&self, name: &str) -> Value {
        match self {
            EnvSource::Text(text) => json!({"name": name, "value": text, "valueFrom": null}),
            // Whatever else it was.
            EnvSource::Reference { .. } => {
                let mut from = self.value_from().to_value();
                from["$patch"] = json!("replace");
                json!({"name": name, "value": null, "valueFrom": from})
            }
        }
    }
}

/// Refuses a name that no variable can have.
pub(super) fn named(name: &str) -> anyhow::Result<()> {
    let begins = name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    let fine = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    if begins && fine {
        Ok(())
    } else {
        bail!("{name:?} can't be the name of a variable: letters, digits, _, - and ., and no digit first")
    }
}
