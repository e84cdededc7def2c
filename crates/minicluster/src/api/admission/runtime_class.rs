//! The runtime of a pod's containers: the overhead of its RuntimeClass, and the nodes for it.

use serde_json::{Value, json};

use super::Admission;
use crate::api::ApiError;
use crate::api::json_pointer::text;
use crate::api::store::Scope;

impl Admission {
    /// Returns the RuntimeClass that a pod names.
    ///
    /// # Errors
    /// 403 if there is none of that name, 500 for a name that the real server could not even ask for.
    fn runtime_class(&self, pod: &Value) -> Result<Option<Value>, ApiError> {
        let Some(name) = pod["spec"]["runtimeClassName"].as_str() else { return Ok(None) };
        if name.is_empty() {
            return Err(ApiError::new(500, "", "resource name may not be empty"));
        }
        let problems = kube_rules::path_segment_problems(name);
        if !problems.is_empty() {
            return Err(ApiError::new(500, "", format!("invalid resource name {name:?}: [{}]", problems.join(" "))));
        }
        match self.store.all("node.k8s.io", "runtimeclasses", &Scope::Object(name.to_owned())).first() {
            Some(class) => Ok(Some(class.value())),
            None => Err(reject(pod, &format!("RuntimeClass {name:?} not found"))),
        }
    }

    /// Sets a pod's overhead, node selector and tolerations from its RuntimeClass.
    pub(super) fn set_runtime_class(&self, pod: &mut Value) -> Result<(), ApiError> {
        let Some(class) = self.runtime_class(pod)? else { return Ok(()) };
        let overhead = &class["overhead"]["podFixed"];
        if overhead.is_object() {
            match &pod["spec"]["overhead"] {
                Value::Null => pod["spec"]["overhead"] = overhead.clone(),
                given if given == overhead => {}
                _ => return Err(reject(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead")),
            }
        }
        for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
            match pod["spec"]["nodeSelector"].get(key) {
                Some(given) if given != value => {
                    let why = "conflict: runtimeClass.scheduling.nodeSelector and pod.spec.nodeSelector";
                    let detail = format!(
                        "{why}: key {key}, runtimeClass value: {}, pod value: {}",
                        value.as_str().unwrap_or_default(),
                        given.as_str().unwrap_or_default()
                    );
                    return Err(reject(pod, &detail));
                }
                _ => pod["spec"]["nodeSelector"][key] = value.clone(),
            }
        }
        let more = class["scheduling"]["tolerations"].as_array().cloned().unwrap_or_default();
        for toleration in more {
            let known = pod["spec"]["tolerations"].as_array().is_some_and(|known| known.contains(&toleration));
            if known {
                continue;
            }
            match pod["spec"].get_mut("tolerations").and_then(Value::as_array_mut) {
                Some(list) => list.push(toleration),
                None => pod["spec"]["tolerations"] = json!([toleration]),
            }
        }
        Ok(())
    }

    /// Refuses a pod that sets an overhead itself.
    pub(super) fn check_overhead(&self, pod: &Value) -> Result<(), ApiError> {
        let class = self.runtime_class(pod)?.unwrap_or_default();
        let (given, defined) = (&pod["spec"]["overhead"], &class["overhead"]["podFixed"]);
        match (given.is_null(), defined.is_null()) {
            (false, true) => Err(reject(pod, "Pod Overhead set without corresponding RuntimeClass defined Overhead")),
            (_, false) if given != defined => {
                Err(reject(pod, "Pod's Overhead doesn't match RuntimeClass's defined Overhead"))
            }
            _ => Ok(()),
        }
    }
}

fn reject(pod: &Value, why: &str) -> ApiError {
    ApiError::forbidden("", "pods", text(pod, "/metadata/name"), &format!("pod rejected: {why}"))
}
