//! Lists and maps that are read and not changed, so that they have room for nothing more.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};

use serde::{Deserialize, Deserializer};

/// A list. Null is the empty one, as for the types of `k8s-openapi`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactList<T>(Box<[T]>);

impl<T> Default for CompactList<T> {
    fn default() -> CompactList<T> {
        CompactList(Box::default())
    }
}

impl<T> FromIterator<T> for CompactList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> CompactList<T> {
        CompactList(items.into_iter().collect())
    }
}

impl<T> Deref for CompactList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T> DerefMut for CompactList<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<'a, T> IntoIterator for &'a CompactList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<T> CompactList<T> {
    /// Drops the items that are not to be kept.
    pub fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        let mut items = std::mem::take(&mut self.0).into_vec();
        items.retain(keep);
        self.0 = items.into_boxed_slice();
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for CompactList<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items: Option<Vec<T>> = Option::deserialize(deserializer)?;
        Ok(CompactList(items.unwrap_or_default().into_boxed_slice()))
    }
}

/// A map, as its pairs in the order of the keys. A `BTreeMap` of one pair has room for eleven.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CompactMap<V>(Box<[(String, V)]>);

impl<V> CompactMap<V> {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&V> {
        let at = self.0.binary_search_by(|(known, _)| known.as_str().cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Returns all pairs, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl<V> Default for CompactMap<V> {
    fn default() -> CompactMap<V> {
        CompactMap(Box::default())
    }
}

impl<V> From<BTreeMap<String, V>> for CompactMap<V> {
    fn from(map: BTreeMap<String, V>) -> CompactMap<V> {
        CompactMap(map.into_iter().collect())
    }
}

impl<V, const N: usize> From<[(String, V); N]> for CompactMap<V> {
    fn from(pairs: [(String, V); N]) -> CompactMap<V> {
        BTreeMap::from(pairs).into()
    }
}

impl<V: Clone> From<&CompactMap<V>> for BTreeMap<String, V> {
    fn from(pairs: &CompactMap<V>) -> BTreeMap<String, V> {
        pairs.0.iter().cloned().collect()
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for CompactMap<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        BTreeMap::deserialize(deserializer).map(CompactMap::from)
    }
}

#[cfg(test)]
mod tests {
    use super::{CompactList, CompactMap};

    #[test]
    fn pairs_are_found_by_key() {
        let pairs: CompactMap<i32> = serde_json::from_str(r#"{"b": 2, "c": 3, "a": 1}"#).unwrap();
        assert_eq!(
            ["a", "b", "c", "d", ""].map(|key| pairs.get(key).copied()),
            [Some(1), Some(2), Some(3), None, None]
        );
        assert_eq!(pairs, [("c".to_owned(), 3), ("a".to_owned(), 1), ("b".to_owned(), 2)].into());
    }

    #[test]
    fn no_list_is_the_empty_one() {
        assert_eq!(serde_json::from_str::<CompactList<i32>>("null").unwrap(), CompactList::default());
        assert!(serde_json::from_str::<CompactList<i32>>("{}").is_err());
        let mut list: CompactList<i32> = (1..=4).collect();
        list.retain(|number| number % 2 == 0);
        assert_eq!(*list, [2, 4]);
    }
}
