//! Label selectors.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::error::Error;

/// A label selector that has been read. One without any requirement selects everything, [`Selector::nothing`] nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Option<Vec<Requirement>>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    label: String,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Test {
    In(BTreeSet<String>),
    NotIn(BTreeSet<String>),
    Exists,
    DoesNotExist,
}

impl Selector {
    /// Selects nothing.
    pub const fn nothing() -> Selector {
        Selector(None)
    }

    /// Selects objects with all of these labels.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Selector {
        let one = |(label, value): (&String, &String)| Requirement {
            label: label.clone(),
            test: Test::In(BTreeSet::from([value.clone()])),
        };
        Selector(Some(labels.iter().map(one).collect()))
    }

    /// Reads a selector.
    ///
    /// # Errors
    /// An operator that Kubernetes does not have.
    pub fn read(selector: &LabelSelector) -> Result<Selector, Error> {
        let labels = selector.match_labels.as_ref().map(Selector::of_labels);
        let mut requirements = labels.and_then(|labels| labels.0).unwrap_or_default();
        for expression in selector.match_expressions.iter().flatten() {
            let values = || expression.values.iter().flatten().cloned().collect();
            let test = match expression.operator.as_str() {
                "In" => Test::In(values()),
                "NotIn" => Test::NotIn(values()),
                "Exists" => Test::Exists,
                "DoesNotExist" => Test::DoesNotExist,
                other => {
                    let why = format!("\"{other}\" is not an operator");
                    return Err(Error::Unusable { what: "a label selector".to_owned(), why });
                }
            };
            requirements.push(Requirement { label: expression.key.clone(), test });
        }
        Ok(Selector(Some(requirements)))
    }

    /// Returns a label that everything has which is selected, if there is one that can be named.
    pub fn needed_label(&self) -> Option<(String, String)> {
        self.0.iter().flatten().find_map(|requirement| match &requirement.test {
            Test::In(values) if values.len() == 1 => {
                values.first().map(|value| (requirement.label.clone(), value.clone()))
            }
            _ => None,
        })
    }

    /// Returns true when the selector has no requirement, so that it selects everything.
    pub fn is_everything(&self) -> bool {
        self.0.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns true when something with these labels is selected.
    pub fn matches(&self, labels: Option<&BTreeMap<String, String>>) -> bool {
        #[cfg(test)]
        crate::growth::count(crate::growth::Counted::Matched);
        let Some(requirements) = &self.0 else { return false };
        requirements.iter().all(|requirement| {
            let value = labels.and_then(|labels| labels.get(&requirement.label));
            match &requirement.test {
                Test::In(values) => value.is_some_and(|value| values.contains(value)),
                Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
                Test::Exists => value.is_some(),
                Test::DoesNotExist => value.is_none(),
            }
        })
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
