//! Commits with very many parents, counted before libgit2 walks over them: it keeps a list of commits to visit, and
//! searches all of that for each parent.

use std::collections::HashSet;

use git2::{Oid, Repository};

/// The largest number of parents beyond two that the commits of one import may have, all together.
pub(in crate::git) const SURPLUS: usize = 10_000;

/// Returns the commit at which the commits that are new come to have more than `most` parents beyond two each, if there is one.
/// Each commit is read once.
pub(in crate::git) fn too_many(
    source: &Repository,
    tips: &[Oid],
    is_known: impl Fn(Oid) -> bool,
    most: usize,
) -> Result<Option<Oid>, git2::Error> {
    let mut seen: HashSet<Oid> = tips.iter().copied().collect();
    let mut stack = tips.to_vec();
    let mut surplus = 0;
    while let Some(id) = stack.pop() {
        let commit = source.find_commit(id)?;
        surplus += commit.parent_count().saturating_sub(2);
        if surplus > most {
            return Ok(Some(id));
        }
        stack.extend(commit.parent_ids().filter(|parent| !is_known(*parent) && seen.insert(*parent)));
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_beyond_two_are_counted_once_for_each_commit() {
        let folder = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(folder.path()).unwrap();
        let who = git2::Signature::now("Ada", "ada@example.com").unwrap();
        let tree = repository.treebuilder(None).unwrap().write().unwrap();
        let tree = repository.find_tree(tree).unwrap();
        let commit = |message: &str, parents: &[Oid]| {
            let parents: Vec<_> = parents.iter().map(|id| repository.find_commit(*id).unwrap()).collect();
            let parents: Vec<_> = parents.iter().collect();
            repository.commit(None, &who, &who, message, &tree, &parents).unwrap()
        };
        let first = commit("first", &[]);
        let sides: Vec<Oid> = (0..12).map(|number| commit(&format!("side {number}"), &[first])).collect();
        let merge = commit("merge", &sides);
        let two = commit("two", &[merge, sides[0]]);
        let again = commit("again", &[&[two], &sides[..9]].concat());
        let too_many = |tips: &[Oid], most| too_many(&repository, tips, |_| false, most).unwrap();
        assert_eq!((too_many(&[two], 10), too_many(&[two], 9)), (None, Some(merge)));
        assert_eq!((too_many(&[again, two], 18), too_many(&[again], 17)), (None, Some(merge)));
        let known = |id: Oid| id == merge;
        assert_eq!(super::too_many(&repository, &[two], known, 0).unwrap(), None);
    }
}
