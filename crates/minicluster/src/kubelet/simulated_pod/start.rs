//! The start of a container: its fate, its image, its configuration.

use std::time::Duration;

use jiff::Timestamp;

use super::about::About;
use super::container::{Container, ContainerRun, Creation, NextContainerState, State};
use super::environment::{EventType, PodEffect, PodEnvironment};
use super::timeline::Timeline;
use crate::kubelet::fate::{FateCause, Pull};
use crate::kubelet::image::{Image, hex};
use crate::kubelet::pod::PullPolicy;

/// The time for which a failure is shown before the wait for the next try is.
const SHOWN: Duration = Duration::from_secs(1);
/// The period until missing configuration is read again.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

impl Container {
    /// Begins to create it: reads its fate and pulls its image.
    pub(super) fn attempt(&mut self, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        let Some(spec) = self.spec(about.pod) else { return };
        self.image = spec.image.clone().unwrap_or_default();
        match about.fate(self, environment) {
            Ok(fate) => self.fate = fate.into(),
            Err(problem) => {
                let annotation = about.pod.fate.as_ref().map_or("", |told| &told.annotation);
                let message = format!("failed to read the annotation {annotation}: {problem}");
                environment.tell_of(&self.field(), EventType::Warning, "InvalidFate", &message);
                return self.hold("InvalidFate", message, None);
            }
        }
        let image = match Image::parse(&self.image) {
            Ok(image) => image,
            Err(problem) => {
                let name = &self.image;
                let message = format!(
                    "Failed to apply default image tag {name:?}: couldn't parse image name {name:?}: {problem}"
                );
                environment.tell_of(&self.field(), EventType::Warning, "InspectFailed", &message);
                environment.tell_of(&self.field(), EventType::Warning, "Failed", "Error: InvalidImageName");
                return self.hold("InvalidImageName", message, None);
            }
        };
        let asked = *self.asked.get_or_insert(environment.now);
        let fails = match self.fate.pull {
            Pull::Succeeds => false,
            Pull::Fails(None) => true,
            Pull::Fails(Some(heals)) => environment.now < environment.after(asked, heals),
        };
        let pulls = match spec.image_pull_policy {
            Some(PullPolicy::Never) => false,
            Some(PullPolicy::Always) => true,
            None if image.full.ends_with(":latest") => true,
            _ => fails || !environment.images.contains(&image.full),
        };
        if pulls {
            environment.tell_of(&self.field(), EventType::Normal, "Pulling", format!("Pulling image {:?}", self.image));
        }
        if fails && pulls {
            return self.fail_pull(&image, environment);
        }
        if fails {
            let message = format!("Container image {:?} is not present with pull policy of Never", self.image);
            environment.tell_of(&self.field(), EventType::Warning, "ErrImageNeverPull", &message);
            environment.tell_of(&self.field(), EventType::Warning, "Failed", "Error: ErrImageNeverPull");
            return self.hold("ErrImageNeverPull", message, None);
        }
        self.pulling = super::backoff::Backoff::default();
        // If it was created before, there is nothing to prepare.
        let again = self.found.is_some();
        self.remember();
        let wait = if again { Duration::ZERO } else { self.fate.start_after };
        self.found = Some(image);
        let shown = match std::mem::replace(&mut self.state, State::Idle) {
            State::Held(held) => Some(held),
            _ => None,
        };
        self.state = State::Creating(Creation { due: environment.later(wait), pull: pulls.then_some(wait), shown });
    }

    /// Lets it run if all that it names exists.
    pub(super) fn create(&mut self, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        self.tell_pulled(environment);
        if let Some(message) = about.missing.and_then(|missing| missing.of_containers.get(&self.name)) {
            environment.tell_of(&self.field(), EventType::Warning, "Failed", format!("Error: {message}"));
            let next = (environment.later(LOOK_AGAIN), NextContainerState::Attempt);
            return self.hold("CreateContainerConfigError", message.clone(), Some(next));
        }
        if self.last.is_some() {
            self.restarts += 1;
            self.restarting.tried(environment);
        }
        let Some(spec) = self.spec(about.pod) else { return };
        let timeline = Timeline::new(spec, &self.fate, environment.now, environment);
        self.id = Some(format!("containerd://{}", new_id(environment)));
        self.state = State::Running(ContainerRun {
            since: environment.now,
            failing: timeline.first_failure(),
            timeline,
            stop: None,
        });
        environment.tell_of(&self.field(), EventType::Normal, "Created", "Container created");
        environment.tell_of(&self.field(), EventType::Normal, "Started", "Container started");
        environment.effects.push(PodEffect::LogBegins { container: self.name.clone() });
        self.log(environment, format!("starting {}", self.image));
        let crashes = self.fate.end.is_some_and(|end| end.cause == FateCause::Crash);
        if let Some(text) = self.fate.log.clone().filter(|_| !crashes) {
            self.log(environment, text);
        }
    }

    /// Delays the next pull of an image that failed to be pulled.
    pub(super) fn back_off_pull(&mut self, until: Timestamp, environment: &mut PodEnvironment<'_>) {
        let message = format!("Back-off pulling image {:?}", self.image);
        environment.tell_of(&self.field(), EventType::Normal, "BackOff", &message);
        environment.tell_of(&self.field(), EventType::Warning, "Failed", "Error: ImagePullBackOff");
        let failure = match Image::parse(&self.image) {
            Ok(image) => pull_failure(&image),
            Err(problem) => problem,
        };
        let message = format!("{message}: ErrImagePull: {failure}");
        self.hold("ImagePullBackOff", message, Some((until, NextContainerState::Attempt)));
    }

    /// Delays the next start of a container that keeps ending.
    pub(super) fn loop_back(&mut self, until: Timestamp, about: &About<'_>, environment: &mut PodEnvironment<'_>) {
        let (name, pod) = (&self.name, about.pod);
        let place = format!("{}_{}({})", pod.name, pod.namespace, pod.uid);
        let message = format!("Back-off restarting failed container {name} in pod {place}");
        environment.tell_of(&self.field(), EventType::Warning, "BackOff", message);
        let wait = self.restarting.wait(environment.now, environment).unwrap_or_default();
        let wait = go_duration(wait);
        let message = format!("back-off {wait} restarting failed container={name} pod={place}");
        self.hold("CrashLoopBackOff", message, Some((until, NextContainerState::Attempt)));
    }

    fn fail_pull(&mut self, image: &Image, environment: &mut PodEnvironment<'_>) {
        let failure = pull_failure(image);
        let told = format!("Failed to pull image {:?}: {failure}", self.image);
        environment.tell_of(&self.field(), EventType::Warning, "Failed", told);
        environment.tell_of(&self.field(), EventType::Warning, "Failed", "Error: ErrImagePull");
        self.pulling.tried(environment);
        let wait = self.pulling.wait(environment.now, environment).unwrap_or_default();
        let next = (environment.later(SHOWN), NextContainerState::PullBackoff(environment.later(wait)));
        self.hold("ErrImagePull", failure, Some(next));
    }

    fn tell_pulled(&self, environment: &mut PodEnvironment<'_>) {
        let (State::Creating(creation), Some(image)) = (&self.state, &self.found) else { return };
        let name = &self.image;
        let message = match creation.pull {
            Some(took) => {
                let (took, size) = (go_duration(took), image.size());
                format!(
                    "Successfully pulled image {name:?} in {took} ({took} including waiting). Image size: {size} bytes."
                )
            }
            None => format!("Container image {name:?} already present on machine and can be accessed by the pod"),
        };
        environment.images.insert(image.full.clone());
        environment.tell_of(&self.field(), EventType::Normal, "Pulled", message);
    }
}

fn pull_failure(image: &Image) -> String {
    let name = &image.full;
    format!(
        "rpc error: code = NotFound desc = failed to pull and unpack image {name:?}: failed to resolve reference \
         {name:?}: {name}: not found"
    )
}

/// Returns a duration as Go prints it, to the millisecond.
fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let text = match (seconds, millis) {
        (0, 0) => return "0s".to_owned(),
        (0, millis) => return format!("{millis}ms"),
        (seconds, 0) => format!("{}s", seconds % 60),
        (seconds, millis) => format!("{}.{}s", seconds % 60, format!("{millis:03}").trim_end_matches('0')),
    };
    if seconds < 60 { text } else { format!("{}m{text}", seconds / 60) }
}

fn new_id(environment: &PodEnvironment<'_>) -> String {
    let bytes: Vec<u8> = (0..4).flat_map(|_| environment.random.below(u64::MAX).to_be_bytes()).collect();
    hex(&bytes)
}

#[cfg(test)]
mod tests {
    use super::go_duration;
    use std::time::Duration;

    #[test]
    fn durations_look_like_gos() {
        for (millis, text) in
            [(0, "0s"), (200, "200ms"), (10_000, "10s"), (1_250, "1.25s"), (160_000, "2m40s"), (300_000, "5m0s")]
        {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
        }
    }
}
