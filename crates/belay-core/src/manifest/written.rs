//! The places at which one object is written: mostly one, and as many as a hostile repository has paths.

use std::sync::Arc;

use rpds::RedBlackTreeSetSync;

use super::{Complaint, ManifestHash, Note, ObjectKey, Place};

/// The most places beside the first two that a complaint names.
const NAMED: usize = 20;

/// The place of an object in a file, and the hash of its manifest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Written {
    pub(super) file: Arc<str>,
    pub(super) place: Place,
    /// `None` if something is wrong with it.
    pub(super) hash: Option<ManifestHash>,
}

/// The places of one object. One more costs no copy of the others.
#[derive(Clone, Debug)]
pub(super) enum WrittenPlaces {
    One(Written),
    Many(RedBlackTreeSetSync<Written>),
}

impl WrittenPlaces {
    /// Returns the same with one more.
    pub(super) fn and(self, written: Written) -> WrittenPlaces {
        match self {
            WrittenPlaces::One(one) => WrittenPlaces::Many(RedBlackTreeSetSync::new_sync().insert(one).insert(written)),
            WrittenPlaces::Many(mut all) => {
                all.insert_mut(written);
                WrittenPlaces::Many(all)
            }
        }
    }

    /// Returns the same without those of a file; `None` if there are no others.
    pub(super) fn without(self, file: &Arc<str>) -> Option<WrittenPlaces> {
        let mut all = match self {
            WrittenPlaces::One(one) => return (one.file != *file).then_some(WrittenPlaces::One(one)),
            WrittenPlaces::Many(all) => all,
        };
        let first =
            Written { file: Arc::clone(file), place: Place { path: "".into(), line: 0, column: 0 }, hash: None };
        let here: Vec<Written> = all.range(first..).take_while(|written| written.file == *file).cloned().collect();
        for written in &here {
            all.remove_mut(written);
        }
        match all.size() {
            0 => None,
            1 => all.first().cloned().map(WrittenPlaces::One),
            _ => Some(WrittenPlaces::Many(all)),
        }
    }

    /// Returns the complaint about an object that is written more than once.
    pub(super) fn complaint(&self, key: &ObjectKey) -> Option<Complaint> {
        let WrittenPlaces::Many(all) = self else { return None };
        let mut all: Vec<&Written> = all.iter().collect();
        all.sort_by(|a, b| (&a.place, &a.file).cmp(&(&b.place, &b.file)));
        let [first, second, others @ ..] = &*all else { return None };
        let note = |written: &Written, message: &str| Note {
            place: written.place.clone(),
            message: format!("{message}{}", written.rendered()),
            excerpt: None,
        };
        let more = others.len().saturating_sub(NAMED);
        let told = others.iter().take(NAMED).map(|other| note(other, "and here"));
        let rest = others.get(NAMED).map(|other| note(other, &format!("and here, the first of {more} more places")));
        let is_shared = all.windows(2).any(|pair| pair[0].file != pair[1].file && pair[0].place == pair[1].place);
        let hint = if is_shared {
            "follow one of those that render it, or let each give it another name or namespace"
        } else {
            "leave all but one of them out"
        };
        Some(Complaint {
            place: second.place.clone(),
            object: Some(key.clone()),
            message: format!("{key} is written in more than one place{}", second.rendered()),
            hint: Some(hint.to_owned()),
            excerpt: None,
            also: std::iter::once(note(first, "first written here")).chain(told).chain(rest).collect(),
        })
    }
}

impl Written {
    /// Names the tool that rendered it, if it is not read as it is written.
    fn rendered(&self) -> String {
        if self.file == self.place.path { String::new() } else { format!(" (rendered by {})", self.file) }
    }
}
