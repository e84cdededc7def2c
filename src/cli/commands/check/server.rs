//! What an API server would refuse of a manifest: the embedded cluster's own validation is asked, without a cluster.

use jiff::Timestamp;
use minicluster::api::object::{self, BodyFormat, Definition, Effect, FieldValidation, WriteContext};
use serde_json::{Value, json};

use belay_core::manifest::{Complaint, Manifest};
use belay_core::rollout::IgnoredFields;
use kube_facts::{Type, facts};

/// What is wrong with a manifest, and what is doubtful.
#[derive(Debug, Default)]
pub(super) struct ServerAnswer {
    pub complaints: Vec<Complaint>,
    pub warnings: Vec<Complaint>,
}

/// Asks of one manifest. Kinds that are not built in are left alone: only their cluster knows them.
pub(super) fn ask(manifest: &Manifest) -> ServerAnswer {
    let Some(definition) = definition(manifest) else { return ServerAnswer::default() };
    let write = WriteContext {
        definition: &definition,
        subresource: None,
        manager: "belay",
        now: Timestamp::UNIX_EPOCH,
        // Which fields there are was looked at when the manifest was read.
        field_validation: FieldValidation::Ignore,
        effect: Effect::DryRun,
    };
    let object = as_sent(manifest);
    let read = object::read(&write, object.to_string().as_bytes(), BodyFormat::Json);
    match read.and_then(|read| object::create(&write, read.object, &|_| Ok(()))) {
        Ok(read) => {
            let warnings = read.warnings.iter().map(|text| {
                let (field, message) = text.split_once(": ").unwrap_or(("", text));
                complaint(manifest, field, message)
            });
            ServerAnswer { complaints: Vec::new(), warnings: warnings.collect() }
        }
        Err(refused) if refused.causes.is_empty() => {
            ServerAnswer { complaints: vec![complaint(manifest, "", &refused.message)], warnings: Vec::new() }
        }
        Err(refused) => {
            let causes = refused.causes.iter();
            let complaints =
                causes.map(|cause| complaint(manifest, cause.field.as_deref().unwrap_or_default(), &cause.message));
            ServerAnswer { complaints: complaints.collect(), warnings: Vec::new() }
        }
    }
}

/// What is served under the manifest's version and kind.
fn definition(manifest: &Manifest) -> Option<Definition> {
    let kind = facts().kind(&manifest.key.group, manifest.version(), &manifest.key.kind)?;
    let schema = facts().type_name(&kind.group, &kind.version, &kind.kind).map_or(Type::Any, Type::named);
    Some(Definition {
        group: kind.group.clone(),
        version: kind.version.clone(),
        kind: kind.kind.clone(),
        resource: kind.resource.clone(),
        namespaced: kind.namespaced,
        schema,
        custom: None,
    })
}

/// The object with what a server adds before it looks.
fn as_sent(manifest: &Manifest) -> Value {
    let mut object = IgnoredFields::default().leave(manifest.value(), None);
    if let Some(namespace) = &manifest.key.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
    object
}

/// In the server's words, at the field's place. The words may repeat a value; of a Secret only the field is told.
fn complaint(manifest: &Manifest, field: &str, message: &str) -> Complaint {
    let what = match manifest.key.kind.as_str() {
        "Secret" => "is not what an API server takes",
        _ => message,
    };
    let message = if field.is_empty() { what.to_owned() } else { format!("{field}: {what}") };
    let place = if field.is_empty() { manifest.place.clone() } else { manifest.place_of(field) };
    Complaint { place, object: Some(manifest.key.clone()), message, hint: None, excerpt: None, also: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use belay_core::manifest::{Scopes, read_file};

    const DEPLOYMENT: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - name: app
        image: web:1
";

    /// What is said of a text: by whoever reads it, and then by the server.
    fn said(text: &str) -> ServerAnswer {
        let file = read_file("web.yaml", text.as_bytes(), &Scopes::new("default"));
        let mut said = file.manifests.first().map(ask).unwrap_or_default();
        said.complaints.extend(file.complaints);
        said
    }

    #[test]
    fn what_can_be_known_without_a_cluster_is_told_at_its_place() {
        assert!(said(DEPLOYMENT).complaints.is_empty() && said(DEPLOYMENT).warnings.is_empty());
        let spec = |more: &str| DEPLOYMENT.replace("spec:\n  selector", &format!("spec:\n{more}  selector"));
        let pod = |more: &str| format!("{DEPLOYMENT}{more}");
        let cases = [
            (spec("  minReadySeconds: 60\n  progressDeadlineSeconds: 60\n"), 7, "must be greater than minReadySeconds"),
            (
                spec("  strategy:\n    rollingUpdate: {maxSurge: 0, maxUnavailable: 0}\n"),
                7,
                "may not be 0 when `maxSurge` is 0",
            ),
            (
                spec("  strategy:\n    type: Recreate\n    rollingUpdate: {maxSurge: 1}\n"),
                8,
                "when strategy `type` is 'Recreate'",
            ),
            (spec("  strategy:\n    rollingUpdate: {maxSurge: \"1\"}\n"), 7, "percent"),
            (
                DEPLOYMENT.replace("labels: {app: web}", "labels: {app: wep}"),
                6,
                "the selector does not match the labels",
            ),
            (pod("        ports: [{containerPort: 80000}]\n"), 14, "must be between 1 and 65535"),
            (pod("        ports: [{containerPort: 80, name: Much_Too_Odd}]\n"), 14, "alpha-numeric"),
            (pod("        volumeMounts: [{name: data, mountPath: /data}]\n"), 14, "there is no volume data"),
            (pod("      volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]\n"), 14, "has the same name"),
            (DEPLOYMENT.replace("name: web", "name: We_b"), 4, "lower case letters"),
        ];
        for (text, line, words) in cases {
            let said = said(&text);
            let Some(first) = said.complaints.first() else { panic!("nothing is said of\n{text}") };
            assert!(first.message.contains(words), "{first} in\n{text}");
            assert_eq!(first.place.line, line, "{first} in\n{text}");
        }
    }

    #[test]
    fn the_values_of_a_secret_are_not_told() {
        let text = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: keys\ntype: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: hunter2\n";
        let said = said(text);
        assert!(!said.complaints.is_empty());
        assert!(!format!("{said:?}").contains("hunter2"), "{said:?}");
    }
}
