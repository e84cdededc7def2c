//! Files of the repository that were read lately: many questions about the objects of one file read it once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::units::Content;
use belay_core::manifest::{File, Manifest, Scopes};

/// The most memory that the files kept here take, in bytes. The newest is kept whatever it takes.
const MAX_BYTES: usize = 24 << 20;

/// The memory of a file besides its manifests, in bytes, near enough.
const FILE_BYTES: usize = 1 << 10;

/// Files that were read lately.
#[derive(Debug, Default)]
pub struct ReadFiles(Mutex<VecDeque<Slot>>);

/// One file, read or about to be.
#[derive(Debug)]
struct Slot {
    path: Arc<str>,
    content: Content,
    /// The kinds that were known when it was read.
    scopes: Arc<Scopes>,
    /// Held by the one who reads it. The others wait for the file that it reads.
    file: Arc<Mutex<Option<Arc<File>>>>,
    bytes: usize,
    /// True when it was used since the last [`ReadFiles::age`].
    used: bool,
}

impl ReadFiles {
    /// Returns a file, and reads it unless it was read lately or is being read.
    pub fn get<E>(
        &self,
        path: &str,
        content: Content,
        scopes: &Arc<Scopes>,
        read: impl FnOnce() -> Result<File, E>,
    ) -> Result<Arc<File>, E> {
        let kept = self.slot(path, content, scopes);
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*kept {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(read()?);
        *kept = Some(Arc::clone(&file));
        drop(kept);
        self.make_room(path, content, size(&file));
        Ok(file)
    }

    /// Forgets the files that nobody has asked for since this was called last.
    pub fn age(&self) {
        self.slots().retain_mut(|slot| std::mem::take(&mut slot.used));
    }

    fn slot(&self, path: &str, content: Content, scopes: &Arc<Scopes>) -> Arc<Mutex<Option<Arc<File>>>> {
        let mut slots = self.slots();
        let is_it = |slot: &Slot| slot.content == content && &*slot.path == path && Arc::ptr_eq(&slot.scopes, scopes);
        // The one that was asked for last is the last.
        let slot = match slots.iter().rposition(is_it).and_then(|at| slots.remove(at)) {
            Some(slot) => Slot { used: true, ..slot },
            None => Slot {
                path: path.into(),
                content,
                scopes: Arc::clone(scopes),
                file: Arc::default(),
                bytes: FILE_BYTES,
                used: true,
            },
        };
        let file = Arc::clone(&slot.file);
        slots.push_back(slot);
        file
    }

    /// Notes the size of a file, and forgets those that were asked for longest ago where all of them take too much.
    fn make_room(&self, path: &str, content: Content, bytes: usize) {
        let mut slots = self.slots();
        let of_it = slots.iter_mut().filter(|slot| slot.content == content && &*slot.path == path);
        of_it.for_each(|slot| slot.bytes = bytes);
        let mut all: usize = slots.iter().map(|slot| slot.bytes).sum();
        while all > MAX_BYTES && slots.len() > 1 {
            all -= slots.pop_front().map_or(0, |slot| slot.bytes);
        }
    }

    fn slots(&self) -> MutexGuard<'_, VecDeque<Slot>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(file: &File) -> usize {
    file.manifests.iter().map(Manifest::size).sum::<usize>() + FILE_BYTES
}
