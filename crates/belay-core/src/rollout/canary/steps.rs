//! The steps of a canary, as a manifest asks for them.

use std::str::FromStr;

use serde_json::Value;

use crate::rollout::marks;
use crate::span::Span;

/// The most steps of a canary.
const STEPS: usize = 20;

/// The steps of a canary: `1 10m, 50% 10m`. After the last one all pods are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CanarySteps(Vec<CanaryStep>);

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryStep {
    /// The new pods of the step.
    pub size: StepSize,
    /// The time for which they are watched once they are ready; `None` to wait for a person.
    pub time: Option<Span>,
}

/// The number of new pods of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepSize {
    /// So many pods.
    Pods(u32),
    /// So many of a hundred of the wanted pods, rounded up.
    Percent(u32),
}

/// A text that says no steps.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no steps of a canary: {0}")]
pub struct InvalidCanary(String);

impl CanarySteps {
    /// Returns the steps that a manifest asks for. One that asks for something else asks for none, and is complained about.
    #[must_use]
    pub fn of(manifest: &Value) -> CanarySteps {
        marks::annotation(manifest, marks::CANARY).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// Returns the number of steps.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns a step, counted from 1; `None` beyond the last one.
    #[must_use]
    pub fn step(&self, number: usize) -> Option<CanaryStep> {
        self.0.get(number.checked_sub(1)?).copied()
    }

    /// Returns the new pods of a step out of `replicas`: never fewer than in the step before it, nor more than there are to be.
    #[must_use]
    pub fn pods(&self, number: usize, replicas: i64) -> i64 {
        let asked = self.0.iter().take(number).map(|step| step.size.pods(replicas)).max();
        asked.unwrap_or_default().min(replicas)
    }
}

impl StepSize {
    fn pods(self, replicas: i64) -> i64 {
        match self {
            StepSize::Pods(pods) => i64::from(pods),
            StepSize::Percent(percent) => {
                let hundredths = replicas.max(0).saturating_mul(i64::from(percent));
                hundredths / 100 + i64::from(hundredths % 100 != 0)
            }
        }
    }
}

impl FromStr for CanarySteps {
    type Err = InvalidCanary;

    fn from_str(text: &str) -> Result<CanarySteps, InvalidCanary> {
        let steps = text.split(',').map(str::trim).filter(|step| !step.is_empty());
        let steps = steps.map(step).collect::<Result<Vec<CanaryStep>, InvalidCanary>>()?;
        match steps.len() {
            0 => Err(InvalidCanary("it is empty".to_owned())),
            count if count > STEPS => Err(InvalidCanary(format!("it has {count} steps, at most {STEPS} are read"))),
            _ => Ok(CanarySteps(steps)),
        }
    }
}

fn step(text: &str) -> Result<CanaryStep, InvalidCanary> {
    let wrong = |why: &str| InvalidCanary(format!("{text:?} {why}"));
    let (size, time) = text.split_once(char::is_whitespace).ok_or_else(|| wrong("has no time"))?;
    let size = match size.strip_suffix('%') {
        Some(percent) => percent.parse().ok().filter(|percent| (1..=100).contains(percent)).map(StepSize::Percent),
        None => size.parse().ok().filter(|pods| *pods > 0).map(StepSize::Pods),
    };
    let time = match time.trim() {
        "0" => None,
        time => Some(time.parse::<Span>().map_err(|error| InvalidCanary(error.to_string()))?),
    };
    let size = size.ok_or_else(|| wrong("does not begin with a number of pods, or 1% to 100%"))?;
    Ok(CanaryStep { size, time: time.filter(|time| !time.0.is_zero()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(step: &CanaryStep) -> String {
        let size = match step.size {
            StepSize::Pods(pods) => pods.to_string(),
            StepSize::Percent(percent) => format!("{percent}%"),
        };
        format!("{size} {}", step.time.map_or_else(|| "0".to_owned(), |time| time.to_string()))
    }

    #[test]
    fn steps_are_read_as_people_write_them() {
        let read = |text: &str| match text.parse::<CanarySteps>() {
            Ok(steps) => steps.0.iter().map(shown).collect::<Vec<_>>().join(", "),
            Err(error) => error.to_string(),
        };
        for (text, expected) in [
            ("1 10m, 50% 10m", "1 10m, 50% 10m"),
            (" 2\t1h30m ,", "2 1h30m"),
            ("1 0, 25% 0s", "1 0, 25% 0"),
            ("", "no steps of a canary: it is empty"),
            ("5", "no steps of a canary: \"5\" has no time"),
            ("0 5m", "no steps of a canary: \"0 5m\" does not begin with a number of pods, or 1% to 100%"),
            ("101% 5m", "no steps of a canary: \"101% 5m\" does not begin with a number of pods, or 1% to 100%"),
            ("-1 5m", "no steps of a canary: \"-1 5m\" does not begin with a number of pods, or 1% to 100%"),
            ("1 soon", "no steps of a canary: not a length of time: \"soon\" (write 30s, 5m, 1h30m or 500ms)"),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
        assert!(read(&"1 1m,".repeat(21)).contains("at most 20"));
    }

    #[test]
    fn a_step_has_never_fewer_pods_than_the_one_before_nor_more_than_there_are() {
        let steps: CanarySteps = "2 1m, 10% 1m, 50% 1m, 30 1m".parse().unwrap();
        let of = |replicas: i64| (1..=4).map(|number| steps.pods(number, replicas)).collect::<Vec<_>>();
        assert_eq!(of(10), [2, 2, 5, 10]);
        assert_eq!(of(101), [2, 11, 51, 51]);
        assert_eq!(of(1), [1, 1, 1, 1]);
        assert_eq!(of(0), [0, 0, 0, 0]);
        assert_eq!(of(i64::MAX)[0], 2);
    }
}
