//! The events that become objects: the same ones are counted, similar ones are combined, and nobody may send too many.
//!
//! The limits are those of a real cluster: ten different messages of one kind within ten minutes, then they are
//! combined; twenty-five events about one object, then one every five minutes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::occurrence::Occurrence;
use crate::controllers::key::Key;
use crate::event_type::EventType;

/// The number of remembered entries of each sort; the longest unused goes first.
const REMEMBERED: usize = 4096;
/// This many different messages of one kind are kept apart …
const SIMILAR: usize = 10;
/// … as long as they come within this time of each other.
const SIMILAR_FOR: SignedDuration = SignedDuration::from_mins(10);
/// So many events about one object may come at once; then one in every pause.
const AT_ONCE: f64 = 25.0;
const PAUSE_SECONDS: f64 = 300.0;

/// The source of an event: component and object, uid included. Shared, since much is remembered of each.
type Talker = Arc<(&'static str, String, String, String, String)>;
/// The sort of an event.
type Sort = (Talker, EventType, &'static str);
/// The identity of an event: the sort and, unless combined, the message.
pub type EventPlace = (Sort, Option<String>);

/// The step for an occurrence.
#[derive(Debug)]
pub enum CorrelationStep {
    /// Nothing: too much talk.
    Drop,
    /// A new event.
    Create {
        /// The content.
        occurrence: Occurrence,
        /// The key to remember it by.
        place: EventPlace,
    },
    /// One that is there already happened again.
    Count {
        /// The present content.
        occurrence: Occurrence,
        /// The event.
        event: Key,
        /// The number of times that it has happened.
        count: i32,
        /// The key that it is remembered by.
        place: EventPlace,
    },
}

/// Remembers the latest events.
#[derive(Debug, Default)]
pub struct Correlator {
    similar: Recent<Sort, Similar>,
    told: Recent<EventPlace, CorrelatedEvent>,
    talk: Recent<Talker, Talk>,
}

#[derive(Debug)]
struct Similar {
    messages: BTreeSet<String>,
    last: Timestamp,
}

#[derive(Debug)]
struct CorrelatedEvent {
    event: Option<Key>,
    count: i32,
}

#[derive(Debug)]
struct Talk {
    left: f64,
    last: Timestamp,
}

impl Correlator {
    /// Decides on an occurrence: a new event, a count of an old one, or none.
    pub fn take(&mut self, mut occurrence: Occurrence) -> CorrelationStep {
        let object = &occurrence.object;
        let part = |part: &Option<String>| part.clone().unwrap_or_default();
        let (name, uid) = (part(&object.name), part(&object.uid));
        let talker = Arc::new((occurrence.component, part(&object.kind), part(&object.namespace), name, uid));
        let sort = (talker.clone(), occurrence.event_type, occurrence.reason);
        let place = if self.are_too_many(&sort, &occurrence) {
            occurrence.message = format!("(combined from similar events): {}", occurrence.message);
            (sort, None)
        } else {
            (sort, Some(occurrence.message.clone()))
        };
        let told = self.told.entry(place.clone(), || CorrelatedEvent { event: None, count: 0 });
        told.count = told.count.saturating_add(1);
        let (event, count) = (told.event.clone(), told.count);
        if !self.may_talk(talker, occurrence.at) {
            return CorrelationStep::Drop;
        }
        match event {
            Some(event) => CorrelationStep::Count { occurrence, event, count, place },
            None => CorrelationStep::Create { occurrence, place },
        }
    }

    /// Notes that the event at `place` is now the object `event`.
    pub fn created(&mut self, place: EventPlace, event: Key) {
        self.told.entry(place, || CorrelatedEvent { event: None, count: 1 }).event = Some(event);
    }

    fn are_too_many(&mut self, sort: &Sort, occurrence: &Occurrence) -> bool {
        let at = occurrence.at;
        let similar = self.similar.entry(sort.clone(), || Similar { messages: BTreeSet::new(), last: at });
        if at.duration_since(similar.last) > SIMILAR_FOR {
            similar.messages.clear();
        }
        similar.last = at;
        similar.messages.insert(occurrence.message.clone());
        if similar.messages.len() < SIMILAR {
            return false;
        }
        similar.messages.pop_first();
        true
    }

    fn may_talk(&mut self, talker: Talker, at: Timestamp) -> bool {
        let talk = self.talk.entry(talker, || Talk { left: AT_ONCE, last: at });
        let passed = at.duration_since(talk.last).as_secs_f64();
        talk.left = (talk.left + passed.max(0.0) / PAUSE_SECONDS).min(AT_ONCE);
        talk.last = at;
        if talk.left < 1.0 {
            return false;
        }
        talk.left -= 1.0;
        true
    }
}

/// A map that forgets the least recently used entries.
#[derive(Debug)]
struct Recent<K, V> {
    entries: BTreeMap<Arc<K>, (u64, V)>,
    by_use: BTreeMap<u64, Arc<K>>,
    uses: u64,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Recent<K, V> {
        Recent { entries: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0 }
    }
}

impl<K: Ord, V> Recent<K, V> {
    fn entry(&mut self, key: K, fresh: impl FnOnce() -> V) -> &mut V {
        self.uses += 1;
        let known = self.entries.get(&key).map(|(used, _)| *used);
        let key = match known.and_then(|used| self.by_use.remove(&used)) {
            Some(known) => known,
            None => Arc::new(key),
        };
        if known.is_none()
            && self.entries.len() >= REMEMBERED
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.by_use.insert(self.uses, Arc::clone(&key));
        let (used, value) = self.entries.entry(key).or_insert_with(|| (0, fresh()));
        *used = self.uses;
        value
    }
}

#[cfg(test)]
mod tests {
    use super::{CorrelationStep, Correlator, EventType, Key, Occurrence};
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::ObjectReference;

    fn occurrence(message: &str, second: i64) -> Occurrence {
        Occurrence {
            component: "replicaset-controller",
            object: ObjectReference { name: Some("web".to_owned()), ..ObjectReference::default() },
            event_type: EventType::Normal,
            reason: "SuccessfulCreate",
            message: message.to_owned(),
            at: Timestamp::from_second(second).unwrap(),
        }
    }

    fn tell(correlator: &mut Correlator, message: &str, second: i64) -> String {
        match correlator.take(occurrence(message, second)) {
            CorrelationStep::Drop => "dropped".to_owned(),
            CorrelationStep::Create { occurrence, place } => {
                correlator.created(place, Key::new("shop", "event"));
                format!("new: {}", occurrence.message)
            }
            CorrelationStep::Count { occurrence, count, .. } => format!("{count}: {}", occurrence.message),
        }
    }

    #[test]
    fn the_same_is_counted_and_the_similar_combined() {
        let mut correlator = Correlator::default();
        assert_eq!(tell(&mut correlator, "a", 0), "new: a");
        assert_eq!(tell(&mut correlator, "a", 1), "2: a");
        for letter in ["b", "c", "d", "e", "f", "g", "h", "i"] {
            assert_eq!(tell(&mut correlator, letter, 2), format!("new: {letter}"));
        }
        assert_eq!(tell(&mut correlator, "j", 3), "new: (combined from similar events): j");
        assert_eq!(tell(&mut correlator, "k", 4), "2: (combined from similar events): k");
        assert_eq!(tell(&mut correlator, "l", 4 + 601), "new: l");
    }

    #[test]
    fn nobody_may_talk_too_much() {
        let mut correlator = Correlator::default();
        let told = (0..40).filter(|_| tell(&mut correlator, "a", 0) != "dropped").count();
        assert_eq!(told, 25);
        assert_eq!(tell(&mut correlator, "a", 299), "dropped");
        assert_eq!(tell(&mut correlator, "a", 301), "42: a");
    }
}
