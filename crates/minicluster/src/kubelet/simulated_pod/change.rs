//! The change of a container when its pod's fate or its image is changed.

use std::time::Duration;

use super::about::About;
use super::container::{Container, Held, State};
use super::environment::{EventType, PodEnvironment};
use super::run::USUAL_GRACE;
use super::timeline::Timeline;

impl Container {
    /// Applies a changed fate: a run's future is counted again from its beginning, and failed reads and pulls are tried
    /// at once.
    pub(super) fn change_fate(&mut self, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        match &self.state {
            State::Held(Held { reason, .. }) if *reason == "InvalidFate" || self.is_held_by_image() => {
                self.start_over();
            }
            State::Running(_) => match about.fate(self, environment) {
                Ok(fate) => {
                    let Some(spec) = self.spec(about.pod) else { return };
                    self.fate = fate.into();
                    if let State::Running(run) = &mut self.state {
                        run.timeline = Timeline::new(spec, &self.fate, run.since, environment);
                    }
                }
                Err(problem) => environment.tell_of(&self.field(), EventType::Warning, "InvalidFate", problem),
            },
            State::Idle | State::Creating(..) | State::Held(_) | State::Ended(..) => {}
        }
    }

    /// Applies a changed specification: a container with another image is started again with it.
    pub(super) fn change_image(&mut self, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        let same = self.spec(about.pod).is_none_or(|spec| spec.image.as_deref().unwrap_or_default() == self.image);
        if same || about.ending {
            return;
        }
        match self.state {
            State::Running(_) => {
                let message = format!("Container {} definition changed, will be restarted", self.name);
                environment.tell_of(&self.field(), EventType::Normal, "Killing", message);
                let grace = about.pod.spec.termination_grace_period_seconds.and_then(|grace| u64::try_from(grace).ok());
                self.stop(environment.later(grace.map_or(USUAL_GRACE, Duration::from_secs)), about, environment);
            }
            State::Held(_) if self.is_held_by_image() => {
                self.asked = None;
                self.start_over();
            }
            State::Idle | State::Creating(..) | State::Held(_) | State::Ended(..) => {}
        }
    }

    fn is_held_by_image(&self) -> bool {
        let State::Held(Held { reason, .. }) = &self.state else { return false };
        ["InvalidImageName", "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff"].contains(reason)
    }
}
