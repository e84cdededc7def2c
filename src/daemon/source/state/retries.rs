//! Objects that are tried again by themselves, one by one, with a back-off: those that wait for something, and those that the
//! API server refused. None of them keeps another object, or a newer commit, waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::backoff::Backoff;
use belay_core::manifest::ObjectKey;

/// The waits of an object that waits for something that may come at any moment.
const WAITS: Backoff = Backoff::between(Duration::from_millis(500), Duration::from_mins(1));
/// The waits of an object that was refused, or given up.
const REFUSED: Backoff = Backoff::between(Duration::from_secs(5), Duration::from_mins(5));
/// The waits before other words about an object are told that is refused, or waits, again: a server may have others each time.
const OTHER_WORDS: Backoff = Backoff::between(Duration::from_mins(1), Duration::from_mins(60));
/// For so many objects the waits are as they are; for more of them they are longer, so that the requests stay as few.
const FEW: usize = 50;
/// For so long the source has not come to its end because of an object that can't be looked at for now.
const LOOKED_AT_SOON: Duration = Duration::from_secs(30);
/// The delay before a newer head tries refused objects again: its changes may remove the cause.
const AFTER_A_HEAD: Duration = Duration::from_secs(5);
/// The most objects that are tried at once.
pub const MAX_CONCURRENT_RETRIES: usize = 32;

/// The reason for which an object is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryCause {
    /// It waits for something; its record, if it has one, is open.
    Waits,
    /// The API server is ready, and can't serve this object, or something is missing, or is being deleted first. This wait has
    /// an end.
    Limited,
    /// It was refused, or given up; its record has ended.
    Refused,
}

/// The objects that are tried again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Retries {
    objects: BTreeMap<ObjectKey, Retry>,
    /// The number of tries that were begun.
    begun: u64,
}

#[derive(Clone, Debug, PartialEq)]
struct Retry {
    cause: RetryCause,
    /// The time since which it is on the list for this cause.
    since: Instant,
    /// The number of times that it was put off since then.
    times: u32,
    at: Instant,
    /// The number of times that other words were told of it since then, and the time from which on they may be again.
    told: u32,
    tell_at: Instant,
    /// The number of the try that is under way.
    running: Option<u64>,
}

impl Retries {
    /// Puts an object on the list, later each time. Returns for how long it is on it for this cause.
    pub fn put_off(&mut self, key: &ObjectKey, cause: RetryCause, now: Instant) -> Duration {
        let waits = match cause {
            RetryCause::Waits | RetryCause::Limited => WAITS,
            RetryCause::Refused => REFUSED,
        };
        let before = self.objects.get(key).filter(|retry| retry.cause == cause);
        let (since, times) = before.map_or((now, 0), |retry| (retry.since, retry.times.saturating_add(1)));
        let (told, tell_at) = before.map_or((0, now), |retry| (retry.told, retry.tell_at));
        let many = u32::try_from(self.objects.len() / FEW).unwrap_or(u32::MAX).max(1);
        // The first time is soon for all of them.
        let many = if times == 0 { 1 } else { many };
        let at = now + waits.wait_number(times).saturating_mul(many);
        self.objects.insert(key.clone(), Retry { cause, since, times, at, told, tell_at, running: None });
        now - since
    }

    /// Tries an object at once that is on the list, and with the shortest waits from here on.
    pub fn at_once(&mut self, key: &ObjectKey, now: Instant) {
        if let Some(retry) = self.objects.get_mut(key) {
            (retry.times, retry.at, retry.running) = (0, now, None);
            (retry.told, retry.tell_at) = (0, now);
        }
    }

    /// Returns true if other words about an object than those before are to be told now: at once, and then later each time.
    pub fn tells_other_words(&mut self, key: &ObjectKey, now: Instant) -> bool {
        let Some(retry) = self.objects.get_mut(key) else { return true };
        if now < retry.tell_at {
            return false;
        }
        retry.tell_at = now + OTHER_WORDS.wait_number(retry.told);
        retry.told = retry.told.saturating_add(1);
        true
    }

    /// Takes an object off the list. The result of a try under way is discarded.
    pub fn forget(&mut self, key: &ObjectKey) {
        self.objects.remove(key);
    }

    /// Takes those off the list that `keep` does not name.
    pub fn retain(&mut self, keep: impl Fn(&ObjectKey) -> bool) {
        self.objects.retain(|key, _| keep(key));
    }

    /// Tries refused objects again soon, after a new head was planned.
    pub fn head_planned(&mut self, now: Instant) {
        for retry in self.objects.values_mut().filter(|retry| retry.cause == RetryCause::Refused) {
            (retry.times, retry.at) = (0, retry.at.min(now + AFTER_A_HEAD));
            (retry.told, retry.tell_at) = (0, now);
        }
    }

    /// Returns why an object is on the list; `None` if it is not.
    pub fn cause(&self, key: &ObjectKey) -> Option<RetryCause> {
        self.objects.get(key).map(|retry| retry.cause)
    }

    /// Returns true when some object waits for something, and has done so for a short time only.
    pub fn waits_briefly(&self, now: Instant) -> bool {
        let is_brief = |retry: &Retry| retry.cause != RetryCause::Refused && now - retry.since < LOOKED_AT_SOON;
        self.objects.values().any(is_brief)
    }

    /// Tries the objects of the list that `wanted` names at once.
    pub fn at_once_where(&mut self, wanted: impl Fn(&ObjectKey) -> bool, now: Instant) {
        let keys: Vec<ObjectKey> = self.objects.keys().filter(|key| wanted(key)).cloned().collect();
        keys.iter().for_each(|key| self.at_once(key, now));
    }

    /// Returns when the next one is due; `None` if nothing is, or as many are tried as may be at once.
    pub fn next_due(&self) -> Option<Instant> {
        let running = self.objects.values().filter(|retry| retry.running.is_some()).count();
        let waiting = self.objects.values().filter(|retry| retry.running.is_none());
        waiting.map(|retry| retry.at).min().filter(|_| running < MAX_CONCURRENT_RETRIES)
    }

    /// Begins to try those whose time has come, each under a number.
    pub fn take_due(&mut self, now: Instant) -> Vec<(ObjectKey, u64)> {
        let running = self.objects.values().filter(|retry| retry.running.is_some()).count();
        let mut due: Vec<(Instant, ObjectKey)> = self
            .objects
            .iter()
            .filter(|(_, retry)| retry.running.is_none() && retry.at <= now)
            .map(|(key, retry)| (retry.at, key.clone()))
            .collect();
        due.sort();
        due.truncate(MAX_CONCURRENT_RETRIES.saturating_sub(running));
        let mut taken = Vec::new();
        for (_, key) in due {
            self.begun += 1;
            if let Some(retry) = self.objects.get_mut(&key) {
                retry.running = Some(self.begun);
                taken.push((key, self.begun));
            }
        }
        taken
    }

    /// Ends a try; returns true if its result still counts. The object stays on the list until it is put off or
    /// forgotten.
    pub fn ended(&mut self, key: &ObjectKey, number: u64) -> bool {
        match self.objects.get_mut(key).filter(|retry| retry.running == Some(number)) {
            Some(retry) => {
                retry.running = None;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey { group: String::new(), kind: "ConfigMap".to_owned(), namespace: None, name: name.to_owned() }
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_refused_is_tried_later_each_time() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        let mut waits = Vec::new();
        for _ in 0..9 {
            retries.put_off(&key("a"), RetryCause::Refused, now);
            waits.push((retries.next_due().unwrap() - now).as_secs());
        }
        assert_eq!(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        retries.head_planned(now);
        assert_eq!(retries.next_due(), Some(now + AFTER_A_HEAD), "a newer head may have changed what was in the way");
        retries.put_off(&key("a"), RetryCause::Waits, now);
        assert_eq!(retries.next_due(), Some(now + Duration::from_millis(500)), "another cause begins anew");
        retries.at_once(&key("a"), now);
        retries.at_once(&key("b"), now);
        assert_eq!((retries.next_due(), retries.cause(&key("b"))), (Some(now), None));
    }

    #[tokio::test(start_paused = true)]
    async fn other_words_are_told_later_each_time() {
        let (mut retries, start) = (Retries::default(), Instant::now());
        assert!(retries.tells_other_words(&key("a"), start), "nothing tries it again");
        retries.put_off(&key("a"), RetryCause::Refused, start);
        let mut told = Vec::new();
        for minute in 0..400 {
            let now = start + Duration::from_mins(minute);
            retries.put_off(&key("a"), RetryCause::Refused, now);
            if retries.tells_other_words(&key("a"), now) {
                told.push(minute);
            }
        }
        assert_eq!(told, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243, 303, 363]);
        let now = start + Duration::from_mins(400);
        assert!(!retries.tells_other_words(&key("a"), now));
        retries.at_once(&key("a"), now);
        assert!(retries.tells_other_words(&key("a"), now), "somebody asked for another try");
        retries.head_planned(now);
        assert!(retries.tells_other_words(&key("a"), now), "a newer head may have changed it");
    }

    #[tokio::test(start_paused = true)]
    async fn each_is_tried_by_itself_and_only_the_newest_try_counts() {
        let (mut retries, now) = (Retries::default(), Instant::now());
        for number in 0..MAX_CONCURRENT_RETRIES + 5 {
            retries.put_off(&key(&format!("{number:03}")), RetryCause::Waits, now);
        }
        let later = now + Duration::from_secs(1);
        let taken = retries.take_due(later);
        assert_eq!(taken.len(), MAX_CONCURRENT_RETRIES);
        assert_eq!(retries.next_due(), None, "the others wait until one of them has ended");
        let (first, number) = taken[0].clone();
        assert!(!retries.ended(&first, number + 100));
        assert!(retries.ended(&first, number) && retries.next_due().is_some());
        let (second, number) = taken[1].clone();
        retries.at_once(&second, later);
        assert!(!retries.ended(&second, number), "something has happened since it was begun");
        let (third, number) = taken[2].clone();
        retries.forget(&third);
        assert!(!retries.ended(&third, number));
    }
}
