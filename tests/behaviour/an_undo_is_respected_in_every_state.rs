//! Random sequences of commits and of what people do by hand: an undo, with kubectl or with `belay undo`, stays, whatever came
//! before it, is written down with who did it, and is held; what is suspended is left alone until it is taken up; everything
//! else by hand is drift.

use std::time::Duration;

use belay_core::rollout::{
    Hold, Outcome, Replicas, TemplateMarks, Trigger, applied_fields, body, marks, same_template, template_hash,
    with_template,
};
use minicluster::Random;
use serde_json::{Value, json};

use crate::world::daemon::{World, image};

/// How many sequences of each kind, and how long each is.
const SEEDS: u64 = 4;
const STEPS: u32 = 12;

const KINDS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

/// The image of a pod template's container.
fn image_of(template: &Value) -> &str {
    template["spec"]["containers"][0]["image"].as_str().expect("an image")
}

struct Play {
    world: World,
    random: Random,
    kind: &'static str,
    /// What the manifest says: the image's number, how many pods, and whether they ever become ready.
    image: u32,
    replicas: u32,
    bad: bool,
    next: u32,
    /// Images that somebody wrote by hand.
    by_hand: Vec<String>,
    head: String,
    story: Vec<String>,
}

impl Play {
    async fn new(kind: &'static str, seed: u64) -> Play {
        let mut world = World::embedded().await;
        let random = Random::new(seed);
        world.start();
        let story = vec![format!("{kind}, seed {seed}")];
        let (head, by_hand) = (String::new(), Vec::new());
        let mut play = Play { world, random, kind, image: 1, replicas: 2, bad: false, next: 2, by_hand, head, story };
        play.commit("First version").await;
        play
    }

    fn path(&self) -> String {
        format!("apis/apps/v1/namespaces/default/{}s/web", self.kind.to_lowercase())
    }

    fn manifest(&self) -> String {
        let (kind, image, replicas) = (self.kind, self.image, self.replicas);
        let size = match kind {
            // A DaemonSet has no number of pods; something else beside the template changes.
            "DaemonSet" => format!("  revisionHistoryLimit: {}\n", 20 + replicas),
            "StatefulSet" => format!("  replicas: {replicas}\n  serviceName: web\n"),
            _ => format!("  replicas: {replicas}\n  progressDeadlineSeconds: 30\n"),
        };
        let fate = if self.bad { "never-ready" } else { "ready-after=1s" };
        format!(
            "apiVersion: apps/v1\nkind: {kind}\nmetadata:\n  name: web\n  annotations: \
             {{belay.dev/progress-deadline-seconds: \"30\"}}\nspec:\n{size}  selector: {{matchLabels: {{app: web}}}}\n  \
             template:\n    metadata:\n      labels: {{app: web}}\n      annotations: {{kubelet.belay.dev/fate: \
             {fate}}}\n    spec:\n      containers:\n      - name: app\n        image: web:{image}\n"
        )
    }

    async fn commit(&mut self, what: &str) {
        let text = self.manifest();
        self.head = self.world.push("web.yaml", &text, what);
        self.story.push(format!("commit {what}: web:{} × {} bad {}", self.image, self.replicas, self.bad));
        let head = self.head.clone();
        self.world.through(&head).await;
        tokio::time::sleep(Duration::from_secs(90)).await;
    }

    async fn live(&self) -> Value {
        self.world.get(&self.path()).await.unwrap()
    }

    /// The templates of the workload's revisions, by number.
    async fn revisions(&self) -> Vec<(i64, Value, Value)> {
        let keepers = if self.kind == "Deployment" { "replicasets" } else { "controllerrevisions" };
        let all = self.world.list(&format!("apis/apps/v1/namespaces/default/{keepers}")).await;
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

    /// What `kubectl rollout undo` writes for a revision.
    async fn undo_to(&self, template: &Value, annotations: &Value) {
        let mut undo = vec![json!({"op": "replace", "path": "/spec/template", "value": template})];
        if self.kind == "Deployment" {
            let mut annotations = annotations.as_object().cloned().unwrap_or_default();
            annotations.retain(|name, _| !name.starts_with("deployment.kubernetes.io/"));
            undo.push(json!({"op": "replace", "path": "/metadata/annotations", "value": annotations}));
        }
        self.world.json_patch(&self.path(), "kubectl-rollout", &json!(undo)).await;
    }

    /// A revision to go back to, the one before or another, with the annotations of what keeps it; `None` where there is none.
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
    async fn undo(&mut self) {
        let Some((number, template, annotations)) = self.goal().await else { return };
        let to = image_of(&template).to_owned();
        self.story.push(format!("undo to revision {number}, {to}"));
        let before = self.world.records().len();
        self.undo_to(&template, &annotations).await;
        self.is_undone(&to, before, "kubectl-rollout").await;
    }

    /// An undo with `belay undo`: the apply that the daemon would make, with the hold in it.
    async fn belay_undo(&mut self) {
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
            commit: self.head.parse().unwrap(),
            reason: "taken back by hand (belay undo)".to_owned(),
            since: self.world.clock.now(),
            with: Vec::new(),
            by: Some("ada".to_owned()),
        };
        let applied = applied_fields(&live).unwrap();
        let sent = with_template(body(&applied, "shop", &marks, Some(&hold), Replicas::AsWritten), &template);
        self.world.apply(&self.path(), "belay", &sent).await;
        self.is_undone(&to, records.len(), "ada").await;
    }

    /// It stays undone, is held, and is written down once, with who did it.
    async fn is_undone(&self, to: &str, before: usize, by: &str) {
        tokio::time::sleep(Duration::from_mins(3)).await;
        let live = self.live().await;
        assert_eq!(image(&live), to, "{:#?}", self.story);
        assert!(Hold::on(&live).is_some(), "{:#?}", self.story);
        let records = self.world.records();
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
        tokio::time::sleep(Duration::from_mins(12)).await;
        let live = self.live().await;
        assert_eq!(image(&live), image(&before), "{:#?}", self.story);
    }

    async fn say_suspend(&self, why: Value) {
        let patch = json!({"metadata": {"annotations": {marks::SUSPEND: why}}});
        self.world.patch(&self.path(), marks::COMMAND_MANAGER, &patch).await;
        tokio::time::sleep(Duration::from_secs(10)).await;
    }

    /// What is suspended is left alone, whatever comes; taken up again, it is as if that came now.
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
                tokio::time::sleep(Duration::from_mins(2)).await;
                assert_eq!(image(&self.live().await), by_hand, "{:#?}", self.story);
            }
            (_, Some((_, template, annotations))) => {
                let mut annotations = annotations.clone();
                annotations[marks::SUSPEND] = json!("a look");
                self.undo_to(template, &annotations).await;
                tokio::time::sleep(Duration::from_mins(2)).await;
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
                tokio::time::sleep(Duration::from_mins(12)).await;
                let expected = if meanwhile == 0 { format!("web:{}", self.image) } else { image(&before).to_owned() };
                assert_eq!(image(&self.live().await), expected, "{:#?}", self.story);
            }
        }
    }

    async fn step(&mut self) {
        match self.random.below(13) {
            0 | 1 => {
                (self.image, self.bad) = (self.next, false);
                self.next += 1;
                self.commit("another template").await;
            }
            2 => {
                (self.image, self.bad) = (self.next, true);
                self.next += 1;
                self.commit("another template, which fails").await;
            }
            3 | 4 => {
                self.replicas = 5 - self.replicas;
                self.commit("the same template").await;
            }
            5 if self.image > 1 => {
                // A revert, to what was there first.
                (self.image, self.bad) = (1, false);
                self.commit("the first template again").await;
            }
            6 => self.drift().await,
            7 => {
                self.world.stop().await;
                self.world.start();
                self.story.push("restart".to_owned());
                tokio::time::sleep(Duration::from_mins(1)).await;
            }
            8 => self.suspend().await,
            9 | 10 => self.belay_undo().await,
            _ => self.undo().await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_undo_stays_and_all_else_is_put_right() {
    for kind in KINDS {
        for seed in 0..SEEDS {
            let mut play = Play::new(kind, seed).await;
            for _ in 0..STEPS {
                play.step().await;
            }
        }
    }
}
