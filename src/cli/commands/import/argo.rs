//! Argo CD's `Application`.

use std::collections::BTreeMap;

use super::field::Field;
use super::flux::VENDOR;
use super::found::{Fields, Found, chart_folder, folder, ignored, inline_values};
use super::jq::pointer_of;
use crate::config::{Drift, HelmConfig, IgnoreConfig, SetValue, SourceConfig};
use belay_core::manifest::may_be_secret;

const IN_THE_KUSTOMIZATION: Option<&str> = Some("write it into the kustomization in the repository");

const SPEC: Fields = &[
    ("source", None),
    ("sources", None),
    ("destination", None),
    ("syncPolicy", None),
    ("ignoreDifferences", None),
    ("info", None),
    ("revisionHistoryLimit", None),
    ("project", None),
    ("sourceHydrator", Some("belay renders from the branch itself")),
];

const SOURCE: Fields = &[
    ("repoURL", None),
    ("path", None),
    ("targetRevision", None),
    ("directory", None),
    ("kustomize", None),
    ("helm", None),
    ("ref", None),
    ("name", None),
    ("plugin", Some("belay runs no plugins: commit what it renders")),
];

const DIRECTORY: Fields = &[
    ("recurse", None),
    ("include", None),
    ("exclude", None),
    ("jsonnet", Some("belay renders no Jsonnet: commit what it renders")),
];

const KUSTOMIZE: Fields = &[
    ("version", Some("`kustomize` of [render] names the program")),
    ("namespace", IN_THE_KUSTOMIZATION),
    ("images", IN_THE_KUSTOMIZATION),
    ("replicas", IN_THE_KUSTOMIZATION),
    ("patches", IN_THE_KUSTOMIZATION),
    ("components", IN_THE_KUSTOMIZATION),
    ("namePrefix", IN_THE_KUSTOMIZATION),
    ("nameSuffix", IN_THE_KUSTOMIZATION),
    ("commonLabels", IN_THE_KUSTOMIZATION),
    ("commonAnnotations", IN_THE_KUSTOMIZATION),
];

const HELM: Fields = &[
    ("releaseName", None),
    ("namespace", None),
    ("valueFiles", None),
    ("values", None),
    ("valuesObject", None),
    ("parameters", None),
    ("version", None),
    ("skipTests", None),
    ("fileParameters", Some("write what the files hold into a values file")),
    ("ignoreMissingValueFiles", Some("name in `values` only files that are there")),
    ("passCredentials", Some("charts are rendered from the repository alone")),
    ("skipCrds", Some("`exclude` files with definitions, or let the chart make them by a value")),
    ("kubeVersion", Some("charts are rendered for the version of the cluster that is followed")),
    ("apiVersions", Some("charts are rendered for what the cluster that is followed serves")),
];

const SYNC: Fields = &[
    ("automated", None),
    ("syncOptions", None),
    ("retry", None),
    ("managedNamespaceMetadata", Some("commit a manifest of the Namespace")),
];

const AUTOMATED: Fields = &[
    ("prune", None),
    ("selfHeal", None),
    ("enabled", None),
    ("allowEmpty", Some("belay never empties a source because its folder is empty")),
];

const DIFFERENCE: Fields = &[
    ("group", None),
    ("kind", None),
    ("name", None),
    ("namespace", None),
    ("jsonPointers", None),
    ("jqPathExpressions", None),
    ("managedFieldsManagers", Some("name the fields that it writes, as JSON pointers")),
];

/// Takes an `Application` up: one source for each of its own.
pub(super) fn application(found: &mut Found, object: &Field<'_>) {
    let Some(spec) = object.get("spec") else { return found.refuse(object, "says nothing", "it has no spec") };
    let several = spec.get("sources").map(|sources| sources.inner()).unwrap_or_default();
    let sources: Vec<Field<'_>> = if several.is_empty() { spec.get("source").into_iter().collect() } else { several };
    let shared = Application { object, spec: &spec, sources: &sources };
    if sources.is_empty() {
        return found.refuse(&spec, "names no repository", "it has no source");
    }
    let before = (found.sources.len(), found.errors.len());
    for source in &sources {
        shared.source(found, source);
    }
    if found.sources.len() == before.0 && found.errors.len() == before.1 {
        found.refuse(&spec, "names no folder", "a source needs a path");
    }
    // Once, however many sources it has.
    found.tell(&spec, SPEC);
    shared.tell_the_rest(found);
}

struct Application<'a, 'p> {
    object: &'a Field<'p>,
    spec: &'a Field<'p>,
    sources: &'a [Field<'p>],
}

impl Application<'_, '_> {
    fn source(&self, found: &mut Found, from: &Field<'_>) {
        if let Some(chart) = from.get("chart") {
            return found.refuse(&chart, "has no counterpart", VENDOR);
        }
        let Some(url) = from.get("repoURL") else {
            return found.refuse(from, "names no repository", "it has no repoURL");
        };
        if from.get("path").is_none() && from.get("ref").is_some() {
            // Only values are read from it.
            return;
        }
        let Some(mut source) = found.source(self.object, &url) else { return };
        found.tell(from, SOURCE);
        revision(found, from, &mut source);
        let path = folder(from.text_of("path").unwrap_or_default());
        source.path = path.as_str().into();
        for (name, fields) in [("directory", DIRECTORY), ("kustomize", KUSTOMIZE), ("helm", HELM)] {
            from.get(name).iter().for_each(|field| found.tell(field, fields));
        }
        match from.get("helm") {
            Some(helm) => self.helm(found, from, (&path, &helm), &mut source),
            None if from.get("kustomize").is_none() => self.directory(found, from, &path, &mut source),
            None => {}
        }
        self.policy(&mut source);
        source.ignore = self.ignore(found);
        found.take(self.object, source);
    }

    /// Reads which files of the folder count.
    fn directory(&self, found: &mut Found, from: &Field<'_>, folder: &str, source: &mut SourceConfig) {
        let below = |pattern: &str| match folder {
            "" => format!("/{pattern}"),
            path => format!("/{path}/{pattern}"),
        };
        let patterns = |name: &str| {
            let text = from.text_of(&format!("directory.{name}")).unwrap_or_default();
            // Argo CD's `*` also stands for a slash.
            let deep = |glob: &String| if glob.contains('/') { below(glob) } else { below(&format!("**/{glob}")) };
            globs(text).iter().map(deep).collect::<Vec<_>>()
        };
        let (include, mut exclude) = (patterns("include"), patterns("exclude"));
        if !from.is_true("directory.recurse") {
            exclude.push(below("*/"));
        }
        (source.include, source.exclude) = (include, exclude);
        let name = self.object.text_of("metadata.name").unwrap_or_default();
        if from.get("directory").is_none() && folder.rsplit('/').next() != Some(name) && !folder.is_empty() {
            let instead =
                format!("if it holds a chart, add [[source.helm]] with chart = {folder:?}, release = {name:?}");
            let path = from.get("path");
            found.warn(
                path.as_ref().unwrap_or(from),
                "may hold a chart, whose release is called like its folder",
                &instead,
            );
        }
    }

    fn helm(&self, found: &mut Found, from: &Field<'_>, (folder, helm): (&str, &Field<'_>), source: &mut SourceConfig) {
        let name = self.object.text_of("metadata.name").unwrap_or_default();
        let namespace = helm.text_of("namespace").or_else(|| self.spec.text_of("destination.namespace"));
        let mut chart = HelmConfig {
            chart: chart_folder(folder),
            release: Some(helm.text_of("releaseName").unwrap_or(name).to_owned()),
            namespace: namespace.map(ToOwned::to_owned),
            values: Vec::new(),
            set: BTreeMap::new(),
        };
        for file in helm.get("valueFiles").map(|files| files.inner()).unwrap_or_default() {
            match file.text().and_then(|path| self.values_file(path, from)) {
                Some(path) => chart.values.push(path),
                None => found.without_counterpart(&file, Some("commit the values to the repository of the chart")),
            }
        }
        for name in ["values", "valuesObject"] {
            helm.get(name).iter().for_each(|values| inline_values(found, values, &mut chart, &source.name));
        }
        for parameter in helm.get("parameters").map(|all| all.inner()).unwrap_or_default() {
            set(found, &parameter, &mut chart);
        }
        source.helm.push(chart);
    }

    /// Returns a values file as belay names it: `$values/a.yaml` is a file of the source with that `ref`.
    fn values_file(&self, path: &str, chart: &Field<'_>) -> Option<String> {
        let Some(rest) = path.strip_prefix('$') else { return (!path.contains("://")).then(|| path.to_owned()) };
        let (name, file) = rest.split_once('/')?;
        let other = self.sources.iter().find(|source| source.text_of("ref") == Some(name))?;
        let same = ["repoURL", "targetRevision"].iter().all(|field| other.text_of(field) == chart.text_of(field));
        same.then(|| format!("/{}", folder(file)))
    }

    fn policy(&self, source: &mut SourceConfig) {
        source.prune = self.spec.is_true("syncPolicy.automated.prune");
        if !self.spec.is_true("syncPolicy.automated.selfHeal") {
            source.drift = Drift::Report;
        }
    }

    /// Reads the ignored fields.
    fn ignore(&self, found: &mut Found) -> Vec<IgnoreConfig> {
        let mut all = Vec::new();
        for rule in self.spec.get("ignoreDifferences").map(|rules| rules.inner()).unwrap_or_default() {
            let is_new = found.is_new(&rule);
            let mut unheard = Found::default();
            let found = if is_new { &mut *found } else { &mut unheard };
            found.tell(&rule, DIFFERENCE);
            let text = |name: &str| rule.text_of(name).filter(|text| *text != "*").map(ToOwned::to_owned);
            let mut ignore = IgnoreConfig {
                kind: text("kind"),
                name: text("name"),
                namespace: text("namespace"),
                fields: Vec::new(),
            };
            let items = |name: &str| rule.get(name).map(|items| items.inner()).unwrap_or_default();
            items("jsonPointers").iter().for_each(|field| ignored(found, field, field.text(), &mut ignore));
            for field in items("jqPathExpressions") {
                let pointer = field.text().and_then(pointer_of);
                ignored(found, &field, pointer.as_deref(), &mut ignore);
            }
            all.extend(Some(ignore).filter(|ignore| !ignore.fields.is_empty()));
        }
        all
    }

    /// Reports the rest of the application.
    fn tell_the_rest(&self, found: &mut Found) {
        let spec = self.spec;
        match spec.get("syncPolicy.automated").filter(|_| spec.get("syncPolicy.automated.enabled").is_none()) {
            Some(_) => {}
            None if spec.is_true("syncPolicy.automated.enabled") => {}
            None => {
                let policy = spec.get("syncPolicy").unwrap_or_else(|| spec.clone());
                found.warn(&policy, "is not automated", "belay rolls out each commit; look before it by belay plan");
            }
        }
        spec.get("syncPolicy").iter().for_each(|policy| found.tell(policy, SYNC));
        spec.get("syncPolicy.automated").iter().for_each(|automated| found.tell(automated, AUTOMATED));
        for option in spec.get("syncPolicy.syncOptions").map(|options| options.inner()).unwrap_or_default() {
            sync_option(found, &option);
        }
        if let Some(project) = spec.get("project").filter(|project| project.text() != Some("default")) {
            found.without_counterpart(&project, Some("belay may write the same objects as the user of its kubeconfig"));
        }
        let here = |text: Option<&str>| matches!(text, Some("https://kubernetes.default.svc" | "in-cluster"));
        for name in ["destination.server", "destination.name"] {
            if let Some(other) = spec.get(name).filter(|field| !here(field.text())) {
                let instead = "`context` of the source names a context of the kubeconfig that belay is run with";
                found.without_counterpart(&other, Some(instead));
            }
        }
        let is_chart = self.sources.iter().any(|source| source.get("helm").is_some());
        let namespace = spec.get("destination.namespace").filter(|field| !is_chart && field.text() != Some("default"));
        if let Some(namespace) = namespace {
            let instead = "write `namespace:` into the kustomization, or metadata.namespace into plain manifests";
            found.without_counterpart(&namespace, Some(instead));
        }
    }
}

/// Reads the branch, tag or commit that is followed.
fn revision(found: &mut Found, from: &Field<'_>, source: &mut SourceConfig) {
    let field = from.get("targetRevision").filter(|field| field.text() != Some("HEAD"));
    let Some((field, text)) = field.as_ref().and_then(|field| Some((field, field.text()?))) else {
        let field = from.get("targetRevision");
        let said = "follows the repository's default branch";
        return found.warn(field.as_ref().unwrap_or(from), said, "say which one it is as `branch`; here main");
    };
    let is_version = |text: &str| {
        let digits = text.strip_prefix('v').unwrap_or(text);
        digits.starts_with(|c: char| c.is_ascii_digit()) && digits.contains('.')
    };
    if text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        source.commit = Some(text.to_owned());
    } else if let Some(tag) = text.strip_prefix("refs/tags/") {
        source.tag = Some(tag.to_owned());
    } else if text.starts_with(['>', '<', '=', '^', '~']) || text.contains(' ') {
        found.without_counterpart(field, Some("`tag` takes a pattern, v1.*: the newest by version; here any tag"));
        source.tag = Some("*".to_owned());
    } else if text.contains('*') || is_version(text) {
        source.tag = Some(text.to_owned());
    } else {
        source.branch = text.strip_prefix("refs/heads/").unwrap_or(text).to_owned();
    }
}

/// Reads a single value of a chart, unless its name says that it is secret.
fn set(found: &mut Found, parameter: &Field<'_>, chart: &mut HelmConfig) {
    let (name, value) = (parameter.text_of("name"), parameter.text_of("value").unwrap_or_default());
    let Some(name) = name else { return found.without_counterpart(parameter, Some("it has no name")) };
    if may_be_secret(name, value) {
        let instead = "belay.toml is no place for it: let the chart read it from a Secret of the cluster";
        return found.warn(parameter, "may be secret, and is left out", instead);
    }
    if parameter.is_true("forceString") && (value.parse::<f64>().is_ok() || ["true", "false", "null"].contains(&value))
    {
        return found.without_counterpart(parameter, Some("write it, in quotes, into a values file"));
    }
    // A comma would begin the next one; a list in braces is one value.
    let value = if value.starts_with('{') { value.to_owned() } else { value.replace("\\,", ",").replace(',', "\\,") };
    chart.set.insert(name.to_owned(), SetValue::Text(value));
}

fn sync_option(found: &mut Found, option: &Field<'_>) {
    let instead = match option.text().unwrap_or_default() {
        "CreateNamespace=true" => Some("commit a manifest of the Namespace"),
        "Replace=true" | "Force=true" => Some("delete an object by hand that must be made anew"),
        // belay does the rest anyway: server-side apply, deletions last, ignored fields left alone.
        "Validate=false" => Some("manifests are always checked"),
        "FailOnSharedResource=true" => Some("belay never takes an object from another source"),
        "Prune=false" | "Delete=false" => Some("leave `prune` out of the source"),
        _ => return,
    };
    found.without_counterpart(option, instead);
}

/// Returns the patterns of `{a.yaml,b/*}`, or of one.
fn globs(text: &str) -> Vec<String> {
    let inside = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    inside.split(',').map(str::trim).filter(|glob| !glob.is_empty()).map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_are_several_patterns() {
        assert_eq!(globs("{a.yaml, b/*}"), ["a.yaml", "b/*"]);
        assert_eq!((globs("*.yaml"), globs("")), (vec!["*.yaml".to_owned()], vec![]));
    }
}
