//! Faults of workloads, the cluster and the disk for a time.

use std::time::Duration;

use super::{Due, Stage};
use crate::simulation::bugs::Bug;
use crate::simulation::events::{Actor, Hand};
use crate::simulation::findings::path_of;
use crate::simulation::run::{ActorPeriod, Handled};
use crate::support::full_disk;

impl Stage {
    /// An actor begins.
    pub(super) fn act(&mut self, app: usize, actor: Actor, lasts: Duration) {
        let app = self.shop.app(app);
        let key = (format!("{:?}", app.kind), app.name.clone());
        let number = self.acting.len();
        match actor {
            Actor::Webhook | Actor::Quota => {
                self.line.refuse(&path_of(&key), Some(actor));
                self.due_in(lasts, Due::Answers(number));
            }
            Actor::Controller => self.due_in(Duration::ZERO, Due::Controls(number)),
        }
        let from = self.line.now();
        let to = from + u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        self.acting.push(ActorPeriod { actor, key, from, to });
    }

    /// A controller writes what it says, where something else is there.
    pub(super) async fn control(&mut self, number: usize) {
        const EACH: Duration = Duration::from_millis(700);
        let ActorPeriod { key, to, .. } = self.acting[number].clone();
        if self.line.now() >= to {
            return;
        }
        if self.person.control(&key).await
            && let Some(belay) = &self.belay
        {
            self.line.fight(&belay.process, &path_of(&key)).await;
        }
        self.due_in(EACH, Due::Controls(number));
    }

    /// Restores etcd from its snapshot. Changes that people have taken back since are there again, and people take them back once more.
    pub(super) async fn restore(&mut self) {
        if !self.cluster.restore().await {
            return;
        }
        let now = self.line.now();
        self.restores.push(now);
        for Handled { at, key, hand, .. } in self.hands.clone() {
            if let Hand::Pause(seconds) | Hand::Suspend(seconds) | Hand::Finalizer(seconds) = hand
                && at + seconds * 1000 <= now
            {
                self.person.let_go(&key, hand).await;
            }
        }
    }

    /// The disk of the belay that runs is full for so long.
    pub(super) fn fill_disk(&mut self, lasts: Duration) {
        let Some(belay) = &self.belay else { return };
        let (state, now) = (self.lives[belay.process.number].state, self.line.now());
        full_disk::fill(&self.state(state), self.bug.as_ref().is_some_and(Bug::loses_what_it_writes));
        let to = now + u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX);
        self.full.push((now, to));
        self.due_in(lasts, Due::HasRoom(state));
    }

    pub(super) fn make_room(&self, state: usize) {
        full_disk::empty(&self.state(state));
    }

    /// Returns true while the disk of any state folder is full.
    pub(super) fn is_full(&self) -> bool {
        let now = self.line.now();
        self.full.iter().any(|(from, to)| (*from..=*to).contains(&now))
    }
}
