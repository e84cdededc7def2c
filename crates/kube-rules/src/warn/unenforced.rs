//! The warnings about fields that are stored and served, but have no effect here.

use serde_json::Value;

use super::super::value_ext::ValueExt;

const RULES: &str = "x-kubernetes-validations";

/// Returns a warning about rules that this server does not enforce.
pub fn warning(key: (&str, &str), object: &Value) -> Option<String> {
    match key {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let spec = &object["spec"];
            let ruled = spec.list("versions").iter().any(|version| has_rules(&version["schema"]));
            if ruled {
                return Some(format!("{RULES}: rules in CEL are stored, but not enforced by this server"));
            }
            let webhook = spec["conversion"].text("strategy") == "Webhook";
            webhook.then(|| "spec.conversion: webhooks are stored, but not called by this server".to_owned())
        }
        (
            "admissionregistration.k8s.io",
            "ValidatingAdmissionPolicy"
            | "ValidatingAdmissionPolicyBinding"
            | "MutatingAdmissionPolicy"
            | "MutatingAdmissionPolicyBinding",
        ) => Some("policies in CEL are stored, but not enforced by this server".to_owned()),
        ("admissionregistration.k8s.io", _) if !object.list("webhooks").is_empty() => {
            Some("webhooks are stored, but not called by this server".to_owned())
        }
        ("apiregistration.k8s.io", "APIService") if object["spec"].has("service") => {
            Some("spec.service is stored, but requests are not passed on by this server".to_owned())
        }
        ("autoscaling", "HorizontalPodAutoscaler") => {
            Some("horizontal pod autoscalers are stored, but nothing is scaled by this server".to_owned())
        }
        _ => None,
    }
}

/// Returns true when there is a rule anywhere in a schema.
fn has_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(fields) => {
            fields.get(RULES).is_some_and(|rules| rules.as_array().is_some_and(|rules| !rules.is_empty()))
                || fields.values().any(has_rules)
        }
        Value::Array(items) => items.iter().any(has_rules),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::warning;

    fn definition(schema: &Value) -> Value {
        json!({ "spec": { "versions": [{ "name": "v1", "schema": { "openAPIV3Schema": schema } }] } })
    }

    #[test]
    fn rules_that_nobody_enforces_are_told() {
        let key = ("apiextensions.k8s.io", "CustomResourceDefinition");
        let rule = json!([{ "rule": "self.a > 1" }]);
        let ruled = json!({ "properties": { "spec": { "x-kubernetes-validations": rule } } });
        assert!(warning(key, &definition(&ruled)).is_some_and(|said| said.contains("not enforced")));
        assert_eq!(warning(key, &definition(&json!({ "type": "object" }))), None);
        let policies = ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy");
        assert!(warning(policies, &json!({})).is_some());
        assert!(warning(("autoscaling", "HorizontalPodAutoscaler"), &json!({})).is_some());
        assert_eq!(warning(("", "Service"), &json!({})), None);
    }
}
