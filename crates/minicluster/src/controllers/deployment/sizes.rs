//! The sizes of ReplicaSets: fence posts, steps, proportions. Pure arithmetic.

use crate::controllers::templated::Deployment;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The direction in which a share of a percentage is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// To more.
    Up,
    /// To less.
    Down,
}

/// Returns a number, or a percentage of `of`. An unreadable value counts as nothing: the API refuses it.
pub fn scaled(value: Option<&IntOrString>, of: i32, rounding: Rounding) -> i32 {
    match value {
        None => 0,
        Some(IntOrString::Int(number)) => *number,
        Some(IntOrString::String(text)) => {
            let Some(percent) = text.strip_suffix('%').and_then(|number| number.parse::<i64>().ok()) else { return 0 };
            let product = percent.saturating_mul(i64::from(of));
            let share = match rounding {
                Rounding::Up => product.saturating_add(99).div_euclid(100),
                Rounding::Down => product.div_euclid(100),
            };
            i32::try_from(share).unwrap_or(if share < 0 { 0 } else { i32::MAX })
        }
    }
}

/// The limits of a rollout above and below the wanted size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FencePosts {
    /// Pods more than wanted.
    pub surge: i32,
    /// Pods fewer than wanted.
    pub unavailable: i32,
}

impl FencePosts {
    /// Returns the fence posts of `size`: surge is rounded up, unavailable down; if both came to nothing, one pod may
    /// be unavailable, so that a rollout can go on.
    pub fn of(surge: Option<&IntOrString>, unavailable: Option<&IntOrString>, size: i32) -> FencePosts {
        let surge = scaled(surge, size, Rounding::Up);
        let unavailable = scaled(unavailable, size, Rounding::Down);
        let unavailable = if surge == 0 && unavailable == 0 { 1 } else { unavailable };
        FencePosts { surge, unavailable }
    }
}

/// The way in which a Deployment replaces its pods, for its present size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScalePlan {
    /// The wanted size.
    pub size: i32,
    /// `None` for Recreate.
    pub rolling: Option<FencePosts>,
}

impl ScalePlan {
    /// Returns the plan of a Deployment.
    pub fn of(deployment: &Deployment) -> ScalePlan {
        let size = deployment.spec.replicas.unwrap_or(1);
        let strategy = deployment.spec.strategy.as_ref();
        let is_rolling = strategy.and_then(|strategy| strategy.type_.as_deref()) != Some("Recreate");
        let block = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = block.and_then(|block| block.max_surge.as_ref());
        let unavailable = block.and_then(|block| block.max_unavailable.as_ref());
        ScalePlan { size, rolling: is_rolling.then(|| FencePosts::of(surge, unavailable, size)) }
    }

    /// Returns how many pods may be missing.
    pub fn max_unavailable(&self) -> i32 {
        self.rolling.filter(|_| self.size > 0).map_or(0, |posts| posts.unavailable.min(self.size))
    }

    /// Returns how many pods there may be at most: size and surge.
    pub fn max_size(&self) -> i32 {
        self.size.saturating_add(self.rolling.map_or(0, |posts| posts.surge))
    }

    /// Returns how many pods must be available.
    pub fn min_available(&self) -> i32 {
        self.size - self.max_unavailable()
    }

    /// Returns how large the new ReplicaSet may be now, `total` being the size of all ReplicaSets and `new` that of the
    /// new one.
    pub fn new_size(&self, total: i32, new: i32) -> i32 {
        if self.rolling.is_none() {
            return self.size;
        }
        let room = self.max_size() - total;
        if room <= 0 { new } else { new + room.min(self.size - new) }
    }
}

/// A ReplicaSet, as far as sizes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set {
    /// The number of pods that it shall have.
    pub size: i32,
    /// The number of available ones.
    pub available: i32,
}

/// Returns how many pods old ReplicaSets may lose in this step, before it is decided which.
pub fn room_for_removal(plan: &ScalePlan, old: &[Set], new: Set) -> i32 {
    let total = sum(old.iter().map(|set| set.size).chain([new.size]));
    total.saturating_sub(plan.min_available()).saturating_sub(new.size.saturating_sub(new.available))
}

/// Returns the sizes of the old ReplicaSets, oldest first, after pods that are not available were removed: at most
/// `room`. The result also says that one that was just scaled down still reports more available pods than it will keep:
/// nothing is removed from there on, until it reports its new size.
pub fn without_unavailable(old: &[Set], room: i32) -> (Vec<i32>, bool) {
    let (mut left, mut is_stale) = (room, false);
    let cut = |set: &Set| {
        if is_stale || left <= 0 {
            return set.size;
        }
        if set.available > set.size {
            is_stale = true;
            return set.size;
        }
        let cut = left.min(set.size - set.available);
        left -= cut;
        set.size - cut
    };
    (old.iter().map(cut).collect(), is_stale)
}

/// Returns the sizes of the old ReplicaSets, oldest first, after those pods were removed that the new one makes
/// dispensable.
pub fn without_dispensable(plan: &ScalePlan, old: &[Set], new: Set) -> Vec<i32> {
    let available = sum(old.iter().map(|set| set.available).chain([new.available]));
    let mut left = (available - plan.min_available()).max(0);
    let cut = |set: &Set| {
        let cut = left.min(set.size).max(0);
        left -= cut;
        set.size - cut
    };
    old.iter().map(cut).collect()
}

/// An active ReplicaSet that gets its share when a Deployment is scaled in the middle of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of pods that it shall have.
    pub size: i32,
    /// The Deployment's greatest size when this one was last scaled; 0 if nobody knows.
    pub max_size_then: i32,
}

/// Returns the sizes of active ReplicaSets after the Deployment was scaled, in the order given: largest first, and
/// among equals the newest first when growing, the oldest first when shrinking. The rest after rounding goes to the
/// first.
pub fn proportional(plan: &ScalePlan, active: &[Share]) -> Vec<i32> {
    let allowed = if plan.size > 0 { plan.max_size() } else { 0 };
    let to_add = allowed - sum(active.iter().map(|share| share.size));
    let mut sizes: Vec<i32> = active.iter().map(|share| share.size).collect();
    if to_add == 0 {
        return sizes;
    }
    let mut added = 0;
    for (size, share) in sizes.iter_mut().zip(active) {
        let left = to_add - added;
        let wanted = fraction(plan, share);
        let given = if to_add > 0 { wanted.min(left) } else { wanted.max(left) };
        let given = if left == 0 || share.size == 0 { 0 } else { given };
        *size += given;
        added += given;
    }
    if let Some(first) = sizes.first_mut() {
        *first = first.saturating_add(to_add - added).max(0);
    }
    sizes
}

/// Returns all together; not more than the API can say.
pub fn sum(sizes: impl Iterator<Item = i32>) -> i32 {
    sizes.fold(0, i32::saturating_add)
}

/// Returns the change of a ReplicaSet that would keep its share exactly.
fn fraction(plan: &ScalePlan, share: &Share) -> i32 {
    if plan.size == 0 {
        return -share.size;
    }
    if share.max_size_then <= 0 {
        return 0;
    }
    let (size, max, then) = (i64::from(share.size), i64::from(plan.max_size()), i64::from(share.max_size_then));
    // Half away from zero; all three are positive.
    let exact = (2 * size * max + then) / (2 * then);
    i32::try_from(exact - size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::{FencePosts, IntOrString, ScalePlan, Set, Share, proportional, room_for_removal};
    use super::{without_dispensable, without_unavailable};

    fn value(text: &str) -> Option<IntOrString> {
        match text {
            "nil" => None,
            number if !number.ends_with('%') => Some(IntOrString::Int(number.parse().unwrap())),
            percent => Some(IntOrString::String(percent.to_owned())),
        }
    }

    fn plan(size: i32, surge: &str, unavailable: &str) -> ScalePlan {
        let posts = FencePosts::of(value(surge).as_ref(), value(unavailable).as_ref(), size);
        ScalePlan { size, rolling: Some(posts) }
    }

    #[test]
    fn fence_posts() {
        for (size, surge, unavailable, most, least) in [
            (10, "25%", "25%", 13, 8),
            (4, "25%", "25%", 5, 3),
            (5, "1", "25%", 6, 4),
            (2, "25%", "25%", 3, 2),
            (2, "1", "99%", 3, 1),
            (1, "25%", "25%", 2, 1),
            (3, "25%", "25%", 4, 3),
            (10, "39%", "39%", 14, 7),
            (2, "0", "1%", 2, 1),
            (10, "nil", "nil", 10, 9),
            (10, "0", "100%", 10, 0),
            (5, "0", "20", 5, 0),
            (0, "25%", "25%", 0, 0),
        ] {
            let plan = plan(size, surge, unavailable);
            assert_eq!((plan.max_size(), plan.min_available()), (most, least), "{size} {surge} {unavailable}");
        }
        assert_eq!(ScalePlan { size: 3, rolling: None }.max_unavailable(), 0);
    }

    #[test]
    fn the_size_of_the_new_one() {
        for (size, surge, old, new, expected) in [
            (1, "1", 0, 5, 5),
            (6, "10", 0, 2, 6),
            (10, "2", 10, 0, 2),
            (10, "2", 5, 0, 7),
            (10, "2", 10, 2, 2),
            (10, "0", 10, 0, 0),
        ] {
            let size_of_new = plan(size, surge, "0").new_size(old + new, new);
            assert_eq!(size_of_new, expected, "{size} {surge} {old} {new}");
        }
        assert_eq!(ScalePlan { size: 3, rolling: None }.new_size(1, 1), 3);
    }

    /// Returns one step of scaling old ReplicaSets down, as the controller does it.
    fn step(plan: &ScalePlan, old: &[(i32, i32)], new: (i32, i32)) -> Vec<i32> {
        let set = |(size, available): (i32, i32)| Set { size, available };
        let sets: Vec<Set> = old.iter().map(|&pair| set(pair)).collect();
        let new = set(new);
        let room = room_for_removal(plan, &sets, new);
        if room <= 0 {
            return sets.iter().map(|set| set.size).collect();
        }
        let (healthy, is_stale) = without_unavailable(&sets, room);
        if is_stale {
            return healthy;
        }
        let sets: Vec<Set> = sets.iter().zip(healthy).map(|(set, size)| Set { size, ..*set }).collect();
        without_dispensable(plan, &sets, new)
    }

    #[test]
    fn old_ones_shrink_as_far_as_availability_allows() {
        for (unavailable, old, new, expected) in [
            ("0", &[(10, 10)][..], (0, 0), &[9][..]),
            ("2", &[(10, 10)], (0, 0), &[8]),
            ("2", &[(10, 8)], (0, 0), &[8]),
            ("2", &[(10, 9)], (0, 0), &[8]),
            ("2", &[(8, 8)], (2, 0), &[8]),
        ] {
            assert_eq!(step(&plan(10, "0", unavailable), old, new), expected, "{unavailable} {old:?} {new:?}");
        }
        // A third template while the first two are half and half, and while the second is stuck.
        assert_eq!(step(&plan(10, "25%", "25%"), &[(5, 5), (5, 5)], (3, 0)), [3, 5]);
        assert_eq!(step(&plan(10, "25%", "25%"), &[(8, 8), (5, 0)], (0, 0)), [8, 0]);
        assert_eq!(step(&plan(10, "25%", "25%"), &[(5, 0)], (8, 7)), [1]);
    }

    #[test]
    fn unavailable_pods_go_first() {
        let cleaned = |available, room| {
            without_unavailable(&[Set { size: 10, available }], room).0.iter().map(|size| 10 - size).sum::<i32>()
        };
        assert_eq!([cleaned(8, 1), cleaned(8, 3), cleaned(8, 0), cleaned(10, 3)], [1, 2, 0, 0]);
    }

    /// A ReplicaSet of 2 that still reports 5 available pods was scaled down just now.
    #[test]
    fn one_that_tells_of_more_than_it_keeps_is_waited_for() {
        let set = |size, available| Set { size, available };
        assert_eq!(without_unavailable(&[set(3, 1), set(2, 5), set(4, 0)], 9), (vec![1, 2, 4], true));
        assert_eq!(without_unavailable(&[set(3, 1), set(2, 5)], 2), (vec![1, 2], false), "nothing is left to remove");
    }

    /// One row: the plan after scaling, the former maximum, sizes (new first, -1 for none), sizes after.
    type Row<'a> = (i32, &'a str, i32, &'a [i32], &'a [i32]);

    #[test]
    fn scaling_in_the_middle_of_a_rollout_keeps_proportions() {
        let rows: [Row<'_>; 14] = [
            (10, "0", 5, &[2, 3], &[4, 6]),
            (3, "0", 5, &[2, 3], &[1, 2]),
            (4, "0", 9, &[8, 1], &[4, 0]),
            (10, "0", 7, &[2, 3, 2], &[3, 4, 3]),
            (8, "0", 13, &[2, 8, 3], &[1, 5, 2]),
            (4, "0", 3, &[1, 1, 1], &[2, 1, 1]),
            (2, "0", 3, &[1, 1, 1], &[1, 1, 0]),
            (5, "0", 4, &[-1, 2, 2], &[-1, 3, 2]),
            (0, "0", 6, &[3, 2, 1], &[0, 0, 0]),
            (20, "2", 12, &[6, 6], &[11, 11]),
            (50, "6", 13, &[5, 8], &[22, 34]),
            (14, "0", 10, &[-1, 7, 3], &[-1, 10, 4]),
            (30, "3", 13, &[5, 8], &[13, 20]),
            (15, "3", 13, &[5, 8], &[7, 11]),
        ];
        for (size, surge, then, before, after) in rows {
            let plan = plan(size, surge, "0");
            let mut order: Vec<usize> = (0..before.len()).filter(|&index| before[index] > 0).collect();
            let grows = plan.max_size() >= before.iter().filter(|&&size| size > 0).sum();
            // Newest first in the rows; the controller's order is by size, then by age.
            order.sort_by_key(|&index| (-before[index], if grows { index } else { before.len() - index }));
            let shares: Vec<Share> =
                order.iter().map(|&index| Share { size: before[index], max_size_then: then }).collect();
            let mut result = before.to_vec();
            for (index, size) in order.into_iter().zip(proportional(&plan, &shares)) {
                result[index] = size;
            }
            assert_eq!(result, after, "{size} {surge} {before:?}");
        }
    }
}
