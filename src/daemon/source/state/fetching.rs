//! The last and the next fetch of the repository, and its trouble.

use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::history::Trouble;
use belay_core::rollout::{CommitId, lasting_words};

/// The shortest time between two fetches that forges ask for.
const BETWEEN_PUSHES: Duration = Duration::from_secs(1);

/// The repository: the last and the next fetch, and its trouble.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchState {
    /// The trouble with reading the repository.
    trouble: Option<Trouble>,
    /// A head that was refused, and why.
    refused: Option<(CommitId, String)>,
    /// The beginning of the fetch that is under way.
    looking: Option<Timestamp>,
    /// The beginning of the newest fetch that reached the repository.
    looked: Option<Timestamp>,
    next_look: Instant,
    /// The beginning of the last fetch.
    look_began: Option<Instant>,
    /// The time until which the repository is left alone, because reading it has brought belay down.
    rests_until: Option<Instant>,
    /// True when all knowledge comes from the mirror, since the repository has not answered yet.
    is_away: bool,
}

impl FetchState {
    /// Returns a repository that is fetched at once.
    pub fn new(now: Instant) -> FetchState {
        FetchState {
            trouble: None,
            refused: None,
            looking: None,
            looked: None,
            next_look: now,
            look_began: None,
            rests_until: None,
            is_away: false,
        }
    }

    /// Begins a fetch; the next one is after `interval`.
    pub fn begin(&mut self, at: Timestamp, interval: Duration, now: Instant) {
        (self.looking, self.look_began, self.next_look) = (Some(at), Some(now), now + interval);
    }

    /// Ends the fetch that is under way. Returns the beginning of the newest one that reached the repository, if this one did.
    pub fn end(&mut self, has_reached: bool) -> Option<Timestamp> {
        let began = self.looking.take();
        if has_reached {
            self.looked = began.or(self.looked);
        }
        self.looked.filter(|_| has_reached)
    }

    /// Takes no result of the fetch that is under way.
    pub fn break_off(&mut self) {
        self.looking = None;
    }

    /// Returns true while a fetch is under way.
    pub fn is_looking(&self) -> bool {
        self.looking.is_some()
    }

    /// Returns the beginning of the newest fetch that reached the repository.
    pub fn looked(&self) -> Option<Timestamp> {
        self.looked
    }

    /// Returns when the repository is fetched next.
    pub fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Fetches then, also where the repository is left alone.
    pub fn look_at(&mut self, at: Instant) {
        self.next_look = at;
    }

    /// Leaves the repository alone until then.
    pub fn rest(&mut self, until: Instant) {
        self.next_look = until;
        self.rests_until = Some(until);
    }

    /// Looks at once, unless the repository is left alone.
    pub fn look_soon(&mut self, now: Instant) {
        self.next_look = self.rests_until.map_or(now, |until| until.max(now));
    }

    /// Requests a fetch after a forge's report of a push; at most once a second, so that a thousand pushes are no
    /// thousand fetches.
    pub fn look_for_a_push(&mut self, now: Instant) {
        let scheduled = self.next_look;
        self.look_soon(now);
        let due = self.look_began.map_or(self.next_look, |began| self.next_look.max(began + BETWEEN_PUSHES));
        self.next_look = due.min(scheduled);
    }

    /// Refuses a head, for the reason of the message.
    pub fn refuse(&mut self, head: &CommitId, message: String) {
        self.refused = Some((head.clone(), message));
    }

    /// Refuses no head any more.
    pub fn accept(&mut self) {
        self.refused = None;
    }

    /// Returns the head that is refused, and why.
    pub fn refused(&self) -> Option<&(CommitId, String)> {
        self.refused.as_ref()
    }

    /// Notes the trouble with reading the repository, or that there is none. Returns true if that is news.
    pub fn note_trouble(&mut self, message: Option<&String>, at: Timestamp) -> bool {
        let known = self.trouble.take();
        let words = |message: &String| lasting_words(message);
        let is_news = message.map(words) != known.as_ref().map(|trouble| words(&trouble.message));
        let since = known.map_or(at, |trouble| trouble.since);
        self.trouble = message.map(|message| Trouble { message: message.clone(), since });
        is_news
    }

    /// Returns the trouble with reading the repository.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Notes that the repository does not answer, and the mirror's content is upheld.
    pub fn keep_mirror(&mut self) {
        self.is_away = true;
    }

    /// Notes that the repository has answered. Returns true if only the mirror was known before.
    pub fn reached(&mut self) -> bool {
        std::mem::take(&mut self.is_away)
    }

    /// Returns true when all knowledge comes from the mirror, since the repository has not answered yet.
    pub fn is_away(&self) -> bool {
        self.is_away
    }
}
