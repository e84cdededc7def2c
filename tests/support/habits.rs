//! Twenty repositories, each with a habit that is seen in the field: exported objects, generated files, objects that the
//! cluster writes into, manifests that nobody can apply.

use super::daemon::{config_map, deployment};
use super::repository::Repository;
use belay::config::{Drift, SourceConfig};

/// One repository, and how belay follows it.
pub struct Habit {
    pub name: &'static str,
    files: Vec<(&'static str, String)>,
    configure: fn(&mut SourceConfig),
    /// True when all of it can be rolled out.
    pub is_good: bool,
}

impl Habit {
    fn good(name: &'static str, files: impl IntoIterator<Item = (&'static str, String)>) -> Habit {
        Habit { name, files: files.into_iter().collect(), configure: |_| (), is_good: true }
    }

    fn bad(name: &'static str, files: impl IntoIterator<Item = (&'static str, String)>) -> Habit {
        Habit { is_good: false, ..Habit::good(name, files) }
    }

    fn followed(self, configure: fn(&mut SourceConfig)) -> Habit {
        Habit { configure, ..self }
    }

    /// Returns a repository with one commit, and the source that follows it, based on `base`.
    pub fn source(&self, base: &SourceConfig) -> (Repository, SourceConfig) {
        let mut repository = Repository::new();
        for (path, text) in &self.files {
            repository.write(path, text);
        }
        repository.commit("All of it");
        repository.push();
        let mut config = SourceConfig {
            name: self.name.to_owned(),
            repository: repository.path().display().to_string(),
            ..base.clone()
        };
        (self.configure)(&mut config);
        (repository, config)
    }
}

/// Returns all of them. None names an object of another.
pub fn habits() -> Vec<Habit> {
    let mut all = workloads();
    all.extend(what_the_cluster_writes());
    all.extend(layouts());
    all.extend(broken());
    assert_eq!(all.len(), 20);
    all
}

fn workloads() -> Vec<Habit> {
    let exported = deployment("exported", "web:1", "").replacen(
        "metadata:\n",
        "metadata:\n  creationTimestamp: null\n  generation: 4\n  annotations: {deployment.kubernetes.io/revision: \"7\"}\n",
        1,
    ) + "        ports: [{containerPort: 80, protocol: TCP}]\n        resources: {requests: {cpu: 0.5, memory: 1024Mi}, limits: {cpu: \
         2000m}}\n        env: []\n      dnsPolicy: ClusterFirst\n      restartPolicy: Always\nstatus:\n  replicas: 2\n";
    let scaled = deployment("scaled", "web:1", "");
    let scaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: scaled}\nspec:\n  maxReplicas: 4\n  \
                  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: scaled}\n  metrics:\n  - {type: Resource, resource: \
                  {name: cpu, target: {type: Utilization, averageUtilization: 80}}}\n";
    let state = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: state}\nspec:\n  serviceName: state\n  replicas: 2\n  \
                 selector: {matchLabels: {app: state}}\n  template:\n    metadata: {labels: {app: state}}\n    spec:\n      containers: \
                 [{name: app, image: 'db:1'}]\n";
    let agent = "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: agent}\nspec:\n  selector: {matchLabels: {app: agent}}\n  \
                 template:\n    metadata: {labels: {app: agent}}\n    spec: {containers: [{name: app, image: 'agent:1'}]}\n";
    let job = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: once}\nspec:\n  ttlSecondsAfterFinished: 1\n  template:\n    spec:\n      \
               restartPolicy: Never\n      containers: [{name: app, image: 'once:1'}]\n";
    let exported_job = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: kept\n  labels: {job-name: kept, batch.kubernetes.io/job-name: \
                        kept}\nspec:\n  suspend: false\n  template:\n    metadata: {labels: {job-name: kept, \
                        batch.kubernetes.io/job-name: kept}}\n    spec:\n      restartPolicy: Never\n      containers: [{name: app, image: \
                        'once:1'}]\n";
    let nightly = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\nspec:\n  schedule: 0 4 1 1 *\n  jobTemplate:\n    \
                   spec:\n      template:\n        spec:\n          restartPolicy: Never\n          containers: [{name: app, image: \
                   'once:1'}]\n";
    vec![
        Habit::good("exported", [("web.yaml", exported)]),
        Habit::good("scaled", [("web.yaml", scaled), ("scaler.yaml", scaler.to_owned())]),
        Habit::good("sets", [("state.yaml", state.to_owned()), ("agent.yaml", agent.to_owned())]),
        Habit::good("job-with-ttl", [("job.yaml", job.to_owned())]),
        Habit::good("exported-job", [("job.yaml", exported_job.to_owned()), ("nightly.yaml", nightly.to_owned())]),
    ]
}

fn what_the_cluster_writes() -> Vec<Habit> {
    let roles = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: gathers}\naggregationRule: \
                 {clusterRoleSelectors: [{matchLabels: {gathered: 'yes'}}]}\nrules: []\n---\napiVersion: \
                 rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: is-gathered, labels: {gathered: 'yes'}}\nrules: \
                 [{apiGroups: [''], resources: [pods], verbs: [get]}]\n";
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: written}\nstringData: {a: not-secret}\ndata: {b: eA==}\n---\napiVersion: \
                  v1\nkind: ServiceAccount\nmetadata: {name: robot}\nimagePullSecrets: [{name: written}]\n";
    let webhook = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\nmetadata: {name: \
                   has-no-authority}\nwebhooks:\n- name: hook.example.com\n  admissionReviewVersions: [v1]\n  sideEffects: None\n  \
                   failurePolicy: Ignore\n  clientConfig: {caBundle: '', service: {name: hook, namespace: default}}\n  rules: \
                   [{apiGroups: [example.org], apiVersions: [v1], operations: [CREATE], resources: [nothings]}]\n";
    let service = "apiVersion: v1\nkind: Service\nmetadata: {name: spread}\nspec:\n  type: NodePort\n  ports: [{port: 80}]\n  selector: \
                   {app: spread}\n  externalTrafficPolicy: Cluster\n  sessionAffinity: None\n---\napiVersion: policy/v1\nkind: \
                   PodDisruptionBudget\nmetadata: {name: spread}\nspec: {minAvailable: 1, selector: {matchLabels: {app: spread}}}\n";
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {creationTimestamp: null, name: \
                      gadgets.example.com}\nspec:\n  group: example.com\n  scope: Namespaced\n  preserveUnknownFields: false\n  names: \
                      {plural: gadgets, singular: gadget, kind: Gadget}\n  versions:\n  - name: v1\n    served: true\n    storage: true\n    \
                      subresources: {status: {}}\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          \
                      spec: {type: object, properties: {size: {type: integer, default: 1}}}\n          status: {type: object, \
                      x-kubernetes-preserve-unknown-fields: true}\nstatus: {acceptedNames: {kind: '', plural: ''}, conditions: [], \
                      storedVersions: []}\n";
    let gadget = "apiVersion: example.com/v1\nkind: Gadget\nmetadata: {name: one}\nspec: {}\nstatus: {}\n";
    vec![
        Habit::good("aggregated-role", [("roles.yaml", roles.to_owned())]),
        Habit::good("string-data", [("secret.yaml", secret.to_owned())]),
        Habit::good("webhook-without-authority", [("webhook.yaml", webhook.to_owned())]),
        Habit::good("service-with-defaults", [("service.yaml", service.to_owned())]),
        Habit::good("definition-and-object", [("a.yaml", gadget.to_owned()), ("b.yaml", definition.to_owned())]),
    ]
}

fn layouts() -> Vec<Habit> {
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: in-a-namespace, namespace: \
                default}\nrules: [{apiGroups: [''], resources: [pods], verbs: [get]}]\n";
    let list = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: first-of-list}, data: {a: \
                '1'}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: second-of-list}, data: null}\n";
    let odd = "# nothing but this\n---\n---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: odd\n  annotations: \
               {kubectl.kubernetes.io/last-applied-configuration: '{}'}\ndata:\n  yes: \"on\"\n  octal: \"0o17\"\n  long: \
               |2\n      indented\n    text\n...\n";
    vec![
        Habit::good("namespaced-role", [("role.yaml", role.to_owned())]),
        Habit::good("list", [("all.yaml", list.to_owned())]),
        Habit::good("odd-yaml", [("odd.yaml", odd.to_owned())]),
        Habit::good(
            "dotted-path",
            [("app/map.yaml", config_map("dotted", "1")), ("other/map.yaml", "a: b\n".to_owned())],
        )
        .followed(|config| config.path = "./app/".into()),
        Habit::good("pruned", [("map.yaml", config_map("may-be-pruned", "1"))]).followed(|config| config.prune = true),
        Habit::good("reported", [("map.yaml", config_map("only-reported", "1"))])
            .followed(|config| config.drift = Drift::Report),
    ]
}

fn broken() -> Vec<Habit> {
    let unknown = "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {name: elsewhere}\nspec: {url: \
                   'https://git.example.com/x', interval: 1m}\n";
    let refused = "apiVersion: v1\nkind: Service\nmetadata: {name: refused}\nspec: {clusterIP: 203.0.113.7, ports: [{port: 80}]}\n";
    vec![
        Habit::bad(
            "unknown-kind",
            [("flux.yaml", unknown.to_owned()), ("map.yaml", config_map("beside-unknown", "1"))],
        ),
        Habit::bad("refused", [("service.yaml", refused.to_owned()), ("map.yaml", config_map("beside-refused", "1"))]),
        Habit::bad("never-ready", [("web.yaml", deployment("never-ready", "web:404", ""))]),
        Habit::bad(
            "written-twice",
            [
                ("a.yaml", config_map("twice", "1")),
                ("b.yaml", config_map("twice", "2")),
                ("c.yaml", "a: [b\n".to_owned()),
            ],
        ),
    ]
}
