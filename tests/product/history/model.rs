//! Random operations, compared with a model in memory, with the file closed and opened again in between.

use std::collections::{BTreeMap, BTreeSet};

use belay::history::{Heads, History, Query, Update};
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{Commit, CommitId, Outcome, Reason, Record, RecordId, Step, StepKind, Trigger};
use proptest::prelude::*;
use proptest::sample::select;

use super::{at, commit, commit_id, deployment, record};

const SOURCES: [&str; 2] = ["shop", "site"];
const NAMES: [&str; 3] = ["web", "api", "db"];
const AUTHORS: [&str; 3] = ["Ada", "Bob", "Ada-Marie"];
const OPEN: [Outcome; 3] = [Outcome::Planned, Outcome::UnderWay, Outcome::RollingBack];
const ENDS: [Outcome; 6] = [
    Outcome::Complete,
    Outcome::Failed,
    Outcome::RolledBack,
    Outcome::Superseded,
    Outcome::Rejected,
    Outcome::Unchanged,
];

#[derive(Clone, Debug)]
enum Operation {
    Saw { source: &'static str, number: u64, author: &'static str },
    Begin { source: &'static str, head: u64, objects: Vec<(u64, &'static str, Trigger, Outcome)> },
    Step { record: usize },
    Move { record: usize, outcome: Outcome, revision: Option<i64> },
    Finish { record: usize, outcome: Outcome, because: bool },
    OpenAgain,
    Ask(Query),
}

fn operation() -> impl Strategy<Value = Operation> {
    let source = || select(&SOURCES[..]);
    let trigger = prop_oneof![
        3 => Just(Trigger::Commit),
        1 => Just(Trigger::NewImage),
        1 => Just(Trigger::Restart(None)),
        1 => Just(Trigger::Restart(Some("kubectl-rollout".to_owned()))),
        1 => Just(Trigger::Retry),
        1 => Just(Trigger::Drift("kubectl-edit".to_owned())),
    ];
    let outcome = prop_oneof![4 => Just(Outcome::Planned), 1 => select(&ENDS[..])];
    let object = (1..6_u64, select(&NAMES[..]), trigger, outcome);
    prop_oneof![
        2 => (source(), 1..6_u64, select(&AUTHORS[..]))
            .prop_map(|(source, number, author)| Operation::Saw { source, number, author }),
        3 => (source(), 1..6_u64, proptest::collection::vec(object, 0..4))
            .prop_map(|(source, head, objects)| Operation::Begin { source, head, objects }),
        2 => any::<usize>().prop_map(|record| Operation::Step { record }),
        2 => (any::<usize>(), select(&OPEN[..]), any::<Option<i64>>())
            .prop_map(|(record, outcome, revision)| Operation::Move { record, outcome, revision }),
        4 => (any::<usize>(), select(&ENDS[..]), any::<bool>())
            .prop_map(|(record, outcome, because)| Operation::Finish { record, outcome, because }),
        1 => Just(Operation::OpenAgain),
        3 => query().prop_map(Operation::Ask),
    ]
}

fn query() -> impl Strategy<Value = Query> {
    let outcomes = proptest::collection::btree_set(prop_oneof![select(&ENDS[..]), select(&OPEN[..])], 0..3);
    (
        proptest::option::of(select(&SOURCES[..])),
        proptest::option::of(select(&NAMES[..])),
        proptest::option::of((1..6_u64, 1..5_usize)),
        proptest::option::of(select(vec!["ada", "BOB", "marie@", "%", "nobody"])),
        proptest::option::of(0..40_i64),
        proptest::option::of(0..40_i64),
        outcomes,
        (proptest::option::of(1..20_i64), proptest::option::of(0..5_u32), any::<bool>()),
    )
        .prop_map(|(source, name, commit, author, since, until, outcomes, (older, limit, namespace))| Query {
            source: source.map(str::to_owned),
            name: name.map(str::to_owned),
            kind: None,
            namespace: namespace.then(|| "shop".to_owned()),
            commit: commit.map(|(number, digits)| commit_id(number).as_str()[..digits].to_owned()),
            author: author.map(str::to_owned),
            since: since.map(at),
            until: until.map(at),
            outcomes,
            own: !namespace,
            older_than: older.map(RecordId),
            limit,
        })
}

#[derive(Default)]
struct Model {
    records: Vec<Record>,
    steps: BTreeMap<RecordId, Vec<Step>>,
    plan_of: BTreeMap<RecordId, usize>,
    plans: Vec<(String, CommitId, bool)>,
    commits: BTreeMap<CommitId, Commit>,
}

impl Model {
    fn begin(&mut self, source: &str, head: &CommitId, records: &[Record]) -> Vec<RecordId> {
        let newest = self.plans.iter().rposition(|(of, ..)| of == source);
        let plan = match newest.filter(|plan| self.plans[*plan].1 == *head) {
            Some(plan) => plan,
            None => {
                self.plans.push((source.to_owned(), head.clone(), false));
                self.plans.len() - 1
            }
        };
        let mut ids = Vec::new();
        for record in records {
            let same = self.records.iter().find(|there| {
                self.plan_of[&there.id] == plan
                    && there.trigger.is_commit()
                    && (&there.object, &there.commit) == (&record.object, &record.commit)
            });
            let same = same.filter(|_| record.trigger.is_commit()).map(|there| there.id);
            ids.push(same.unwrap_or_else(|| {
                let id = RecordId(i64::try_from(self.records.len()).unwrap() + 1);
                self.records.push(Record { id, source: source.to_owned(), ..record.clone() });
                self.plan_of.insert(id, plan);
                id
            }));
        }
        self.end(plan);
        ids
    }

    fn end(&mut self, plan: usize) {
        let open = |record: &&Record| self.plan_of[&record.id] == plan && record.ended.is_none();
        if self.records.iter().find(open).is_none() {
            self.plans[plan].2 = true;
        }
    }

    fn heads(&self, source: &str) -> Heads {
        let newest = |finished: bool| {
            let fits = |(of, _, ended): &&(String, CommitId, bool)| of == source && (*ended || !finished);
            self.plans.iter().rev().find(fits).map(|(_, head, _)| head.clone())
        };
        Heads { recorded: newest(false), finished: newest(true) }
    }

    fn ask(&self, query: &Query) -> Vec<Record> {
        let order = |record: &Record| (record.started, record.id);
        let older = query.older_than.map(|id| self.records.iter().find(|record| record.id == id).map(order));
        let by = |record: &Record, author: &str| {
            let Some(commit) = self.commits.get(&record.commit) else { return false };
            let text = format!("{}\n{}", commit.author.name, commit.author.email).to_lowercase();
            // The sign for anything in SQL stands for one character here.
            if author == "%" { !text.is_empty() } else { text.contains(&author.to_lowercase()) }
        };
        let fits = |record: &&Record| {
            query.source.as_ref().is_none_or(|source| *source == record.source)
                && query.name.as_ref().is_none_or(|name| *name == record.object.name)
                && (query.namespace.is_none() || query.namespace == record.object.namespace)
                && query.commit.as_ref().is_none_or(|digits| record.commit.as_str().starts_with(digits))
                && query.author.as_ref().is_none_or(|author| by(record, author))
                && query.since.is_none_or(|since| record.started >= since)
                && query.until.is_none_or(|until| record.started < until)
                && older.as_ref().is_none_or(|older| older.as_ref().is_some_and(|older| order(record) < *older))
                && (!query.own || !matches!(record.trigger, Trigger::Restart(Some(_)) | Trigger::Autoscaler(_)))
                && (query.outcomes.is_empty() || query.outcomes.contains(&record.outcome))
        };
        let mut found: Vec<Record> = self.records.iter().filter(fits).cloned().collect();
        found.sort_by_key(order);
        found.reverse();
        found.truncate(query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap()));
        found
    }

    fn last_good(&self, source: &str, object: &ObjectKey) -> Option<CommitId> {
        let of = |record: &&Record| record.source == source && record.object == *object && record.rolls_out;
        let rollouts: Vec<&Record> = self.records.iter().filter(of).collect();
        let failed = [Outcome::Failed, Outcome::RolledBack, Outcome::RollbackFailed];
        let good = rollouts.iter().filter(|record| {
            let fails = |later: &&&Record| {
                later.id > record.id && later.commit == record.commit && failed.contains(&later.outcome)
            };
            record.outcome == Outcome::Complete && rollouts.iter().find(fails).is_none()
        });
        good.max_by_key(|record| record.id).map(|record| record.commit.clone())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn the_file_is_what_the_model_is(operations in proptest::collection::vec(operation(), 1..60)) {
        let folder = tempfile::tempdir().unwrap();
        let (mut history, _) = History::open(folder.path(), at(0)).unwrap();
        let mut model = Model::default();
        for (seconds, operation) in (0_i64..).zip(operations) {
            // Some share a moment, and some come before the one before.
            let now = at(if seconds % 7 == 0 { seconds - 3 } else { seconds / 2 * 2 });
            let pick = |record: usize| (!model.records.is_empty()).then(|| record % model.records.len());
            match operation {
                Operation::Saw { source, number, author } => {
                    let commit = commit(number, author, now);
                    history.saw(source, &commit.id, std::slice::from_ref(&commit), now).unwrap();
                    model.commits.entry(commit.id.clone()).or_insert(commit);
                }
                Operation::Begin { source, head, objects } => {
                    let records: Vec<Record> = objects
                        .into_iter()
                        .map(|(number, name, trigger, outcome)| {
                            let ended = outcome.is_final().then_some(now);
                            Record { trigger, outcome, ended, ..record(number, deployment(name), now) }
                        })
                        .collect();
                    let ids = history.begin(source, &commit_id(head), &records, now).unwrap();
                    prop_assert_eq!(ids, model.begin(source, &commit_id(head), &records));
                }
                Operation::Step { record } => {
                    let Some(index) = pick(record) else { continue };
                    let step = Step { at: now, kind: StepKind::Progress, detail: format!("{seconds}") };
                    let id = model.records[index].id;
                    history.step(id, &step).unwrap();
                    model.steps.entry(id).or_default().push(step);
                }
                Operation::Move { record, outcome, revision } => {
                    let Some(index) = pick(record) else { continue };
                    let id = model.records[index].id;
                    let update = Update { outcome: Some(outcome), revision, ..Update::default() };
                    let moved = history.update(id, &update);
                    prop_assert_eq!(moved.is_ok(), model.records[index].ended.is_none());
                    if moved.is_ok() {
                        let record = &mut model.records[index];
                        record.outcome = outcome;
                        record.revision = revision.or(record.revision);
                    }
                }
                Operation::Finish { record, outcome, because } => {
                    let Some(index) = pick(record) else { continue };
                    let reason = Reason::new("Because".into(), "it is so");
                    let reason = because.then_some(reason);
                    let before = model.records[index].clone();
                    let done = history.finish(before.id, outcome, reason.as_ref(), now);
                    prop_assert_eq!(done.is_ok(), before.ended.is_none() || before.outcome == outcome);
                    if before.ended.is_none() {
                        let detail = reason.as_ref().map_or(outcome.to_string(), |reason| format!("{outcome}: {reason}"));
                        let step = Step { at: now, kind: StepKind::Ended, detail };
                        model.steps.entry(before.id).or_default().push(step);
                        let plan = model.plan_of[&before.id];
                        model.records[index] = Record { outcome, reason, ended: Some(now), ..before };
                        model.end(plan);
                    }
                }
                Operation::OpenAgain => {
                    drop(history);
                    history = History::open(folder.path(), at(0)).unwrap().0;
                }
                Operation::Ask(query) => prop_assert_eq!(history.records(&query).unwrap(), model.ask(&query), "{:?}", query),
            }
        }
        check(&history, &model);
    }
}

fn check(history: &History, model: &Model) {
    assert_eq!(history.records(&Query::default()).unwrap(), model.ask(&Query::default()));
    for source in SOURCES {
        assert_eq!(history.heads(source).unwrap(), model.heads(source));
        let open: Vec<&Record> =
            model.records.iter().filter(|record| record.source == source && record.ended.is_none()).collect();
        assert_eq!(history.open_records(source).unwrap().iter().collect::<Vec<_>>(), open);
        for name in NAMES {
            let good = history.last_good(source, &deployment(name)).unwrap().map(|good| good.record.commit);
            assert_eq!(good, model.last_good(source, &deployment(name)));
        }
    }
    for record in &model.records {
        assert_eq!(history.steps(record.id).unwrap(), model.steps.get(&record.id).cloned().unwrap_or_default());
    }
    for commit in model.commits.values() {
        assert_eq!(history.commit(&commit.id).unwrap().as_ref(), Some(commit));
    }
    let named: BTreeSet<CommitId> = model.records.iter().map(|record| record.commit.clone()).collect();
    assert_eq!(history.pinned_commits().unwrap(), named);
}
