//! The label selectors of objects, as controllers read them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector as Written;
use kube_rules::LabelSelector;
use serde_json::json;

use super::error::Error;

/// A label selector that has been read. One without any requirement selects everything, [`Selector::nothing`] nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Option<LabelSelector>);

impl Selector {
    /// Selects nothing.
    pub const fn nothing() -> Selector {
        Selector(None)
    }

    /// Selects objects with all of these labels.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Selector {
        Selector(Some(LabelSelector::from_labels(&json!(labels))))
    }

    /// Reads a selector.
    ///
    /// # Errors
    /// An operator that Kubernetes does not have.
    pub fn read(selector: &Written) -> Result<Selector, Error> {
        let read = LabelSelector::from_object(&json!(selector)).ok_or_else(|| {
            let why = "an expression has an operator that Kubernetes does not have".to_owned();
            Error::Unusable { what: "a label selector".to_owned(), why }
        })?;
        Ok(Selector(Some(read)))
    }

    /// Returns a label that everything has which is selected, if there is one that can be named.
    pub fn needed_label(&self) -> Option<(String, String)> {
        let (label, value) = self.0.as_ref()?.needed_label()?;
        Some((label.to_owned(), value.to_owned()))
    }

    /// Returns true when the selector has no requirement, so that it selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(LabelSelector::is_empty)
    }

    /// Returns true when something with these labels is selected.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        #[cfg(test)]
        crate::work_count::count(crate::work_count::Counted::Matched);
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
        self.0.as_ref().is_some_and(|selector| selector.matches(label))
    }
}

#[cfg(test)]
mod tests {
    use super::Selector;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
    use std::collections::BTreeMap;

    #[test]
    fn requirements_all_have_to_hold() {
        let expression = |operator: &str, values: &[&str]| {
            let requirement = LabelSelectorRequirement {
                key: "tier".to_owned(),
                operator: operator.to_owned(),
                values: (!values.is_empty()).then(|| values.iter().map(|&value| value.to_owned()).collect()),
            };
            let selector = LabelSelector {
                match_labels: Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])),
                match_expressions: Some(vec![requirement]),
            };
            Selector::read(&selector).unwrap()
        };
        let web = BTreeMap::from([("app".to_owned(), "web".to_owned())]);
        let mut front = web.clone();
        front.insert("tier".to_owned(), "front".to_owned());
        for (selector, without, with) in [
            (expression("In", &["front", "back"]), false, true),
            (expression("NotIn", &["front"]), true, false),
            (expression("Exists", &[]), false, true),
            (expression("DoesNotExist", &[]), true, false),
        ] {
            assert_eq!((selector.matches(Some(&web)), selector.matches(Some(&front))), (without, with), "{selector:?}");
            assert!(!selector.matches(None));
        }
        assert!(Selector::read(&LabelSelector::default()).unwrap().matches(None));
        assert!(!Selector::nothing().matches(Some(&web)));
    }
}
