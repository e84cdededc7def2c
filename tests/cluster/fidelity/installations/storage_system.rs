//! The chart of a storage system: definitions among the templates, hooks for upgrades and for the removal, a DaemonSet that
//! everything waits for, a class that stands as text in a ConfigMap, objects of its own kinds.

use crate::support::daemon::World;

pub fn write(world: &mut World) {
    let hook = |name: &str, event: &str| {
        format!(
            "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: storage-{name}\n  namespace: {{{{ .Release.Namespace }}}}\n  \
             annotations:\n    helm.sh/hook: {event}\n    helm.sh/hook-delete-policy: \
             hook-succeeded,before-hook-creation,hook-failed\nspec:\n  activeDeadlineSeconds: 900\n  backoffLimit: 1\n  template:\n    \
             metadata:\n      name: storage-{name}\n      annotations: {{kubelet.belay.dev/fate: 'exit-after=1s,code=1'}}\n    spec:\n      \
             restartPolicy: OnFailure\n      serviceAccountName: storage\n      priorityClassName: storage-critical\n      containers:\n      \
             - {{name: {name}, image: 'storage/manager:v1.9.0', command: [storage-manager, {name}]}}\n"
        )
    };
    let files = [
        ("storage/Chart.yaml", "apiVersion: v1\nname: storage\nversion: 1.9.0\nkubeVersion: '>=1.25.0-0'\n".to_owned()),
        ("storage/values.yaml", "image: {tag: v1.9.0}\nreplicas: 3\n".to_owned()),
        ("storage/templates/crds.yaml", DEFINITIONS.to_owned()),
        ("storage/templates/accounts.yaml", ACCOUNTS.to_owned()),
        ("storage/templates/workloads.yaml", WORKLOADS.to_owned()),
        ("storage/templates/class.yaml", CLASS.to_owned()),
        ("storage/templates/setting.yaml", SETTING.to_owned()),
        // None of these fits an installation: were one run, it would fail.
        ("storage/templates/preupgrade-job.yaml", hook("pre-upgrade", "pre-upgrade")),
        ("storage/templates/postupgrade-job.yaml", hook("post-upgrade", "post-upgrade")),
        ("storage/templates/uninstall-job.yaml", hook("uninstall", "pre-delete")),
        ("storage/templates/rollback-job.yaml", hook("rollback", "pre-rollback")),
        ("storage/templates/NOTES.txt", "Storage {{ .Values.image.tag }} is installed.\n".to_owned()),
    ];
    for (path, text) in files {
        world.repository.write(path, text);
    }
    world.repository.write("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: storage}\n");
}

const DEFINITIONS: &str = "\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations: {controller-gen.kubebuilder.io/version: v0.15.0}
  labels: {app.kubernetes.io/managed-by: '{{ .Release.Service }}'}
  name: settings.storage.example.com
spec:
  group: storage.example.com
  names: {kind: Setting, listKind: SettingList, plural: settings, shortNames: [sts], singular: setting}
  scope: Namespaced
  versions:
  - additionalPrinterColumns: [{jsonPath: .value, name: Value, type: string}]
    name: v1beta2
    schema:
      openAPIV3Schema:
        properties:
          apiVersion: {type: string}
          kind: {type: string}
          metadata: {type: object}
          value: {type: string}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
        required: [value]
        type: object
    served: true
    storage: true
    subresources: {status: {}}
status:
  acceptedNames: {kind: '', plural: ''}
  conditions: []
  storedVersions: []
";

const ACCOUNTS: &str = "\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: storage-critical}
description: Keeps storage running
globalDefault: false
preemptionPolicy: PreemptLowerPriority
value: 1000000000
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: storage, namespace: '{{ .Release.Namespace }}'}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: storage-role}
rules:
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: ['*']}
- {apiGroups: [''], resources: [pods, events, persistentvolumes, nodes], verbs: ['*']}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: storage-bind}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: storage-role}
subjects: [{kind: ServiceAccount, name: storage, namespace: '{{ .Release.Namespace }}'}]
";

const WORKLOADS: &str = "\
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: storage-manager, namespace: '{{ .Release.Namespace }}', labels: {app: storage-manager}}
spec:
  selector: {matchLabels: {app: storage-manager}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 100%}}
  template:
    metadata: {labels: {app: storage-manager}}
    spec:
      serviceAccountName: storage
      priorityClassName: storage-critical
      containers:
      - name: manager
        image: storage/manager:{{ .Values.image.tag }}
        securityContext: {privileged: true}
        ports: [{containerPort: 9500, name: manager}, {containerPort: 9502, name: admission}]
        readinessProbe: {httpGet: {path: /v1/healthz, port: 9502, scheme: HTTPS}}
        volumeMounts: [{name: dev, mountPath: /host/dev/}]
      volumes: [{name: dev, hostPath: {path: /dev/}}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: storage-ui, namespace: '{{ .Release.Namespace }}'}
spec:
  replicas: {{ .Values.replicas }}
  selector: {matchLabels: {app: storage-ui}}
  template:
    metadata: {labels: {app: storage-ui}}
    spec:
      serviceAccountName: storage
      containers: [{name: ui, image: 'storage/ui:{{ .Values.image.tag }}', ports: [{containerPort: 8000, name: http}]}]
---
apiVersion: v1
kind: Service
metadata: {name: storage-frontend, namespace: '{{ .Release.Namespace }}'}
spec:
  type: ClusterIP
  ports: [{name: http, port: 80, targetPort: http, nodePort: null}]
  selector: {app: storage-ui}
";

const CLASS: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: storage-class, namespace: '{{ .Release.Namespace }}'}
data:
  storageclass.yaml: |
    kind: StorageClass
    apiVersion: storage.k8s.io/v1
    metadata: {name: storage}
    provisioner: driver.storage.example.com
    parameters: {numberOfReplicas: \"{{ .Values.replicas }}\"}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: storage-static}
provisioner: driver.storage.example.com
allowVolumeExpansion: true
reclaimPolicy: Delete
volumeBindingMode: Immediate
";

const SETTING: &str = "\
apiVersion: storage.example.com/v1beta2
kind: Setting
metadata: {name: replica-count, namespace: '{{ .Release.Namespace }}'}
value: '{{ .Values.replicas }}'
";
