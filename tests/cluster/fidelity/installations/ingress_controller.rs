//! The chart of an ingress controller: hooks of which some are Jobs and some are the accounts that they run as, hooks that are
//! deleted once they were well, a Job with a TTL of nothing, a webhook whose authority a hook writes.

use crate::support::daemon::World;

pub fn write(world: &mut World) {
    let files = [
        ("ingress/Chart.yaml", "apiVersion: v2\nname: ingress\nversion: 4.12.0\nappVersion: 1.12.0\n".to_owned()),
        ("ingress/values.yaml", "controller: {image: 'ingress/controller:v1.12.0', replicas: 2}\n".to_owned()),
        ("ingress/templates/accounts.yaml", ACCOUNTS.to_owned()),
        ("ingress/templates/controller.yaml", CONTROLLER.to_owned()),
        ("ingress/templates/webhook.yaml", WEBHOOK.to_owned()),
        ("ingress/templates/create-secret.yaml", job("create", "pre-install,pre-upgrade")),
        ("ingress/templates/patch-webhook.yaml", job("patch", "post-install,post-upgrade")),
    ];
    for (path, text) in files {
        world.repository.write(path, text);
    }
    world.repository.write("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: {name: ingress}\n");
}

fn job(name: &str, events: &str) -> String {
    format!(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {{{{ .Release.Name }}}}-admission-{name}\n  namespace: {{{{ \
         .Release.Namespace }}}}\n  annotations:\n    helm.sh/hook: {events}\n    helm.sh/hook-delete-policy: \
         before-hook-creation,hook-succeeded\nspec:\n  ttlSecondsAfterFinished: 0\n  template:\n    metadata: {{name: {name}}}\n    \
         spec:\n      restartPolicy: OnFailure\n      serviceAccountName: {{{{ .Release.Name }}}}-admission\n      containers:\n      \
         - {{name: {name}, image: 'ingress/certgen:v1.5.0', args: [{name}]}}\n"
    )
}

const ACCOUNTS: &str = "\
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ .Release.Name }}-admission
  namespace: {{ .Release.Namespace }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ .Release.Name }}-admission
  namespace: {{ .Release.Namespace }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
rules:
- {apiGroups: [''], resources: [secrets], verbs: [get, create]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .Release.Name }}-admission
  namespace: {{ .Release.Namespace }}
  annotations:
    helm.sh/hook: pre-install,pre-upgrade,post-install,post-upgrade
    helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: '{{ .Release.Name }}-admission'}
subjects: [{kind: ServiceAccount, name: '{{ .Release.Name }}-admission', namespace: '{{ .Release.Namespace }}'}]
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: '{{ .Release.Name }}', namespace: '{{ .Release.Namespace }}'}
automountServiceAccountToken: true
";

const CONTROLLER: &str = "\
apiVersion: v1
kind: ConfigMap
metadata: {name: '{{ .Release.Name }}-controller', namespace: '{{ .Release.Namespace }}'}
data: null
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: example}
spec: {controller: example.com/ingress}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}-controller', namespace: '{{ .Release.Namespace }}'}
spec:
  type: LoadBalancer
  ipFamilyPolicy: SingleStack
  ipFamilies: [IPv4]
  ports:
  - {name: http, port: 80, protocol: TCP, targetPort: http, appProtocol: http}
  - {name: https, port: 443, protocol: TCP, targetPort: https, appProtocol: https}
  selector: {app: controller}
---
apiVersion: v1
kind: Service
metadata: {name: '{{ .Release.Name }}-controller-admission', namespace: '{{ .Release.Namespace }}'}
spec:
  type: ClusterIP
  ports: [{name: https-webhook, port: 443, targetPort: webhook, appProtocol: https}]
  selector: {app: controller}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: '{{ .Release.Name }}-controller', namespace: '{{ .Release.Namespace }}'}
spec:
  replicas: {{ .Values.controller.replicas }}
  revisionHistoryLimit: 10
  minReadySeconds: 0
  selector: {matchLabels: {app: controller}}
  template:
    metadata: {labels: {app: controller}}
    spec:
      dnsPolicy: ClusterFirst
      serviceAccountName: '{{ .Release.Name }}'
      terminationGracePeriodSeconds: 300
      containers:
      - name: controller
        image: {{ .Values.controller.image }}
        args: [/controller, '--publish-service=$(POD_NAMESPACE)/{{ .Release.Name }}-controller']
        env:
        - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
        ports:
        - {name: http, containerPort: 80, protocol: TCP}
        - {name: https, containerPort: 443, protocol: TCP}
        - {name: webhook, containerPort: 8443, protocol: TCP}
        volumeMounts: [{name: webhook-cert, mountPath: /certificates, readOnly: true}]
      volumes: [{name: webhook-cert, secret: {secretName: '{{ .Release.Name }}-admission', optional: true}}]
";

const WEBHOOK: &str = "\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: '{{ .Release.Name }}-admission'}
webhooks:
- name: validate.nginx.example.com
  matchPolicy: Equivalent
  rules:
  - {apiGroups: [networking.k8s.io], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [ingresses]}
  failurePolicy: Fail
  sideEffects: None
  admissionReviewVersions: [v1]
  clientConfig:
    service: {name: '{{ .Release.Name }}-controller-admission', namespace: '{{ .Release.Namespace }}', port: 443, path: /v1}
";
