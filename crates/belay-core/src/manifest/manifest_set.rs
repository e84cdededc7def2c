//! All files of a folder at a commit: the place of each object.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::schema::Definition;
use super::written::{Written, WrittenPlaces};
use super::{Complaint, File, GroupKind, ManifestHash, ObjectKey, Place};

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
    objects: RedBlackTreeMapSync<Arc<ObjectKey>, WrittenPlaces>,
    /// Those that are written more than once.
    twice: RedBlackTreeSetSync<Arc<ObjectKey>>,
    /// The definitions of each custom kind, by the files that hold one.
    definitions: RedBlackTreeMapSync<GroupKind, RedBlackTreeMapSync<Arc<str>, Definition>>,
    /// The files that hold objects of each custom kind.
    custom: RedBlackTreeMapSync<GroupKind, RedBlackTreeSetSync<Arc<str>>>,
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

impl ManifestSet {
    /// Returns a set without files.
    #[must_use]
    pub fn new() -> ManifestSet {
        ManifestSet::default()
    }

    /// Puts a file in the place of the former facts about that path, or takes the path away.
    ///
    /// Returns the custom kinds whose definition changed by that: the files of [`ManifestSet::files_with`] must be read
    /// again. The work grows with this file and the old one, not with the others: of several definitions of a kind the first counts.
    pub fn replace(&mut self, path: &str, file: Option<&File>) -> BTreeSet<GroupKind> {
        let old = self.files.get_key_value(path).map(|(path, old)| (Arc::clone(path), Arc::clone(old)));
        let of_old = old.iter().flat_map(|(_, old)| old.definitions.iter());
        let of_new = file.iter().flat_map(|file| file.definitions.iter());
        let kinds: BTreeSet<GroupKind> = of_old.chain(of_new).map(kind_of).collect();
        let before: BTreeMap<GroupKind, Option<Definition>> =
            kinds.into_iter().map(|kind| (kind.clone(), self.definition(&kind).cloned())).collect();
        if let Some((path, old)) = &old {
            self.files.remove_mut(path);
            self.forget(path, old);
        }
        if let Some(file) = file {
            let new = self.take_up(file);
            self.files.insert_mut(file.path.clone(), Arc::new(new));
        }
        let changed = before.into_iter().filter(|(kind, before)| self.definition(kind) != before.as_ref());
        changed.map(|(kind, _)| kind).collect()
    }

    /// Returns the place of an object that is written once and has no complaint.
    #[must_use]
    pub fn locate(&self, key: &ObjectKey) -> Option<Located> {
        match self.objects.get(key)? {
            WrittenPlaces::One(Written { place, file, hash: Some(hash) }) => {
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
        self.objects.iter().filter_map(|(key, written)| match written {
            WrittenPlaces::One(Written { place, file, hash: Some(hash) }) => {
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
        self.twice.iter().filter_map(|key| self.objects.get(key)?.complaint(key)).collect()
    }

    /// Returns all complaints: those of the files, in the order of their paths, then [`ManifestSet::duplicates`].
    #[must_use]
    pub fn complaints(&self) -> Vec<Complaint> {
        let of_files = self.files.values().flat_map(|entry| entry.complaints.iter().cloned());
        of_files.chain(self.duplicates()).collect()
    }

    /// Returns the first complaint about an object that is meant, as [`ManifestSet::complaints`] has it.
    #[must_use]
    pub fn complaint_about(&self, is_meant: impl Fn(&ObjectKey) -> bool) -> Option<Complaint> {
        let of_files = || self.files.values().flat_map(|entry| entry.complaints.iter());
        let of_file = of_files().find(|complaint| complaint.object.as_ref().is_some_and(&is_meant)).cloned();
        let twice =
            || self.twice.iter().filter(|key| is_meant(key)).find_map(|key| self.objects.get(key)?.complaint(key));
        of_file.or_else(twice)
    }

    /// Returns the definition of a custom kind, if the files hold one.
    #[must_use]
    pub fn definition(&self, kind: &GroupKind) -> Option<&Definition> {
        self.definitions.get(kind)?.first().map(|(_, definition)| definition)
    }

    /// Returns all definitions of custom kinds.
    pub fn definitions(&self) -> impl Iterator<Item = &Definition> {
        self.files.values().flat_map(|entry| entry.definitions.iter())
    }

    /// Returns the files that hold objects of a custom kind.
    pub fn files_with(&self, kind: &GroupKind) -> impl Iterator<Item = Arc<str>> {
        self.custom.get(kind).into_iter().flat_map(|files| files.iter().cloned())
    }

    fn take_up(&mut self, file: &File) -> Entry {
        let mut objects = Vec::new();
        for manifest in &file.manifests {
            let written =
                Written { place: manifest.place.clone(), file: Arc::clone(&file.path), hash: Some(manifest.hash) };
            objects.push(self.write(&manifest.key, written));
        }
        let mut complaints: BTreeMap<&ObjectKey, &Place> = BTreeMap::new();
        for (object, place) in file.complaints.iter().filter_map(|one| Some((one.object.as_ref()?, &one.place))) {
            complaints.entry(object).or_insert(place);
        }
        for key in &file.rejected {
            let beginning = || Place { path: file.path.clone(), line: 1, column: 1 };
            let place = complaints.get(key).map_or_else(beginning, |place| (*place).clone());
            objects.push(self.write(key, Written { place, file: Arc::clone(&file.path), hash: None }));
        }
        // The first of several of one kind in the file counts, too.
        for definition in file.definitions.iter().rev() {
            let kind = kind_of(definition);
            let mut files = self.definitions.get(&kind).cloned().unwrap_or_else(RedBlackTreeMapSync::new_sync);
            files.insert_mut(Arc::clone(&file.path), definition.clone());
            self.definitions.insert_mut(kind, files);
        }
        for kind in &file.custom {
            let mut files = self.custom.get(kind).cloned().unwrap_or_else(RedBlackTreeSetSync::new_sync);
            files.insert_mut(Arc::clone(&file.path));
            self.custom.insert_mut(kind.clone(), files);
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
        let all = match self.objects.get(&key).cloned() {
            Some(others) => others.and(written),
            None => WrittenPlaces::One(written),
        };
        if matches!(all, WrittenPlaces::Many(_)) {
            self.twice.insert_mut(key.clone());
        }
        self.objects.insert_mut(key.clone(), all);
        key
    }

    fn forget(&mut self, path: &Arc<str>, entry: &Entry) {
        for key in &entry.objects {
            let Some(all) = self.objects.get(key).cloned() else { continue };
            let left = all.without(path);
            if !matches!(left, Some(WrittenPlaces::Many(_))) {
                self.twice.remove_mut(key);
            }
            match left {
                Some(left) => self.objects.insert_mut(Arc::clone(key), left),
                None => drop(self.objects.remove_mut(key)),
            }
        }
        for kind in entry.definitions.iter().map(kind_of) {
            match self.definitions.get(&kind).map(|files| files.remove(path)).filter(|files| !files.is_empty()) {
                Some(files) => self.definitions.insert_mut(kind, files),
                None => drop(self.definitions.remove_mut(&kind)),
            }
        }
        for kind in &entry.custom {
            match self.custom.get(kind).map(|files| files.remove(path)).filter(|files| !files.is_empty()) {
                Some(files) => self.custom.insert_mut(kind.clone(), files),
                None => drop(self.custom.remove_mut(kind)),
            }
        }
    }
}

fn kind_of(definition: &Definition) -> GroupKind {
    GroupKind { group: definition.group.clone(), kind: definition.kind.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::thread_time;
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

    /// A few trees of Git stand for hundreds of thousands of paths of one file.
    #[test]
    fn one_object_in_very_many_files_takes_the_time_of_so_many() {
        const FILES: usize = 60_000;
        let before = thread_time::of_this_thread();
        let mut file = read_file("a.yaml", config_map("x", "one").as_bytes(), &Scopes::new("default"));
        let mut set = ManifestSet::new();
        let paths: Vec<String> = (0..FILES).map(|at| format!("{at:06}.yaml")).collect();
        for path in &paths {
            file.path = path.as_str().into();
            file.manifests[0].place.path = path.as_str().into();
            set.replace(path, Some(&file));
        }
        assert_eq!(set.locate(&key("x")), None);
        let [complaint] = &set.duplicates()[..] else { panic!("one duplicate") };
        let said = complaint.to_string();
        assert!(said.len() < 5_000 && said.ends_with("and here, the first of 59978 more places"), "{said}");
        for path in &paths[1..] {
            set.replace(path, None);
        }
        assert!(set.duplicates().is_empty() && set.locate(&key("x")).is_some());
        let taken = thread_time::of_this_thread() - before;
        assert!(taken < thread_time::FEW, "{taken:?}");
    }

    #[test]
    fn a_definition_that_stands_in_very_many_files_is_one() {
        let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: things.example.com}\n\
                   spec: {group: example.com, scope: Namespaced, names: {kind: Thing, plural: things}, versions: [{name: v1, \
                   served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n";
        let mut set = ManifestSet::new();
        let thing = GroupKind { group: "example.com".to_owned(), kind: "Thing".to_owned() };
        put(&mut set, "a.yaml", "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\na: x\n");
        assert_eq!(put(&mut set, "b.yaml", crd), BTreeSet::from([thing.clone()]));
        for path in ["c.yaml", "d.yaml"] {
            assert_eq!(put(&mut set, path, crd), BTreeSet::new(), "nothing is to be read again");
        }
        assert_eq!(set.replace("b.yaml", None), BTreeSet::new(), "the next one is the same");
        set.replace("c.yaml", None);
        assert!(set.definition(&thing).is_some());
        assert_eq!(set.replace("d.yaml", None), BTreeSet::from([thing.clone()]));
        assert_eq!(set.definition(&thing), None);
        set.replace("a.yaml", None);
        assert_eq!(set.files_with(&thing).count(), 0);
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
