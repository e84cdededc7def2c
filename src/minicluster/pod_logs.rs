//! What containers have written: the kubelet appends, the API server reads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

/// Lines kept for one run of a container; older ones are dropped first.
const LINES_KEPT: usize = 1000;

/// One line that a container wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// What, without the line feed.
    pub text: String,
}

/// The logs of all pods, shared by its clones. Each container has its present run and the one before.
#[derive(Clone, Debug)]
pub struct PodLogs {
    runs: Arc<Mutex<BTreeMap<(String, String), Runs>>>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Runs {
    present: Run,
    previous: Option<Run>,
    begun: u64,
}

#[derive(Debug, Default)]
struct Run {
    lines: VecDeque<LogLine>,
    dropped: u64,
}

/// How far someone has read a container's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogPlace {
    run: u64,
    line: u64,
}

impl Default for PodLogs {
    fn default() -> PodLogs {
        PodLogs { runs: Arc::default(), changed: watch::Sender::new(0) }
    }
}

impl PodLogs {
    /// A container starts: what it wrote before becomes its previous run.
    pub fn begin(&self, pod_uid: &str, container: &str) {
        let mut runs = self.lock();
        let key = (pod_uid.to_owned(), container.to_owned());
        if let Some(known) = runs.get_mut(&key) {
            known.previous = Some(std::mem::take(&mut known.present));
            known.begun += 1;
        } else {
            runs.insert(key, Runs::default());
        }
    }

    /// A container writes a line.
    pub fn append(&self, pod_uid: &str, container: &str, at: Timestamp, text: &str) {
        let mut runs = self.lock();
        let run = &mut runs.entry((pod_uid.to_owned(), container.to_owned())).or_default().present;
        if run.lines.len() == LINES_KEPT {
            run.lines.pop_front();
            run.dropped += 1;
        }
        run.lines.push_back(LogLine { at, text: text.to_owned() });
        drop(runs);
        self.changed.send_modify(|count| *count += 1);
    }

    /// The lines of a container's present run, or of the one before; `None` where there was no such run.
    #[must_use]
    pub fn lines(&self, pod_uid: &str, container: &str, previous: bool) -> Option<Vec<LogLine>> {
        let runs = self.lock();
        let run = runs.get(&(pod_uid.to_owned(), container.to_owned()))?;
        let run = if previous { run.previous.as_ref()? } else { &run.present };
        Some(run.lines.iter().cloned().collect())
    }

    /// The lines of a container's present run that were written after a place, and the place after them. What was
    /// dropped in between is lost; a run that began since is read from its start.
    #[must_use]
    pub fn after(&self, pod_uid: &str, container: &str, place: LogPlace) -> (Vec<LogLine>, LogPlace) {
        let runs = self.lock();
        let Some(known) = runs.get(&(pod_uid.to_owned(), container.to_owned())) else { return (Vec::new(), place) };
        let run = &known.present;
        let read = if place.run == known.begun { place.line.saturating_sub(run.dropped) } else { 0 };
        let lines = run.lines.iter().skip(usize::try_from(read).unwrap_or(usize::MAX)).cloned().collect();
        (lines, LogPlace { run: known.begun, line: run.dropped + run.lines.len() as u64 })
    }

    /// Forgets a pod that is gone.
    pub fn forget(&self, pod_uid: &str) {
        self.lock().retain(|(uid, _), _| uid != pod_uid);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Tells of every change to any log, for those who follow one.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, String), Runs>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(lines: &[LogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_reader_gets_every_line_once() {
        let logs = PodLogs::default();
        let write = |text: &str| logs.append("pod", "c", Timestamp::UNIX_EPOCH, text);
        logs.begin("pod", "c");
        write("one");
        let (lines, place) = logs.after("pod", "c", LogPlace::default());
        assert_eq!(texts(&lines), ["one"]);
        write("two");
        let (lines, place) = logs.after("pod", "c", place);
        assert_eq!(texts(&lines), ["two"]);
        logs.begin("pod", "c");
        write("three");
        let (lines, place) = logs.after("pod", "c", place);
        assert_eq!(texts(&lines), ["three"]);
        assert_eq!(logs.after("pod", "c", place), (Vec::new(), place));
        assert_eq!(texts(&logs.lines("pod", "c", true).unwrap()), ["one", "two"]);
        logs.forget("pod");
        assert_eq!(logs.lines("pod", "c", false), None);
    }

    #[test]
    fn old_lines_are_dropped() {
        let logs = PodLogs::default();
        let (_, place) = logs.after("pod", "c", LogPlace::default());
        for number in 0..LINES_KEPT + 5 {
            logs.append("pod", "c", Timestamp::UNIX_EPOCH, &number.to_string());
        }
        assert_eq!(logs.lines("pod", "c", false).unwrap()[0].text, "5");
        assert_eq!(logs.after("pod", "c", place).0.len(), LINES_KEPT);
    }
}
