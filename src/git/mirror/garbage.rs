//! The objects to which no reference of the mirror leads any more: those of branches that were rewritten, once the
//! history has forgotten them. They go, within bounds, at the next setting of the pins.

use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;

use git2::{ObjectType, Oid, Repository};

use super::Mirror;
use super::packs::{ids, packs};
use crate::git::error::{GitError, while_doing, with_file};
use crate::git::read::graph::Graph;

/// A mirror with more objects than this is left as it is: repacking it would take too long.
const MOST: usize = 200_000;
/// A mirror with fewer objects that nobody needs than one in so many is left as it is, and one with fewer than so many.
const SHARE: usize = 10;
const FEWEST: usize = 100;

impl Mirror {
    /// Repacks everything that references lead to, and deletes all other packs, if that is worth it and not too much
    /// work. The mirror must be locked. Returns how many objects went.
    pub(in crate::git) fn collect_garbage(&self, mirror: &Repository) -> Result<usize, GitError> {
        let folder = mirror.path().join("objects/pack");
        let old = packs(&folder)?;
        let mut there = HashSet::new();
        for pack in &old {
            there.extend(ids(pack)?.ok_or_else(|| self.not_an_index(pack))?);
            if there.len() > MOST {
                tracing::debug!(limit = MOST, "the mirror has too many objects for its garbage to be collected");
                return Ok(0);
            }
        }
        let needed = self.needed_objects(mirror)?;
        let garbage = there.iter().filter(|id| !needed.contains(id)).count();
        // A loose object was put there by somebody else, who knows why.
        if garbage < FEWEST || garbage < there.len() / SHARE || !needed.iter().all(|id| there.contains(id)) {
            return Ok(0);
        }
        let new = self.pack_only(mirror, &needed)?;
        let packed: HashSet<Oid> = ids(&new)?.ok_or_else(|| self.not_an_index(&new))?.into_iter().collect();
        if !needed.is_subset(&packed) {
            return Err(self.not_an_index(&new));
        }
        for pack in old.into_iter().filter(|pack| *pack != new) {
            for file in [pack.clone(), pack.with_extension("idx")] {
                fs::remove_file(&file).map_err(with_file("delete", &file))?;
            }
        }
        // It knows commits that are gone.
        self.with_graph(|graph| {
            *graph = Graph::default();
            Ok(())
        })?;
        Ok(garbage)
    }

    /// Returns all objects that a reference leads to.
    fn needed_objects(&self, mirror: &Repository) -> Result<HashSet<Oid>, GitError> {
        let mut needed = HashSet::new();
        let mut open: Vec<Oid> = self.references(mirror)?.into_values().collect();
        while let Some(id) = open.pop() {
            if !needed.insert(id) {
                continue;
            }
            let object = mirror.find_object(id, None).map_err(|error| self.damaged(&error))?;
            if let Some(tag) = object.as_tag() {
                open.push(tag.target_id());
            } else if let Some(commit) = object.as_commit() {
                open.extend(commit.parent_ids());
                open.push(commit.tree_id());
            } else if let Some(tree) = object.as_tree() {
                for entry in tree {
                    match entry.kind() {
                        Some(ObjectType::Tree) => open.push(entry.id()),
                        // Never loaded: a file leads nowhere.
                        Some(ObjectType::Blob) => drop(needed.insert(entry.id())),
                        _ => {}
                    }
                }
            }
        }
        Ok(needed)
    }

    fn pack_only(&self, mirror: &Repository, objects: &HashSet<Oid>) -> Result<PathBuf, GitError> {
        let packing = || while_doing("pack the mirror anew");
        let mut builder = mirror.packbuilder().map_err(packing())?;
        let mut objects: Vec<Oid> = objects.iter().copied().collect();
        objects.sort_unstable();
        for object in objects {
            builder.insert_object(object, None).map_err(|error| self.damaged(&error))?;
        }
        let folder = mirror.path().join("objects/pack");
        builder.write(&folder, 0o444).map_err(packing())?;
        let name = builder.name().ok().flatten().ok_or_else(|| GitError::Git {
            doing: "pack the mirror anew".to_owned(),
            message: "the new pack has no name".to_owned(),
        })?;
        Ok(folder.join(format!("pack-{name}.pack")))
    }
}
