//! A path inside an object: `spec.template.spec.containers[0].image`.

use std::fmt;

use crate::manifest::report::is_name;

/// The way from an object to one of its parts.
#[derive(Clone, Debug, Default)]
pub(in crate::manifest) struct FieldPath<'p> {
    steps: Vec<Step<'p>>,
}

#[derive(Clone, Copy, Debug)]
pub(in crate::manifest) enum Step<'p> {
    Field(&'p str),
    Item(usize),
}

impl<'p> FieldPath<'p> {
    pub(in crate::manifest) fn push(&mut self, step: Step<'p>) {
        self.steps.push(step);
    }

    pub(in crate::manifest) fn pop(&mut self) {
        self.steps.pop();
    }

    pub(in crate::manifest) fn depth(&self) -> usize {
        self.steps.len()
    }

    /// Returns the first steps of it.
    pub(in crate::manifest) fn prefix(&self, depth: usize) -> FieldPath<'p> {
        FieldPath { steps: self.steps[..depth.min(self.steps.len())].to_vec() }
    }

    /// Returns the last field on the way; for an item, the field of its list.
    pub(in crate::manifest) fn last_field(&self) -> &'p str {
        let fields = self.steps.iter().rev();
        fields
            .filter_map(|step| if let Step::Field(name) = step { Some(*name) } else { None })
            .next()
            .unwrap_or_default()
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Field(name) => {
                    let name = if is_name(name) { name } else { "***" };
                    write!(f, "{}{name}", if at == 0 { "" } else { "." })?;
                }
                Step::Item(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}
