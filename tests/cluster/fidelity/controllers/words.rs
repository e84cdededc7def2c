//! The names of kinds in paths, and kubectl's words without parts that depend on the moment.

/// Ages, and how far columns are apart, depend on the moment.
pub fn without_ages(text: &str) -> String {
    let is_age = |word: &str| {
        let letters: Vec<&str> = word.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
        word.starts_with(|c: char| c.is_ascii_digit())
            && !letters.is_empty()
            && letters.iter().all(|part| ["s", "m", "h", "d"].contains(part))
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().map(|word| if is_age(word) { "<age>" } else { word }).collect();
        words.join(" ")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the place of a kind's objects: the path before the namespace, and the plural.
pub fn place(kind: &str) -> (&'static str, &'static str) {
    match kind {
        "Deployment" => ("/apis/apps/v1", "deployments"),
        "ReplicaSet" => ("/apis/apps/v1", "replicasets"),
        "StatefulSet" => ("/apis/apps/v1", "statefulsets"),
        "DaemonSet" => ("/apis/apps/v1", "daemonsets"),
        "ControllerRevision" => ("/apis/apps/v1", "controllerrevisions"),
        "Job" => ("/apis/batch/v1", "jobs"),
        "CronJob" => ("/apis/batch/v1", "cronjobs"),
        "PodDisruptionBudget" => ("/apis/policy/v1", "poddisruptionbudgets"),
        "ReplicationController" => ("/api/v1", "replicationcontrollers"),
        "Pod" => ("/api/v1", "pods"),
        "HorizontalPodAutoscaler" => ("/apis/autoscaling/v2", "horizontalpodautoscalers"),
        "LimitRange" => ("/api/v1", "limitranges"),
        "Service" => ("/api/v1", "services"),
        "ConfigMap" => ("/api/v1", "configmaps"),
        "Secret" => ("/api/v1", "secrets"),
        "ResourceQuota" => ("/api/v1", "resourcequotas"),
        "PersistentVolumeClaim" => ("/api/v1", "persistentvolumeclaims"),
        "Endpoints" => ("/api/v1", "endpoints"),
        "EndpointSlice" => ("/apis/discovery.k8s.io/v1", "endpointslices"),
        other => panic!("no path is known for {other}"),
    }
}
