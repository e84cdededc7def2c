//! What the repository holds, in short: which object is written where. The manifests themselves stay in Git until they
//! are needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::units::Content;
use crate::git::GitError;
use belay_core::manifest::{Complaint, File, GroupKind, Manifest, ManifestHash, ManifestSet, ObjectKey, Place, Scopes};
use belay_core::rollout::{
    After, CommitId, Reading, configuration_hash, contents_hash, is_configuration, named_configuration, readings,
    scaled_by, template, wrong_order,
};

/// A file that was read: what it holds, and what it was read from where it can be read again.
#[derive(Clone, Debug)]
pub(super) struct ReadFile {
    pub file: Arc<File>,
    pub content: Option<Content>,
}

/// What the repository holds at a commit.
pub(super) struct DesiredState {
    /// The commit.
    pub at: Option<CommitId>,
    /// The newest commit of which all was told. It is older than `at` where reading the rest of what `at` says failed.
    pub told: Option<CommitId>,
    pub scopes: Scopes,
    set: ManifestSet,
    notes: BTreeMap<Arc<str>, Note>,
    /// ConfigMaps and Secrets, and the workloads whose templates name them.
    users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// The files with objects that wait for others.
    waiting: BTreeSet<Arc<str>>,
    /// What HorizontalPodAutoscalers target, and the files that those are in.
    scaled: BTreeMap<ObjectKey, BTreeSet<Arc<str>>>,
    /// `apiVersion` and kind of all objects, and in how many files each is.
    kinds: BTreeMap<Arc<(String, String)>, usize>,
}

/// What is kept of a file beside its objects.
#[derive(Default)]
struct Note {
    content: Option<Content>,
    /// `apiVersion` and kind of its objects, each once.
    kinds: Box<[Arc<(String, String)>]>,
    /// What its HorizontalPodAutoscalers target.
    scaled: BTreeSet<ObjectKey>,
    /// The configuration that its workloads name.
    names: Vec<Name>,
    /// The hashes of what its ConfigMaps and Secrets hold.
    contents: Vec<(ObjectKey, ManifestHash)>,
    /// Its objects that wait for others.
    after: Vec<After>,
}

/// A ConfigMap or Secret that a workload names.
struct Name {
    object: ObjectKey,
    user: ObjectKey,
    /// How the programs of its pods read it; `None` where only the kubelet does.
    reading: Option<Reading>,
}

/// What is known of the contents of a ConfigMap or Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// The repository has it, with this hash.
    Here(ManifestHash),
    /// The repository has it, or may have it, and it can't be read.
    Unreadable,
    /// It is not of this repository.
    Elsewhere,
}

impl DesiredState {
    /// A desired state without objects. Objects that name no namespace go into `default_namespace`.
    pub(super) fn new(default_namespace: &str) -> DesiredState {
        DesiredState {
            at: None,
            told: None,
            scopes: Scopes::new(default_namespace),
            set: ManifestSet::new(),
            notes: BTreeMap::new(),
            users: BTreeMap::new(),
            waiting: BTreeSet::new(),
            scaled: BTreeMap::new(),
            kinds: BTreeMap::new(),
        }
    }

    /// Forgets everything: the next look reads all of it again.
    pub(super) fn forget(&mut self) {
        *self = DesiredState::new(&self.scopes.default_namespace);
    }

    /// Takes up files that differ; `None` for those that are gone. Files whose custom kinds are defined anew by that are
    /// read again, and handed back with the others.
    pub(super) fn update(
        &mut self,
        at: CommitId,
        read_file: impl Fn(&str, Content, &Scopes) -> Result<File, GitError>,
        mut files: BTreeMap<Arc<str>, Option<ReadFile>>,
    ) -> Result<BTreeMap<Arc<str>, Option<ReadFile>>, GitError> {
        let mut waiting: BTreeSet<Arc<str>> = files.keys().cloned().collect();
        let mut read: BTreeSet<Arc<str>> = waiting.clone();
        while let Some(path) = waiting.pop_first() {
            if !read.remove(&path) {
                let Some(content) = self.notes.get(&path).and_then(|note| note.content) else { continue };
                let file = read_file(&path, content, &self.scopes)?;
                files.insert(Arc::clone(&path), Some(ReadFile { file: file.into(), content: Some(content) }));
            }
            let file = files.get(&path).and_then(Option::as_ref);
            self.note(&path, file);
            for kind in self.set.replace(&path, file.map(|read| &*read.file)) {
                self.redefine(&kind);
                waiting.extend(self.set.files_with(&kind));
            }
        }
        self.at = Some(at);
        Ok(files)
    }

    fn note(&mut self, path: &Arc<str>, read: Option<&ReadFile>) {
        let Note { names: named, scaled, kinds, .. } = self.notes.remove(path).unwrap_or_default();
        kinds.iter().for_each(|kind| self.forget_kind(kind));
        named.iter().for_each(|name| take_out(&mut self.users, &name.object, &name.user));
        scaled.iter().for_each(|target| take_out(&mut self.scaled, target, path));
        self.waiting.remove(path);
        let Some(ReadFile { file, content }) = read else { return };
        let note = Note {
            content: *content,
            kinds: self.note_kinds(&file.manifests),
            scaled: file.manifests.iter().filter_map(scale_target).collect(),
            names: file.manifests.iter().flat_map(names).collect(),
            contents: file.manifests.iter().filter_map(contents).collect(),
            after: file.manifests.iter().filter_map(After::of).collect(),
        };
        for name in &note.names {
            self.users.entry(name.object.clone()).or_default().insert(name.user.clone());
        }
        for target in &note.scaled {
            self.scaled.entry(target.clone()).or_default().insert(Arc::clone(path));
        }
        if !note.after.is_empty() {
            self.waiting.insert(Arc::clone(path));
        }
        self.notes.insert(Arc::clone(path), note);
    }

    /// Counts the kinds of a file's objects. Thousands of files share a few.
    fn note_kinds(&mut self, manifests: &[Manifest]) -> Box<[Arc<(String, String)>]> {
        let mut of_file: Vec<Arc<(String, String)>> = Vec::with_capacity(1);
        for Manifest { api_version, key, .. } in manifests {
            if of_file.iter().any(|kind| (&kind.0, &kind.1) == (api_version, &key.kind)) {
                continue;
            }
            let kind = (api_version.clone(), key.kind.clone());
            let kind =
                self.kinds.get_key_value(&kind).map_or_else(|| Arc::new(kind.clone()), |(kind, _)| Arc::clone(kind));
            *self.kinds.entry(Arc::clone(&kind)).or_default() += 1;
            of_file.push(kind);
        }
        of_file.into()
    }

    fn forget_kind(&mut self, kind: &Arc<(String, String)>) {
        if let Some(files) = self.kinds.get_mut(kind) {
            *files -= 1;
            if *files == 0 {
                self.kinds.remove(kind);
            }
        }
    }

    fn redefine(&mut self, kind: &GroupKind) {
        match self.set.definition(kind) {
            Some(definition) => self.scopes.define(definition.clone()),
            None => self.scopes.forget(kind),
        }
    }

    /// The paths of its files.
    pub(super) fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.set.paths()
    }

    /// The kinds of its objects, as `apiVersion` and kind.
    pub(super) fn kinds(&self) -> BTreeSet<(String, String)> {
        self.kinds.keys().map(|kind| (**kind).clone()).collect()
    }

    /// All objects.
    pub(super) fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.set.iter().map(|(key, _)| key)
    }

    /// Whether an object is written here.
    pub(super) fn has(&self, key: &ObjectKey) -> bool {
        self.set.locate(key).is_some()
    }

    /// Whether an object is written here, also where something is wrong with its manifest.
    pub(super) fn mentions(&self, key: &ObjectKey) -> bool {
        self.set.mentions(key)
    }

    /// Where the kind of an object is defined.
    pub(super) fn definition_place(&self, key: &ObjectKey) -> Option<Place> {
        let kind = GroupKind { group: key.group.clone(), kind: key.kind.clone() };
        let definition = ObjectKey {
            group: "apiextensions.k8s.io".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: None,
            name: self.set.definition(&kind)?.name.clone(),
        };
        Some(self.set.locate(&definition)?.place)
    }

    /// The files that hold something of which not even the name can be read.
    pub(super) fn unreadable(&self) -> impl Iterator<Item = &Arc<str>> {
        self.set.unreadable()
    }

    /// The hash of an object's manifest.
    pub(super) fn hash(&self, key: &ObjectKey) -> Option<ManifestHash> {
        self.set.locate(key).map(|located| located.hash)
    }

    /// Complaints about one manifest against another: objects that are written in more than one file, and that wait for
    /// what is not there, or for themselves.
    pub(super) fn contradictions(&self) -> Vec<Complaint> {
        let after: Vec<After> = self.after().cloned().collect();
        let mut complaints = self.set.duplicates();
        if !after.is_empty() {
            let objects: Vec<&ObjectKey> = self.keys().collect();
            complaints.extend(wrong_order(&after, |key| self.set.mentions(key), &objects));
        }
        complaints
    }

    /// The paths of files with complaints that are about no object.
    pub(super) fn complained_files(&self) -> BTreeSet<String> {
        let complaints = self.set.complaints().into_iter().filter(|complaint| complaint.object.is_none());
        complaints.map(|complaint| complaint.place.path.to_string()).collect()
    }

    /// Whether anything is wrong with what it holds.
    pub(super) fn has_complaints(&self) -> bool {
        !self.set.complaints().is_empty() || !self.contradictions().is_empty()
    }

    /// The objects that wait for others.
    pub(super) fn after(&self) -> impl Iterator<Item = &After> {
        self.waiting.iter().filter_map(|path| self.notes.get(path)).flat_map(|note| &note.after)
    }

    /// What an object waits for.
    pub(super) fn after_of(&self, key: &ObjectKey) -> Option<After> {
        let path = self.set.locate(key)?.file;
        self.notes.get(&path)?.after.iter().find(|after| after.object == *key).cloned()
    }

    /// The objects of a file, with their hashes. `None` where the file itself must be read to know them: it is not
    /// here, or something is wrong with one of them.
    pub(super) fn known(&self, path: &str) -> Option<Vec<(ObjectKey, ManifestHash)>> {
        self.notes.get(path)?.content?;
        let hash = |key: &ObjectKey| Some((key.clone(), self.set.locate(key)?.hash));
        self.set.objects_in(path).map(hash).collect()
    }

    /// The manifest of an object, read anew with `read_file`.
    pub(super) fn manifest(
        &self,
        key: &ObjectKey,
        read_file: impl Fn(&str, Content, &Scopes) -> Result<File, GitError>,
    ) -> Result<Option<Manifest>, GitError> {
        let Some(located) = self.set.locate(key) else { return Ok(None) };
        let path = located.file;
        let Some(content) = self.notes.get(&path).and_then(|note| note.content) else { return Ok(None) };
        let file = read_file(&path, content, &self.scopes)?;
        Ok(file.manifests.into_iter().find(|manifest| manifest.key == *key))
    }

    /// The hash of the ConfigMaps and Secrets of this repository that a workload's template names.
    pub(super) fn configuration(&self, manifest: &Manifest) -> Option<String> {
        let names = named_configuration(template(&manifest.value())?, manifest.key.namespace.as_deref());
        let known: Vec<(ObjectKey, String)> =
            names.into_iter().filter_map(|key| self.hash(&key).map(|hash| (key, hash.to_string()))).collect();
        configuration_hash(known.iter().map(|(key, hash)| (key, hash.as_str())))
    }

    /// What is known of the contents of a ConfigMap or Secret.
    pub(super) fn contents(&self, key: &ObjectKey) -> Contents {
        let known = self.set.locate(key).and_then(|located| {
            let contents = &self.notes.get(&located.file)?.contents;
            contents.iter().find(|(other, _)| other == key).map(|(_, hash)| *hash)
        });
        match known {
            Some(hash) => Contents::Here(hash),
            None if self.set.mentions(key) || self.set.unreadable().next().is_some() => Contents::Unreadable,
            None => Contents::Elsewhere,
        }
    }

    /// How the pods of a workload read a ConfigMap or Secret; `None` where they do not.
    pub(super) fn reading(&self, object: &ObjectKey, user: &ObjectKey) -> Option<Reading> {
        let path = self.set.locate(user)?.file;
        let names = &self.notes.get(&path)?.names;
        names.iter().find(|name| name.object == *object && name.user == *user)?.reading
    }

    /// The workloads of this repository whose templates name a ConfigMap or Secret.
    pub(super) fn named_by(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        self.users.get(key).cloned().unwrap_or_default()
    }

    /// Whether an autoscaler of this repository decides how many replicas an object has.
    pub(super) fn is_scaled(&self, key: &ObjectKey) -> bool {
        self.scaled.contains_key(key)
    }
}

/// Takes one value out from under its key, and the key with the last of them.
fn take_out<V: Ord>(index: &mut BTreeMap<ObjectKey, BTreeSet<V>>, key: &ObjectKey, value: &V) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
        }
    }
}

/// The configuration that a workload names, each with the workload.
fn names(manifest: &Manifest) -> Vec<Name> {
    let value = manifest.value();
    let Some(template) = template(&value) else { return Vec::new() };
    let namespace = manifest.key.namespace.as_deref();
    let readings = readings(template, namespace);
    let names = named_configuration(template, namespace).into_iter();
    names.map(|object| Name { reading: readings.get(&object).copied(), object, user: manifest.key.clone() }).collect()
}

fn contents(manifest: &Manifest) -> Option<(ObjectKey, ManifestHash)> {
    is_configuration(&manifest.key).then(|| (manifest.key.clone(), contents_hash(&manifest.value())))
}

fn scale_target(manifest: &Manifest) -> Option<ObjectKey> {
    scaled_by(&manifest.key, &manifest.value())
}
