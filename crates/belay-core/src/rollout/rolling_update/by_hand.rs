//! A rolling update that a person asked for: the person, and the time, so that a daemon that follows the controller can
//! tell.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::super::{Hold, marks};
use super::{NEXT, ORIGINAL, RENAMED_FROM};

/// The person who rolls a controller by hand. Written as JSON into the annotation [`marks::ROLLED`] of the next
/// controller, and of the one that ends under the old name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ByHand {
    /// The person who typed the command.
    pub by: String,
    /// When.
    pub since: Timestamp,
    /// The source that the old controller belongs to, and with it the one that takes its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The controller whose pods this one has replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// True when a hold is to follow, so that nothing is corrected before it exists.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hold_follows: bool,
}

impl ByHand {
    /// Returns who rolled this controller, as far as a text on it says so.
    #[must_use]
    pub fn on(controller: &Value) -> Option<ByHand> {
        marks::read(controller, marks::ROLLED)
    }

    /// Returns the annotation's text.
    #[must_use]
    pub fn to_annotation(&self) -> String {
        marks::written(self)
    }

    /// Returns who rolled it, if that is over: nothing is left to be done or to be written.
    #[must_use]
    pub fn through(controller: &Value) -> Option<ByHand> {
        ByHand::on(controller).filter(|_| !is_under_way(controller))
    }
}

/// Returns true while a rolling update of this controller is under way, by the daemon or by a person.
#[must_use]
pub fn has_begun(controller: &Value) -> bool {
    let has = |name: &str| marks::annotation(controller, name).is_some();
    [NEXT, ORIGINAL, RENAMED_FROM].into_iter().any(has) || is_under_way(controller)
}

/// Returns true when a person is just rolling this controller, or was broken off in it.
#[must_use]
pub fn is_under_way(controller: &Value) -> bool {
    let hold_follows = || ByHand::on(controller).is_some_and(|hand| hand.hold_follows);
    [NEXT, ORIGINAL, RENAMED_FROM].iter().any(|name| wrote_by_hand(controller, name))
        || (hold_follows() && Hold::on(controller).is_none())
}

/// Returns true when an annotation exists, and was written by a person's rolling update: the daemon's own have another
/// manager.
fn wrote_by_hand(controller: &Value, name: &str) -> bool {
    if marks::annotation(controller, name).is_none() {
        return false;
    }
    let field = format!("f:{name}");
    let mut managers = controller["metadata"]["managedFields"].as_array().into_iter().flatten();
    managers.any(|entry| {
        entry["manager"] == marks::ROLLING_UPDATE_MANAGER
            && entry["fieldsV1"]["f:metadata"]["f:annotations"].get(&field).is_some()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn controller(manager: &str, annotations: Value) -> Value {
        let fields: Value =
            annotations.as_object().unwrap().keys().map(|name| (format!("f:{name}"), json!({}))).collect();
        json!({"metadata": {"annotations": annotations, "managedFields": [
            {"manager": manager, "fieldsV1": {"f:metadata": {"f:annotations": fields}}}]}})
    }

    #[test]
    fn a_person_is_told_from_the_daemon() {
        let marks = || json!({ORIGINAL: "3"});
        assert!(is_under_way(&controller(marks::ROLLING_UPDATE_MANAGER, marks())));
        assert!(!is_under_way(&controller(marks::FIELD_MANAGER, marks())));
        assert!(has_begun(&controller(marks::FIELD_MANAGER, marks())));
        assert!(!has_begun(&controller(marks::FIELD_MANAGER, json!({"a": "b"}))));
        assert!(!is_under_way(&controller(marks::ROLLING_UPDATE_MANAGER, json!({"a": "b"}))));
    }

    #[test]
    fn it_is_through_when_its_marks_are_gone_and_its_hold_is_there() {
        let mut hand = ByHand {
            by: "ada".to_owned(),
            since: "2026-01-01T00:00:00Z".parse().unwrap(),
            source: None,
            from: None,
            hold_follows: false,
        };
        let of =
            |hand: &ByHand| controller(marks::ROLLING_UPDATE_MANAGER, json!({marks::ROLLED: hand.to_annotation()}));
        assert_eq!(ByHand::through(&of(&hand)), Some(hand.clone()));
        hand.hold_follows = true;
        assert_eq!(ByHand::on(&of(&hand)), Some(hand.clone()));
        assert_eq!(ByHand::through(&of(&hand)), None);
        assert_eq!(ByHand::on(&controller("a", json!({marks::ROLLED: "by me"}))), None);
    }
}
