//! Flux's `Kustomization`, `HelmRelease` and `GitRepository`.

use std::collections::BTreeMap;

use super::field::Field;
use super::found::{Fields, Found, chart_folder, folder, ignored, inline_values};
use crate::config::{Drift, HelmConfig, IgnoreConfig, SourceConfig, Span};

const IN_THE_KUSTOMIZATION: Option<&str> = Some("write it into the kustomization in the repository");
const BY_ITSELF: Option<&str> = Some("belay judges each workload and takes back what fails, without being told how");
const LEAVE_OUT: Option<&str> =
    Some("leave the source out until it is to be followed, or leave single workloads alone: belay suspend WORKLOAD");
const ONE_CLUSTER: Option<&str> =
    Some("`context` of the source names a context of the kubeconfig that belay is run with");
const ONE_USER: Option<&str> = Some("belay writes as the user of its kubeconfig; give that user the rights");

const KUSTOMIZATION: Fields = &[
    ("path", None),
    ("prune", None),
    ("sourceRef", None),
    ("dependsOn", None),
    ("interval", None),
    ("retryInterval", None),
    ("timeout", None),
    ("wait", None),
    ("healthChecks", None),
    ("healthCheckExprs", Some("belay judges workloads; what waits for another object says so by belay.dev/after")),
    ("targetNamespace", Some("write `namespace:` into the kustomization, or metadata.namespace into plain manifests")),
    ("patches", IN_THE_KUSTOMIZATION),
    ("images", IN_THE_KUSTOMIZATION),
    ("components", IN_THE_KUSTOMIZATION),
    ("namePrefix", IN_THE_KUSTOMIZATION),
    ("nameSuffix", IN_THE_KUSTOMIZATION),
    ("commonMetadata", Some("write `labels:` and `commonAnnotations:` into the kustomization in the repository")),
    (
        "postBuild",
        Some("write the values, or `replacements:` of the kustomization; nothing is put in when it is rendered"),
    ),
    ("decryption", Some("belay reads no encrypted manifests: let an operator make the Secrets in the cluster")),
    ("force", Some("delete an object by hand that must be made anew")),
    ("suspend", LEAVE_OUT),
    ("kubeConfig", ONE_CLUSTER),
    ("serviceAccountName", ONE_USER),
    ("deletionPolicy", Some("objects of a source stay when the source is removed from the configuration")),
];

const RELEASE: Fields = &[
    ("chart", None),
    ("releaseName", None),
    ("targetNamespace", None),
    ("values", None),
    ("dependsOn", None),
    ("driftDetection", None),
    ("interval", None),
    ("timeout", None),
    ("maxHistory", None),
    ("storageNamespace", None),
    ("install", BY_ITSELF),
    ("upgrade", BY_ITSELF),
    ("rollback", BY_ITSELF),
    ("uninstall", BY_ITSELF),
    ("test", Some("hooks with helm.sh/hook: test are left out: run them from a pipeline")),
    ("valuesFrom", Some("commit the values as a file that `values` names; what is secret belongs into a Secret")),
    ("postRenderers", Some("render the chart from a kustomization's output that is committed, or change the chart")),
    ("commonMetadata", Some("set labels by the chart's values")),
    ("suspend", LEAVE_OUT),
    ("kubeConfig", ONE_CLUSTER),
    ("serviceAccountName", ONE_USER),
];

const CHART: Fields = &[
    ("chart", None),
    ("sourceRef", None),
    ("valuesFiles", None),
    ("interval", None),
    ("version", None),
    ("reconcileStrategy", None),
    ("ignoreMissingValuesFiles", Some("name in `values` only files that are there")),
    ("verify", Some("the chart is what the commit holds")),
];

const REPOSITORY: Fields = &[
    ("url", None),
    ("ref", None),
    ("interval", None),
    ("timeout", None),
    ("ignore", None),
    ("provider", Some("[source.credentials] names files with a token or key")),
    ("secretRef", Some("[source.credentials] names the files: token_file for https, ssh_key and known_hosts for ssh")),
    ("verify", Some("protect the branch at the forge: belay follows what the branch says")),
    ("recurseSubmodules", Some("belay reads no submodules: commit the files")),
    ("include", Some("one source reads one repository: commit the files")),
    ("proxySecretRef", Some("the environment that belay is run with names the proxy: HTTPS_PROXY")),
    ("suspend", LEAVE_OUT),
];

/// Takes a `Kustomization` up; the `GitRepository` that it reads is one of `repositories`.
pub(super) fn kustomization(found: &mut Found, object: &Field<'_>, repositories: &[Field<'_>]) {
    let Some(spec) = object.get("spec") else { return found.refuse(object, "says nothing", "it has no spec") };
    let Some(mut source) = of_repository(found, object, &spec, repositories) else { return };
    found.tell(&spec, KUSTOMIZATION);
    source.path = folder(spec.text_of("path").unwrap_or_default()).into();
    source.prune = spec.is_true("prune");
    waits(found, &spec, "Kustomization", object, &source);
    found.take(object, source);
}

/// Takes a `HelmRelease` up.
pub(super) fn release(found: &mut Found, object: &Field<'_>, repositories: &[Field<'_>]) {
    let spec = object.get("spec");
    let Some((spec, chart)) = spec.as_ref().and_then(|spec| Some((spec, spec.get("chart.spec")?))) else {
        let from = spec.as_ref().and_then(|spec| spec.get("chartRef"));
        return found.refuse(from.as_ref().unwrap_or(object), "has no counterpart", VENDOR);
    };
    let Some(mut source) = of_repository(found, object, &chart, repositories) else { return };
    found.tell(spec, RELEASE);
    found.tell(&chart, CHART);
    let path = folder(chart.text_of("chart").unwrap_or_default());
    let name = object.text_of("metadata.name").unwrap_or_default();
    let target = spec.text_of("targetNamespace");
    let release = target.map_or_else(|| name.to_owned(), |target| format!("{target}-{name}"));
    let values = chart.texts_of("valuesFiles");
    if let Some(files) = chart.get("valuesFiles")
        && !values.iter().any(|file| folder(file) == folder(&format!("{path}/values.yaml")))
    {
        found.warn(&files, "leaves the chart's own values.yaml out", "belay always reads that one first");
    }
    let mut config = HelmConfig {
        chart: chart_folder(&path),
        release: Some(spec.text_of("releaseName").map_or(release, ToOwned::to_owned)),
        namespace: target.or_else(|| object.text_of("metadata.namespace")).map(ToOwned::to_owned),
        values: values.iter().map(|file| format!("/{}", folder(file))).collect(),
        set: BTreeMap::new(),
    };
    if let Some(values) = spec.get("values") {
        inline_values(found, &values, &mut config, &source.name);
    }
    source.path = path.into();
    // Helm deletes objects that its chart has no longer, and corrects no drift by itself.
    source.prune = true;
    drift(found, spec, &mut source);
    source.helm.push(config);
    waits(found, spec, "HelmRelease", object, &source);
    found.take(object, source);
}

/// The advice about a chart that lies elsewhere.
pub(super) const VENDOR: &str = "charts are rendered from the repository alone: put the chart into it (helm pull --untar), and \
                                 name its folder in [[source.helm]]";

fn drift(found: &mut Found, spec: &Field<'_>, source: &mut SourceConfig) {
    if spec.text_of("driftDetection.mode") != Some("enabled") {
        source.drift = Drift::Report;
    }
    for rule in spec.get("driftDetection.ignore").map(|rules| rules.inner()).unwrap_or_default() {
        let target = |name: &str| rule.text_of(&format!("target.{name}")).map(ToOwned::to_owned);
        for name in ["annotationSelector", "labelSelector"] {
            if let Some(selector) = rule.get("target").and_then(|target| target.get(name)) {
                found.without_counterpart(&selector, Some("name the objects by kind, name and namespace"));
            }
        }
        let mut ignore =
            IgnoreConfig { kind: target("kind"), name: target("name"), namespace: target("namespace"), fields: vec![] };
        let paths = rule.get("paths").map(|paths| paths.inner()).unwrap_or_default();
        paths.iter().for_each(|path| ignored(found, path, path.text(), &mut ignore));
        source.ignore.extend(Some(ignore).filter(|ignore| !ignore.fields.is_empty()));
    }
}

/// Returns a source for the repository that `sourceRef` names.
fn of_repository(
    found: &mut Found,
    object: &Field<'_>,
    spec: &Field<'_>,
    repositories: &[Field<'_>],
) -> Option<SourceConfig> {
    let Some(reference) = spec.get("sourceRef") else {
        found.refuse(spec, "names no repository", "it has no sourceRef");
        return None;
    };
    if let Some((message, instead)) = other_source(object, &reference) {
        found.refuse(&reference, message, instead);
        return None;
    }
    let namespace = reference.text_of("namespace").or_else(|| object.text_of("metadata.namespace"));
    let is_meant = |repository: &&Field<'_>| {
        let of = repository.text_of("metadata.namespace");
        repository.text_of("metadata.name") == reference.text_of("name")
            && (of.is_none() || namespace.is_none() || of == namespace)
    };
    let url = repositories.iter().find(is_meant).and_then(|one| Some((one, one.get("spec")?, one.get("spec.url")?)));
    let Some((_, repository, url)) = url else { return found.source_elsewhere(object, &reference) };
    let mut source = found.source(object, &url)?;
    if found.is_new(&url) {
        found.tell(&repository, REPOSITORY);
    }
    follow(found, &repository, &mut source);
    let lines = repository.text_of("ignore").unwrap_or_default().lines().map(str::trim);
    source.exclude = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(ToOwned::to_owned).collect();
    if let Some(interval) = repository.get("interval") {
        match interval.text().and_then(|text| text.parse::<Span>().ok()) {
            Some(span) if span.0.as_secs() >= 1 => source.interval = span,
            _ => found.without_counterpart(&interval, Some("write 30s, 5m or 1h30m, at least 1s, as `interval`")),
        }
    }
    Some(source)
}

/// Returns the complaint about a source that is no `GitRepository`, and its hint.
fn other_source(object: &Field<'_>, reference: &Field<'_>) -> Option<(&'static str, &'static str)> {
    const MADE_ELSEWHERE: &str = "it holds manifests that are made from files elsewhere: write a [[source]] for the Git \
                                  repository with those files";
    let kind = reference.text_of("kind");
    let holds_charts = object.text_of("kind") == Some("HelmRelease");
    match kind {
        Some("GitRepository") => None,
        Some("HelmRepository") => Some(("names no GitRepository", VENDOR)),
        _ if holds_charts => Some(("names no GitRepository", VENDOR)),
        Some("OCIRepository") => Some(("names an OCIRepository", MADE_ELSEWHERE)),
        Some("ExternalArtifact") => Some(("names an ExternalArtifact", MADE_ELSEWHERE)),
        Some("Bucket") => Some(("names a Bucket", MADE_ELSEWHERE)),
        _ => Some(("names no GitRepository", "belay follows Git repositories")),
    }
}

/// Reads the branch, tag or commit that a `GitRepository` follows.
fn follow(found: &mut Found, repository: &Field<'_>, source: &mut SourceConfig) {
    let text = |name: &str| repository.text_of(&format!("ref.{name}")).map(ToOwned::to_owned);
    let name = text("name");
    let name = |prefix: &str| name.as_ref().and_then(|name| name.strip_prefix(prefix)).map(ToOwned::to_owned);
    if let Some(commit) = text("commit") {
        source.commit = Some(commit);
    } else if let Some(range) = repository.get("ref.semver") {
        found.without_counterpart(&range, Some("`tag` takes a pattern, v1.*: the newest by version; here any tag"));
        source.tag = Some("*".to_owned());
    } else if let Some(tag) = text("tag").or_else(|| name("refs/tags/")) {
        source.tag = Some(tag);
    } else if let Some(other) = repository.get("ref.name").filter(|_| name("refs/heads/").is_none()) {
        found.without_counterpart(&other, Some("a source follows a branch, a tag or a commit"));
    }
    source.branch = name("refs/heads/").or_else(|| text("branch")).unwrap_or_else(|| "master".to_owned());
}

/// Reads its dependencies: of several, the first.
fn waits(found: &mut Found, spec: &Field<'_>, kind: &'static str, object: &Field<'_>, source: &SourceConfig) {
    found.is_called(kind, object.text_of("metadata.name").unwrap_or_default(), &source.name);
    let all = spec.get("dependsOn").map(|all| all.inner()).unwrap_or_default();
    for (index, one) in all.iter().enumerate() {
        match one.text_of("name").filter(|_| index == 0) {
            Some(name) => found.waits(&source.name, (kind, name), one),
            None => found.without_counterpart(one, Some("a source waits for one other: let that one wait for this")),
        }
    }
}
