//! The next step of a container.

use super::about::About;
use super::container::{Container, Held, NextContainerState, State};
use super::environment::PodEnvironment;

impl Container {
    /// Carries out the due steps, if there are any.
    pub fn advance(&mut self, about: &About<'_>, environment: &mut PodEnvironment<'_>) -> bool {
        match &self.state {
            State::Idle => {
                self.attempt(about, environment);
                true
            }
            State::Creating(creation) if creation.due > environment.now => false,
            State::Creating(..) if about.missing.is_some() => {
                self.create(about, environment);
                true
            }
            State::Creating(..) => about.ask(environment),
            State::Held(Held { next: Some((due, next)), .. }) | State::Ended(_, Some((due, next)))
                if *due <= environment.now =>
            {
                match *next {
                    // The former state shows until it can start, so that nothing is written in between.
                    NextContainerState::Attempt if about.missing.is_none() => return about.ask(environment),
                    NextContainerState::Attempt => self.attempt(about, environment),
                    NextContainerState::PullBackoff(until) => self.back_off_pull(until, environment),
                    NextContainerState::CrashLoop(until) => self.loop_back(until, about, environment),
                }
                true
            }
            State::Running(_) => self.run(about, environment),
            State::Held(_) | State::Ended(..) => false,
        }
    }
}
