//! The API server's refusals of a manifest: the embedded cluster's own validation answers, without a cluster.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use kube_rules::{BodyFormat, Custom, Definition, Effect, FieldValidation, Schema, WriteContext, shape};
use serde_json::{Value, json};

use belay_core::manifest::{Complaint, Manifest, ObjectKey, brief, short_keys};
use belay_core::rollout::IgnoredFields;
use kube_facts::facts;

/// The end of warnings about the embedded server itself, which does not implement something. They say nothing about the
/// manifest.
const OF_THIS_SERVER: &str = " by this server";

/// The complaints and warnings about a manifest.
#[derive(Debug, Default)]
pub(super) struct ServerAnswer {
    pub complaints: Vec<Complaint>,
    pub warnings: Vec<Complaint>,
}

/// The checks of an API server on single objects: Kubernetes' own kinds, and those that manifests define.
#[derive(Debug)]
pub(super) struct Server {
    /// By group, version and kind.
    defined: BTreeMap<[String; 3], Definition>,
}

impl Server {
    /// Returns one with the custom kinds that these manifests define.
    pub(super) fn with<'m>(manifests: impl Iterator<Item = &'m Manifest>) -> Server {
        let is_definition =
            |key: &ObjectKey| key.group == "apiextensions.k8s.io" && key.kind == "CustomResourceDefinition";
        let definitions = manifests.filter(|manifest| is_definition(&manifest.key));
        let defined = definitions.flat_map(|definition| defined_by(&definition.value()["spec"]));
        let named = |one: Definition| ([one.group.clone(), one.version.clone(), one.kind.clone()], one);
        Server { defined: defined.map(named).collect() }
    }

    /// Asks of one manifest. Kinds that are not known are left alone: only their cluster knows them.
    pub(super) fn ask(&self, manifest: &Manifest) -> ServerAnswer {
        let ObjectKey { group, kind, .. } = &manifest.key;
        let custom = || self.defined.get(&[group.clone(), manifest.version().to_owned(), kind.clone()]).cloned();
        let Some(definition) = built_in(manifest).or_else(custom) else { return ServerAnswer::default() };
        let write = WriteContext {
            definition: &definition,
            subresource: None,
            manager: "belay",
            now: Timestamp::UNIX_EPOCH,
            // The fields were checked when the manifest was read.
            field_validation: FieldValidation::Ignore,
            effect: Effect::DryRun,
        };
        let object = as_sent(manifest);
        let read = kube_rules::read(&write, object.to_string().as_bytes(), BodyFormat::Json);
        match read.and_then(|read| kube_rules::create(&write, read.object, &|_| Ok(()))) {
            Ok(read) => {
                let warnings = read.warnings.iter().filter(|text| !text.ends_with(OF_THIS_SERVER)).map(|text| {
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
}

/// Returns the kind that a custom resource definition defines, in each of its versions.
fn defined_by(spec: &Value) -> Vec<Definition> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let versions = || spec["versions"].as_array().into_iter().flatten();
    let schema = |version: &Value| Schema::read(&version["schema"]["openAPIV3Schema"]);
    let schemas = versions().map(|version| (text(&version["name"]), schema(version)));
    let schemas: Arc<BTreeMap<String, Schema>> = Arc::new(schemas.collect());
    let definition = |version: &Value| {
        let (read, status) = (schema(version), version["subresources"]["status"].is_object());
        let own = shape(&read);
        let custom = Custom { schema: read.into(), versions: Arc::clone(&schemas), status, scale: None };
        Definition {
            group: text(&spec["group"]),
            version: text(&version["name"]),
            kind: text(&spec["names"]["kind"]),
            resource: text(&spec["names"]["plural"]),
            namespaced: spec["scope"] == "Namespaced",
            schema: own,
            custom: Some(custom),
        }
    };
    versions().map(definition).collect()
}

/// Returns the kind of Kubernetes' own that is served under the manifest's version and kind.
fn built_in(manifest: &Manifest) -> Option<Definition> {
    facts().kind(&manifest.key.group, manifest.version(), &manifest.key.kind).map(Definition::built_in)
}

/// Returns the object with the namespace, UID and creation time that a server sets before it validates.
fn as_sent(manifest: &Manifest) -> Value {
    let mut object = IgnoredFields::default().leave(manifest.value(), None);
    if let Some(namespace) = &manifest.key.namespace {
        object["metadata"]["namespace"] = json!(namespace);
    }
    object["metadata"]["uid"] = json!("00000000-0000-4000-8000-000000000000");
    object["metadata"]["creationTimestamp"] = json!("1970-01-01T00:00:00Z");
    object
}

/// Returns a complaint in the server's words, at the field's place. The message may repeat a value: the complaint about
/// a Secret names only the field, and leaves out a key that may be a value.
fn complaint(manifest: &Manifest, field: &str, message: &str) -> Complaint {
    let (shown, what) = match manifest.key.kind.as_str() {
        "Secret" => (&*short_keys(field), "is not what an API server takes"),
        _ => (field, &*brief(message)),
    };
    let message = if field.is_empty() { what.to_owned() } else { format!("{shown}: {what}") };
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

    /// Returns the complaints about a text: the reader's, and then the server's.
    fn said(text: &str) -> ServerAnswer {
        let file = read_file("web.yaml", text.as_bytes(), &Scopes::new("default"));
        let server = Server::with(file.manifests.iter());
        let mut said = file.manifests.last().map(|manifest| server.ask(manifest)).unwrap_or_default();
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
    fn a_key_of_a_secret_that_may_be_a_value_is_not_shown() {
        let said = said("apiVersion: v1\nkind: Secret\nmetadata: {name: db}\nstringData: {hunter2 oops: x}\n");
        let messages: Vec<&str> = said.complaints.iter().map(|complaint| &*complaint.message).collect();
        assert_eq!(messages, ["data[***]: is not what an API server takes"]);
    }

    const DEFINITION: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: shops, singular: shop, kind: Shop}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              code: {type: string, pattern: '^[a-z]+$', maxLength: 5}
              floors: {type: integer, minimum: 1, maximum: 9}
              rooms: {type: array, maxItems: 2, items: {type: string}}
            x-kubernetes-validations: [{rule: 'self.floors < 8'}]
";

    #[test]
    fn patterns_and_bounds_of_a_definition_count() {
        let shop = |spec: &str| {
            let shop = format!("apiVersion: example.com/v1\nkind: Shop\nmetadata: {{name: a}}\nspec:\n  {spec}\n");
            let file = read_file("d.yaml", DEFINITION.as_bytes(), &Scopes::new("default"));
            let mut scopes = Scopes::new("default");
            file.definitions.iter().for_each(|definition| scopes.define(definition.clone()));
            let read = read_file("shop.yaml", shop.as_bytes(), &scopes);
            assert_eq!(read.complaints, [], "{spec}");
            let said = Server::with(file.manifests.iter()).ask(&read.manifests[0]);
            said.complaints.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        for fine in ["code: abc", "floors: 9", "rooms: [a, b]"] {
            assert_eq!(shop(fine), [""; 0], "{fine}");
        }
        for (wrong, said) in [
            ("code: A1", "should match"),
            ("code: abcdef", "may not be more than 5"),
            ("floors: 0", "greater than or equal to 1"),
            ("floors: 10", "less than or equal to 9"),
            ("rooms: [a, b, c]", "at most 2"),
        ] {
            let complaints = shop(wrong);
            assert!(complaints.len() == 1 && complaints[0].starts_with("shop.yaml:5:3:"), "{wrong}: {complaints:?}");
            assert!(complaints[0].contains(said), "{wrong}: {complaints:?}");
        }
        assert!(said(DEFINITION).warnings.is_empty() && said(DEFINITION).complaints.is_empty());
    }

    #[test]
    fn nothing_is_said_of_the_embedded_server() {
        for text in [
            "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web}\nspec: {maxReplicas: 3, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}}\n",
            "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {name: v1.example.com}\nspec: {group: example.com, version: v1, groupPriorityMinimum: 100, versionPriority: 1, service: {name: a, namespace: b}}\n",
            "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: a}\nwebhooks: [{name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: 'https://example.com'}}]\n",
        ] {
            let said = said(text);
            assert!(said.complaints.is_empty() && said.warnings.is_empty(), "{said:?}");
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
