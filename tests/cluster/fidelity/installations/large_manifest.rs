//! One file of 2 MB, as continuous-delivery tools and operators publish: definitions whose schemas are long, roles, an
//! aggregated role, configuration, a Secret in `stringData`, and a few workloads.

use std::fmt::Write as _;

use crate::support::daemon::World;

const DEFINITIONS: usize = 9;
const FIELDS: usize = 620;
const WORKLOADS: [&str; 5] = ["server", "controller", "repo", "cache", "notifications"];

pub fn write(world: &mut World) {
    let file = file();
    assert!((1_900_000..2_600_000).contains(&file.len()), "{} bytes", file.len());
    world.repository.write("manifests/install.yaml", file);
}

fn file() -> String {
    let mut file = "apiVersion: v1\nkind: Namespace\nmetadata: {name: delivery}\n".to_owned();
    for number in 0..DEFINITIONS {
        file += &definition(number);
    }
    file += ROLES;
    for name in WORKLOADS {
        file += &account(name);
        file += &workload(name);
    }
    for number in 0..20 {
        let _ = write!(
            file,
            "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings-{number}, namespace: delivery}}\ndata:\n  \
             policy.csv: |\n    g, admins, role:admin\n    p, role:{number}, get, /*\n"
        );
    }
    file
}

/// Returns a definition with a schema of some 220 KB, in two versions.
fn definition(number: usize) -> String {
    let mut fields = String::new();
    for field in 0..FIELDS {
        let _ = write!(
            fields,
            "              field{field}:\n                description: |-\n                  The value of field {field} of thing \
             {number}. It holds what the controller asks for when the\n                  thing is made, and it is left as it is \
             afterwards, so that a later version can take it up again.\n                properties:\n                  name: \
             {{type: string, maxLength: 253}}\n                  count: {{type: integer, format: int64, minimum: 0}}\n                \
             type: object\n"
        );
    }
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  annotations: \
         {{controller-gen.kubebuilder.io/version: v0.16.1}}\n  creationTimestamp: null\n  name: things{number}.delivery.example.com\nspec:\n  \
         group: delivery.example.com\n  names: {{kind: Thing{number}, listKind: Thing{number}List, plural: things{number}, singular: \
         thing{number}}}\n  scope: Namespaced\n  preserveUnknownFields: false\n  versions:\n  - name: v1alpha1\n    served: true\n    \
         storage: true\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            \
         type: object\n            properties:\n{fields}    subresources: {{status: {{}}}}\n"
    )
}

const ROLES: &str = "\
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: delivery-aggregate
aggregationRule:
  clusterRoleSelectors:
  - matchLabels: {delivery.example.com/aggregate: \"true\"}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: delivery-view
  namespace: delivery
  labels: {delivery.example.com/aggregate: \"true\"}
rules:
- {apiGroups: [delivery.example.com], resources: ['*'], verbs: [get, list, watch]}
---
apiVersion: v1
kind: Secret
metadata: {name: delivery-secret, namespace: delivery}
type: Opaque
stringData: {admin.password: not-a-real-one}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: delivery-things}
webhooks:
- name: things.delivery.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig:
    caBundle: ''
    service: {name: server, namespace: delivery, path: /validate}
  rules:
  - {apiGroups: [delivery.example.com], apiVersions: [v1alpha1], operations: [CREATE], resources: [things0]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: delivery, namespace: delivery}
spec:
  podSelector: {}
  policyTypes: [Ingress]
  ingress: [{from: [{namespaceSelector: {}}]}]
";

fn account(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {{name: {name}, namespace: delivery}}\n---\napiVersion: \
         rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{name: {name}, namespace: delivery}}\nrules:\n- {{apiGroups: [''], \
         resources: [secrets, configmaps], verbs: [get, list, watch]}}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: \
         RoleBinding\nmetadata: {{name: {name}, namespace: delivery}}\nroleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, \
         name: {name}}}\nsubjects: [{{kind: ServiceAccount, name: {name}, namespace: delivery}}]\n---\napiVersion: v1\nkind: \
         Service\nmetadata: {{name: {name}, namespace: delivery}}\nspec:\n  ports: [{{name: http, port: 80, protocol: TCP, \
         targetPort: 8080}}]\n  selector: {{app.kubernetes.io/name: {name}}}\n"
    )
}

/// Returns a workload as it is exported: defaults written out, a null, an empty list, odd quantities.
fn workload(name: &str) -> String {
    let kind = if name == "controller" { "StatefulSet" } else { "Deployment" };
    let service = if name == "controller" { "  serviceName: controller\n" } else { "" };
    format!(
        "---\napiVersion: apps/v1\nkind: {kind}\nmetadata:\n  creationTimestamp: null\n  name: {name}\n  namespace: \
         delivery\n  annotations: {{deployment.kubernetes.io/revision: \"1\"}}\nspec:\n{service}  replicas: 1\n  selector: \
         {{matchLabels: {{app.kubernetes.io/name: {name}}}}}\n  template:\n    metadata:\n      creationTimestamp: null\n      labels: \
         {{app.kubernetes.io/name: {name}}}\n    spec:\n      serviceAccountName: {name}\n      initContainers: []\n      containers:\n      \
         - name: {name}\n        image: delivery/{name}:v2.11.0\n        imagePullPolicy: Always\n        ports: [{{containerPort: 8080, \
         protocol: TCP}}]\n        env:\n        - {{name: LEVEL, valueFrom: {{configMapKeyRef: {{name: settings-0, key: policy.csv, \
         optional: true}}}}}}\n        resources: {{requests: {{cpu: 0.1, memory: 64Mi}}, limits: {{cpu: 1000m, memory: \
         0.5Gi}}}}\n        securityContext: {{allowPrivilegeEscalation: false, capabilities: {{drop: [ALL]}}}}\n      volumes: \
         [{{name: tmp, emptyDir: {{}}}}]\nstatus: {{}}\n"
    )
}
