//! The logs of containers: the kubelet appends, those who ask for logs read.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use tokio::sync::watch;

/// Lines kept for one run of a container; older ones are dropped first.
const LINES_KEPT: usize = 1000;

/// One line that a container wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// When.
    pub at: Timestamp,
    /// The text, without the line feed.
    pub text: String,
}

/// The logs of all pods, shared by its clones. Each container has its present run and the one before.
#[derive(Clone, Debug)]
pub struct PodLogs {
    pods: Arc<Mutex<BTreeMap<String, OfPod>>>,
    changed: watch::Sender<u64>,
}

/// The containers of a pod that have run, by name: few.
#[derive(Debug, Default)]
struct OfPod(Vec<(Box<str>, Runs)>);

impl OfPod {
    fn get(&self, container: &str) -> Option<&Runs> {
        self.0.iter().find(|(name, _)| **name == *container).map(|(_, runs)| runs)
    }

    fn get_mut(&mut self, container: &str) -> Option<&mut Runs> {
        self.0.iter_mut().find(|(name, _)| **name == *container).map(|(_, runs)| runs)
    }

    fn add(&mut self, container: &str) -> &mut Runs {
        self.0.reserve_exact(1);
        self.0.push((container.into(), Runs::default()));
        let last = self.0.len() - 1;
        &mut self.0[last].1
    }

    fn of(&mut self, container: &str) -> &mut Runs {
        match self.0.iter().position(|(name, _)| **name == *container) {
            Some(index) => &mut self.0[index].1,
            None => self.add(container),
        }
    }
}

#[derive(Debug, Default)]
struct Runs {
    present: Run,
    previous: Option<Run>,
}

/// One run of a container.
#[derive(Debug, Default)]
struct Run {
    /// The number of runs before.
    number: u64,
    lines: VecDeque<LogLine>,
    /// The number of lines that were dropped.
    dropped: u64,
    over: bool,
}

/// The place to which someone has read a container's log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogPlace {
    run: u64,
    line: u64,
}

/// The result of reading a container's log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// The lines, oldest first.
    pub lines: Vec<LogLine>,
    /// The place to read on.
    pub next: LogPlace,
    /// True when the run is over, so that nothing more comes.
    pub over: bool,
}

impl Default for PodLogs {
    fn default() -> PodLogs {
        PodLogs { pods: Arc::default(), changed: watch::Sender::new(0) }
    }
}

impl PodLogs {
    /// Begins a container's run: the former lines become its previous run.
    pub fn begin(&self, pod_uid: &str, container: &str) {
        let mut pods = self.lock();
        let of_pod = pods.entry(pod_uid.to_owned()).or_default();
        if let Some(runs) = of_pod.get_mut(container) {
            let number = runs.present.number + 1;
            let mut before = std::mem::replace(&mut runs.present, Run { number, ..Run::default() });
            before.over = true;
            runs.previous = Some(before);
        } else {
            of_pod.add(container);
        }
        drop(pods);
        self.tell();
    }

    /// Appends a line of a container.
    pub fn append(&self, pod_uid: &str, container: &str, at: Timestamp, text: &str) {
        let mut pods = self.lock();
        let run = &mut pods.entry(pod_uid.to_owned()).or_default().of(container).present;
        if run.lines.len() == LINES_KEPT {
            run.lines.pop_front();
            run.dropped += 1;
        }
        run.lines.push_back(LogLine { at, text: text.to_owned() });
        drop(pods);
        self.tell();
    }

    /// Ends a container's run: nothing more is written in it.
    pub fn end(&self, pod_uid: &str, container: &str) {
        if let Some(runs) = self.lock().get_mut(pod_uid).and_then(|of_pod| of_pod.get_mut(container)) {
            runs.present.over = true;
        }
        self.tell();
    }

    /// Returns the lines of a container's present run, or of the one before; `None` if there was no such run.
    #[must_use]
    pub fn lines(&self, pod_uid: &str, container: &str, previous: bool) -> Option<Vec<LogLine>> {
        let pods = self.lock();
        let runs = pods.get(pod_uid)?.get(container)?;
        let run = if previous { runs.previous.as_ref()? } else { &runs.present };
        Some(run.lines.iter().cloned().collect())
    }

    /// Returns the lines of a container's present run that were written after a place, and the place after them. Lines
    /// that were dropped in between are lost; a run that began since is read from its start.
    #[must_use]
    pub fn after(&self, pod_uid: &str, container: &str, place: LogPlace) -> (Vec<LogLine>, LogPlace) {
        let pods = self.lock();
        let Some(run) = pods.get(pod_uid).and_then(|of_pod| of_pod.get(container)).map(|runs| &runs.present) else {
            return (Vec::new(), place);
        };
        let read = if place.run == run.number { place.line } else { 0 };
        (run.after(read), run.end())
    }

    /// Reads a container's present run from its beginning, or goes on from where a reading ended; `None` if the
    /// container never ran or is gone.
    #[must_use]
    pub fn read(&self, pod_uid: &str, container: &str, from: Option<LogPlace>) -> Option<Reading> {
        let pods = self.lock();
        let runs = pods.get(pod_uid)?.get(container)?;
        let from = from.unwrap_or(LogPlace { run: runs.present.number, line: 0 });
        let run =
            [Some(&runs.present), runs.previous.as_ref()].into_iter().flatten().find(|run| run.number == from.run);
        let Some(run) = run else { return Some(Reading { lines: Vec::new(), next: from, over: true }) };
        Some(Reading { lines: run.after(from.line), next: run.end(), over: run.over })
    }

    /// Forgets a pod that is gone.
    pub fn forget(&self, pod_uid: &str) {
        if self.lock().remove(pod_uid).is_some() {
            self.tell();
        }
    }

    /// Tells of every change to any log, for those who follow one.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn tell(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, OfPod>> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Run {
    /// Returns the lines after so many of all that were written.
    fn after(&self, line: u64) -> Vec<LogLine> {
        let skipped = usize::try_from(line.saturating_sub(self.dropped)).unwrap_or(usize::MAX);
        self.lines.iter().skip(skipped).cloned().collect()
    }

    fn end(&self) -> LogPlace {
        LogPlace { run: self.number, line: self.dropped + self.lines.len() as u64 }
    }
}

#[cfg(test)]
mod tests {
    use super::{LINES_KEPT, LogPlace, PodLogs};
    use jiff::Timestamp;

    fn texts(lines: &[super::LogLine]) -> Vec<&str> {
        lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_run_becomes_the_previous_one() {
        let logs = PodLogs::default();
        let write = |text: &str| logs.append("uid", "app", Timestamp::UNIX_EPOCH, text);
        assert_eq!(logs.lines("uid", "app", false), None);
        logs.begin("uid", "app");
        assert_eq!(logs.lines("uid", "app", true), None);
        write("one");
        logs.begin("uid", "app");
        write("two");
        assert_eq!(texts(&logs.lines("uid", "app", true).unwrap()), ["one"]);
        assert_eq!(texts(&logs.lines("uid", "app", false).unwrap()), ["two"]);
        logs.forget("uid");
        assert_eq!(logs.lines("uid", "app", false), None);
    }

    #[test]
    fn reading_goes_on_where_it_ended_also_when_another_run_began() {
        let logs = PodLogs::default();
        let write = |text: &str| logs.append("uid", "app", Timestamp::UNIX_EPOCH, text);
        logs.begin("uid", "app");
        write("one");
        let first = logs.read("uid", "app", None).unwrap();
        assert_eq!((texts(&first.lines), first.over), (vec!["one"], false));
        write("two");
        logs.end("uid", "app");
        logs.begin("uid", "app");
        write("three");
        let second = logs.read("uid", "app", Some(first.next)).unwrap();
        assert_eq!((texts(&second.lines), second.over), (vec!["two"], true));
        logs.begin("uid", "app");
        assert!(logs.read("uid", "app", Some(first.next)).unwrap().over);
    }

    #[test]
    fn a_reader_gets_every_line_once() {
        let logs = PodLogs::default();
        let write = |text: &str| logs.append("pod", "c", Timestamp::UNIX_EPOCH, text);
        logs.begin("pod", "c");
        write("one");
        let (lines, place) = logs.after("pod", "c", LogPlace::default());
        assert_eq!(texts(&lines), ["one"]);
        logs.begin("pod", "c");
        write("two");
        let (lines, place) = logs.after("pod", "c", place);
        assert_eq!(texts(&lines), ["two"]);
        assert_eq!(logs.after("pod", "c", place), (Vec::new(), place));
    }

    #[test]
    fn old_lines_are_dropped() {
        let logs = PodLogs::default();
        let start = |logs: &PodLogs| logs.read("uid", "app", None).unwrap();
        logs.begin("uid", "app");
        for line in 0..LINES_KEPT + 5 {
            logs.append("uid", "app", Timestamp::UNIX_EPOCH, &line.to_string());
        }
        let reading = start(&logs);
        assert_eq!((reading.lines.len(), reading.lines[0].text.as_str()), (LINES_KEPT, "5"));
        logs.append("uid", "app", Timestamp::UNIX_EPOCH, "last");
        assert_eq!(texts(&logs.read("uid", "app", Some(reading.next)).unwrap().lines), ["last"]);
    }
}
