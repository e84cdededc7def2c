//! Rules that give images their fates: those that come with the kubelet and those of a script.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;

use super::Fate;
use super::parse::{Fates, duration};
use crate::kubelet::io::{after, scaled};

/// The rules that come with the kubelet.
const OWN: &str = include_str!("images.yaml");
/// No script is longer.
const LONGEST: usize = 1 << 20;

/// The reason for which a script can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// It is not YAML of the right shape.
    #[error("failed to read the script: {0}")]
    Shape(#[from] serde_yaml::Error),
    /// A rule makes no sense.
    #[error("failed to read rule {rule} of the script: {problem}")]
    Rule {
        /// The rule's place among the rules, from 1.
        rule: usize,
        /// The fault.
        problem: String,
    },
    /// It is too long.
    #[error("failed to read the script: it is longer than {LONGEST} bytes")]
    Length,
}

/// Rules about images, in order; the first that matches decides.
///
/// ```yaml
/// rules:
/// - image: "*/web:v2*"         # `*` stands for any letters, `?` for one
///   fate: crash-after=3s
/// - image: "registry.example.com/*"
///   namespace: shop            # also `pod`, both optional and patterns too
///   fates:                     # one after another, from the first time the rule is asked
///   - {for: 20s, fate: image-pull-error}
///   - {fate: ready}
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Script(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    image: String,
    namespace: String,
    pod: String,
    /// Each until so long after the first time.
    fates: Vec<(Option<Duration>, Fate)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptText {
    rules: Vec<RuleText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleText {
    image: Option<String>,
    namespace: Option<String>,
    pod: Option<String>,
    fate: Option<String>,
    fates: Option<Vec<StepText>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StepText {
    #[serde(rename = "for")]
    lasts: Option<String>,
    fate: String,
}

impl Script {
    /// Reads a script.
    ///
    /// # Errors
    /// Fails with its fault, and the place.
    pub fn parse(text: &str) -> Result<Script, ScriptError> {
        if text.len() > LONGEST {
            return Err(ScriptError::Length);
        }
        let text: ScriptText = serde_yaml::from_str(text)?;
        let rules = text.rules.into_iter().enumerate();
        let rules = rules
            .map(|(index, rule)| Rule::read(rule).map_err(|problem| ScriptError::Rule { rule: index + 1, problem }));
        Ok(Script(rules.collect::<Result<_, _>>()?))
    }
}

impl Rule {
    fn read(text: RuleText) -> Result<Rule, String> {
        let steps = match (text.fate, text.fates) {
            (Some(fate), None) => vec![StepText { lasts: None, fate }],
            (None, Some(fates)) if !fates.is_empty() => fates,
            _ => return Err("it needs either fate or fates".to_owned()),
        };
        let mut fates = Vec::new();
        let mut until = Duration::ZERO;
        let last = steps.len() - 1;
        for (index, step) in steps.into_iter().enumerate() {
            let end = match (&step.lasts, index == last) {
                (Some(lasts), _) => {
                    until = until.saturating_add(duration(lasts)?);
                    Some(until)
                }
                (None, true) => None,
                (None, false) => return Err("every fate but the last needs `for`".to_owned()),
            };
            let read = Fates::parse(&step.fate)?;
            match (read.all, read.named.is_empty()) {
                (Some(fate), true) => fates.push((end, fate)),
                _ => return Err("the fate of an image can't name containers".to_owned()),
            }
        }
        if text.image.is_none() && text.namespace.is_none() && text.pod.is_none() {
            return Err("it needs image, namespace or pod".to_owned());
        }
        let pattern = |text: Option<String>| text.unwrap_or_else(|| "*".to_owned());
        Ok(Rule { image: pattern(text.image), namespace: pattern(text.namespace), pod: pattern(text.pod), fates })
    }

    fn matches(&self, image: &str, namespace: &str, pod: &str) -> bool {
        matches(&self.image, image) && matches(&self.namespace, namespace) && matches(&self.pod, pod)
    }
}

/// Rules at work: a script's first, then the kubelet's own.
#[derive(Debug)]
pub struct FateRules {
    rules: Vec<Rule>,
    /// When each rule was first asked.
    first: Vec<Option<Timestamp>>,
}

impl FateRules {
    /// Returns the rules of `script`, if there is one, before those that come with the kubelet.
    #[must_use]
    pub fn new(script: Option<Script>) -> FateRules {
        let mut rules = script.unwrap_or_default().0;
        // The file is part of the program, and a test reads it.
        rules.extend(Script::parse(OWN).unwrap_or_default().0);
        FateRules { first: vec![None; rules.len()], rules }
    }

    /// Returns the fate that the rules give a container at `now`, if any rule says so. `speed` is the factor of the
    /// time for rules that change.
    pub fn fate(&mut self, image: &str, namespace: &str, pod: &str, now: Timestamp, speed: f64) -> Option<Fate> {
        let index = self.rules.iter().position(|rule| rule.matches(image, namespace, pod))?;
        let first = *self.first.get_mut(index)?.get_or_insert(now);
        let over = |until: &Duration| now >= after(first, scaled(*until, speed));
        let fates = &self.rules[index].fates;
        let present = fates.iter().find(|(until, _)| !until.as_ref().is_some_and(over));
        present.or(fates.last()).map(|(_, fate)| fate.clone())
    }
}

/// Returns true when `text` matches `pattern`, in which `*` stands for any letters and `?` for one. Takes time in
/// proportion to the product of their lengths at worst.
fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == '*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == '?' || pattern[p] == text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, taken)) = star {
            star = Some((at, taken + 1));
            p = at + 1;
            t = taken + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|letter| *letter == '*')
}

#[cfg(test)]
mod tests {
    use super::{FateRules, OWN, Script, matches};
    use crate::kubelet::fate::{FateCause, Pull};
    use jiff::Timestamp;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("*:404", "nginx:404", true),
            ("*:404", "nginx:4040", false),
            ("a*b*c", "aXbbYc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_rules_that_come_along_can_be_read_and_know_bad_images() {
        assert!(!Script::parse(OWN).unwrap().0.is_empty());
        let mut rules = FateRules::new(None);
        let mut fate = |image: &str| rules.fate(image, "default", "web", Timestamp::UNIX_EPOCH, 1.0);
        for image in ["nginx:404", "foo:non-existent", "nonexistent/app", "webserver:does-not-exist", "app:broken"] {
            assert_eq!(fate(image).unwrap().pull, Pull::Fails(None), "{image}");
        }
        assert_eq!(fate("app:crash").unwrap().end.unwrap().cause, FateCause::Crash);
        for image in ["nginx", "nginx:1.27", "crashlytics/app:v1", "example.com:5000/a/b@sha256:00"] {
            assert_eq!(fate(image), None, "{image}");
        }
    }

    #[test]
    fn a_script_goes_first_and_may_change_over_time() {
        let script = "rules:\n- image: 'web:*'\n  fates:\n  - {for: 20s, fate: image-pull-error}\n  - {fate: ready}\n";
        let mut rules = FateRules::new(Some(Script::parse(script).unwrap()));
        let mut pull = |second: i64| {
            let now = Timestamp::from_second(second).unwrap();
            rules.fate("web:404", "default", "web", now, 1.0).unwrap().pull
        };
        assert_eq!(pull(100), Pull::Fails(None));
        assert_eq!(pull(119), Pull::Fails(None));
        assert_eq!(pull(120), Pull::Succeeds);
    }

    #[test]
    fn a_wrong_script_says_where() {
        for (script, part) in [
            ("rules: 3", "rules"),
            ("rules: []\nrule: x", "rule"),
            ("rules:\n- image: a\n  fate: reddy", "rule 1 of the script: \"reddy\" is not known"),
            ("rules:\n- image: a", "rule 1"),
            ("rules:\n- fate: ready", "needs image"),
            ("rules:\n- {image: a, fates: [{fate: ready}, {fate: ready}]}", "needs `for`"),
            ("rules:\n- {image: a, fate: 'app:ready'}", "can't name containers"),
        ] {
            let error = Script::parse(script).unwrap_err().to_string();
            assert!(error.contains(part), "{script}: {error}");
        }
    }
}
