//! Keeping the mirror's packs few. Every fetch brings one, and every lookup of an object asks each of them.

use std::fs;
use std::path::{Path, PathBuf};

use git2::{Oid, Repository};

use super::Mirror;
use crate::git::error::{GitError, while_doing, with_file};

/// A pack larger than this is left as it is: joining it again and again would cost more than it saves.
const LARGE: u64 = 16 << 20;

impl Mirror {
    /// Joins the small packs to one, when there are more packs than [`crate::git::Limits::packs`]. All objects stay, whether a
    /// branch leads to them or not. The mirror must be locked.
    pub(in crate::git) fn join_packs(&self, mirror: &Repository) -> Result<(), GitError> {
        let folder = mirror.path().join("objects/pack");
        let packs = packs(&folder)?;
        if packs.len() <= self.limits.packs {
            return Ok(());
        }
        let small: Vec<&PathBuf> =
            packs.iter().filter(|pack| fs::metadata(pack).is_ok_and(|metadata| metadata.len() <= LARGE)).collect();
        if small.len() < 2 {
            return Ok(());
        }
        let joining = || while_doing("join the packs of the mirror");
        let mut builder = mirror.packbuilder().map_err(joining())?;
        for pack in &small {
            for object in ids(pack)?.ok_or_else(|| self.not_an_index(pack))? {
                builder.insert_object(object, None).map_err(|error| self.damaged(&error))?;
            }
        }
        builder.write(&folder, 0o444).map_err(joining())?;
        let joined = builder.name().ok().flatten().map(|name| folder.join(format!("pack-{name}.pack")));
        // The new pack is there as a whole, or there would have been an error. Readers that have an old one open read on.
        for pack in small.into_iter().filter(|pack| Some(*pack) != joined.as_ref()) {
            for file in [pack.clone(), pack.with_extension("idx")] {
                fs::remove_file(&file).map_err(with_file("delete", &file))?;
            }
        }
        let odb = mirror.odb().map_err(joining())?;
        odb.refresh().map_err(joining())
    }

    /// Returns the error for the index of a pack that can't be read.
    pub(in crate::git) fn not_an_index(&self, pack: &Path) -> GitError {
        let message = format!("{} is not an index of a pack", pack.with_extension("idx").display());
        GitError::DamagedMirror { path: self.path(), message }
    }
}

/// Returns the ids of the objects in a pack; `None` if its index is none.
pub(in crate::git) fn ids(pack: &Path) -> Result<Option<Vec<Oid>>, GitError> {
    let index = pack.with_extension("idx");
    Ok(objects(&fs::read(&index).map_err(with_file("read", &index))?))
}

/// Returns the packs in a folder that have an index.
pub(in crate::git) fn packs(folder: &Path) -> Result<Vec<PathBuf>, GitError> {
    let mut packs = Vec::new();
    for entry in fs::read_dir(folder).map_err(with_file("read", folder))? {
        let path = entry.map_err(with_file("read", folder))?.path();
        if path.extension().is_some_and(|extension| extension == "pack") && path.with_extension("idx").exists() {
            packs.push(path);
        }
    }
    packs.sort();
    Ok(packs)
}

/// Returns the ids of the objects in a pack, from its index of version 2: a magic number and the version; for each
/// first byte how many ids begin with it or a lower one, 256 numbers of four bytes; then the ids, in order
/// (gitformat-pack(5)).
fn objects(index: &[u8]) -> Option<Vec<Oid>> {
    const HEAD: usize = 8 + 256 * 4;
    let rest = index.strip_prefix(b"\xfftOc\0\0\0\x02")?;
    let count = rest.get(255 * 4..256 * 4)?;
    let count = usize::try_from(u32::from_be_bytes(count.try_into().ok()?)).ok()?;
    let ids = index.get(HEAD..HEAD + count.checked_mul(20)?)?;
    ids.chunks_exact(20).map(|id| Oid::from_bytes(id).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_index_that_is_none_has_no_objects() {
        assert_eq!(objects(b""), None);
        let mut empty = b"\xfftOc\0\0\0\x02".to_vec();
        empty.extend_from_slice(&[0; 1024]);
        assert_eq!(objects(&empty), Some(Vec::new()));
        // As many ids as can be counted, and none of them there.
        empty[8 + 1020..8 + 1024].fill(0xff);
        assert_eq!(objects(&empty), None);
    }

    proptest! {
        #[test]
        fn no_index_is_too_odd(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let index = [b"\xfftOc\0\0\0\x02".as_slice(), &bytes].concat();
            if let Some(objects) = objects(&index) {
                prop_assert!(objects.len() * 20 <= bytes.len());
            }
        }
    }
}
