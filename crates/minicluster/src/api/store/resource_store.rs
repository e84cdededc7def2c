//! The objects of one resource, its latest events, and who watches it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::change::Change;
use super::event::Event;
use super::storage_key::{Scope, namespace_of};
use super::stored::{Draft, Stored};

/// Events kept per resource; a watch or a list that needs older ones is refused with 410.
pub(super) const WINDOW: usize = 1024;

/// Events that may wait for a watch that does not read; one more, and the watch is cut off.
pub(super) const WAITING: usize = 16 * 1024;

/// The wanted objects of a scope.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// As they were at this revision; as they are if `None`.
    pub at: Option<u64>,
    /// From after this path on.
    pub after: Option<String>,
}

/// Objects at one revision.
#[derive(Debug)]
pub struct Snapshot {
    /// The revision.
    pub revision: u64,
    /// The objects, by path.
    pub objects: Vec<Arc<Stored>>,
}

/// The beginning of a list.
#[derive(Debug)]
pub struct PartOfList {
    /// The revision.
    pub revision: u64,
    /// The objects, by path.
    pub objects: Vec<Arc<Stored>>,
    /// True when others follow.
    pub more: bool,
}

/// The window does not reach back that far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    /// The oldest revision that could be asked for.
    pub oldest: u64,
}

#[derive(Debug, Default)]
pub(super) struct ResourceStore {
    objects: BTreeMap<Arc<str>, Arc<Stored>>,
    window: VecDeque<Arc<Event>>,
    /// The newest revision of which the event is forgotten.
    compacted: u64,
    /// The managed fields of the objects written last, without repetition. Those of objects that one controller makes
    /// in one second are the same.
    managers: VecDeque<Arc<[u8]>>,
    everything: Vec<Registered>,
    namespaces: BTreeMap<String, Vec<Registered>>,
    single: BTreeMap<String, Vec<Registered>>,
}

#[derive(Debug)]
struct Registered {
    id: u64,
    sender: mpsc::Sender<Arc<Event>>,
}

impl ResourceStore {
    pub(super) fn get(&self, path: &str) -> Option<Arc<Stored>> {
        self.objects.get(path).cloned()
    }

    /// Returns all objects, by path.
    pub(super) fn objects(&self) -> impl Iterator<Item = &Arc<Stored>> {
        self.objects.values()
    }

    /// Restores an object, without an event.
    pub(super) fn put_back(&mut self, object: Arc<Stored>) {
        self.objects.insert(object.path.clone(), object);
    }

    /// Carries out a change whose expectation holds; without a draft the object goes. [`Self::tell`] sends the event to
    /// watches.
    pub(super) fn write(&mut self, path: Arc<str>, draft: Option<Draft>, revision: u64) -> Option<Arc<Event>> {
        let (change, previous, object) = if let Some(mut draft) = draft {
            draft.share_managers(&mut self.managers);
            let stored = Arc::new(draft.at(revision));
            let previous = self.objects.insert(path, Arc::clone(&stored));
            (if previous.is_some() { Change::Modified } else { Change::Added }, previous, stored)
        } else {
            let previous = self.objects.remove(&path)?;
            let last = Arc::new(previous.at_revision(revision));
            (Change::Deleted, Some(previous), last)
        };
        let event = Arc::new(Event { change, object, previous });
        if self.window.len() == WINDOW
            && let Some(forgotten) = self.window.pop_front()
        {
            self.compacted = forgotten.object.revision;
        }
        self.window.push_back(Arc::clone(&event));
        Some(event)
    }

    /// Tells those who watch of an event.
    pub(super) fn tell(&mut self, event: &Arc<Event>) {
        let path = &event.object.path;
        send(&mut self.everything, event);
        if let Some(watchers) = namespace_of(path).and_then(|namespace| self.namespaces.get_mut(namespace)) {
            send(watchers, event);
        }
        if let Some(watchers) = self.single.get_mut(&**path) {
            send(watchers, event);
        }
    }

    pub(super) fn snapshot(&self, scope: &Scope, page: &Page, present: u64) -> Result<Snapshot, Gone> {
        let objects = self.view(scope, page, present)?.cloned().collect();
        Ok(Snapshot { revision: page.at.unwrap_or(present), objects })
    }

    /// The first so many of the wanted objects; later ones are not read, but for the next one.
    pub(super) fn part(
        &self,
        scope: &Scope,
        page: &Page,
        present: u64,
        limit: usize,
        wanted: impl Fn(&Stored) -> bool,
    ) -> Result<PartOfList, Gone> {
        let mut rest = self.view(scope, page, present)?.filter(|object| wanted(object));
        let objects: Vec<Arc<Stored>> = rest.by_ref().take(limit).cloned().collect();
        Ok(PartOfList { revision: page.at.unwrap_or(present), objects, more: rest.next().is_some() })
    }

    pub(super) fn count(&self, scope: &Scope, page: &Page, present: u64) -> Result<usize, Gone> {
        Ok(self.view(scope, page, present)?.count())
    }

    /// Returns the objects of a scope by path, one after the other.
    fn view<'s>(
        &'s self,
        scope: &Scope,
        page: &Page,
        present: u64,
    ) -> Result<impl Iterator<Item = &'s Arc<Stored>> + use<'s>, Gone> {
        let at = page.at.unwrap_or(present);
        if at < self.compacted {
            return Err(Gone { oldest: self.compacted });
        }
        // The former states of the objects written since, newest first: the oldest of these events is the last one
        // here.
        let mut earlier: BTreeMap<&'s str, Option<&'s Arc<Stored>>> = BTreeMap::new();
        for event in self.window.iter().rev().take_while(|event| event.object.revision > at) {
            earlier.insert(&event.object.path, event.previous.as_ref());
        }
        let wanted = |path: &str| page.after.as_deref().is_none_or(|after| path > after) && scope.contains(path);
        let then: Vec<&Arc<Stored>> =
            earlier.iter().filter(|(path, _)| wanted(path)).filter_map(|(_, object)| *object).collect();
        let mut then = then.into_iter().peekable();
        let now = self.range(scope, page.after.as_deref());
        let mut now = now.filter(move |(path, _)| !earlier.contains_key(&***path)).map(|(_, object)| object).peekable();
        Ok(std::iter::from_fn(move || match (now.peek(), then.peek()) {
            (Some(one), Some(other)) if other.path < one.path => then.next(),
            (None, _) => then.next(),
            _ => now.next(),
        }))
    }

    fn range<'s>(
        &'s self,
        scope: &Scope,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'s Arc<str>, &'s Arc<Stored>)> + use<'s> {
        let (from, upto) = match scope {
            Scope::All => (Bound::Unbounded, None),
            // '0' follows '/'.
            Scope::Namespace(namespace) => (Bound::Excluded(format!("{namespace}/")), Some(format!("{namespace}0"))),
            Scope::Object(path) => (Bound::Included(path.clone()), Some(format!("{path}\0"))),
        };
        let from = match (after, &from) {
            (Some(after), Bound::Unbounded) => Bound::Excluded(after),
            (Some(after), Bound::Excluded(from) | Bound::Included(from)) if *after >= **from => Bound::Excluded(after),
            (_, from) => from.as_ref().map(String::as_str),
        };
        self.objects
            .range::<str, _>((from, Bound::Unbounded))
            .take_while(move |(path, _)| upto.as_deref().is_none_or(|upto| ***path < *upto))
    }

    /// Returns the events of a scope after a revision, up to the one that watches have.
    pub(super) fn since(&self, scope: &Scope, after: u64, told: u64) -> Result<VecDeque<Arc<Event>>, Gone> {
        if after < self.compacted {
            return Err(Gone { oldest: self.compacted });
        }
        let start = self.window.partition_point(|event| event.object.revision <= after);
        let events = self.window.range(start..).take_while(|event| event.object.revision <= told);
        Ok(events.filter(|event| scope.contains(&event.object.path)).cloned().collect())
    }

    pub(super) fn register(&mut self, scope: &Scope, id: u64, open: bool) -> mpsc::Receiver<Arc<Event>> {
        let (sender, receiver) = mpsc::channel(WAITING);
        if open {
            self.watchers(scope).push(Registered { id, sender });
        }
        receiver
    }

    pub(super) fn unregister(&mut self, scope: &Scope, id: u64) {
        let watchers = self.watchers(scope);
        watchers.retain(|watcher| watcher.id != id);
        if watchers.is_empty() {
            match scope {
                Scope::All => {}
                Scope::Namespace(namespace) => drop(self.namespaces.remove(namespace)),
                Scope::Object(path) => drop(self.single.remove(path)),
            }
        }
    }

    fn watchers(&mut self, scope: &Scope) -> &mut Vec<Registered> {
        match scope {
            Scope::All => &mut self.everything,
            Scope::Namespace(namespace) => self.namespaces.entry(namespace.clone()).or_default(),
            Scope::Object(path) => self.single.entry(path.clone()).or_default(),
        }
    }

    pub(super) fn compact(&mut self, revision: u64) {
        self.window.clear();
        self.compacted = revision;
    }

    /// Puts these objects in the place of those that there are. Watches end, and events up to a revision are forgotten.
    pub(super) fn replace(&mut self, objects: &[Arc<Stored>], revision: u64) {
        self.objects = objects.iter().map(|object| (Arc::clone(&object.path), Arc::clone(object))).collect();
        self.compact(revision);
        self.end_watches();
    }

    pub(super) fn end_watches(&mut self) {
        self.everything.clear();
        self.namespaces.clear();
        self.single.clear();
    }
}

/// Sends to each watcher; one with too long a queue is cut off: its stream ends after the queue.
fn send(watchers: &mut Vec<Registered>, event: &Arc<Event>) {
    watchers.retain(|watcher| watcher.sender.try_send(Arc::clone(event)).is_ok());
}
