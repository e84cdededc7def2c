//! Random sequences of commits and of what people do by hand, on a cluster of any kind: an undo, with kubectl or with `belay
//! undo`, stays, whatever came before it, is written down with who did it, and is held; what is suspended is left alone until
//! it is taken up; everything else by hand is drift.

use std::time::Duration;

use belay_core::rollout::{
    Hold, Outcome, TemplateMarks, Trigger, applied_fields, body, marks, same_template, template_hash, with_template,
};
use minicluster::Random;
use serde_json::{Value, json};

use super::daemon::{World, image};

/// The kinds that `kubectl rollout undo` is for.
pub const KINDS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

/// Returns the image of a pod template's container.
fn image_of(template: &Value) -> &str {
    template["spec"]["containers"][0]["image"].as_str().expect("an image")
}

/// The clock of the sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// The test's own, in which an hour is nothing.
    Paused,
    /// The real one, of real processes.
    Real,
}

/// The time for which real controllers and the daemon must be at rest to be believed to be.
const REST: u32 = 5;
/// The longest time for that, in seconds, on a machine with much else to do.
const REST_LIMIT: u32 = 240;

/// A sequence under way.
pub struct UndoSequence {
    world: World,
    time: Time,
    random: Random,
    kind: &'static str,
    /// The manifest: the image's number, the number of pods, and if they ever become ready.
    image: u32,
    replicas: u32,
    bad: bool,
    next: u32,
    /// Images that somebody wrote by hand.
    by_hand: Vec<String>,
    head: String,
    story: Vec<String>,
}

impl UndoSequence {
    /// Begins one: the first version is rolled out.
    pub async fn new(mut world: World, time: Time, kind: &'static str, seed: u64) -> UndoSequence {
        let random = Random::new(seed);
        world.start();
        let story = vec![format!("{kind}, seed {seed}")];
        let (head, by_hand) = (String::new(), Vec::new());
        let mut sequence = UndoSequence {
            world,
            time,
            random,
            kind,
            image: 1,
            replicas: 2,
            bad: false,
            next: 2,
            by_hand,
            head,
            story,
        };
        sequence.commit("First version").await;
        sequence
    }

    fn path(&self) -> String {
        format!("apis/apps/v1/namespaces/default/{}s/web", self.kind.to_lowercase())
    }

    fn manifest(&self) -> String {
        let (kind, image, replicas) = (self.kind, self.image, self.replicas);
        let deadline = if self.time == Time::Real { 8 } else { 30 };
        let size = match kind {
            // A DaemonSet has no number of pods; something else beside the template changes.
            "DaemonSet" => format!("  revisionHistoryLimit: {}\n", 20 + replicas),
            "StatefulSet" => format!("  replicas: {replicas}\n  serviceName: web\n"),
            _ => format!("  replicas: {replicas}\n  progressDeadlineSeconds: {deadline}\n"),
        };
        let fate = if self.bad { "never-ready" } else { "ready-after=1s" };
        format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata:\n  name: web\n  annotations: \
             {{belay.dev/progress-deadline-seconds: \"{deadline}\"}}\nspec:\n{size}  selector: {{matchLabels: {{app: {kind}}}}}\n  \
             template:\n    metadata:\n      labels: {{app: {kind}}}\n      annotations: {{kubelet.belay.dev/fate: \
             {fate}}}\n    spec:\n      containers:\n      - name: app\n        image: web:{image}\n"
        )
    }

    async fn commit(&mut self, what: &str) {
        let text = self.manifest();
        self.head = self.world.push("web.yaml", &text, what);
        self.story.push(format!("commit {what}: web:{} × {} bad {}", self.image, self.replicas, self.bad));
        let head = self.head.clone();
        self.world.through(&head).await;
        self.rest(Duration::from_secs(90)).await;
    }

    async fn live(&self) -> Value {
        self.world.get(&self.path()).await.unwrap()
    }

    /// Returns the templates of the workload's revisions, by number.
    async fn revisions(&self) -> Vec<(i64, Value, Value)> {
        let keepers = if self.kind == "Deployment" { "replicasets" } else { "controllerrevisions" };
        let mut all = self.world.list(&format!("apis/apps/v1/namespaces/default/{keepers}")).await;
        all.retain(|keeper| keeper["metadata"]["ownerReferences"][0]["kind"] == self.kind);
        let mut found: Vec<_> = belay_core::rollout::revisions(&all)
            .into_iter()
            .map(|one| {
                let keeper = all.iter().find(|keeper| keeper["metadata"]["name"] == one.name.as_str()).unwrap();
                (one.number, one.template, keeper["metadata"]["annotations"].clone())
            })
            .collect();
        found.sort_by_key(|(number, ..)| *number);
        found
    }

    /// Writes the patch of `kubectl rollout undo` for a revision.
    async fn undo_to(&self, template: &Value, annotations: &Value) {
        let mut undo = vec![json!({"op": "replace", "path": "/spec/template", "value": template})];
        if self.kind == "Deployment" {
            let mut annotations = annotations.as_object().cloned().unwrap_or_default();
            annotations.retain(|name, _| !name.starts_with("deployment.kubernetes.io/"));
            undo.push(json!({"op": "replace", "path": "/metadata/annotations", "value": annotations}));
        }
        self.world.json_patch(&self.path(), "kubectl-rollout", &json!(undo)).await;
    }

    /// Returns a revision to go back to, the one before or another, with the annotations of what keeps it; `None` if
    /// there is none.
    async fn goal(&mut self) -> Option<(i64, Value, Value)> {
        let present = self.live().await["spec"]["template"].clone();
        let head = format!("web:{}", self.image);
        let mut others = self.revisions().await;
        others.retain(|(_, template, _)| {
            let image = image_of(template);
            !same_template(template, &present) && image != head && self.by_hand.iter().all(|by_hand| by_hand != image)
        });
        if others.is_empty() {
            return None;
        }
        let named = self.random.below(2) == 0;
        let at = if named { self.random.below(others.len() as u64) as usize } else { others.len() - 1 };
        Some(others.swap_remove(at))
    }

    /// An undo with kubectl.
    pub async fn undo(&mut self) {
        let Some((number, template, annotations)) = self.goal().await else { return };
        let to = image_of(&template).to_owned();
        self.story.push(format!("undo to revision {number}, {to}"));
        let before = self.world.records().len();
        self.undo_to(&template, &annotations).await;
        self.is_undone(&to, before, "kubectl-rollout").await;
    }

    /// An undo with `belay undo`: the apply that the daemon would make, with the hold in it.
    pub async fn belay_undo(&mut self) {
        let Some((number, mut template, annotations)) = self.goal().await else { return };
        let live = self.live().await;
        let mut marks = TemplateMarks::on(&json!({"metadata": {"annotations": annotations}}));
        let known = marks.commit.as_deref().and_then(|commit| commit.parse().ok());
        let records = self.world.records();
        let head = records.iter().rev().find(|record| record.manifest_hash.is_some()).unwrap();
        let by_commit = self.random.below(2) == 0;
        if by_commit && let Some(commit) = &known {
            // To a commit: what the history has kept of it.
            match self.world.history().template("shop", &head.object, commit).unwrap() {
                Some(kept) => template = kept,
                None => return,
            }
        }
        marks.change_cause = marks.change_cause.map(|cause| cause.split(marks::FAILED).next().unwrap().to_owned());
        let to = image_of(&template).to_owned();
        self.story.push(format!("belay undo to revision {number}, {to}, by its commit {by_commit}"));
        let hold = Hold {
            manifest: head.manifest_hash.clone().unwrap(),
            config: None,
            template: template_hash(&template),
            ignored_fields: Vec::new(),
            commit: self.head.parse().unwrap(),
            reason: "taken back by hand (belay undo)".to_owned(),
            since: self.world.clock.now(),
            with: Vec::new(),
            by: Some("ada".to_owned()),
        };
        let applied = applied_fields(&live).unwrap();
        let sent = with_template(body(&applied, "shop", &marks, Some(&hold)), &template);
        self.world.apply(&self.path(), "belay", &sent).await;
        self.is_undone(&to, records.len(), "ada").await;
    }

    /// It stays undone, is held, and is written down once, with who did it.
    async fn is_undone(&self, to: &str, before: usize, by: &str) {
        self.written_down(before).await;
        self.rest(Duration::from_mins(3)).await;
        let live = self.live().await;
        let records = self.world.records();
        assert_eq!(image(&live), to, "{:#?}\n{:#?}", self.story, &records[before..]);
        assert!(Hold::on(&live).is_some(), "{:#?}", self.story);
        assert_eq!(records.len(), before + 1, "{:#?}\n{:#?}", self.story, &records[before..]);
        let last = records.last().unwrap();
        assert_eq!(last.trigger, Trigger::UndoByHand(by.to_owned()), "{:#?}", self.story);
        assert_eq!(last.outcome, Outcome::RolledBack, "{:#?}", self.story);
    }

    /// Somebody writes another image: that is drift, and put right.
    async fn drift(&mut self) {
        let before = self.live().await;
        let by_hand = format!("hand:{}", self.next);
        self.next += 1;
        self.story.push(format!("drift {by_hand}"));
        let patch = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": by_hand}]);
        self.by_hand.push(by_hand);
        self.world.json_patch(&self.path(), "kubectl-set", &patch).await;
        self.becomes(image(&before), Duration::from_mins(12)).await;
    }

    async fn say_suspend(&self, why: Value) {
        let patch = json!({"metadata": {"annotations": {marks::SUSPEND: why}}});
        self.world.patch(&self.path(), marks::COMMAND_MANAGER, &patch).await;
        self.rest(Duration::from_secs(10)).await;
    }

    /// A suspended workload is left alone, whatever comes; taken up again, it is as if that came now.
    async fn suspend(&mut self) {
        let before = self.live().await;
        self.say_suspend(json!("a look")).await;
        let meanwhile = self.random.below(3);
        self.story.push(format!("suspend, {meanwhile}"));
        let goal = if meanwhile == 2 { self.goal().await } else { None };
        match (meanwhile, &goal) {
            (0, _) => {
                (self.image, self.bad) = (self.next, false);
                self.next += 1;
                self.commit("while it is suspended").await;
                assert_eq!(image(&self.live().await), image(&before), "{:#?}", self.story);
            }
            (1, _) => {
                let by_hand = format!("hand:{}", self.next);
                self.next += 1;
                self.by_hand.push(by_hand.clone());
                let path = "/spec/template/spec/containers/0/image";
                let patch = json!([{"op": "replace", "path": path, "value": by_hand}]);
                self.world.json_patch(&self.path(), "kubectl-set", &patch).await;
                self.rest(Duration::from_mins(2)).await;
                assert_eq!(image(&self.live().await), by_hand, "{:#?}", self.story);
            }
            (_, Some((_, template, annotations))) => {
                let mut annotations = annotations.clone();
                annotations[marks::SUSPEND] = json!("a look");
                self.undo_to(template, &annotations).await;
                self.rest(Duration::from_mins(2)).await;
                assert_eq!(image(&self.live().await), image_of(template), "{:#?}", self.story);
            }
            _ => {}
        }
        let records = self.world.records().len();
        self.story.push("resume-sync".to_owned());
        self.say_suspend(Value::Null).await;
        match (meanwhile, goal) {
            (2, Some((_, template, _))) => self.is_undone(image_of(&template), records, "kubectl-rollout").await,
            _ => {
                let expected = if meanwhile == 0 { format!("web:{}", self.image) } else { image(&before).to_owned() };
                self.becomes(&expected, Duration::from_mins(12)).await;
            }
        }
    }

    /// A commit with another template.
    pub async fn another(&mut self, what: &str, bad: bool) {
        (self.image, self.bad) = (self.next, bad);
        self.next += 1;
        self.commit(what).await;
    }

    /// A revert, to what was there first.
    pub async fn first_again(&mut self) {
        (self.image, self.bad) = (1, false);
        self.commit("the first template again").await;
    }

    /// One step, whatever it is.
    pub async fn step(&mut self) {
        match self.random.below(13) {
            0 | 1 => self.another("another template", false).await,
            2 => self.another("another template, which fails", true).await,
            3 | 4 => {
                self.replicas = 5 - self.replicas;
                self.commit("the same template").await;
            }
            5 if self.image > 1 => self.first_again().await,
            6 => self.drift().await,
            7 => {
                self.world.stop().await;
                self.world.start();
                self.story.push("restart".to_owned());
                self.rest(Duration::from_mins(1)).await;
            }
            8 => self.suspend().await,
            9 | 10 => self.belay_undo().await,
            _ => self.undo().await,
        }
    }

    /// Ends it: nothing of it stays.
    pub async fn end(mut self) {
        self.world.stop().await;
        self.world.delete(&self.path()).await;
    }

    /// Returns the state that would change if anything did.
    async fn state(&self) -> (Value, usize, bool) {
        let live = self.live().await;
        let records = self.world.records();
        let ended = records.last().is_none_or(|record| record.outcome.is_final());
        (live["metadata"]["generation"].clone(), records.len(), ended)
    }

    /// Lets everything come to rest; `long` is how long that may take.
    async fn rest(&self, long: Duration) {
        if self.time == Time::Paused {
            return tokio::time::sleep(long).await;
        }
        let (mut before, mut quiet) = (self.state().await, 0);
        for _ in 0..REST_LIMIT {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let now = self.state().await;
            quiet = if now == before && now.2 { quiet + 1 } else { 0 };
            before = now;
            if quiet == REST {
                return;
            }
        }
        panic!("it does not come to rest: {before:?}\n{:#?}", self.story);
    }

    /// Lets the image become another again, if it is to.
    async fn becomes(&self, expected: &str, long: Duration) {
        for _ in 0..REST_LIMIT {
            if self.time == Time::Paused || image(&self.live().await) == expected {
                break;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.rest(long).await;
        assert_eq!(image(&self.live().await), expected, "{:#?}", self.story);
    }

    /// Lets a record be written.
    async fn written_down(&self, before: usize) {
        for _ in 0..REST_LIMIT {
            if self.time == Time::Paused || self.world.records().len() > before {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}
