//! The cache of renderings, on disk, by their inputs.
#![allow(
    clippy::disallowed_methods,
    reason = "a child process and the files of this machine live in the machine's own time"
)]

use std::fs;
use std::io::{Read, Write};
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use super::unit::RenderId;
use crate::regular_file::{make_own, open_own};
use crate::state_folder::StateFolder;

/// The most that is kept, in bytes and in renderings.
const LIMITS: KeptLimits = KeptLimits { bytes: 256 << 20, renderings: 10_000 };
/// The share of them that is left where there is more, in percent.
const LEFT: u64 = 75;
/// The name of a rendering that is not written to its end.
const NEW: &str = "new";
/// The age of a mark of use at which it is renewed.
const USED: Duration = Duration::from_hours(1);

/// Renderings in a folder of their own.
#[derive(Debug)]
pub(super) struct Cache {
    folder: StateFolder,
    limits: KeptLimits,
    /// The size of the cache by now; `None` until the folder was read.
    kept: Mutex<Option<KeptSize>>,
}

#[derive(Clone, Copy, Debug)]
struct KeptLimits {
    bytes: u64,
    renderings: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct KeptSize {
    bytes: u64,
    renderings: u64,
}

impl Cache {
    /// A cache in a folder, which is made when the first rendering is kept.
    pub(super) fn new(folder: StateFolder) -> Cache {
        Cache { folder, limits: LIMITS, kept: Mutex::default() }
    }

    /// Returns the rendering of these inputs, by a tool of this identity; by any, if none is known.
    pub(super) fn get(&self, id: RenderId, tool: Option<&str>) -> Option<Vec<u8>> {
        let file = open_own(&self.path(id)).ok()?;
        let mut bytes = Vec::new();
        (&file).take(self.limits.bytes).read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        if tool.is_some_and(|tool| tool.as_bytes() != &bytes[..end]) {
            return None;
        }
        let used = file.metadata().and_then(|data| data.modified()).ok()?;
        if used.elapsed().is_ok_and(|age| age > USED) {
            // It only goes sooner where that fails.
            let _ = file.set_modified(SystemTime::now());
        }
        bytes.drain(..=end);
        Some(bytes)
    }

    /// Keeps a rendering. If that fails it is rendered again.
    pub(super) fn put(&self, id: RenderId, tool: &str, bytes: &[u8]) {
        let write = || -> std::io::Result<()> {
            self.folder.make()?;
            let size = (tool.len() + 1 + bytes.len()) as u64;
            // One at a time: a rendering that is being written counts, too.
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(now) = self.with_room_for(size, *kept)? else { return Ok(()) };
            *kept = None;
            let new = self.folder.join(NEW);
            let mut file = make_own(&new)?;
            file.set_len(0)?;
            file.write_all(tool.as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(bytes)?;
            fs::rename(&new, self.path(id))?;
            *kept = Some(KeptSize { bytes: now.bytes + size, renderings: now.renderings + 1 });
            Ok(())
        };
        if let Err(error) = write() {
            tracing::warn!(folder = %self.folder.path().display(), %error, "failed to keep what was rendered");
        }
    }

    /// Makes room for a rendering of this size. Returns the other kept renderings; `None` if it is larger than the
    /// whole bound.
    fn with_room_for(&self, size: u64, kept: Option<KeptSize>) -> std::io::Result<Option<KeptSize>> {
        if size > self.limits.bytes {
            return Ok(None);
        }
        let fits = |kept: &KeptSize| kept.bytes + size <= self.limits.bytes && kept.renderings < self.limits.renderings;
        kept.filter(fits).map_or_else(|| self.sweep(size), Ok).map(Some)
    }

    /// Deletes the least recently used renderings, if there is more than is kept with a new rendering of this size, and
    /// the unfinished ones of a killed belay. Returns the rest.
    fn sweep(&self, size: u64) -> std::io::Result<KeptSize> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.folder.path())? {
            let entry = entry?;
            let data = entry.metadata()?;
            if entry.file_name().to_string_lossy().starts_with(NEW) {
                fs::remove_file(entry.path())?;
                continue;
            }
            found.push((data.modified()?, data.len(), entry.path()));
        }
        found.sort_by_key(|(used, ..)| std::cmp::Reverse(*used));
        let all = KeptSize { bytes: found.iter().map(|(_, size, _)| size).sum(), renderings: found.len() as u64 };
        if all.bytes + size <= self.limits.bytes && all.renderings < self.limits.renderings {
            return Ok(all);
        }
        let (bytes, renderings) = (self.limits.bytes / 100 * LEFT, self.limits.renderings * LEFT / 100);
        let room = self.limits.bytes - size;
        let mut left = KeptSize::default();
        for (_, size, path) in found {
            if left.renderings < renderings && left.bytes + size <= bytes.min(room) {
                left = KeptSize { bytes: left.bytes + size, renderings: left.renderings + 1 };
            } else {
                fs::remove_file(path)?;
            }
        }
        Ok(left)
    }

    fn path(&self, id: RenderId) -> PathBuf {
        self.folder.join(&id.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::MemoryTree;
    use super::super::unit::Options;
    use super::*;
    use std::fs::File;

    fn ids(count: usize) -> Vec<RenderId> {
        let mut tree = MemoryTree::default();
        (0..count).for_each(|number| tree.file(format!("{number}/kustomization.yaml"), ""));
        let Ok(plan) = super::super::find(&tree, "", &Options::default());
        plan.units.values().map(|unit| unit.id).collect()
    }

    fn size_of(folder: &Path) -> u64 {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }

    /// The bytes alone are the bound, and there is room before anything is written: those used least recently go.
    #[test]
    fn bytes_are_swept_before_more_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let limits = KeptLimits { bytes: 1000, renderings: 1_000_000 };
        let cache = Cache { limits, ..Cache::new(folder.path().into()) };
        let ids = ids(12);
        let written = |id: &RenderId| fs::metadata(cache.path(*id)).map_or(0, |file| file.len());
        for (nth, id) in ids.iter().take(10).enumerate() {
            cache.put(*id, "tool", &[b'x'; 95]);
            let used = SystemTime::UNIX_EPOCH + Duration::from_secs(nth as u64);
            File::options().write(true).open(cache.path(*id)).unwrap().set_modified(used).unwrap();
        }
        assert_eq!(size_of(folder.path()), 1000, "nothing goes before the bound");
        let kept = *cache.kept.lock().unwrap();
        let left = cache.with_room_for(100, kept).unwrap().unwrap();
        assert_eq!((left.bytes, left.renderings), (700, 7), "nothing is written yet");
        assert_eq!(size_of(folder.path()), 700);
        assert_eq!(ids.iter().take(10).map(written).collect::<Vec<_>>()[..4], [0, 0, 0, 100]);
        *cache.kept.lock().unwrap() = Some(left);
        cache.put(ids[10], "tool", &[b'x'; 895]);
        assert_eq!((size_of(folder.path()), written(&ids[10]), written(&ids[9])), (1000, 900, 100));
        cache.put(ids[11], "tool", &[b'x'; 996]);
        assert_eq!(
            (size_of(folder.path()), written(&ids[11])),
            (1000, 0),
            "more than all is not kept, and costs nothing"
        );
    }

    /// A pipe in the place of a rendering, or of one that is written, is not waited for.
    #[test]
    fn a_pipe_is_no_rendering() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::new(folder.path().into());
        let ids = ids(2);
        cache.put(ids[0], "tool", b"one");
        let pipe = |path: &Path| assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
        pipe(&cache.path(ids[1]));
        pipe(&folder.path().join(NEW));
        assert_eq!(cache.get(ids[1], None), None);
        cache.put(ids[1], "tool", b"two");
        assert_eq!(cache.get(ids[0], None).as_deref(), Some(&b"one"[..]));
    }

    /// Never is there more in the folder than is kept, also not while much is written at once.
    #[test]
    fn what_is_kept_is_bounded_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("new-1-7"), vec![0; 5000]).unwrap();
        let limits = KeptLimits { bytes: 10_000, renderings: 20 };
        let cache = Cache { limits, ..Cache::new(folder.path().into()) };
        let ids = ids(41);
        for (nth, id) in ids.iter().enumerate().take(40) {
            cache.put(*id, "tool", &vec![b'x'; 100 * nth]);
            assert!(size_of(folder.path()) <= 10_000, "{}", size_of(folder.path()));
            assert!(cache.get(*id, Some("tool")).is_some());
        }
        assert!(!folder.path().join("new-1-7").exists(), "what was not finished is gone");
        cache.put(ids[40], "tool", &vec![b'x'; 10_000]);
        assert_eq!(cache.get(ids[40], Some("tool")), None, "what is larger than all is not kept");
        // A restart finds what is there.
        let again = Cache { limits, ..Cache::new(folder.path().into()) };
        ids.iter().take(30).for_each(|id| again.put(*id, "tool", b"small"));
        assert!(fs::read_dir(folder.path()).unwrap().count() <= 20);
    }
}
