//! The repository of a scenario: what its files say at each commit, as plain data beside the real one.

use std::collections::BTreeMap;

use base64::Engine as _;
use serde_json::Value;

use super::bugs::Bug;
use super::events::{Bomb, Edit};
use super::scenario::{App, Fate, Kind, Shape, Style};
use super::second_source;
use crate::support::repository::Repository;

/// The file that is made to break its reader.
const BOMB: &str = "apps/bomb.yaml";

/// The file that makes a folder one that is rendered.
const KUSTOMIZATION: &str = "kustomization.yaml";

/// An object, as the checkers name it: kind and name. All are in namespace default.
pub type Key = (String, String);

/// The wanted object of a manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Want {
    /// The manifest's text.
    pub text: String,
    /// The file that it is in.
    pub path: String,
    /// The fate of its image, for a workload.
    pub fate: Option<Fate>,
    /// All of its pod template that ever changes: the image and the variable.
    pub template: Option<(String, String)>,
    /// The workload that must be complete before this one is applied.
    pub after: Option<Key>,
}

/// The head after a push.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// When, in milliseconds from the start.
    pub at: u64,
    pub commit: String,
    /// Every object that its files say.
    pub objects: BTreeMap<Key, Want>,
    /// The files that nobody can read.
    pub broken: Vec<String>,
}

/// A commit, pushed or not.
#[derive(Clone, Debug)]
pub struct PushedCommit {
    pub subject: String,
    pub objects: BTreeMap<Key, Want>,
    pub broken: Vec<String>,
    pub beside: Beside,
}

/// The objects beside the workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// The version of the Secret.
    pub secret: u64,
    /// The Deployment, the ReplicationController and the Job of the second source, if there is one.
    pub plain: Option<Side>,
    pub controller: Option<Side>,
    pub job: Option<Side>,
    /// A file that is made to break its reader.
    pub bomb: Option<Bomb>,
}

/// The content of an object of the second source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Side {
    pub version: u64,
    pub fate: Fate,
}

/// The repository, and what it says.
pub struct Shop {
    pub git: Repository,
    apps: Vec<App>,
    beside: Beside,
    /// True when each workload is rendered.
    rendered: bool,
    seed: u64,
    /// A bug by which belay does not read what is written.
    bug: Option<Bug>,
    versions: u64,
    snapshots: BTreeMap<String, (Vec<App>, Beside)>,
    /// Every commit that was ever made.
    pub commits: BTreeMap<String, PushedCommit>,
    pub pushed: Vec<Pushed>,
    /// The number of times that it has gone away and is not back.
    away: usize,
    /// True when something was committed while it was away.
    unpushed: bool,
}

impl Shop {
    /// Returns the repository of a scenario, with its first commit pushed.
    pub fn new(seed: u64, apps: &[App], style: &Style, bug: Option<Bug>) -> Shop {
        let mut git = Repository::new();
        git.author("Ada", "ada@example.com").at(1_767_225_600);
        let second = style.second.is_some();
        let side = second.then_some(Side { version: 1, fate: Fate::Ready });
        let done = second.then_some(Side { version: 1, fate: Fate::Done });
        let beside = Beside { secret: 0, plain: side, controller: side, job: done, bomb: None };
        let mut shop = Shop {
            git,
            apps: apps.to_vec(),
            beside,
            rendered: style.rendered,
            seed,
            bug,
            versions: 1,
            snapshots: BTreeMap::new(),
            commits: BTreeMap::new(),
            pushed: Vec::new(),
            away: 0,
            unpushed: false,
        };
        shop.commit("First version");
        shop.push(0);
        shop
    }

    /// Returns the workload that a number names.
    pub fn app(&self, number: usize) -> &App {
        &self.apps[number % self.apps.len()]
    }

    /// Returns a head by the number of pushes since.
    fn head(&self, ago: usize) -> String {
        let at = self.pushed.len().saturating_sub(1 + ago);
        self.pushed[at].commit.clone()
    }

    /// Makes a commit of edits.
    pub fn edit(&mut self, edits: &[Edit]) -> String {
        for edit in edits {
            self.change(*edit);
        }
        let subject = edits.iter().map(|edit| format!("{edit:?}")).collect::<Vec<_>>().join(", ");
        self.commit(&subject)
    }

    /// Makes everything what it was some pushes ago, by a new commit.
    pub fn revert(&mut self, ago: usize) {
        let earlier = self.head(ago);
        (self.apps, self.beside) = self.snapshots[&earlier].clone();
        self.commit(&format!("Back to {}", &earlier[..7]));
    }

    /// Throws the branch back by some pushes and goes on from there; only goes on where nobody reaches it.
    pub fn force(&mut self, ago: usize, edit: Edit, at: u64) {
        if self.away > 0 {
            self.edit(&[edit]);
            return self.push(at);
        }
        let earlier = self.head(ago);
        self.git.reset(&earlier);
        (self.apps, self.beside) = self.snapshots[&earlier].clone();
        self.edit(&[edit]);
        self.git.force_push();
        self.note(at);
    }

    /// Merges a branch with one edit into the branch, which has gone on by another.
    pub fn merge(&mut self, ours: Edit, theirs: Edit) {
        let before = (self.apps.clone(), self.beside);
        let branch = format!("side-{}", self.snapshots.len());
        self.git.branch(&branch);
        let side = self.edit(&[theirs]);
        let merged = (self.apps.clone(), self.beside);
        self.git.switch("main");
        (self.apps, self.beside) = before;
        let main = self.edit(&[ours]);
        // Both edits in one: theirs first, as if it had been there before.
        (self.apps, self.beside) = merged;
        self.change(ours);
        self.write();
        let subject = format!("Merge {branch}");
        let commit = self.git.commit_with(&[main, side], &subject);
        self.keep(&commit, &subject);
    }

    /// Commits what there is.
    pub fn commit(&mut self, subject: &str) -> String {
        self.write();
        let commit = self.git.commit(subject);
        self.keep(&commit, subject);
        commit
    }

    /// Pushes.
    pub fn push(&mut self, at: u64) {
        if self.away > 0 {
            self.unpushed = true;
            return;
        }
        self.git.push();
        self.note(at);
    }

    /// Nobody reaches it any more.
    pub fn go_away(&mut self) {
        self.away += 1;
        if self.away == 1 {
            self.git.go_away();
        }
    }

    /// It is back, where nothing else keeps it away; and what was committed meanwhile is pushed.
    pub fn come_back(&mut self, at: u64) {
        self.away -= 1;
        if self.away > 0 {
            return;
        }
        self.git.come_back();
        if std::mem::take(&mut self.unpushed) {
            self.push(at);
        }
    }

    fn keep(&mut self, commit: &str, subject: &str) {
        self.snapshots.insert(commit.to_owned(), (self.apps.clone(), self.beside));
        let mut objects = BTreeMap::new();
        let mut broken: Vec<String> = self.beside.bomb.iter().map(|_| BOMB.to_owned()).collect();
        for (path, key, want) in self.wants() {
            match want {
                Some(want) => drop(objects.insert(key, want)),
                None => broken.push(path),
            }
        }
        let told = PushedCommit { subject: subject.to_owned(), objects, broken, beside: self.beside };
        self.commits.insert(commit.to_owned(), told);
    }

    fn note(&mut self, at: u64) {
        let commit = self.git.tip().expect("a commit");
        let PushedCommit { objects, broken, .. } = self.commits[&commit].clone();
        self.pushed.push(Pushed { at, commit, objects, broken });
    }

    fn change(&mut self, edit: Edit) {
        let count = self.apps.len();
        self.versions += 1;
        let version = self.versions;
        let mut image = |app: usize, fate: Fate| {
            let app = &mut self.apps[app % count];
            (app.version, app.fate) = (version, fate);
        };
        match edit {
            Edit::Image(app, fate) => image(app, fate),
            Edit::ImageAndConfig(app, fate) => {
                image(app, fate);
                self.set_config(app, version);
            }
            Edit::Config(app) => self.set_config(app, version),
            Edit::Variable(app) => self.apps[app % count].variable = version,
            Edit::Note(app) => self.apps[app % count].note = version,
            Edit::Replicas(app, replicas) => self.apps[app % count].replicas = replicas,
            Edit::Secret => self.beside.secret = version,
            Edit::Side => side(&mut self.beside.plain, version, Fate::Ready),
            Edit::Controller(fate) => side(&mut self.beside.controller, version, fate),
            Edit::Bomb(bomb) => self.beside.bomb = bomb,
            Edit::Job(fate) => side(&mut self.beside.job, version, fate),
            Edit::Break(app) => self.turn(app, Shape::Broken),
            Edit::Remove(app) => self.turn(app, Shape::Gone),
            Edit::Rename(app) => self.apps[app % count].renamed += 1,
        }
    }

    fn set_config(&mut self, app: usize, version: u64) {
        let count = self.apps.len();
        let config = &mut self.apps[app % count].config;
        *config = config.map(|_| version);
    }

    fn turn(&mut self, app: usize, to: Shape) {
        let count = self.apps.len();
        let shape = &mut self.apps[app % count].shape;
        *shape = if *shape == Shape::Sound { to } else { Shape::Sound };
    }

    fn write(&mut self) {
        self.git.remove("apps").remove("side");
        for (path, text) in second_source::files(&self.beside) {
            self.git.write(path, text);
        }
        if let Some(bomb) = self.beside.bomb {
            self.git.write(BOMB, bomb.bytes());
        }
        self.git.write("README.md", "What runs in the shop.\n");
        for (path, _, want) in self.wants() {
            let text = want.map_or_else(|| "kind: [Deployment\n  metadata: {\n".to_owned(), |want| want.text);
            let text = self.bug.as_ref().map_or_else(|| text.clone(), |bug| bug.twist_manifest(&text));
            match path.strip_suffix(KUSTOMIZATION) {
                None => self.git.write(path, text),
                Some(folder) => {
                    self.git.write(format!("{folder}workload.yaml"), text);
                    self.git.write(path, "resources: [workload.yaml]\n")
                }
            };
        }
    }

    /// Returns every manifest: its file, its object, and what it says, which is nothing if nobody can read it.
    fn wants(&self) -> Vec<(String, Key, Option<Want>)> {
        let secret = secret_value(self.seed, self.beside.secret);
        let text = format!(
            "apiVersion: v1\nkind: Secret\nmetadata:\n  name: password\nstringData:\n  password: \"{secret}\"\n"
        );
        let mut all = vec![plain("Secret", "password", "apps/password.yaml".to_owned(), text)];
        for app in self.apps.iter().filter(|app| app.shape != Shape::Gone) {
            if let Some(value) = app.config {
                let (name, path) = (format!("{}-config", app.name), format!("apps/{}-config.yaml", app.name));
                let text = format!(
                    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  VALUE: \"v{value}\"\n"
                );
                all.push(plain("ConfigMap", &name, path, text));
            }
            if app.scaled {
                let (name, path) = (format!("{}-scaler", app.name), format!("apps/{}-scaler.yaml", app.name));
                let text = format!(
                    "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata:\n  name: {name}\nspec:\n  \
                     maxReplicas: 9\n  scaleTargetRef: {{apiVersion: apps/v1, kind: {:?}, name: {}}}\n",
                    app.kind, app.name
                );
                all.push(plain("HorizontalPodAutoscaler", &name, path, text));
            }
            let suffix = if app.renamed == 0 { String::new() } else { format!("-{}", app.renamed) };
            let path = match self.rendered {
                false => format!("apps/{}{suffix}.yaml", app.name),
                true => format!("apps/{}{suffix}/{KUSTOMIZATION}", app.name),
            };
            let after = app.after.map(|after| &self.apps[after]);
            let after = after.map(|after| (format!("{:?}", after.kind), after.name.clone()));
            let want = (app.shape == Shape::Sound).then(|| workload(app, path.clone(), after));
            all.push((path, (format!("{:?}", app.kind), app.name.clone()), want));
        }
        all
    }
}

fn side(of: &mut Option<Side>, version: u64, fate: Fate) {
    if let Some(side) = of {
        *side = Side { version, fate };
    }
}

/// Returns true when a manifest without pods has this value.
pub fn told(want: &Want, value: &Value) -> bool {
    let text = value.as_str().unwrap_or_default();
    let plain = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    let plain = String::from_utf8(plain).unwrap_or_default();
    [text, &plain].iter().any(|said| !said.is_empty() && want.text.contains(&format!("\"{said}\"")))
}

/// Returns the value of the Secret, which nobody may ever see.
pub fn secret_value(seed: u64, version: u64) -> String {
    format!("correct-horse-{seed}-battery-{version}")
}

fn plain(kind: &str, name: &str, path: String, text: String) -> (String, Key, Option<Want>) {
    let want = Want { text, path: path.clone(), fate: None, template: None, after: None };
    (path, (kind.to_owned(), name.to_owned()), Some(want))
}

fn workload(app: &App, path: String, after: Option<Key>) -> Want {
    let App { name, replicas, variable, note, .. } = app;
    let image = format!("registry.example.com/{name}:v{}-{}", app.version, app.fate.word());
    let config = match app.config {
        Some(_) => format!("        envFrom:\n        - configMapRef: {{name: {name}-config}}\n"),
        None => String::new(),
    };
    let more = match app.kind {
        Kind::Deployment => format!("  replicas: {replicas}\n  progressDeadlineSeconds: 30\n"),
        Kind::StatefulSet => format!("  replicas: {replicas}\n  serviceName: {name}\n"),
        Kind::DaemonSet => String::new(),
    };
    let template = format!(
        "  template:\n    metadata:\n      labels: {{app: {name}}}\n    spec:\n      containers:\n      - name: app\n        \
         image: {image}\n        env:\n        - {{name: VARIABLE, value: \"{variable}\"}}\n{config}"
    );
    let order = match &after {
        Some((kind, name)) => format!("    belay.dev/after: {}/{name}\n", kind.to_lowercase()),
        None => String::new(),
    };
    let steps: Vec<String> = (1..=app.steps).map(|pods| format!("{pods} 20s")).collect();
    let steps = match steps.len() {
        0 => String::new(),
        _ => format!("    belay.dev/canary: \"{}\"\n", steps.join(", ")),
    };
    let text = format!(
        "apiVersion: apps/v1\nkind: {:?}\nmetadata:\n  name: {name}\n  annotations:\n    example.com/note: \
         \"{note}\"\n{order}{steps}    belay.dev/progress-deadline-seconds: \"30\"\nspec:\n{more}  selector:\n    matchLabels: \
         {{app: {name}}}\n{template}",
        app.kind
    );
    Want { text, path, fate: Some(app.fate), template: Some((image, variable.to_string())), after }
}
