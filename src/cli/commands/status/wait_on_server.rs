//! `belay status --commit C --wait --server URL`: the wait for a commit that a daemon elsewhere rolls out.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::wait::{SEEN, Through, answer, ended, nothing_to_wait_for, timed_out};
use super::wait_progress::canary_waits;
use crate::cli::args::target::argument;
use crate::cli::exit::Exit;
use crate::cli::output::activity::Activity;
use crate::cli::output::answer::{RecordAnswer, ShowAnswer, SourceAnswer, StatusAnswer, WorkloadAnswer};
use crate::cli::output::{Format, counted, plain, progress};
use crate::cli::session::repositories::working_copy_commit;
use crate::cli::session::server::{ServerApi, ServerError};
use crate::config::Span;
use crate::history::Query;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, ObjectState, Record};

/// The period between two questions.
const ASK: Duration = Duration::from_secs(2);
/// The time within which a daemon must have answered once: nobody is at a wrong URL, however long one waits.
const FIRST_ANSWER: Duration = Duration::from_secs(60);
/// The number of questions in a row without an answer before that is said.
const TOLD: u32 = 3;

/// Waits until everything that a commit touched is through: done, failed or rolled back, or for too long.
pub(super) async fn wait(api: &ServerApi, commit: &str, timeout: Span, output: Format) -> anyhow::Result<Exit> {
    let named = working_copy_commit(commit)?;
    let mut waiting = ServerWait::new(api, named.as_ref().map_or(commit, CommitId::as_str));
    let waited = tokio::time::timeout(timeout.0, waiting.until_through(commit)).await;
    match waited {
        Ok(found) => {
            let (found, records) = found?;
            answer(found, records, output)
        }
        Err(_) => timed_out((commit, named.as_ref()), timeout, &waiting.open_lines(), output),
    }
}

/// The wait, and what was said of it.
struct ServerWait<'a> {
    api: &'a ServerApi,
    /// The digits that the commit's id begins with.
    digits: &'a str,
    /// The last line about each object, and true while its record is open.
    objects: BTreeMap<(String, ObjectKey), (String, bool)>,
    /// The last line about each source.
    sources: BTreeMap<String, String>,
    /// The number of answers in a row by which the commit touched nothing, and by which all that is open is stuck.
    untouched: u32,
    stuck: u32,
}

impl<'a> ServerWait<'a> {
    fn new(api: &'a ServerApi, digits: &'a str) -> ServerWait<'a> {
        ServerWait { api, digits, objects: BTreeMap::new(), sources: BTreeMap::new(), untouched: 0, stuck: 0 }
    }

    async fn until_through(&mut self, commit: &str) -> Result<(Through, Vec<RecordAnswer>), ServerError> {
        let activity = Activity::begin();
        let (began, mut has_answered, mut unanswered) = (Instant::now(), false, 0);
        loop {
            activity.show(&format!("waiting for commit {commit}{}", self.count()));
            match self.look().await {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => (has_answered, unanswered) = (true, 0),
                Err(ServerError::Away(why)) if has_answered || began.elapsed() < FIRST_ANSWER => {
                    unanswered += 1;
                    if unanswered == TOLD {
                        progress(format!("{why}; waiting for it"));
                    }
                }
                Err(error) => return Err(error),
            }
            tokio::time::sleep(ASK).await;
        }
    }

    /// Asks once. Returns the result if the commit is through, or waiting is of no use.
    async fn look(&mut self) -> Result<Option<(Through, Vec<RecordAnswer>)>, ServerError> {
        let query = Query { commit: Some(self.digits.to_owned()), ..Query::default() };
        let answers = self.api.records(&query).await?;
        self.check_one(&answers)?;
        if let Some(found) = ended(answers.iter().map(|of| of.record.clone()).collect()) {
            return Ok(Some((found, answers)));
        }
        let status = self.api.status().await?;
        if answers.is_empty() {
            self.say_sources(&status.sources, &answers);
            return Ok(self.untouched(&status.sources).await?.map(|found| (found, answers)));
        }
        self.say_sources(&status.sources, &answers);
        let open = self.say_objects(&status, &answers);
        self.stuck = if open.is_empty() || open.contains(&None) { 0 } else { self.stuck + 1 };
        let Some(commit) = answers.first().map(|of| of.record.commit.clone()).filter(|_| self.stuck >= SEEN) else {
            return Ok(None);
        };
        let lines = open.into_iter().flatten().collect();
        let records = answers.iter().map(|of| of.record.clone()).collect();
        Ok(Some((Through { exit: Exit::No, commit, records, lines }, answers)))
    }

    /// Refuses digits with which several commits begin.
    fn check_one(&self, answers: &[RecordAnswer]) -> Result<(), ServerError> {
        let ids: BTreeSet<&str> = answers.iter().map(|of| of.record.commit.as_str()).collect();
        match ids.len() {
            0 | 1 => Ok(()),
            _ => {
                let ids = ids.into_iter().collect::<Vec<_>>().join(", ");
                let digits = self.digits;
                Err(ServerError::Refused(format!(
                    "{digits:?} is the beginning of several commits; write more of it: {ids}"
                )))
            }
        }
    }

    /// Returns the result for a commit that has come to every source that has it, and touches nothing of it.
    async fn untouched(&mut self, sources: &[SourceAnswer]) -> Result<Option<Through>, ServerError> {
        let shown = match self.api.commit(self.digits).await {
            Ok(shown) => shown,
            Err(ServerError::Nothing(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let ShowAnswer { commit: Some(commit), records, arrived, why, .. } = shown else { return Ok(None) };
        let is_untouched = records.is_empty() && has_come_everywhere(&arrived, sources);
        self.untouched = if is_untouched { self.untouched + 1 } else { 0 };
        if self.untouched < SEEN {
            return Ok(None);
        }
        let lines = [nothing_to_wait_for(&commit.id)].into_iter().chain(why.map(|why| plain(&why))).collect();
        Ok(Some(Through { exit: Exit::Done, commit: commit.id, records: Vec::new(), lines }))
    }

    /// Prints, for each source that the commit came to, or may come to, the obstacle that keeps it from being followed.
    fn say_sources(&mut self, sources: &[SourceAnswer], answers: &[RecordAnswer]) {
        let is_of = |name: &str| answers.is_empty() || answers.iter().any(|of| of.record.source == name);
        for source in sources.iter().filter(|source| is_of(&source.source)) {
            let trouble = source.trouble.as_ref().map(|trouble| trouble.message.clone());
            let why = source.waits_for.clone().or_else(|| source.blocked.clone()).or(trouble).unwrap_or_default();
            if self.sources.insert(source.source.clone(), why.clone()).as_ref() != Some(&why) && !why.is_empty() {
                progress(plain(&format!("source {}: {why}", source.source)));
            }
        }
    }

    /// Prints the changes of the objects. Returns, for each open one, why only a person can let it go on, if that is so.
    fn say_objects(&mut self, status: &StatusAnswer, answers: &[RecordAnswer]) -> Vec<Option<String>> {
        let (mut seen, mut open) = (BTreeSet::new(), Vec::new());
        for of in answers {
            let record = &of.record;
            // The newest record of an object counts, and it comes first.
            let key = (record.source.clone(), record.object.clone());
            if !seen.insert(key.clone()) {
                continue;
            }
            let is_open = !record.outcome.is_final();
            let mut rows = status.workloads.iter().chain(&status.objects);
            let row = rows.find(|row| row.source == record.source && row.object == record.object);
            let line = plain(&line(of, row.filter(|_| is_open)));
            if self.objects.get(&key).is_none_or(|(last, _)| *last != line) {
                progress(&line);
            }
            self.objects.insert(key, (line, is_open));
            if is_open {
                open.push(row.and_then(|row| waits_for_somebody(record, row)));
            }
        }
        open
    }

    /// Returns `: 2 of 3 objects through`; nothing before the commit's first object is known.
    fn count(&self) -> String {
        let through = self.objects.values().filter(|(_, is_open)| !is_open).count();
        match self.objects.len() {
            0 => String::new(),
            all => format!(": {through} of {} through", counted(all, "object")),
        }
    }

    /// Returns the last lines about the open objects, or about the sources if there is no object.
    fn open_lines(&self) -> Vec<String> {
        if self.objects.is_empty() {
            let of_source = |(name, why): (&String, &String)| plain(&format!("source {name}: {why}"));
            return self.sources.iter().filter(|(_, why)| !why.is_empty()).map(of_source).collect();
        }
        self.objects.values().filter(|(_, is_open)| *is_open).map(|(line, _)| line.clone()).collect()
    }
}

/// Returns the line about an object: the state of its rollout, or what is recorded of it.
fn line(of: &RecordAnswer, row: Option<&WorkloadAnswer>) -> String {
    let record = &of.record;
    if let Some(row) = row.filter(|row| !row.message.is_empty()) {
        return format!("{}: {}: {}", record.object, row.state, row.message);
    }
    let reason = || record.reason.as_ref().map(ToString::to_string);
    let more = of.waits_for.clone().or_else(reason).map(|more| format!(": {more}")).unwrap_or_default();
    format!("{}: {}{more}", record.object, record.outcome)
}

/// Returns the obstacle that only a person can remove; `None` if the object may move by itself.
fn waits_for_somebody(record: &Record, row: &WorkloadAnswer) -> Option<String> {
    let (object, named) = (&record.object, argument(&record.object));
    if row.state == ObjectState::Suspended {
        return Some(format!(
            "{object}: is suspended: {} (belay resume-sync {named} takes it up again)",
            plain(&row.message)
        ));
    }
    if let Some(waits) = row.canary.and_then(|canary| canary_waits(object, canary)) {
        return Some(format!("{object}: {waits}"));
    }
    row.paused.then(|| format!("{object}: is paused (belay resume {named} lets it go on)"))
}

/// Returns true when a commit has come to a source, and no other can still get it: each other one has looked at its
/// repository since.
fn has_come_everywhere(arrived: &BTreeMap<String, Timestamp>, sources: &[SourceAnswer]) -> bool {
    let Some(last) = arrived.values().max() else { return false };
    let others = sources.iter().filter(|source| !arrived.contains_key(&source.source));
    let mut others =
        others.map(|source| source.trouble.is_none() && source.looked.is_some_and(|looked| looked > *last));
    others.all(|has_looked| has_looked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::query::answers::TroubleAnswer;
    use belay_core::rollout::canary::{CanaryMark, LiveCanary};
    use belay_core::rollout::{SourceState, StateCounts};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn source(name: &str, looked: Option<i64>, trouble: bool) -> SourceAnswer {
        SourceAnswer {
            source: name.to_owned(),
            head: None,
            state: SourceState::Progressing,
            summary: String::new(),
            objects: StateCounts::default(),
            waits_for: None,
            blocked: None,
            cluster: None,
            looked: looked.map(at),
            trouble: trouble.then(|| TroubleAnswer { message: String::new(), since: at(0) }),
            troubles: BTreeMap::new(),
            warnings: BTreeMap::new(),
        }
    }

    #[test]
    fn a_commit_has_come_everywhere_once_all_others_have_looked_since() {
        let came = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), at(10))).collect::<BTreeMap<_, _>>();
        for (arrived, others, expected) in [
            (came(&[]), vec![source("a", Some(20), false)], false),
            (came(&["a"]), vec![source("a", Some(5), false)], true),
            (came(&["a"]), vec![source("a", Some(20), false), source("b", Some(20), false)], true),
            (came(&["a"]), vec![source("a", Some(20), false), source("b", Some(10), false)], false),
            (came(&["a"]), vec![source("a", Some(20), false), source("b", None, false)], false),
            (came(&["a"]), vec![source("a", Some(20), false), source("b", Some(20), true)], false),
            (came(&["a", "b"]), vec![source("a", None, true), source("b", None, true)], true),
        ] {
            assert_eq!(has_come_everywhere(&arrived, &others), expected, "{arrived:?} {others:?}");
        }
    }

    #[test]
    fn what_only_a_person_can_let_go_on_is_named() {
        let object = ObjectKey {
            group: "apps".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: "web".to_owned(),
        };
        let commit: CommitId = "5d6e7f8".repeat(6)[..40].parse().unwrap();
        let record = Record::planned("shop", &commit, object.clone(), at(0));
        let row = |state| WorkloadAnswer::of_object(&object, "shop", state);
        let suspended = WorkloadAnswer { message: "a fair".to_owned(), ..row(ObjectState::Suspended) };
        let said = waits_for_somebody(&record, &suspended).unwrap();
        assert!(said.starts_with("Deployment shop/web: is suspended: a fair (belay resume-sync "), "{said}");
        let paused = WorkloadAnswer { paused: true, ..row(ObjectState::Progressing) };
        assert!(waits_for_somebody(&record, &paused).unwrap().contains("belay resume deployment.apps/web -n shop"));
        let canary = |waits_for_promotion: bool| WorkloadAnswer {
            canary: Some(LiveCanary { mark: CanaryMark::at(1, 2), waits_for_promotion }),
            ..row(ObjectState::Progressing)
        };
        let waits = "waits at canary step 1 of 2 (belay promote deployment.apps/web -n shop lets it go on)";
        assert!(waits_for_somebody(&record, &canary(true)).unwrap().ends_with(waits));
        assert_eq!(waits_for_somebody(&record, &canary(false)), None);
        assert_eq!(waits_for_somebody(&record, &row(ObjectState::Progressing)), None);
    }
}
