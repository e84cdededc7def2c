//! The turn of a head: the head that is rendered now, and its units that take long.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The receiver of the units that a tool has rendered for long, whenever they change.
type Tell = Box<dyn Fn(&BTreeSet<Arc<str>>) + Send + Sync>;

/// The head that is rendered.
#[derive(Debug, Default)]
pub(super) struct HeadTurn {
    /// When cancelled, nothing more is rendered, and running tools end.
    stop: CancellationToken,
    /// The head, and the token that is cancelled when another one takes its turn.
    head: Mutex<Option<(String, CancellationToken)>>,
}

/// The units that a tool has rendered for long by now.
#[derive(Default)]
pub(super) struct SlowUnits {
    units: Mutex<BTreeSet<Arc<str>>>,
    tell: Option<Tell>,
}

impl fmt::Debug for SlowUnits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.units.fmt(f)
    }
}

impl SlowUnits {
    /// Returns units that are reported whenever they change.
    pub(super) fn telling(tell: impl Fn(&BTreeSet<Arc<str>>) + Send + Sync + 'static) -> SlowUnits {
        SlowUnits { units: Mutex::default(), tell: Some(Box::new(tell)) }
    }

    /// Notes that a tool takes long for a unit.
    pub(super) fn begins(&self, unit: &Arc<str>) {
        self.change(|units| units.insert(Arc::clone(unit)));
    }

    /// Notes that no tool renders a unit any more.
    pub(super) fn ends(&self, unit: &Arc<str>) {
        self.change(|units| units.remove(unit));
    }

    /// Returns true when there are any.
    pub(super) fn are_there(&self) -> bool {
        !self.units.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn change(&self, change: impl FnOnce(&mut BTreeSet<Arc<str>>) -> bool) {
        let mut units = self.units.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut units)
            && let Some(tell) = &self.tell
        {
            tell(&units);
        }
    }
}

impl HeadTurn {
    /// Turns that all end when this is cancelled.
    pub(super) fn until(stop: CancellationToken) -> HeadTurn {
        HeadTurn { stop, head: Mutex::default() }
    }

    /// Begins the turn of a head, and gives up the renderings for another one. Returns the token that is cancelled when
    /// the next one begins.
    pub(super) fn begin(&self, head: &str) -> CancellationToken {
        let mut turn = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, given_up)) = turn.as_ref().filter(|(other, _)| other == head) {
            return given_up.clone();
        }
        let begun = self.stop.child_token();
        if let Some((_, given_up)) = turn.replace((head.to_owned(), begun.clone())) {
            given_up.cancel();
        }
        begun
    }

    /// Returns true when it is the turn of a head, and it goes on.
    pub(super) fn is_of(&self, head: &str) -> bool {
        let turn = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        turn.as_ref().is_some_and(|(other, given_up)| other == head && !given_up.is_cancelled())
    }

    /// Returns the token that is cancelled when the present turn ends.
    pub(super) fn now(&self) -> CancellationToken {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        head.as_ref().map_or(&self.stop, |(_, given_up)| given_up).clone()
    }
}
