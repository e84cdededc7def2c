//! The complaints about `belay.dev/after`: names that are not in the repository, and objects that would wait for themselves.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::after::After;
use crate::manifest::{Complaint, Note, ObjectKey, nearest};
use crate::rollout::Workload;

/// The most links of a cycle that are named one by one.
const LINKS: usize = 12;
/// The most unknown names of one object that are told one by one.
const UNKNOWN: usize = 20;
/// The most unknown names for which the nearest known one is looked for, and the most objects that are searched for a cycle.
const SEARCHES: usize = 20;

/// Returns the complaints about dependencies: names that the repository does not mention, and cycles, each reported at
/// all its places. `objects` are all that could have been meant.
///
/// The first ones of very many come with the nearest name or the way round; the others are told in short.
#[must_use]
pub fn wrong_order(all: &[After], mentions: impl Fn(&ObjectKey) -> bool, objects: &[&ObjectKey]) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    let mut searches = SEARCHES;
    for after in all {
        let mut unknown = after.names.iter().filter(|name| !mentions(name));
        for name in unknown.by_ref().take(UNKNOWN) {
            let near = take_one(&mut searches).then(|| nearest_known(after, name, objects)).flatten();
            complaints.push(unknown_name(after, name, near));
        }
        let more = unknown.count();
        if more > 0 {
            let message = format!("{} waits for {more} more that are not in the repository", after.object);
            complaints.push(complaint(after, message, None));
        }
    }
    let by_object: BTreeMap<&ObjectKey, &After> = all.iter().map(|after| (&after.object, after)).collect();
    let mut searches = SEARCHES;
    for object in entangled(&by_object) {
        if !take_one(&mut searches) {
            let message = format!("{object} would wait for itself, or for others that do");
            complaints.extend(by_object.get(object).map(|after| complaint(after, message, None)));
        } else if let Some(cycle) = cycle(&by_object, object) {
            complaints.push(goes_round(&cycle));
        }
    }
    complaints
}

/// Returns true as often as is left.
fn take_one(left: &mut usize) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

/// Returns the workload of the repository whose name is nearest to an unknown one.
fn nearest_known(after: &After, unknown: &ObjectKey, objects: &[&ObjectKey]) -> Option<String> {
    let fits = |key: &&&ObjectKey| Workload::of(key).is_some() && **key != &after.object;
    let known: BTreeSet<String> = objects.iter().filter(fits).map(|key| after.word(key)).collect();
    nearest(&after.word(unknown), known.iter().map(String::as_str)).map(str::to_owned)
}

fn unknown_name(after: &After, unknown: &ObjectKey, near: Option<String>) -> Complaint {
    let hint =
        near.map_or_else(|| "name a workload of this repository".to_owned(), |near| format!("did you mean {near}?"));
    let word = after.word(unknown);
    complaint(after, format!("{} waits for {word}, which is not in the repository", after.object), Some(hint))
}

/// Objects, and those that they wait for.
type Waits<'a> = BTreeMap<&'a ObjectKey, BTreeSet<&'a ObjectKey>>;

/// Returns the objects that are left when those that wait for nobody, and those that nobody waits for, are taken away, again
/// and again: the members of cycles, and those between two cycles.
fn entangled<'a>(all: &BTreeMap<&'a ObjectKey, &'a After>) -> Vec<&'a ObjectKey> {
    let known = |after: &&'a After| after.names.iter().filter_map(|name| Some(*all.get_key_value(name)?.0)).collect();
    let waits: Waits<'a> = all.iter().map(|(key, after)| (*key, known(after))).collect();
    without_ends(&reversed(&without_ends(&waits))).into_keys().collect()
}

/// Returns what is left when objects that wait for nobody are taken away, again and again.
fn without_ends<'a>(waits: &Waits<'a>) -> Waits<'a> {
    let waiting = reversed(waits);
    let mut left: BTreeMap<&ObjectKey, usize> = waits.iter().map(|(key, others)| (*key, others.len())).collect();
    let mut free: Vec<&ObjectKey> = left.iter().filter(|(_, count)| **count == 0).map(|(key, _)| *key).collect();
    while let Some(key) = free.pop() {
        left.remove(key);
        for user in waiting.get(key).into_iter().flatten() {
            let Some(count) = left.get_mut(user) else { continue };
            *count -= 1;
            if *count == 0 {
                free.push(user);
            }
        }
    }
    let is_left = |one: &&'a ObjectKey| left.contains_key(*one);
    let kept = waits.iter().filter(|(key, _)| is_left(key));
    kept.map(|(key, others)| (*key, others.iter().copied().filter(is_left).collect())).collect()
}

/// Returns the objects with those that wait for them.
fn reversed<'a>(waits: &Waits<'a>) -> Waits<'a> {
    let mut reversed: Waits<'a> = waits.keys().map(|key| (*key, BTreeSet::new())).collect();
    for (key, others) in waits {
        for other in others {
            reversed.entry(other).or_default().insert(key);
        }
    }
    reversed
}

/// Returns the shortest way from an object back to itself.
fn cycle<'a>(all: &BTreeMap<&'a ObjectKey, &'a After>, object: &'a ObjectKey) -> Option<Vec<&'a After>> {
    let mut from: BTreeMap<&ObjectKey, &ObjectKey> = BTreeMap::new();
    let mut next = VecDeque::from([object]);
    while let Some(key) = next.pop_front() {
        for name in all.get(key).into_iter().flat_map(|after| &after.names) {
            if name == object {
                let mut way = vec![all.get(key).copied()?];
                let mut at = key;
                while at != object {
                    at = from.get(at).copied()?;
                    way.push(all.get(at).copied()?);
                }
                way.reverse();
                return Some(way);
            }
            if !from.contains_key(name) {
                from.insert(name, key);
                next.push_back(name);
            }
        }
    }
    None
}

fn goes_round(cycle: &[&After]) -> Complaint {
    let first = cycle[0];
    let mut words: Vec<String> = cycle.iter().take(LINKS).map(|after| first.word(&after.object)).collect();
    if cycle.len() > LINKS {
        words.push("…".to_owned());
    }
    words.push(first.word(&first.object));
    let message = format!("{} would wait for itself: {}", first.object, words.join(" → "));
    let note = |(index, after): (usize, &&After)| Note {
        place: after.place.clone(),
        message: format!("waits for {}", after.word(&cycle[(index + 1) % cycle.len()].object)),
        excerpt: None,
    };
    let also = cycle.iter().enumerate().skip(1).take(LINKS).map(note).collect();
    Complaint { also, ..complaint(first, message, Some("take one of them away".to_owned())) }
}

fn complaint(after: &After, message: String, hint: Option<String>) -> Complaint {
    Complaint {
        place: after.place.clone(),
        object: Some(after.object.clone()),
        message,
        hint,
        excerpt: None,
        also: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::after::tests::{after, key};
    use super::*;

    fn wrong(all: &[After], objects: &[ObjectKey]) -> Vec<String> {
        let meant: Vec<&ObjectKey> = objects.iter().collect();
        wrong_order(all, |key| objects.contains(key), &meant).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_unknown_name_comes_with_the_nearest() {
        let wrong = wrong(&[after("web", &["bd"])], &[key("web"), key("db")]);
        assert_eq!(
            wrong,
            [
                "web.yaml:4:18: Deployment shop/web waits for deployment/bd, which is not in the repository (did you mean \
              deployment/db?)"
            ]
        );
    }

    #[test]
    fn a_cycle_is_told_at_each_of_its_places() {
        let all = [after("a", &["b"]), after("b", &["c", "d"]), after("c", &["a"]), after("e", &["a"])];
        let wrong = wrong(&all, &["a", "b", "c", "d", "e"].map(key));
        assert_eq!(wrong.len(), 3, "{wrong:#?}");
        assert_eq!(
            wrong[0],
            "a.yaml:4:18: Deployment shop/a would wait for itself: deployment/a → deployment/b → deployment/c → \
             deployment/a (take one of them away); b.yaml:4:18: waits for deployment/c; c.yaml:4:18: waits for deployment/a"
        );
        assert!(wrong[1].contains("deployment/b → deployment/c → deployment/a → deployment/b"));
        let itself = super::wrong_order(&[after("a", &["a"])], |_| true, &[]);
        assert!(itself[0].message.ends_with("deployment/a → deployment/a"), "{itself:?}");
    }

    #[test]
    fn very_many_wrong_names_and_cycles_are_told_in_short() {
        let names: Vec<String> = (0..600).map(|number| format!("w{number}")).collect();
        let others = |at: usize| (1..=20).map(|step| names[(at + step) % names.len()].as_str()).collect::<Vec<_>>();
        let circle: Vec<After> = names.iter().enumerate().map(|(at, name)| after(name, &others(at))).collect();
        let keys: Vec<ObjectKey> = names.iter().map(|name| key(name)).collect();
        let told = wrong(&circle, &keys);
        assert_eq!(told.len(), names.len(), "each of them is refused");
        let in_full = told.iter().filter(|told| told.contains(" → ")).count();
        assert_eq!(in_full, SEARCHES);
        assert!(told[SEARCHES].ends_with("would wait for itself, or for others that do"), "{}", told[SEARCHES]);

        let unknown: Vec<String> = (0..600).map(|number| format!("x{number}")).collect();
        let unknown: Vec<&str> = unknown.iter().map(String::as_str).collect();
        let told = wrong(&[after("w0", &unknown), after("w1", &unknown)], &keys);
        assert_eq!(told.len(), 2 * (UNKNOWN + 1));
        assert!(told[UNKNOWN].ends_with("waits for 580 more that are not in the repository"), "{}", told[UNKNOWN]);
        let hinted = told.iter().filter(|told| told.contains("did you mean")).count();
        assert_eq!(hinted, SEARCHES);
    }

    #[test]
    fn those_that_only_wait_for_a_cycle_are_not_complained_about() {
        let all =
            [after("a", &["b"]), after("b", &["a", "c"]), after("c", &["d"]), after("d", &["d"]), after("e", &["a"])];
        let told = wrong(&all, &["a", "b", "c", "d", "e"].map(key));
        let of: Vec<&str> = told.iter().map(|told| &told[..6]).collect();
        assert_eq!(of, ["a.yaml", "b.yaml", "d.yaml"]);
    }
}
