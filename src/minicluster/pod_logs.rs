//! What containers have written: the kubelet appends, the API server reads.

use std::collections::BTreeMap;
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
    present: Vec<LogLine>,
    previous: Option<Vec<LogLine>>,
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
        } else {
            runs.insert(key, Runs::default());
        }
    }

    /// A container writes a line.
    pub fn append(&self, pod_uid: &str, container: &str, at: Timestamp, text: &str) {
        let mut runs = self.lock();
        let lines = &mut runs.entry((pod_uid.to_owned(), container.to_owned())).or_default().present;
        if lines.len() == LINES_KEPT {
            lines.remove(0);
        }
        lines.push(LogLine { at, text: text.to_owned() });
        drop(runs);
        self.changed.send_modify(|count| *count += 1);
    }

    /// The lines of a container's present run, or of the one before; `None` where there was no such run.
    #[must_use]
    pub fn lines(&self, pod_uid: &str, container: &str, previous: bool) -> Option<Vec<LogLine>> {
        let runs = self.lock();
        let run = runs.get(&(pod_uid.to_owned(), container.to_owned()))?;
        if previous { run.previous.clone() } else { Some(run.present.clone()) }
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
