//! The names and numbers of a StatefulSet's pods. Pure.

use k8s_openapi::api::apps::v1::StatefulSet;

use crate::controllers::key::name_of;
use crate::controllers::pod::Pod;

/// Returns the number at the end of a pod's name, and the name before it.
pub fn parse(pod: &str) -> Option<(&str, i32)> {
    let (set, number) = pod.rsplit_once('-')?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| number.parse().ok()).flatten().map(|number| (set, number))
}

/// Returns a pod's number, if it can be one of this set's.
pub fn of(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    parse(name_of(&pod.metadata)).filter(|(name, _)| *name == name_of(&set.metadata)).map(|(_, number)| number)
}

/// Returns the first number.
pub fn first(set: &StatefulSet) -> i32 {
    set.spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0)
}

/// Returns how many pods there shall be.
pub fn count(set: &StatefulSet) -> i32 {
    set.spec.replicas.unwrap_or(1)
}

/// Returns true when a number is one of the wanted ones.
pub fn is_wanted(set: &StatefulSet, number: i32) -> bool {
    let first = first(set);
    number >= first && number - first < count(set)
}

/// Returns the name of the pod with a number.
pub fn pod_name(set: &StatefulSet, number: i32) -> String {
    format!("{}-{number}", name_of(&set.metadata))
}

/// Returns the name of a pod's claim.
pub fn claim_name(set: &StatefulSet, template: &str, number: i32) -> String {
    format!("{template}-{}-{number}", name_of(&set.metadata))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_are_at_the_end() {
        assert_eq!(parse("web-0"), Some(("web", 0)));
        assert_eq!(parse("web-1-12"), Some(("web-1", 12)));
        for none in ["web", "web-", "web-x", "web-+1", "web-99999999999"] {
            assert_eq!(parse(none), None, "{none}");
        }
    }
}
