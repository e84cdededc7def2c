//! One request of a case, and what comes back.

use serde::Deserialize;
use serde_json::Value;

use kube_facts::{Kind, facts};

/// A request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// create, put, apply, merge, strategic, json, delete
    pub r#do: Verb,
    /// The kind: `apps/v1 Deployment`. If it is missing, the body names it.
    pub kind: Option<String>,
    /// The name; if it is missing, the body says it.
    pub name: Option<String>,
    /// The subresource, `status`.
    pub sub: Option<String>,
    /// The field manager.
    #[serde(default = "manager")]
    pub r#as: String,
    /// True when conflicts are overruled.
    #[serde(default)]
    pub force: bool,
    /// True when nothing is stored.
    #[serde(default)]
    pub dry: bool,
    /// Strict, Warn or Ignore.
    #[serde(default = "validation")]
    pub validation: String,
    /// The body.
    #[serde(default)]
    pub body: Value,
    /// The body as text, instead.
    pub text: Option<String>,
    /// True when the text is YAML.
    #[serde(default)]
    pub yaml: bool,
    /// Fields laid over what is stored, to make the body of a `put` (a JSON merge patch).
    pub change: Option<Value>,
}

/// The request.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    /// POST
    Create,
    /// PUT
    Put,
    /// Server-side apply
    Apply,
    /// JSON merge patch
    Merge,
    /// Strategic merge patch
    Strategic,
    /// JSON patch
    Json,
    /// DELETE, with options
    Delete,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// The HTTP code.
    pub code: u16,
    /// The object, or a Status.
    pub body: Value,
    /// Texts of `Warning` headers.
    pub warnings: Vec<String>,
    /// True when a write changed nothing.
    pub unchanged: bool,
}

fn manager() -> String {
    "test".to_owned()
}

fn validation() -> String {
    "Warn".to_owned()
}

impl Step {
    /// Returns the resource that the step is sent to.
    pub fn resource(&self) -> &'static Kind {
        let (api_version, kind) = match &self.kind {
            Some(kind) => kind.split_once(' ').unwrap_or_else(|| panic!("`kind: {kind}` must be `group/version Kind`")),
            None => {
                let text =
                    |name: &str| self.body[name].as_str().unwrap_or_else(|| panic!("{name} is missing: {self:?}"));
                (text("apiVersion"), text("kind"))
            }
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        facts().kind(group, version, kind).unwrap_or_else(|| panic!("no kind {api_version} {kind}"))
    }

    /// Returns the name of the object; empty if there is none.
    pub fn object_name(&self) -> String {
        let own = self.body["metadata"]["name"].as_str();
        self.name.as_deref().or(own).unwrap_or_default().to_owned()
    }

    /// Returns its method and the media type of its body.
    pub fn media(&self) -> (&'static str, &'static str) {
        match self.r#do {
            Verb::Create => ("POST", if self.yaml { "application/yaml" } else { "application/json" }),
            Verb::Put => ("PUT", if self.yaml { "application/yaml" } else { "application/json" }),
            Verb::Apply => ("PATCH", "application/apply-patch+yaml"),
            Verb::Merge => ("PATCH", "application/merge-patch+json"),
            Verb::Strategic => ("PATCH", "application/strategic-merge-patch+json"),
            Verb::Json => ("PATCH", "application/json-patch+json"),
            Verb::Delete => ("DELETE", "application/json"),
        }
    }

    /// Returns its parameters.
    pub fn query(&self) -> String {
        if self.r#do == Verb::Delete {
            return String::new();
        }
        let mut query = format!("fieldManager={}&fieldValidation={}", self.r#as, self.validation);
        if self.dry {
            query.push_str("&dryRun=All");
        }
        if self.force {
            query.push_str("&force=true");
        }
        query
    }

    /// Returns the body as sent. `stored` is what a `change` is laid over.
    pub fn sent(&self, stored: Option<&Value>) -> Vec<u8> {
        if let Some(text) = &self.text {
            return text.clone().into_bytes();
        }
        if let Some(change) = &self.change {
            let mut object = stored.cloned().unwrap_or_default();
            merge(&mut object, change);
            return object.to_string().into_bytes();
        }
        self.body.to_string().into_bytes()
    }
}

/// A JSON merge patch.
fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(serde_json::Map::new());
    }
    for (name, patch) in fields {
        if patch.is_null() {
            value.as_object_mut().unwrap().remove(name);
        } else {
            merge(&mut value[name.as_str()], patch);
        }
    }
}
