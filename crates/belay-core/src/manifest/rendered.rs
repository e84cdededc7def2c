//! The output of a tool: text to manifests, each with its original file as its place.

use std::sync::Arc;

use serde_json::Value;

use super::helm_hooks::{self, TooManyHooks};
use super::hook_deletion;
use super::set::{File, Reader, nothing_but};
use super::yaml::{self, Lines};
use super::{Compact, Complaint, Manifest, ManifestHash, Place, Scopes};

/// The annotation in which kustomize says where an object came from.
const ORIGIN: &str = "config.kubernetes.io/origin";
/// The comment in which Helm does.
const SOURCE: &str = "# Source: ";

/// The way in which a tool names the origin of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origins {
    /// Kustomize's annotation, with paths from the unit's folder.
    Annotation {
        /// True when the kustomization itself asks for it; else it is taken out again.
        kept: bool,
    },
    /// Helm's comment, with paths that begin with the chart's name instead of its folder.
    Comment,
}

/// The output of rendering.
#[derive(Clone, Debug)]
pub struct Rendered<'a> {
    /// The path of the file that makes a folder a unit.
    pub path: &'a str,
    /// The unit's folder; empty for the root.
    pub folder: &'a str,
    /// The way in which the tool names the origin of an object.
    pub origins: Origins,
}

/// Reads the output of a tool. The same text, unit and `scopes` always give the same answer.
#[must_use]
pub fn read_rendered(rendered: &Rendered<'_>, bytes: &[u8], scopes: &Scopes) -> File {
    let unit: Arc<str> = rendered.path.into();
    let text = match yaml::decode(bytes) {
        Ok(text) => text,
        Err(complaint) => {
            let mut file = nothing_but(Arc::clone(&unit), "", complaint);
            Places { unit, origins: Vec::new() }.place_complaints(&mut file, rendered.folder);
            return file;
        }
    };
    // Without a path: a rendered object may not use the rights of the unit's own file.
    let lines = Lines::new(&text);
    let mut file = Reader::new("".into(), &text, &lines, scopes).read();
    file.path = Arc::clone(&unit);
    let origins = Places::of(rendered, &text, &lines, &unit);
    for manifest in &mut file.manifests {
        manifest.place = origins.at(manifest.place.line);
        manifest.rendered_by = Some(Arc::clone(&unit));
        manifest.starts = Arc::new([]);
        if rendered.origins == (Origins::Annotation { kept: false }) {
            take_out_origin(manifest);
        }
    }
    if rendered.origins == Origins::Comment {
        if let Err(TooManyHooks) = helm_hooks::order(&mut file.manifests) {
            return too_many_hooks(&unit);
        }
        if let Some(hook) = hook_deletion::note_users(&mut file.manifests) {
            file.warnings.push(hook_deletion::stays(&unit, hook));
        }
    }
    origins.place_complaints(&mut file, rendered.folder);
    file
}

/// Returns a unit that could not be rendered: one complaint. Its former objects are still meant.
#[must_use]
pub fn not_rendered(path: &str, place: Place, message: String, hint: Option<String>) -> File {
    let message = super::report::harmless(&message);
    File::unreadable(path.into(), vec![Complaint::of_file(place, message, hint)])
}

/// Returns a chart whose hooks can't be put in their order. Its former objects are still meant.
fn too_many_hooks(unit: &Arc<str>) -> File {
    let place = Place { path: Arc::clone(unit), line: 1, column: 1 };
    let mib = helm_hooks::NAMES >> 20;
    let message = format!(
        "the objects of the chart wait for its hooks, whose names take more than {mib} MiB: each names all before it"
    );
    let hint = "give the chart fewer hooks, or fewer objects".to_owned();
    File::unreadable(Arc::clone(unit), vec![Complaint::of_file(place, message, Some(hint))])
}

/// The origin of each part of a rendered text.
struct Places {
    unit: Arc<str>,
    /// The first line of each document, and its file.
    origins: Vec<(u32, Arc<str>)>,
}

impl Places {
    fn of(rendered: &Rendered<'_>, text: &str, lines: &Lines, unit: &Arc<str>) -> Places {
        let mut origins = match rendered.origins {
            Origins::Annotation { .. } => annotated(text, lines, rendered.folder, unit),
            Origins::Comment => commented(text, rendered.folder),
        };
        // Objects of one file share its name.
        origins.dedup_by(|next, last| next.1 == last.1);
        Places { unit: Arc::clone(unit), origins }
    }

    /// Returns the beginning of the file that a line came from: the tools name no lines.
    fn at(&self, line: u32) -> Place {
        let after = self.origins.partition_point(|(first, _)| *first <= line);
        let origin = after.checked_sub(1).and_then(|index| self.origins.get(index));
        let path = origin.map_or_else(|| Arc::clone(&self.unit), |(_, path)| Arc::clone(path));
        Place { path, line: 1, column: 1 }
    }

    /// Gives complaints about the text the places of its origins.
    fn place_complaints(&self, file: &mut File, folder: &str) {
        for complaint in file.complaints.iter_mut().chain(&mut file.warnings) {
            complaint.place = self.at(complaint.place.line);
            complaint.also.iter_mut().for_each(|note| note.place = self.at(note.place.line));
            // Its line is none of that file.
            complaint.excerpt = None;
            complaint.also.iter_mut().for_each(|note| note.excerpt = None);
            *complaint = complaint.clone().as_rendered(folder);
        }
    }
}

fn annotated(text: &str, lines: &Lines, folder: &str, unit: &Arc<str>) -> Vec<(u32, Arc<str>)> {
    let origin = |document: &yaml::Document<'_>| {
        let placed = document.read().0?;
        let path = origin_of(placed.value()).and_then(|path| join(folder, &path));
        Some((placed.root().span().start.line, path.map_or_else(|| Arc::clone(unit), Into::into)))
    };
    let mut origins = Vec::new();
    // The faults of the text were reported when its objects were read.
    let _ = yaml::each_document(text, lines, |document| origins.extend(origin(&document)));
    origins
}

fn origin_of(object: &Value) -> Option<String> {
    let origin = object.pointer("/metadata/annotations")?.get(ORIGIN)?.as_str()?;
    let named = |key: &str| origin.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    named("path:").or_else(|| named("configuredIn:")).map(ToOwned::to_owned)
}

fn commented(text: &str, folder: &str) -> Vec<(u32, Arc<str>)> {
    let origin = |(number, line): (usize, &str)| {
        let (_, path) = line.strip_prefix(SOURCE)?.trim().split_once('/')?;
        Some((u32::try_from(number + 1).ok()?, join(folder, path)?.into()))
    };
    text.lines().enumerate().filter_map(origin).collect()
}

/// Returns a path from a folder of the repository, from its root. `None` if it leaves the repository, or begins at
/// the root of the machine.
#[must_use]
pub fn join(folder: &str, path: &str) -> Option<String> {
    if path.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Takes out the annotation that belay asked for.
fn take_out_origin(manifest: &mut Manifest) {
    let mut value = manifest.value();
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    if annotations.remove(ORIGIN).is_none() {
        return;
    }
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    manifest.hash = ManifestHash::of(&value);
    manifest.value = Compact::of(&value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::read_file;

    const CONFIG_MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ";

    fn kustomized(text: &str) -> File {
        let origins = Origins::Annotation { kept: false };
        let rendered = Rendered { path: "over/kustomization.yaml", folder: "over", origins };
        read_rendered(&rendered, text.as_bytes(), &Scopes::new("default"))
    }

    fn annotated(name: &str, origin: &str) -> String {
        format!("{CONFIG_MAP}{name}\n  annotations:\n    {ORIGIN}: |\n      {origin}\n")
    }

    #[test]
    fn an_object_has_the_place_of_its_origin_and_says_nothing_of_it() {
        let text = format!(
            "{}---\n{}---\n{CONFIG_MAP}c\n",
            annotated("a", "path: ../base/a.yaml"),
            annotated("b", "configuredIn: kustomization.yaml")
        );
        let file = kustomized(&text);
        assert_eq!(file.complaints, []);
        let places: Vec<String> = file.manifests.iter().map(|manifest| manifest.place.to_string()).collect();
        assert_eq!(places, ["base/a.yaml:1:1", "over/kustomization.yaml:1:1", "over/kustomization.yaml:1:1"]);
        assert!(
            file.manifests.iter().all(|manifest| manifest.rendered_by.as_deref() == Some("over/kustomization.yaml"))
        );
        let plain = read_file("a.yaml", format!("{CONFIG_MAP}a\n").as_bytes(), &Scopes::new("default"));
        assert_eq!(file.manifests[0].hash, plain.manifests[0].hash);
        assert_eq!(file.manifests[0].value(), plain.manifests[0].value());
        assert_eq!(file.manifests[0].place_of("metadata.name").to_string(), "base/a.yaml:1:1");
    }

    #[test]
    fn output_that_is_no_text_is_the_units_complaint() {
        let origins = Origins::Annotation { kept: false };
        let rendered = Rendered { path: "over/kustomization.yaml", folder: "over", origins };
        let file = read_rendered(&rendered, b"a: b\nc: \xff\xff\n", &Scopes::new("default"));
        let [complaint] = &file.complaints[..] else { panic!("{:?}", file.complaints) };
        assert_eq!(complaint.place.to_string(), "over/kustomization.yaml:1:1", "line 2 is the output's");
        assert!(complaint.message.ends_with("(as rendered from over)") && complaint.excerpt.is_none(), "{complaint}");
    }

    #[test]
    fn annotations_of_the_users_stay() {
        let text = annotated("a", "path: a.yaml") + "    note: mine\n";
        let annotations = kustomized(&text).manifests[0].value()["metadata"]["annotations"].clone();
        assert_eq!(annotations, serde_json::json!({"note": "mine"}));
        let rendered = Rendered { path: "k", folder: "", origins: Origins::Annotation { kept: true } };
        let kept = read_rendered(&rendered, text.as_bytes(), &Scopes::new("default"));
        assert!(kept.manifests[0].value()["metadata"]["annotations"].get(ORIGIN).is_some());
    }

    #[test]
    fn a_complaint_names_the_file_and_the_unit() {
        let text = annotated("a", "path: ../base/a.yaml") + "datta: {}\n";
        let file = kustomized(&text);
        let complaint = &file.complaints[0];
        assert_eq!(complaint.place.to_string(), "base/a.yaml:1:1");
        assert!(complaint.message.contains("datta"), "{complaint}");
        assert!(complaint.message.ends_with("(ConfigMap default/a, as rendered from over)"), "{complaint}");
    }

    #[test]
    fn a_warning_names_the_object_and_the_unit() {
        let role = |name: &str| {
            format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata:\n  name: {name}\n  namespace: shop\n  \
                 annotations: {{{ORIGIN}: 'path: ../base/roles.yaml'}}\nrules: []\n"
            )
        };
        let file = kustomized(&format!("{}---\n{}", role("reads"), role("writes")));
        let told: Vec<String> = file.warnings.iter().map(ToString::to_string).collect();
        let words = |name: &str| format!("(ClusterRole {name}, as rendered from over)");
        assert!(told.len() == 2 && told.iter().all(|warning| warning.starts_with("base/roles.yaml:1:1: ")), "{told:?}");
        assert!(told[0].contains(&words("reads")) && told[1].contains(&words("writes")), "{told:?}");
    }

    #[test]
    fn what_is_no_object_is_complained_about() {
        let file = kustomized("replicas: 2\n");
        assert!(file.unreadable && file.complaints[0].message.contains("no Kubernetes object"), "{file:?}");
    }

    #[test]
    fn helm_names_files_by_the_chart() {
        let text = format!(
            "---\n# Source: web/templates/a.yaml\n{CONFIG_MAP}a\n---\n# Source: web/charts/db/x.yaml\n{CONFIG_MAP}b\n"
        );
        let rendered = Rendered { path: "apps/web/Chart.yaml", folder: "apps/web", origins: Origins::Comment };
        let file = read_rendered(&rendered, text.as_bytes(), &Scopes::new("default"));
        let places: Vec<String> = file.manifests.iter().map(|manifest| manifest.place.to_string()).collect();
        assert_eq!(places, ["apps/web/templates/a.yaml:1:1", "apps/web/charts/db/x.yaml:1:1"]);
    }

    #[test]
    fn no_path_leaves_the_repository() {
        assert_eq!(join("a/b", "../c.yaml").as_deref(), Some("a/c.yaml"));
        assert_eq!(join("a", "../../c.yaml"), None);
        assert_eq!(join("a", "/etc/passwd"), None);
        assert_eq!(join("", "./x//y/../z").as_deref(), Some("x/z"));
    }
}
