//! A pod template as the API wrote it.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use k8s_openapi::api::core::v1::PodTemplateSpec;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::CanonicalTemplate;
use crate::controllers::error::Error;

/// A pod template as JSON: a tenth of the typed one's memory, and most users only pass it on. Copies share the text and
/// its parsed form.
#[derive(Clone, Debug)]
pub struct Template(Arc<TemplateText>);

#[derive(Debug)]
struct TemplateText {
    text: Box<RawValue>,
    canonical: OnceLock<CanonicalTemplate>,
}

/// A template's labels alone.
#[derive(Deserialize)]
struct LabelsOnly {
    #[serde(default)]
    metadata: MetadataLabels,
}

#[derive(Default, Deserialize)]
struct MetadataLabels {
    labels: Option<BTreeMap<String, String>>,
}

impl Template {
    /// Returns the text of a typed template.
    ///
    /// # Errors
    /// It can't be written as JSON.
    pub fn of(template: &PodTemplateSpec) -> Result<Template, Error> {
        serde_json::value::to_raw_value(template).map(Template::from).map_err(|error| unusable(&error))
    }

    /// Returns the typed template.
    ///
    /// # Errors
    /// The text is no template.
    pub fn read(&self) -> Result<PodTemplateSpec, Error> {
        self.decode()
    }

    /// Returns the labels of its pods.
    ///
    /// # Errors
    /// The text is no template.
    pub fn labels(&self) -> Result<BTreeMap<String, String>, Error> {
        self.decode().map(|only: LabelsOnly| only.metadata.labels.unwrap_or_default())
    }

    /// Returns its meaning; computed once.
    ///
    /// # Errors
    /// The text is no template.
    pub fn canonical(&self) -> Result<&CanonicalTemplate, Error> {
        if let Some(known) = self.0.canonical.get() {
            return Ok(known);
        }
        let canonical = CanonicalTemplate::of(&self.read()?);
        Ok(self.0.canonical.get_or_init(|| canonical))
    }

    /// Becomes a copy of `other` if both have the same text, so that it is kept once.
    pub fn share(&mut self, other: &Template) {
        if self.0.text.get() == other.0.text.get() {
            self.0 = other.0.clone();
        }
    }

    /// Returns true when both are copies of one.
    #[cfg(test)]
    pub fn is_shared_with(&self, other: &Template) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn decode<T: DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(self.0.text.get()).map_err(|error| unusable(&error))
    }
}

fn unusable(error: &serde_json::Error) -> Error {
    Error::Unusable { what: "a pod template".to_owned(), why: error.to_string() }
}

impl From<Box<RawValue>> for Template {
    fn from(text: Box<RawValue>) -> Template {
        Template(Arc::new(TemplateText { text, canonical: OnceLock::new() }))
    }
}

impl Default for Template {
    fn default() -> Template {
        Template::from(RawValue::NULL.to_owned())
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Template, D::Error> {
        Box::<RawValue>::deserialize(deserializer).map(Template::from)
    }
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.text.serialize(serializer)
    }
}
