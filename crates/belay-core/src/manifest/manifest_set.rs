//! All files of a folder at a commit: the place of each object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::schema::Definition;
use super::{Complaint, File, GroupKind, ManifestHash, Note, ObjectKey, Place};

/// An index of a folder's files: names, places and hashes, not the manifests themselves, so that it stays small.
///
/// A clone shares everything with its original, and a file that is replaced in one of them costs that file's work: two heads
/// of a repository of 10,000 files can be kept side by side.
///
/// It is kept up to date file by file. A file has to be read again when the definition of a custom kind in it changes, which
/// [`ManifestSet::replace`] says:
///
/// ```text
/// while let Some(path) = paths.pop_first() {
///     let file = read_file(&path, &bytes_of(&path), &scopes);
///     for kind in set.replace(&path, Some(&file)) {
///         match set.definition(&kind) {
///             Some(definition) => scopes.define(definition.clone()),
///             None => scopes.forget(&kind),
///         }
///         paths.extend(set.files_with(&kind));
///     }
/// }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ManifestSet {
    files: RedBlackTreeMapSync<Arc<str>, Arc<Entry>>,
    /// The places of each object: mostly one.
    objects: RedBlackTreeMapSync<Arc<ObjectKey>, Box<[Written]>>,
    /// Those that are written more than once.
    twice: RedBlackTreeSetSync<Arc<ObjectKey>>,
}

/// The place of an object, and the hash of its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// The place.
    pub place: Place,
    /// The file that it was read from: another than that of its place where it was rendered.
    pub file: Arc<str>,
    /// The hash of its manifest.
    pub hash: ManifestHash,
}

#[derive(Clone, Debug)]
struct Entry {
    objects: Box<[Arc<ObjectKey>]>,
    unreadable: bool,
    complaints: Box<[Complaint]>,
    definitions: Box<[Definition]>,
    custom: Box<[GroupKind]>,
}

#[derive(Clone, Debug)]
struct Written {
    place: Place,
    file: Arc<str>,
    /// `None` if something is wrong with it.
    hash: Option<ManifestHash>,
}

impl ManifestSet {
    /// Returns a set without files.
    #[must_use]
    pub fn new() -> ManifestSet {
        ManifestSet::default()
    }

    /// Puts a file in the place of the former facts about that path, or takes the path away.
    ///
    /// Returns the custom kinds whose definition changed by that: the files of [`ManifestSet::files_with`] must be read
    /// again. The work grows with this file and the old one, not with the others.
    pub fn replace(&mut self, path: &str, file: Option<&File>) -> BTreeSet<GroupKind> {
        let old = self.files.get(path).cloned();
        if let Some(old) = &old {
            self.files.remove_mut(path);
            self.forget_objects(path, &old.objects);
        }
        let new = file.map(|file| Arc::new(self.take_up(file)));
        let definitions = |entry: &Option<Arc<Entry>>| -> BTreeMap<GroupKind, Definition> {
            let all = entry.iter().flat_map(|entry| entry.definitions.iter());
            all.map(|definition| (kind_of(definition), definition.clone())).collect()
        };
        let (before, after) = (definitions(&old), definitions(&new));
        if let (Some(file), Some(new)) = (file, new) {
            self.files.insert_mut(file.path.clone(), new);
        }
        let kinds = before.keys().chain(after.keys());
        kinds.filter(|kind| before.get(kind) != after.get(kind)).cloned().collect()
    }

    /// Returns the place of an object that is written once and has no complaint.
    #[must_use]
    pub fn locate(&self, key: &ObjectKey) -> Option<Located> {
        match &**self.objects.get(key)? {
            [Written { place, file, hash: Some(hash) }] => {
                Some(Located { place: place.clone(), file: Arc::clone(file), hash: *hash })
            }
            _ => None,
        }
    }

    /// Returns true when an object is written anywhere, valid or not: somebody wants it to exist.
    #[must_use]
    pub fn mentions(&self, key: &ObjectKey) -> bool {
        self.objects.contains_key(key)
    }

    /// Files that hold something of which not even the name could be read. Their former objects may still be meant.
    pub fn unreadable(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.iter().filter(|(_, entry)| entry.unreadable).map(|(path, _)| path)
    }

    /// Returns every object that is written once and that nothing is wrong with, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, Located)> {
        self.objects.iter().filter_map(|(key, written)| match &**written {
            [Written { place, file, hash: Some(hash) }] => {
                Some((key.as_ref(), Located { place: place.clone(), file: Arc::clone(file), hash: *hash }))
            }
            _ => None,
        })
    }

    /// Returns the objects that a file holds, with those that something is wrong with, in the order of the file.
    pub fn objects_in(&self, path: &str) -> impl Iterator<Item = &ObjectKey> {
        self.files.get(path).into_iter().flat_map(|entry| entry.objects.iter().map(Arc::as_ref))
    }

    /// Returns the paths, in their order.
    pub fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.keys()
    }

    /// Returns the number of files.
    #[must_use]
    pub fn len(&self) -> usize {
        self.files.size()
    }

    /// Returns true when there is no file.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Returns one complaint for each object that is written in more than one file.
    #[must_use]
    pub fn duplicates(&self) -> Vec<Complaint> {
        self.twice.iter().filter_map(|key| self.duplicate(key)).collect()
    }

    /// Returns all complaints: those of the files, in the order of their paths, then [`ManifestSet::duplicates`].
    #[must_use]
    pub fn complaints(&self) -> Vec<Complaint> {
        let of_files = self.files.values().flat_map(|entry| entry.complaints.iter().cloned());
        of_files.chain(self.duplicates()).collect()
    }

    /// Returns the definition of a custom kind, if the files hold one.
    #[must_use]
    pub fn definition(&self, kind: &GroupKind) -> Option<&Definition> {
        self.definitions().find(|definition| definition.group == kind.group && definition.kind == kind.kind)
    }

    /// Returns all definitions of custom kinds.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.files.values().flat_map(|entry| entry.definitions.iter())
    }

    /// Returns the files that hold objects of a custom kind.
    pub fn files_with(&self, kind: &GroupKind) -> impl Iterator<Item = Arc<str>> {
        self.files.iter().filter(move |(_, entry)| entry.custom.contains(kind)).map(|(path, _)| path.clone())
    }

    fn take_up(&mut self, file: &File) -> Entry {
        let mut objects = Vec::new();
        for manifest in &file.manifests {
            let written =
                Written { place: manifest.place.clone(), file: Arc::clone(&file.path), hash: Some(manifest.hash) };
            objects.push(self.write(&manifest.key, written));
        }
        for key in &file.rejected {
            let about = file.complaints.iter().find(|complaint| complaint.object.as_ref() == Some(key));
            let beginning = || Place { path: file.path.clone(), line: 1, column: 1 };
            let place = about.map_or_else(beginning, |complaint| complaint.place.clone());
            objects.push(self.write(key, Written { place, file: Arc::clone(&file.path), hash: None }));
        }
        Entry {
            objects: objects.into(),
            unreadable: file.unreadable,
            complaints: file.complaints.clone().into(),
            definitions: file.definitions.clone().into(),
            custom: file.custom.iter().cloned().collect(),
        }
    }

    fn write(&mut self, key: &ObjectKey, written: Written) -> Arc<ObjectKey> {
        let key = match self.objects.get_key_value(key) {
            Some((key, _)) => key.clone(),
            None => Arc::new(key.clone()),
        };
        let mut all = self.objects.get(&key).map(|all| all.to_vec()).unwrap_or_default();
        all.push(written);
        if all.len() > 1 {
            all.sort_by(|a, b| (&a.place, &a.file).cmp(&(&b.place, &b.file)));
            self.twice.insert_mut(key.clone());
        }
        self.objects.insert_mut(key.clone(), all.into());
        key
    }

    fn forget_objects(&mut self, path: &str, keys: &[Arc<ObjectKey>]) {
        for key in keys {
            let Some(all) = self.objects.get(key) else { continue };
            let left: Box<[Written]> = all.iter().filter(|written| &*written.file != path).cloned().collect();
            if left.len() < 2 {
                self.twice.remove_mut(key);
            }
            if left.is_empty() {
                self.objects.remove_mut(key);
            } else {
                self.objects.insert_mut(Arc::clone(key), left);
            }
        }
    }

    fn duplicate(&self, key: &Arc<ObjectKey>) -> Option<Complaint> {
        let all = self.objects.get(key)?;
        let [first, second, others @ ..] = &**all else { return None };
        let note = |written: &Written, message: &str| Note {
            place: written.place.clone(),
            message: format!("{message}{}", written.rendered()),
            excerpt: None,
        };
        let others = others.iter().map(|other| note(other, "and here"));
        let is_shared =
            all.iter().any(|one| all.iter().any(|other| one.file != other.file && one.place == other.place));
        let hint = if is_shared {
            "follow one of those that render it, or let each give it another name or namespace"
        } else {
            "leave all but one of them out"
        };
        Some(Complaint {
            place: second.place.clone(),
            object: Some(key.as_ref().clone()),
            message: format!("{key} is written in more than one place{}", second.rendered()),
            hint: Some(hint.to_owned()),
            excerpt: None,
            also: std::iter::once(note(first, "first written here")).chain(others).collect(),
        })
    }
}

impl Written {
    /// Names the tool that rendered it, if it is not read as it is written.
    fn rendered(&self) -> String {
        if self.file == self.place.path { String::new() } else { format!(" (rendered by {})", self.file) }
    }
}

fn kind_of(definition: &Definition) -> GroupKind {
    GroupKind { group: definition.group.clone(), kind: definition.kind.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::{Scopes, read_file};

    fn config_map(name: &str, value: &str) -> String {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{k: {value}}}\n")
    }

    fn put(set: &mut ManifestSet, path: &str, text: &str) -> BTreeSet<GroupKind> {
        set.replace(path, Some(&read_file(path, text.as_bytes(), &Scopes::new("default"))))
    }

    fn key(name: &str) -> ObjectKey {
        let (group, kind) = (String::new(), "ConfigMap".to_owned());
        ObjectKey { group, kind, namespace: Some("default".to_owned()), name: name.to_owned() }
    }

    #[test]
    fn what_two_units_render_names_both() {
        let mut set = ManifestSet::new();
        for unit in ["two/kustomization.yaml", "one/kustomization.yaml"] {
            let mut file = read_file("base/cm.yaml", config_map("x", "one").as_bytes(), &Scopes::new("default"));
            file.path = unit.into();
            set.replace(unit, Some(&file));
        }
        let [complaint] = &set.duplicates()[..] else { panic!("one duplicate") };
        let said = "base/cm.yaml:1:1: ConfigMap default/x is written in more than one place (rendered by \
                    two/kustomization.yaml) (follow one of those that render it, or let each give it another name or \
                    namespace); base/cm.yaml:1:1: first written here (rendered by one/kustomization.yaml)";
        assert_eq!(complaint.to_string(), said);
    }

    #[test]
    fn an_object_in_two_files_is_in_neither() {
        let mut set = ManifestSet::new();
        put(&mut set, "a.yaml", &config_map("x", "one"));
        put(&mut set, "b.yaml", &format!("{}---\n{}", config_map("w", "one"), config_map("x", "two")));
        assert_eq!(set.locate(&key("x")), None);
        assert!(set.mentions(&key("x")));
        assert_eq!(set.locate(&key("w")).unwrap().place.to_string(), "b.yaml:1:1");
        let [complaint] = &set.duplicates()[..] else { panic!("one duplicate") };
        assert_eq!(
            (complaint.place.to_string(), complaint.also[0].place.to_string()),
            ("b.yaml:6:1".into(), "a.yaml:1:1".into())
        );

        put(&mut set, "b.yaml", &config_map("w", "one"));
        assert!(set.duplicates().is_empty());
        assert_eq!(set.locate(&key("x")).unwrap().place.to_string(), "a.yaml:1:1");
        set.replace("a.yaml", None);
        assert!(!set.mentions(&key("x")));
        assert_eq!(set.iter().map(|(key, _)| key.name.as_str()).collect::<Vec<_>>(), ["w"]);
    }

    #[test]
    fn what_is_rejected_is_still_mentioned() {
        let mut set = ManifestSet::new();
        put(&mut set, "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndatta: {}\n");
        assert!(set.mentions(&key("x")) && set.locate(&key("x")).is_none());
        assert_eq!(set.unreadable().count(), 0);
        put(&mut set, "a.yaml", "a: [");
        assert!(!set.mentions(&key("x")));
        assert_eq!(set.unreadable().count(), 1);
    }

    #[test]
    fn a_changed_definition_names_the_files_to_read_again() {
        let crd = |field: &str| {
            format!(
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.example.com}}\n\
                 spec: {{group: example.com, scope: Namespaced, names: {{kind: Thing, plural: things}}, versions: [{{name: v1, \
                 served: true, storage: true, schema: {{openAPIV3Schema: {{type: object, properties: {{{field}: {{type: string}}}}}}}}}}]}}\n"
            )
        };
        let mut set = ManifestSet::new();
        put(&mut set, "thing.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\na: x\n");
        let changed = put(&mut set, "crd.yaml", &crd("a"));
        let thing = GroupKind { group: "example.com".to_owned(), kind: "Thing".to_owned() };
        assert_eq!(changed, BTreeSet::from([thing.clone()]));
        assert_eq!(set.files_with(&thing).map(|path| path.to_string()).collect::<Vec<_>>(), ["thing.yaml"]);
        assert!(put(&mut set, "crd.yaml", &crd("a")).is_empty());
        assert_eq!(put(&mut set, "crd.yaml", &crd("b")), BTreeSet::from([thing.clone()]));
        assert!(set.definition(&thing).is_some());
        assert_eq!(set.replace("crd.yaml", None), BTreeSet::from([thing]));
    }
}
