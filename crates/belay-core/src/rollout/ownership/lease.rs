//! The daemon that may write, of several that follow one source: the one that holds its Lease
//! (`coordination.k8s.io/v1`).

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::manifest::ObjectKey;
use crate::rollout::marks;

/// The longest time for which a Lease without a renewal is believed, whatever the Lease itself says: many times the
/// time that belay asks for.
pub const LONGEST_HELD: Duration = Duration::from_mins(3);

/// A Lease, as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The holder; `None` if it was released.
    pub holder: Option<String>,
    /// The time for which it is held since its last renewal; at most [`LONGEST_HELD`].
    pub lasts: Duration,
    /// When its holder got it, by the clock of that one; `None` if it does not say.
    pub acquired: Option<Timestamp>,
    /// When it was renewed last, by the same clock.
    pub renewed: Option<Timestamp>,
    /// Its `resourceVersion`: a write names it, so that it fails when somebody else was faster.
    pub version: String,
    /// Its uid.
    pub uid: String,
    /// The number of times that it has gone from one to another. The API server takes no larger number than this type's.
    pub transitions: i32,
    /// The last request of a person to try objects again.
    pub retry: Option<RetryRequest>,
    /// The newest request to let the present head through.
    pub sync: Option<SyncRequest>,
}

/// The request of a person to let the present head of a source through, which waits for a window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SyncRequest {
    /// The person.
    pub by: String,
    /// When it was asked.
    pub at: Timestamp,
}

/// The request of a person to try objects again: those that were refused, or wait, and may not be live themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryRequest {
    /// The objects: `Secret shop/key`.
    pub objects: BTreeSet<String>,
    /// When it was asked.
    pub at: Timestamp,
}

impl RetryRequest {
    /// Returns true when it names an object, and was made so shortly before `now` that its daemon may not have heard of it yet.
    #[must_use]
    pub fn is_pending(&self, object: &ObjectKey, lately: SignedDuration, now: Timestamp) -> bool {
        now.duration_since(self.at).abs() < lately && self.objects.contains(&object.to_string())
    }
}

impl Lease {
    /// Returns a live Lease.
    #[must_use]
    pub fn of(live: &Value) -> Lease {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let spec = &live["spec"];
        let time = |field: &str| spec[field].as_str().and_then(|time| time.parse().ok());
        Lease {
            holder: spec["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned),
            lasts: Duration::from_secs(spec["leaseDurationSeconds"].as_u64().unwrap_or_default()).min(LONGEST_HELD),
            acquired: time("acquireTime"),
            renewed: time("renewTime"),
            version: text(&live["metadata"]["resourceVersion"]),
            uid: text(&live["metadata"]["uid"]),
            transitions: spec["leaseTransitions"].as_i64().and_then(|count| count.try_into().ok()).unwrap_or_default(),
            retry: marks::read(live, marks::RETRY),
            sync: marks::read(live, marks::SYNC_NOW),
        }
    }

    /// Returns true when `who` may take it, if it has not changed for as long as that. Its times are not compared to
    /// this machine's, so that clocks may differ.
    #[must_use]
    pub fn is_free_for(&self, who: &str, unchanged: Duration) -> bool {
        self.holder.as_deref().is_none_or(|holder| holder == who) || unchanged >= self.lasts
    }
}

/// Returns the Lease that is written to hold it from `now` on; `before` is its former content.
#[must_use]
pub fn holding(who: &str, lasts: Duration, before: Option<&Lease>, now: Timestamp) -> Value {
    let mine = before.is_some_and(|lease| lease.holder.as_deref() == Some(who));
    let transitions = before.map_or(0, |lease| lease.transitions.saturating_add(i32::from(!mine)));
    let mut spec = json!({"holderIdentity": who, "leaseDurationSeconds": lasts.as_secs(), "renewTime": micros(now),
        "leaseTransitions": transitions});
    if !mine {
        spec["acquireTime"] = micros(now).into();
    }
    spec
}

/// Returns the Lease that is written to release it.
#[must_use]
pub fn releasing(now: Timestamp) -> Value {
    json!({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": micros(now)})
}

/// Returns a time as `MicroTime` has it.
fn micros(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(holder: &str) -> Lease {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let spec = if holder.is_empty() { releasing(now) } else { holding(holder, Duration::from_mins(3), None, now) };
        Lease::of(&json!({"metadata": {"resourceVersion": "7", "uid": "u"}, "spec": spec}))
    }

    #[test]
    fn it_is_free_when_released_or_when_nobody_has_renewed_it() {
        let held = lease("one");
        assert!(held.is_free_for("one", Duration::ZERO), "it is its own");
        assert!(!held.is_free_for("two", Duration::from_secs(179)));
        assert!(held.is_free_for("two", Duration::from_secs(180)));
        assert!(lease("").is_free_for("two", Duration::ZERO));
    }

    #[test]
    fn it_says_since_when_it_is_held() {
        let at: Timestamp = "2026-01-01T00:00:00.5Z".parse().unwrap();
        assert_eq!((lease("one").acquired, lease("one").renewed), (Some(at), Some(at)));
        let odd = Lease::of(&json!({"spec": {"acquireTime": 7, "renewTime": "<script>"}}));
        assert_eq!((odd.acquired, odd.renewed), (None, None));
    }

    #[test]
    fn it_carries_what_is_to_be_tried_again() {
        let asked = RetryRequest { objects: ["Secret shop/key".to_owned()].into(), at: Timestamp::UNIX_EPOCH };
        let text = serde_json::to_string(&asked).unwrap();
        let with = |text: &str| Lease::of(&json!({"metadata": {"annotations": {marks::RETRY: text}}})).retry;
        assert_eq!((with(&text), with("yes")), (Some(asked), None));
    }

    #[test]
    fn a_request_is_pending_for_a_moment() {
        let of = |name: &str| ObjectKey {
            group: String::new(),
            kind: "Secret".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        };
        let at = |second| Timestamp::from_second(second).unwrap();
        let asked = RetryRequest { objects: ["Secret shop/key".to_owned()].into(), at: at(100) };
        let pending = |name, second| asked.is_pending(&of(name), SignedDuration::from_secs(10), at(second));
        assert!(pending("key", 100) && pending("key", 109) && pending("key", 95), "clocks differ a little");
        assert!(!pending("key", 110) && !pending("key", 80) && !pending("other", 100));
    }

    #[test]
    fn nobody_is_believed_for_years() {
        let spec = json!({"holderIdentity": "one", "leaseDurationSeconds": i32::MAX});
        let held = Lease::of(&json!({"metadata": {}, "spec": spec}));
        assert!(!held.is_free_for("two", LONGEST_HELD - Duration::from_secs(1)));
        assert!(held.is_free_for("two", LONGEST_HELD));
    }

    /// Everybody who may write Leases may write the largest number; one more is refused by the API server, each time.
    #[test]
    fn it_can_be_taken_over_however_often_it_was() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        for (live, written) in [(2_147_483_646_i64, 2_147_483_647_i64), (2_147_483_647, 2_147_483_647)] {
            let before = Lease::of(&json!({"spec": {"holderIdentity": "one", "leaseTransitions": live}}));
            let spec = holding("two", Duration::from_mins(3), Some(&before), now);
            assert_eq!(spec["leaseTransitions"], json!(written), "{live}");
        }
    }

    #[test]
    fn taking_it_over_counts_and_renewing_does_not() {
        let now = "2026-01-01T00:00:00.5Z".parse().unwrap();
        let spec = holding("two", Duration::from_mins(3), Some(&lease("one")), now);
        assert_eq!(
            (&spec["leaseTransitions"], &spec["acquireTime"]),
            (&json!(1), &json!("2026-01-01T00:00:00.500000Z"))
        );
        let again = holding("one", Duration::from_mins(3), Some(&lease("one")), now);
        assert_eq!((&again["leaseTransitions"], again.get("acquireTime")), (&json!(0), None));
    }
}
