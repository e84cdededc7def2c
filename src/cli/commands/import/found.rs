//! The result for objects of Flux and Argo CD: sources, and settings without a counterpart.

use std::collections::{BTreeMap, BTreeSet};

use super::field::Field;
use crate::config::{Config, HelmConfig, IgnoreConfig, SourceConfig};
use crate::git::Location;
use belay_core::manifest::Complaint;

/// The meaning of each field of a kind for belay: `None` for one that is taken up, or that belay needs no word for; for
/// one without a counterpart, the advice.
pub(super) type Fields = &'static [(&'static str, Option<&'static str>)];

/// The result.
#[derive(Default)]
pub(super) struct Found {
    /// The sources that do the same.
    pub sources: Vec<SourceConfig>,
    /// The settings without a counterpart.
    pub warnings: Vec<Complaint>,
    /// The objects that can't be taken over.
    pub errors: Vec<Complaint>,
    /// The source's name for an object, by the object's kind and name.
    names: BTreeMap<(&'static str, String), String>,
    /// The sources that wait for an object, and the complaint if it has no source here.
    waits: Vec<(String, (&'static str, String), Complaint)>,
    /// The places that have been reported.
    told: BTreeSet<String>,
    /// The repository of objects whose own is not among the input.
    elsewhere: Option<String>,
}

impl Found {
    /// Returns an empty result; `repository` is the one of objects whose own is not among the input.
    pub(super) fn reading(repository: Option<&str>) -> Found {
        Found { elsewhere: repository.map(ToOwned::to_owned), ..Found::default() }
    }

    /// Reports that a field has no counterpart, and an alternative.
    pub(super) fn without_counterpart(&mut self, field: &Field<'_>, instead: Option<&str>) {
        self.warnings.push(field.complaint("has no counterpart", instead));
    }

    /// Says something else of a field.
    pub(super) fn warn(&mut self, field: &Field<'_>, message: &str, instead: &str) {
        self.warnings.push(field.complaint(message, Some(instead)));
    }

    /// Says that an object can't be taken over because of a field.
    pub(super) fn refuse(&mut self, field: &Field<'_>, message: &str, instead: &str) {
        self.errors.push(field.complaint(message, Some(instead)));
    }

    /// Names each field of a mapping that has no counterpart; one that is not known has none.
    pub(super) fn tell(&mut self, mapping: &Field<'_>, fields: Fields) {
        for field in mapping.inner() {
            match fields.iter().find(|(name, _)| *name == field.name()) {
                Some((_, None)) => {}
                Some((_, instead)) => self.without_counterpart(&field, *instead),
                None => self.without_counterpart(&field, None),
            }
        }
    }

    /// Returns true when this is reported for the first time: several objects may read one repository.
    pub(super) fn is_new(&mut self, field: &Field<'_>) -> bool {
        self.told.insert(field.complaint("", None).place.to_string())
    }

    /// Remembers the source of an object.
    pub(super) fn is_called(&mut self, kind: &'static str, object: &str, source: &str) {
        self.names.insert((kind, object.to_owned()), source.to_owned());
    }

    /// Notes the dependency of a source.
    pub(super) fn waits(&mut self, source: &str, (kind, object): (&'static str, &str), field: &Field<'_>) {
        let instead = "belay can wait for a source of the same configuration: `after` names it";
        let complaint = field.complaint("has no counterpart among these objects", Some(instead));
        self.waits.push((source.to_owned(), (kind, object.to_owned()), complaint));
    }

    /// Lets the sources wait for each other, if none would wait for itself.
    pub(super) fn order(&mut self) {
        for (name, on, complaint) in std::mem::take(&mut self.waits) {
            let after =
                |name: &str| self.sources.iter().find(|one| one.name == name).and_then(|one| one.after.as_deref());
            let on = self.names.get(&on).filter(|on| self.sources.iter().any(|one| one.name == **on)).cloned();
            let mut way = std::iter::successors(on.as_deref(), |at| after(at));
            let circle = way.any(|at| at == name);
            match (on, self.sources.iter_mut().find(|one| one.name == name)) {
                (Some(on), Some(source)) if !circle => source.after = Some(on),
                (_, Some(_)) => self.warnings.push(complaint),
                (_, None) => {}
            }
        }
    }

    /// Returns a source of this object, for the repository that a field names.
    pub(super) fn source(&mut self, object: &Field<'_>, url: &Field<'_>) -> Option<SourceConfig> {
        let text = url.text().unwrap_or_default();
        if let Err(error) = text.parse::<Location>() {
            self.refuse(url, "can't be followed", &error.to_string());
            return None;
        }
        Some(self.source_at(object, text))
    }

    /// Returns a source of this object, whose repository is not among the input: the given one, or a placeholder.
    pub(super) fn source_elsewhere(&mut self, object: &Field<'_>, reference: &Field<'_>) -> Option<SourceConfig> {
        if let Some(repository) = self.elsewhere.clone() {
            return Some(self.source_at(object, &repository));
        }
        if self.is_new(reference) {
            let message = "names a GitRepository that is not among what was read, so `repository` is a placeholder";
            self.warn(reference, message, "write its address there, or give it: --repository URL");
        }
        let name = reference.text_of("name").unwrap_or("repository");
        Some(self.source_at(object, &format!("https://git.example.com/{}.git", label(name))))
    }

    fn source_at(&self, object: &Field<'_>, repository: &str) -> SourceConfig {
        let name = self.name(object.text_of("metadata.name").unwrap_or("default"));
        SourceConfig { name, ..SourceConfig::of(repository) }
    }

    /// Returns a DNS label that no other source has.
    fn name(&self, name: &str) -> String {
        let label = label(name);
        let taken: BTreeSet<&str> = self.sources.iter().map(|source| source.name.as_str()).collect();
        let numbered = (2..).map(|number| format!("{label}-{number}"));
        let mut names = std::iter::once(label.clone()).chain(numbered);
        names.find(|name| !taken.contains(name.as_str())).unwrap_or_else(|| label.clone())
    }

    /// Takes a source up, if a configuration could have it.
    pub(super) fn take(&mut self, object: &Field<'_>, source: SourceConfig) {
        // Its dependencies are checked when all are known.
        match Config::check_source(&source, "it") {
            Ok(()) => self.sources.push(source),
            Err(error) => self.errors.push(object.complaint("can't be taken over", Some(&error.to_string()))),
        }
    }
}

/// Returns a name as a DNS label with room for a number behind it.
fn label(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let label: String = name.to_ascii_lowercase().chars().map(plain).take(58).collect();
    match label.trim_matches('-') {
        "" => "default".to_owned(),
        label => label.to_owned(),
    }
}

/// Returns a folder from the root of the repository, as belay writes it.
pub(super) fn folder(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

/// Returns the folder of a chart as `[[source.helm]]` names it: the repository's root has a name there.
pub(super) fn chart_folder(folder: &str) -> String {
    if folder.is_empty() { ".".to_owned() } else { folder.to_owned() }
}

/// Reads the values of a chart that are written in the object itself: they must lie in the repository.
pub(super) fn inline_values(found: &mut Found, values: &Field<'_>, chart: &mut HelmConfig, name: &str) {
    let file = format!("values-{name}.yaml");
    let path = format!("{}/{file}", chart.chart);
    let instead = format!("commit what it holds as {}, which `values` names", path.trim_start_matches("./"));
    found.without_counterpart(values, Some(&instead));
    if !chart.values.contains(&file) {
        chart.values.push(file);
    }
}

/// Adds a field that is left alone, as a JSON pointer; one that belay can't leave alone has no counterpart.
pub(super) fn ignored(found: &mut Found, field: &Field<'_>, pointer: Option<&str>, ignore: &mut IgnoreConfig) {
    match pointer.and_then(|pointer| pointer.parse().ok()) {
        Some(path) => ignore.fields.push(path),
        None => {
            found.without_counterpart(field, Some("`fields` of [[source.ignore]] are JSON pointers, /spec/replicas"))
        }
    }
}
