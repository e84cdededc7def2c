//! Priority: a pod's class says how important it is.

use serde_json::{Value, json};

use super::Admission;
use crate::api::ApiError;
use crate::api::json_pointer::text;
use crate::api::store::Scope;

const GROUP: &str = "scheduling.k8s.io";

impl Admission {
    /// Gives a pod the priority of its class, or of the default class.
    pub(super) fn set_priority(&self, pod: &mut Value) -> Result<(), ApiError> {
        let forbid = |pod: &Value, why: &str| Err(ApiError::forbidden("", "pods", text(pod, "/metadata/name"), why));
        let named = text(pod, "/spec/priorityClassName").to_owned();
        let class = if named.is_empty() {
            self.default_class()
        } else {
            match self.store.all(GROUP, "priorityclasses", &Scope::Object(named.clone())).first() {
                Some(class) => Some(class.value()),
                None => return forbid(pod, &format!("no PriorityClass with name {named} was found")),
            }
        };
        let (value, preemption) = match &class {
            Some(class) => (class["value"].as_i64().unwrap_or_default(), text(class, "/preemptionPolicy")),
            None => (0, ""),
        };
        let preemption = if preemption.is_empty() { "PreemptLowerPriority" } else { preemption };
        let given = pod["spec"]["priority"].as_i64();
        if let Some(given) = given.filter(|given| *given != value) {
            let why = format!(
                "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
                 computed {value} from the given PriorityClass name"
            );
            return forbid(pod, &why);
        }
        if let Some(given) = pod["spec"]["preemptionPolicy"].as_str()
            && given != preemption
        {
            let why = format!(
                "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission \
                 controller computed {preemption} from the given PriorityClass name"
            );
            return forbid(pod, &why);
        }
        if let Some(class) = &class {
            pod["spec"]["priorityClassName"] = class["metadata"]["name"].clone();
        }
        pod["spec"]["priority"] = json!(value);
        pod["spec"]["preemptionPolicy"] = json!(preemption);
        Ok(())
    }

    /// Returns the class of pods that name none; the least important one if there are several.
    fn default_class(&self) -> Option<Value> {
        let classes = self.store.all(GROUP, "priorityclasses", &Scope::All);
        let defaults = classes.iter().map(|class| class.value()).filter(|class| class["globalDefault"] == true);
        defaults.min_by_key(|class| class["value"].as_i64().unwrap_or_default())
    }

    /// Refuses a second default class.
    pub(super) fn one_default_priority(&self, class: &Value) -> Result<(), ApiError> {
        if class["globalDefault"] != true {
            return Ok(());
        }
        let Some(other) = self.default_class() else { return Ok(()) };
        let (name, taken) = (text(class, "/metadata/name"), text(&other, "/metadata/name"));
        if name == taken {
            return Ok(());
        }
        let why = format!("PriorityClass {taken} is already marked as default. Only one default can exist");
        Err(ApiError::forbidden(GROUP, "priorityclasses", name, &why))
    }
}
