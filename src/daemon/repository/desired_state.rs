//! An index of the repository's content: the file of each object. The manifests themselves stay in Git until they are
//! needed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rpds::{RedBlackTreeMapSync, RedBlackTreeSetSync};

use super::file_facts::{FileFacts, ObjectKind, WorkloadFacts};
use super::units::Content;
use crate::config::AnalysisConfig;
use crate::git::GitError;
use belay_core::manifest::{
    Complaint, File, GroupKind, Located, Manifest, ManifestHash, ManifestSet, ObjectKey, Place, Scopes,
};
use belay_core::rollout::{
    After, CommitId, HookUntil, Reading, Workload, configuration_hash, named_configuration, template, wrong_order,
};

/// The most names of analyses that are warned of.
const UNKNOWN_ANALYSES: usize = 20;

/// A file that was read: its content, and its source if it can be read again.
#[derive(Clone, Debug)]
pub struct ReadFile {
    pub file: Arc<File>,
    pub content: Option<Content>,
}

/// The files of a head, by path; `None` for those that are gone.
pub type HeadFiles = BTreeMap<Arc<str>, Option<ReadFile>>;

/// The content of the repository at a commit. It never changes: another commit gets a state of its own, which shares
/// with it all common parts.
#[derive(Clone, Debug)]
pub struct DesiredState {
    /// The commit.
    pub at: Option<CommitId>,
    pub scopes: Arc<Scopes>,
    set: ManifestSet,
    files: RedBlackTreeMapSync<Arc<str>, Arc<FileFacts>>,
    /// ConfigMaps and Secrets, and the workloads whose templates name them.
    users: RedBlackTreeMapSync<ObjectKey, RedBlackTreeSetSync<ObjectKey>>,
    /// The files with objects that wait for others.
    waiting: RedBlackTreeSetSync<Arc<str>>,
    /// The targets of HorizontalPodAutoscalers, and the files that those are in.
    scaled: RedBlackTreeMapSync<ObjectKey, RedBlackTreeSetSync<Arc<str>>>,
    /// `apiVersion` and kind of all objects, and in how many files each is.
    kinds: RedBlackTreeMapSync<Arc<ObjectKind>, usize>,
}

/// The definition of a kind, as its manifest says.
#[derive(Clone, Debug)]
pub struct WrittenDefinition {
    pub key: ObjectKey,
    pub place: Place,
    /// True when its objects live in namespaces.
    pub namespaced: bool,
}

/// The known facts about the contents of a ConfigMap or Secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// The repository has it, with this hash.
    Here(ManifestHash),
    /// The repository has it, or may have it, and it can't be read.
    Unreadable,
    /// It is not of this repository.
    Elsewhere,
}

impl DesiredState {
    /// Returns a desired state without objects. Objects that name no namespace go into `default_namespace`.
    pub fn new(default_namespace: &str) -> DesiredState {
        DesiredState {
            at: None,
            scopes: Arc::new(Scopes::new(default_namespace)),
            set: ManifestSet::new(),
            files: RedBlackTreeMapSync::new_sync(),
            users: RedBlackTreeMapSync::new_sync(),
            waiting: RedBlackTreeSetSync::new_sync(),
            scaled: RedBlackTreeMapSync::new_sync(),
            kinds: RedBlackTreeMapSync::new_sync(),
        }
    }

    /// Returns the same facts, which count until the next fetch has read all of the repository again.
    pub fn forgotten(&self) -> DesiredState {
        DesiredState { at: None, ..self.clone() }
    }

    /// Returns true when the repository is to be read again: nothing is compared with these facts until then.
    pub fn is_forgotten(&self) -> bool {
        self.at.is_none()
    }

    /// Returns the state from which the next head is read: one with nothing in it, where all is to be read again.
    pub fn to_read_on(self: &Arc<Self>) -> Arc<DesiredState> {
        if self.is_forgotten() {
            return Arc::new(DesiredState::new(&self.scopes.default_namespace));
        }
        Arc::clone(self)
    }

    /// Returns the state at another commit, in which these files differ; `None` stands for deleted files. Files whose
    /// custom kinds are defined again by that are read again, and handed back with the others.
    pub fn changed_to(
        &self,
        commit: CommitId,
        read_file: impl Fn(&str, Content, &Scopes) -> Result<File, GitError>,
        mut files: HeadFiles,
    ) -> Result<(DesiredState, HeadFiles), GitError> {
        let mut next = DesiredState { at: Some(commit), ..self.clone() };
        let mut waiting: BTreeSet<Arc<str>> = files.keys().cloned().collect();
        let mut read: BTreeSet<Arc<str>> = waiting.clone();
        while let Some(path) = waiting.pop_first() {
            if !read.remove(&path) {
                let content = match files.get(&path) {
                    Some(read) => read.as_ref().and_then(|read| read.content),
                    None => next.files.get(&path).and_then(|facts| facts.content),
                };
                let Some(content) = content else { continue };
                let file = read_file(&path, content, &next.scopes)?;
                files.insert(Arc::clone(&path), Some(ReadFile { file: file.into(), content: Some(content) }));
            }
            let file = files.get(&path).and_then(Option::as_ref);
            next.put(&path, file);
            for kind in next.set.replace(&path, file.map(|read| &*read.file)) {
                next.redefine(&kind);
                waiting.extend(next.set.files_with(&kind));
                // Objects that were read before their definition was, were read with the old one.
                read.retain(|path| {
                    !files.get(path).and_then(Option::as_ref).is_some_and(|read| has_kind(&read.file, &kind))
                });
            }
        }
        Ok((next, files))
    }

    fn put(&mut self, path: &Arc<str>, read: Option<&ReadFile>) {
        if let Some(before) = self.files.get(path).cloned() {
            self.files.remove_mut(path);
            before.kinds.iter().for_each(|kind| self.forget_kind(kind));
            before.names.iter().for_each(|name| take_out(&mut self.users, &name.object, &name.user));
            before.scaled.iter().for_each(|target| take_out(&mut self.scaled, target, path));
            self.waiting.remove_mut(path);
        }
        let Some(ReadFile { file, content }) = read else { return };
        let mut facts = FileFacts::of(file, *content);
        facts.kinds = self.count_kinds(&file.manifests);
        facts.names.iter().for_each(|name| put_in(&mut self.users, &name.object, &name.user));
        facts.scaled.iter().for_each(|target| put_in(&mut self.scaled, target, path));
        if !facts.after.is_empty() {
            self.waiting.insert_mut(Arc::clone(path));
        }
        self.files.insert_mut(Arc::clone(path), Arc::new(facts));
    }

    /// Counts the kinds of a file's objects. Thousands of files share a few.
    fn count_kinds(&mut self, manifests: &[Manifest]) -> Box<[Arc<ObjectKind>]> {
        let mut of_file: Vec<Arc<ObjectKind>> = Vec::with_capacity(1);
        for Manifest { api_version, key, .. } in manifests {
            if of_file.iter().any(|kind| (&kind.0, &kind.1) == (api_version, &key.kind)) {
                continue;
            }
            let kind = (api_version.clone(), key.kind.clone());
            let (kind, files) = match self.kinds.get_key_value(&kind) {
                Some((kind, files)) => (Arc::clone(kind), *files),
                None => (Arc::new(kind), 0),
            };
            self.kinds.insert_mut(Arc::clone(&kind), files + 1);
            of_file.push(kind);
        }
        of_file.into()
    }

    fn forget_kind(&mut self, kind: &Arc<ObjectKind>) {
        match self.kinds.get(kind).copied() {
            Some(files @ 2..) => self.kinds.insert_mut(Arc::clone(kind), files - 1),
            _ => drop(self.kinds.remove_mut(kind)),
        }
    }

    fn redefine(&mut self, kind: &GroupKind) {
        match self.set.definition(kind) {
            Some(definition) => Arc::make_mut(&mut self.scopes).define(definition.clone()),
            None => Arc::make_mut(&mut self.scopes).forget(kind),
        }
    }

    /// Returns the paths of its files.
    pub fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.set.paths()
    }

    /// Returns the warnings about analyses that workloads name and that the configuration does not have, by their places: the first
    /// ones.
    pub fn unknown_analyses(&self, known: &[AnalysisConfig]) -> BTreeMap<String, String> {
        let known: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
        let named = self.files.values().flat_map(|facts| &facts.analyses);
        let unknown = named.flat_map(|named| named.unknown(&known)).take(UNKNOWN_ANALYSES);
        let told = |complaint: Complaint| {
            let hint = complaint.hint.unwrap_or_default();
            (complaint.place.to_string(), format!("{} ({hint})", complaint.message))
        };
        unknown.map(told).collect()
    }

    /// Returns the kinds of its objects, as `apiVersion` and kind.
    pub fn kinds(&self) -> BTreeSet<(String, String)> {
        self.kinds.keys().map(|kind| (**kind).clone()).collect()
    }

    /// Returns all objects.
    pub fn keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.set.iter().map(|(key, _)| key)
    }

    /// Returns true when an object has a valid manifest here.
    pub fn has(&self, key: &ObjectKey) -> bool {
        self.set.locate(key).is_some()
    }

    /// Returns true when an object has a manifest here, valid or not.
    pub fn mentions(&self, key: &ObjectKey) -> bool {
        self.set.mentions(key)
    }

    /// Returns the definition of an object's kind.
    pub fn written_definition(&self, key: &ObjectKey) -> Option<WrittenDefinition> {
        let kind = GroupKind { group: key.group.clone(), kind: key.kind.clone() };
        let definition = self.set.definition(&kind)?;
        let key = ObjectKey {
            group: "apiextensions.k8s.io".to_owned(),
            kind: "CustomResourceDefinition".to_owned(),
            namespace: None,
            name: definition.name.clone(),
        };
        let place = self.set.locate(&key)?.place;
        Some(WrittenDefinition { key, place, namespaced: definition.namespaced })
    }

    /// Returns the complaint about a definition of a group that is written here, and that something is wrong with.
    pub fn refused_definition(&self, group: &str) -> Option<Complaint> {
        let defines = |key: &ObjectKey| {
            key.kind == "CustomResourceDefinition" && key.name.split_once('.').is_some_and(|(_, of)| of == group)
        };
        self.set.complaint_about(defines)
    }

    /// Returns the files that hold something of which not even the name can be read.
    pub fn unreadable(&self) -> impl Iterator<Item = &Arc<str>> {
        self.set.unreadable()
    }

    /// Returns the place of an object's manifest.
    pub fn locate(&self, key: &ObjectKey) -> Option<Located> {
        self.set.locate(key)
    }

    /// Returns the hash of an object's manifest.
    pub fn hash(&self, key: &ObjectKey) -> Option<ManifestHash> {
        self.set.locate(key).map(|located| located.hash)
    }

    /// Complaints about one manifest against another: objects that are written in more than one file, and that wait for
    /// missing objects, or for themselves.
    pub fn contradictions(&self) -> Vec<Complaint> {
        let after: Vec<After> = self.after().cloned().collect();
        let mut complaints = self.set.duplicates();
        if !after.is_empty() {
            let objects: Vec<&ObjectKey> = self.keys().collect();
            complaints.extend(wrong_order(&after, |key| self.set.mentions(key), &objects));
        }
        complaints
    }

    /// Returns the paths of files with complaints that are about no object.
    pub fn complained_files(&self) -> BTreeSet<String> {
        let complaints = self.set.complaints().into_iter().filter(|complaint| complaint.object.is_none());
        complaints.map(|complaint| complaint.place.path.to_string()).collect()
    }

    /// Returns true when the state has any complaint.
    pub fn has_complaints(&self) -> bool {
        !self.set.complaints().is_empty() || !self.contradictions().is_empty()
    }

    /// Returns the objects that wait for others.
    pub fn after(&self) -> impl Iterator<Item = &After> {
        self.waiting.iter().filter_map(|path| self.files.get(path)).flat_map(|facts| &facts.after)
    }

    /// Returns the dependencies of an object.
    pub fn after_of(&self, key: &ObjectKey) -> Option<After> {
        self.facts_beside(key)?.after_of(key).cloned()
    }

    /// Returns the hooks in the file of an object that are deleted when others have succeeded, each with its number in the file.
    pub fn hooks_until_beside(&self, key: &ObjectKey) -> &[(usize, HookUntil)] {
        self.facts_beside(key).map(|facts| &*facts.hooks_until).unwrap_or_default()
    }

    /// Returns the others after which an object is deleted, if it is such a hook.
    pub fn hook_until(&self, key: &ObjectKey) -> Option<&HookUntil> {
        self.facts_beside(key)?.hook_until(key)
    }

    /// Returns the facts about the file of an object.
    fn facts_beside(&self, key: &ObjectKey) -> Option<&FileFacts> {
        self.files.get(&self.set.locate(key)?.file).map(Arc::as_ref)
    }

    /// Returns the objects of a file, with their hashes. `None` if the file itself must be read to know them: it is
    /// not here, or something is wrong with one of them.
    pub fn known(&self, path: &str) -> Option<Vec<(ObjectKey, ManifestHash)>> {
        self.files.get(path)?.content?;
        let hash = |key: &ObjectKey| Some((key.clone(), self.set.locate(key)?.hash));
        self.set.objects_in(path).map(hash).collect()
    }

    /// Returns the objects that a file holds, also those that something is wrong with.
    pub fn objects_in(&self, path: &str) -> impl Iterator<Item = &ObjectKey> {
        self.set.objects_in(path)
    }

    /// Returns the manifest of an object, whose file `read_file` reads.
    pub fn manifest(
        &self,
        key: &ObjectKey,
        read_file: impl Fn(&str, Content, &Arc<Scopes>) -> Result<Arc<File>, GitError>,
    ) -> Result<Option<Manifest>, GitError> {
        let Some(located) = self.set.locate(key) else { return Ok(None) };
        let path = located.file;
        let Some(content) = self.files.get(&path).and_then(|facts| facts.content) else { return Ok(None) };
        let file = read_file(&path, content, &self.scopes)?;
        Ok(file.manifests.iter().find(|manifest| manifest.key == *key).cloned())
    }

    /// Returns the hash of the ConfigMaps and Secrets of this repository that the template of a manifest names.
    pub fn configuration(&self, manifest: &Manifest) -> Option<String> {
        let names = named_configuration(template(&manifest.value())?, manifest.key.namespace.as_deref());
        self.configuration_hash(names.iter())
    }

    /// Returns the same of an object's manifest here.
    pub fn configuration_of(&self, key: &ObjectKey) -> Option<String> {
        self.configuration_hash(self.facts_beside(key)?.names_of(key).iter().map(|name| &name.object))
    }

    fn configuration_hash<'a>(&self, names: impl Iterator<Item = &'a ObjectKey>) -> Option<String> {
        let known: Vec<(&ObjectKey, String)> =
            names.filter_map(|key| self.hash(key).map(|hash| (key, hash.to_string()))).collect();
        configuration_hash(known.iter().map(|(key, hash)| (*key, hash.as_str())))
    }

    /// Returns the known facts about the contents of a ConfigMap or Secret.
    pub fn contents(&self, key: &ObjectKey) -> Contents {
        match self.facts_beside(key).and_then(|facts| facts.contents_of(key)) {
            Some(hash) => Contents::Here(hash),
            None if self.set.mentions(key) || self.set.unreadable().next().is_some() => Contents::Unreadable,
            None => Contents::Elsewhere,
        }
    }

    /// Returns how the pods of a workload read a ConfigMap or Secret; `None` if they do not.
    pub fn reading(&self, object: &ObjectKey, user: &ObjectKey) -> Option<Reading> {
        self.facts_beside(user)?.names_of(user).iter().find(|name| name.object == *object)?.reading
    }

    /// Returns the workloads of this repository whose templates name a ConfigMap or Secret.
    pub fn named_by(&self, key: &ObjectKey) -> BTreeSet<ObjectKey> {
        self.users.get(key).into_iter().flat_map(|users| users.iter().cloned()).collect()
    }

    /// Returns true when a workload is rolled out after a change of its configuration: its manifest decides, else its
    /// source.
    pub fn rolls_on_config(&self, key: &ObjectKey, of_source: bool) -> bool {
        let own = self.workload(key).and_then(|facts| facts.rolls_on_config);
        Workload::of(key).is_some_and(Workload::can_go_back) && own.unwrap_or(of_source)
    }

    /// Returns when a workload was restarted, as its manifest says.
    pub fn restarted(&self, key: &ObjectKey) -> Option<&str> {
        self.workload(key)?.restarted.as_deref()
    }

    fn workload(&self, key: &ObjectKey) -> Option<&WorkloadFacts> {
        self.facts_beside(key)?.workload(key)
    }

    /// Returns true when an autoscaler of this repository decides how many replicas an object has.
    pub fn is_scaled(&self, key: &ObjectKey) -> bool {
        self.scaled.contains_key(key)
    }
}

/// Returns true when a file has objects of a kind, valid or not.
fn has_kind(file: &File, kind: &GroupKind) -> bool {
    let valid = file.manifests.iter().map(|manifest| &manifest.key);
    let wrong = file.complaints.iter().filter_map(|complaint| complaint.object.as_ref());
    valid.chain(wrong).any(|key| key.group == kind.group && key.kind == kind.kind)
}

type Index<V> = RedBlackTreeMapSync<ObjectKey, RedBlackTreeSetSync<V>>;

fn put_in<V: Ord + Clone>(index: &mut Index<V>, key: &ObjectKey, value: &V) {
    let values = index.get(key).cloned().unwrap_or_else(RedBlackTreeSetSync::new_sync);
    index.insert_mut(key.clone(), values.insert(value.clone()));
}

/// Takes one value out from under its key, and the key with the last of them.
fn take_out<V: Ord + Clone>(index: &mut Index<V>, key: &ObjectKey, value: &V) {
    let Some(values) = index.get(key).map(|values| values.remove(value)) else { return };
    if values.is_empty() {
        index.remove_mut(key);
    } else {
        index.insert_mut(key.clone(), values);
    }
}
