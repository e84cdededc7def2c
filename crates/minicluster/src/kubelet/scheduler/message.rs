//! The message about a pod that no node can take.

use std::collections::BTreeMap;

use super::filters::Refusal;

/// Returns the message about a pod that was refused by all nodes; `preempts` is whether it may push others out.
pub fn message(refusals: &[Refusal], preempts: bool) -> String {
    let count = refusals.len();
    if count == 0 {
        return "no nodes available to schedule pods".to_owned();
    }
    let reasons = refusals.iter().flat_map(|refusal| refusal.reasons.iter().map(String::as_str));
    let preemption = if preempts {
        let helps = refusals.iter().map(|refusal| {
            if refusal.could {
                "No preemption victims found for incoming pod"
            } else {
                "Preemption is not helpful for scheduling"
            }
        });
        format!("0/{count} nodes are available: {}.", tally(helps))
    } else {
        "not eligible due to preemptionPolicy=Never.".to_owned()
    };
    format!("0/{count} nodes are available: {}. no new claims to deallocate, preemption: {preemption}", tally(reasons))
}

/// Returns each text with how often it occurs, in the order of these texts.
fn tally<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for text in texts {
        *counts.entry(text).or_default() += 1;
    }
    let mut counted: Vec<String> = counts.into_iter().map(|(text, count)| format!("{count} {text}")).collect();
    counted.sort();
    counted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::message;
    use crate::kubelet::scheduler::filters::Refusal;

    #[test]
    fn the_words_of_the_scheduler() {
        let refusal = |reason: &str, could| Refusal { reasons: vec![reason.to_owned()], could };
        let cpu = refusal("Insufficient cpu", true);
        let all = [refusal("node(s) had untolerated taint(s)", false), cpu.clone(), cpu];
        assert_eq!(
            message(&all, true),
            "0/3 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient cpu. no new claims to \
             deallocate, preemption: 0/3 nodes are available: 1 Preemption is not helpful for scheduling, 2 No preemption \
             victims found for incoming pod."
        );
        assert_eq!(message(&[], true), "no nodes available to schedule pods");
    }
}
