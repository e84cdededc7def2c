//! Sets of indexes, as Jobs write them: `1,3-5`. Pure.

use std::collections::BTreeSet;

use crate::controllers::key::annotation;
use crate::controllers::pod::Pod;

/// The annotation, and label, with a pod's index.
pub const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Indexes(BTreeSet<i32>);

impl Indexes {
    /// Reads the indexes of a Job's status. Indexes that are not below `completions` are left out.
    pub fn read(text: &str, completions: i32) -> Indexes {
        let mut indexes = BTreeSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) else { continue };
            indexes.extend(first.max(0)..=last.min(completions.saturating_sub(1)));
        }
        Indexes(indexes)
    }

    /// Returns how many there are.
    pub fn count(&self) -> i32 {
        i32::try_from(self.0.len()).unwrap_or(i32::MAX)
    }

    /// Returns true when it is one of them.
    pub fn has(&self, index: i32) -> bool {
        self.0.contains(&index)
    }

    /// Returns how many are in both.
    pub fn common(&self, other: &Indexes) -> i32 {
        i32::try_from(self.0.intersection(&other.0).count()).unwrap_or(i32::MAX)
    }

    /// Adds one.
    pub fn add(&mut self, index: i32) {
        self.0.insert(index);
    }

    /// Adds all of another set.
    pub fn merge(&mut self, other: &Indexes) {
        self.0.extend(&other.0);
    }

    /// Returns the first `count` indexes below `completions` that are not among them.
    pub fn missing(&self, count: usize, completions: i32) -> Vec<i32> {
        (0..completions).filter(|index| !self.has(*index)).take(count).collect()
    }
}

impl std::fmt::Display for Indexes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut runs: Vec<(i32, i32)> = Vec::new();
        for &index in &self.0 {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => runs.push((index, index)),
            }
        }
        for (number, (first, last)) in runs.into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            match last - first {
                0 => write!(out, "{comma}{first}")?,
                // Two neighbours are written out.
                1 => write!(out, "{comma}{first},{last}")?,
                _ => write!(out, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Returns a pod's index; `None` if it has none that is below `completions`.
pub fn of(pod: &Pod, completions: i32) -> Option<i32> {
    let index: i32 = annotation(&pod.metadata, INDEX)?.parse().ok()?;
    (0..completions).contains(&index).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::Indexes;

    #[test]
    fn they_are_written_in_runs() {
        for text in ["", "0", "0,1", "0-2", "1,3-5,7,8"] {
            assert_eq!(Indexes::read(text, 10).to_string(), text);
        }
        assert_eq!(Indexes::read("1,3-5,9", 5).to_string(), "1,3,4");
        assert_eq!(Indexes::read("nonsense,2-,4", 5).count(), 1);
    }

    #[test]
    fn missing_ones_are_the_lowest() {
        let mut taken = Indexes::read("0-2", 9);
        taken.merge(&Indexes::read("4", 9));
        assert_eq!(taken.missing(3, 9), [3, 5, 6]);
        assert_eq!(taken.missing(9, 6), [3, 5]);
    }
}
