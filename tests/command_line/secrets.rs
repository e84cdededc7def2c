//! No command prints a value of a Secret: every command that the command line has, in every form of output, with good input
//! and with bad, at every verbosity. The values are other ones in every run; `BELAY_SEED=n` makes the same ones again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use belay::minicluster::{MiniCluster, Random, Script};
use clap::Command;
use serde_json::json;

use crate::program::{Ran, belay, finish};
use crate::stage::Stage;

/// How long a piece is that gives a value away.
const PIECE: usize = 8;

/// What must not be seen, and where it may stand in YAML between double quotes.
struct Values {
    all: Vec<String>,
    forbidden: BTreeSet<Vec<u8>>,
}

impl Values {
    fn new(seed: u64) -> Values {
        let random = Random::new(seed);
        let word = |length: usize| -> String {
            const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
            (0..length).map(|_| char::from(LETTERS[random.below(LETTERS.len() as u64) as usize])).collect()
        };
        let all = vec![
            word(24),
            format!("{}'s #{}: *&{}!", word(12), word(12), word(12)),
            format!("--{}\n{}\n{}--", word(24), word(24), word(24)),
            format!("{}ü€{}", word(10), word(10)),
            format!("postgres://{}:{}@db", word(9), word(16)),
        ];
        let mut forbidden = BTreeSet::new();
        for value in &all {
            for text in [value.clone(), STANDARD.encode(value), URL_SAFE.encode(value)] {
                // What every such address begins with is no secret.
                let secret = text.strip_prefix("postgres://").unwrap_or(&text);
                forbidden.extend(secret.as_bytes().windows(PIECE).map(<[u8]>::to_vec));
            }
        }
        Values { all, forbidden }
    }

    /// As a double-quoted scalar.
    fn quoted(&self, which: usize) -> String {
        serde_json::to_string(&self.all[which]).unwrap()
    }

    fn encoded(&self, which: usize) -> String {
        STANDARD.encode(&self.all[which])
    }

    /// The first piece of a value in what was printed.
    fn leak<'o>(&self, output: &'o str) -> Option<&'o str> {
        let bytes = output.as_bytes();
        let at = bytes.windows(PIECE).position(|piece| self.forbidden.contains(piece))?;
        let from = output.floor_char_boundary(at.saturating_sub(60));
        Some(&output[from..output.floor_char_boundary(at + 60)])
    }
}

/// A cluster, a working copy and a history, full of Secrets.
struct World {
    stage: Stage,
    values: Values,
    copy: PathBuf,
    commit: String,
}

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n";

fn web(image: &str) -> String {
    crate::world::daemon::deployment("web", image, "")
        .replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2")
        + "        env:\n        - {name: KEY, valueFrom: {secretKeyRef: {name: keys, key: a}}}\n        envFrom: [{secretRef: \
           {name: keys}}]\n"
}

impl World {
    async fn new(seed: u64) -> World {
        let values = Values::new(seed);
        let said = format!("log={},message={},crash-after=100ms", values.quoted(0), values.quoted(4));
        let script = format!("rules: [{{image: 'web:2', fate: {}}}]", serde_json::to_string(&said).unwrap());
        let mut stage = Stage::of(MiniCluster::builder().script(Script::parse(&script).unwrap())).await;
        stage.repository.author("Ada", "ada@example.com");
        let files = good(&values);
        for (name, text) in &files {
            stage.repository.commit_file(&format!("good/{name}"), text, &format!("Write {name}"));
        }
        for (name, text) in broken(&values) {
            stage.repository.commit_file(&format!("broken/{name}"), &text, &format!("Write {name}"));
        }
        stage.repository.push();
        let copy = stage.home.path().join("copy");
        git2::Repository::clone(&stage.repository.path().display().to_string(), &copy).unwrap();
        let commit = stage.repository.commit_file("good/web.yaml", &web("web:2"), "Crash");
        stage.repository.push();
        World { stage, values, copy, commit }
    }

    /// What was applied by hand and is not what the manifests say, with kubectl's annotation that repeats it.
    async fn by_hand(&self) {
        let old = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default"},
            "stringData": {"a": self.values.all[1], "b": self.values.all[2], "gone": self.values.all[3]}});
        let mut live = old.clone();
        live["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": old.to_string()});
        let request =
            http::Request::post("/api/v1/namespaces/default/secrets").header("Content-Type", "application/json");
        let request = request.body(live.to_string().into_bytes()).unwrap();
        let _: serde_json::Value = self.stage.cluster.client().request(request).await.unwrap();
    }

    /// Runs it, and looks at all that it printed.
    fn run(&self, args: &[&str], input: &str) -> Ran {
        let mut command = belay(self.stage.home.path());
        command.args(args).current_dir(&self.copy);
        // `--` ends the options.
        if !args.contains(&"--kubeconfig") {
            command.args(self.stage.globals());
        }
        let ran = finish(command, input);
        for (stream, text) in [("standard output", &ran.out), ("standard error", &ran.err)] {
            if let Some(leak) = self.values.leak(text) {
                panic!("belay {args:?} shows a value of a Secret on {stream}:\n{leak}\nall of it:\n{text}");
            }
        }
        ran
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.stage.home.path().join(name), text).unwrap();
    }
}

/// Manifests that nothing is wrong with.
fn good(values: &Values) -> BTreeMap<&'static str, String> {
    let (quoted, encoded) = (|which| values.quoted(which), |which| values.encoded(which));
    BTreeMap::from([
        ("secret.yaml", format!("# was {0}\n{SECRET}stringData:\n  a: {0}\n  b: {1}\ndata: {{c: {2}}}\n", quoted(0), quoted(1), encoded(2))),
        ("web.yaml", web("web:1")),
        (
            "beside.yaml",
            format!(
                "{SECRET}stringData: {{a: {}}}\n---\n{}---\n# {SECRET_COMMENT}{}\n",
                quoted(3),
                web("web:1").replace("web", "beside"),
                quoted(4)
            )
            .replace("name: keys}\nstringData", "name: keys-beside}\nstringData"),
        ),
        (
            "list.yaml",
            format!(
                "apiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Secret, metadata: {{name: listed}}, stringData: \
                 {{a: {}}}}}\n- {}",
                quoted(2),
                web("web:1").replace("web", "listed").trim_end().replace('\n', "\n  ")
            ) + "\n",
        ),
        (
            "flow.json",
            format!(
                "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \
                 \"metadata\": {{\"name\": \"flow\"}}, \"stringData\": {{\"a\": {}}}}}, {}]}}\n",
                quoted(0),
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "flow"}, "spec": {"replicas": 1,
                    "selector": {"matchLabels": {"app": "flow"}}, "template": {"metadata": {"labels": {"app": "flow"}},
                    "spec": {"containers": [{"name": "app", "image": "web:1"}]}}}})
            ),
        ),
        (
            "old.yaml",
            "apiVersion: v1\nkind: ReplicationController\nmetadata: {name: old}\nspec:\n  replicas: 1\n  selector: {app: \
             old}\n  template:\n    metadata: {labels: {app: old}}\n    spec: {containers: [{name: app, image: 'web:1'}]}\n"
                .to_owned(),
        ),
    ])
}

const SECRET_COMMENT: &str = "kind: Secret\n# stringData: ";

/// Manifests that something is wrong with.
fn broken(values: &Values) -> BTreeMap<&'static str, String> {
    let (plain, quoted, encoded) = (&values.all[0], |which| values.quoted(which), |which| values.encoded(which));
    let bodies = [
        ("no-base64.yaml", format!("data: {{a: {}, b: {plain}!}}\n", quoted(1))),
        ("twice.yaml", format!("stringData:\n  a: {0}\n  a: {0}\n", quoted(0))),
        ("unknown.yaml", format!("stringDatta: {{a: {}}}\npassword: {}\n", quoted(0), quoted(3))),
        (
            "types.yaml",
            format!("stringData: [{}]\ndata: {}\ntype: [{}]\nimmutable: {plain}\n", quoted(0), encoded(1), quoted(4)),
        ),
        ("syntax.yaml", format!("stringData:\n  a: {plain}\n b: \"{plain}\n")),
        ("flow.yaml", format!("stringData: {{a: {plain}, b: @{plain}\n")),
        ("alias.yaml", format!("stringData: {{a: *{plain}}}\n")),
        ("tabs.yaml", format!("stringData:\n\ta: {plain}\n")),
        ("refused.yaml", format!("type: kubernetes.io/tls\nstringData: {{a: {}}}\n", quoted(2))),
    ];
    let mut files: BTreeMap<&'static str, String> = bodies
        .into_iter()
        .map(|(name, body)| (name, format!("{}{body}", SECRET.replace("keys", &name.replace(".yaml", "")))))
        .collect();
    files.insert(
        "kind.yaml",
        format!("{SECRET}stringData: {{a: {}}}\n", quoted(0)).replace("kind: Secret", "kind: Secrett"),
    );
    files.insert(
        "json.json",
        format!("{{\"kind\": \"Secret\", \"apiVersion\": \"v1\", \"data\": {{\"a\": {} \"b\"}}}}", quoted(2)),
    );
    files.insert("nothing.yaml", format!("stringData: {{a: {}}}\n", quoted(1)));
    files
}

/// What is typed of each command, and what it reads: good input first, then bad.
fn lines() -> BTreeMap<&'static str, Vec<(&'static str, Input)>> {
    use Input::{Broken, Nothing, Secret};
    let on = |line: &'static str| vec![(line, Nothing)];
    BTreeMap::from([
        // Reads nothing.
        ("demo", on("demo --nonsense")),
        (
            "cluster",
            vec![
                ("cluster --fates ../fates.yaml", Nothing),
                ("cluster --kubeconfig-out ../bad-kubeconfig --nodes x", Nothing),
            ],
        ),
        ("completions", on("completions bash")),
        ("man", on("man")),
        ("version", on("version")),
        (
            "run",
            vec![
                ("run --check-config --config ../token.toml", Nothing),
                ("run --check-config --config ../url.toml", Nothing),
                ("run --check-config --config ../syntax.toml", Nothing),
                ("run --check-config --config ../type.toml", Nothing),
                ("run --print-config-schema", Nothing),
            ],
        ),
        (
            "plan",
            vec![
                ("plan --from good", Nothing),
                ("plan --from broken", Nothing),
                ("plan HEAD --path good", Nothing),
                ("plan HEAD --path broken", Nothing),
                ("plan --from good --kubeconfig ../bad-kubeconfig", Nothing),
                ("plan --from good --kubeconfig ../odd-kubeconfig", Nothing),
            ],
        ),
        ("check", vec![("check good", Nothing), ("check broken", Nothing), ("check .", Nothing)]),
        (
            "status",
            vec![("status", Nothing), ("status -A", Nothing), ("status web", Nothing), ("status secret/keys", Nothing)],
        ),
        ("history", vec![("history --all", Nothing), ("history secret/keys", Nothing), ("history --stats", Nothing)]),
        ("show", vec![("show COMMIT --steps", Nothing), ("show 0000", Nothing)]),
        ("retry", vec![("retry web --dry-run", Nothing), ("retry secret/keys", Nothing)]),
        (
            "rolling-update",
            vec![
                ("rolling-update old new --image web:3 --dry-run", Nothing),
                ("rolling-update old -f good/secret.yaml", Nothing),
                ("rolling-update old -f broken/types.yaml", Nothing),
                ("rolling-update old -f -", Broken),
            ],
        ),
        (
            "undo",
            vec![
                ("undo web --dry-run", Nothing),
                ("undo web --to-commit COMMIT --dry-run", Nothing),
                ("undo secret/keys", Nothing),
            ],
        ),
        ("suspend", vec![("suspend web --dry-run", Nothing), ("suspend secret/keys", Nothing)]),
        ("resume-sync", vec![("resume-sync web --dry-run", Nothing), ("resume-sync secret keys", Nothing)]),
        ("pause", vec![("pause web --dry-run", Nothing), ("pause secret/keys", Nothing)]),
        ("resume", vec![("resume web --dry-run", Nothing), ("resume secret/keys", Nothing)]),
        ("restart", vec![("restart web --dry-run", Nothing), ("restart secret/keys", Nothing)]),
        (
            "set image",
            vec![
                ("set image deploy/web app=web:9 --dir good --dry-run", Nothing),
                ("set image deploy beside listed flow app=web:9 --dir good --dry-run", Nothing),
                ("set image -l app app=web:9 --dir broken --dry-run", Nothing),
                ("set image web app=web:9 --live --dry-run", Nothing),
                ("set image secret/keys a=b --dir good", Nothing),
                ("set image secret/keys a=b --live", Nothing),
                ("set image app=web:9 -f -", Secret),
                ("set image app=web:9 -f -", Broken),
            ],
        ),
        (
            "set env",
            vec![
                ("set env deploy/web --from secret/keys --dir good --dry-run", Nothing),
                ("set env deploy beside flow --from secret/flow --dir good --dry-run", Nothing),
                ("set env web --list --resolve --live", Nothing),
                ("set env web --list --resolve --dir good", Nothing),
                ("set env web --from secret/keys --live --dry-run", Nothing),
                ("set env web --from secret/keys --keys nope --dir good", Nothing),
                ("set env secret/keys A=b --dir good", Nothing),
                ("set env A=b -f -", Secret),
                ("set env A=b -f -", Broken),
                ("set env web -", Broken),
            ],
        ),
        (
            "scale",
            vec![
                ("scale deploy beside listed flow --replicas 9 --dir good --dry-run", Nothing),
                ("scale web --replicas 3 --live --dry-run", Nothing),
                ("scale --replicas 3 -f -", Secret),
                ("scale secret/keys --replicas 3 --dir broken", Nothing),
            ],
        ),
        (
            "new",
            vec![
                ("new deployment fresh --image a --dir good --dry-run", Nothing),
                ("new deployment web --image a --dir good --dry-run", Nothing),
                ("new deployment fresh --image a --dir good --push", Nothing),
            ],
        ),
        (
            "simulate",
            vec![
                ("simulate good/web.yaml --image web:9", Nothing),
                ("simulate good --workload deploy/beside", Nothing),
                ("simulate broken", Nothing),
                ("simulate -", Secret),
                ("simulate -", Broken),
                ("simulate deploy/web --image web:9", Nothing),
                ("simulate secret/keys --image web:9", Nothing),
            ],
        ),
    ])
}

#[derive(Clone, Copy)]
enum Input {
    Nothing,
    Secret,
    Broken,
}

/// Every command that can be typed, by its words.
fn commands(command: &Command, words: &str, found: &mut BTreeMap<String, Command>) {
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        let words = format!("{words} {}", below.get_name()).trim().to_owned();
        if below.has_subcommands() {
            commands(below, &words, found);
        } else {
            found.insert(words, below.clone());
        }
    }
}

/// The forms of output that a command has.
fn forms(command: &Command) -> Vec<String> {
    let output = command.get_arguments().find(|arg| arg.get_id() == "output");
    let values = output.map(clap::Arg::get_possible_values).unwrap_or_default();
    values.iter().map(|value| value.get_name().to_owned()).filter(|name| name != "table" && name != "text").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_command_prints_a_secret() {
    let seed = std::env::var("BELAY_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(rand_seed);
    eprintln!("BELAY_SEED={seed}");
    let world = World::new(seed).await;
    write_files(&world);
    // A daemon that logs all it can: once over everything, until it stands.
    world.by_hand().await;
    let path = world.stage.repository.path().display().to_string();
    for folder in ["good", "broken"] {
        let once =
            ["run", "--once", "-vvv", "--interval", "1s", "--repository", &path, "--path", folder, "--name", folder];
        let ran = world.run(&once, "");
        assert!(ran.code == 3 && ran.err.contains("DEBUG"), "{ran:?}");
    }
    let evidence = world.run(&["show", &world.commit, "--steps"], "").out;
    assert!(evidence.contains("***"), "the log is there, and masked: {evidence}");
    let token = &world.values.all[0];
    let remote = format!("http://ada:{token}@127.0.0.1:1/shop.git");
    git2::Repository::open(&world.copy).unwrap().remote_set_url("origin", &remote).unwrap();
    let mut all = BTreeMap::new();
    commands(&belay::cli::command(), "", &mut all);
    assert!(all.len() >= 24, "{all:?}");
    let lines = lines();
    let (good, broken) = (good(&world.values), broken(&world.values));
    let mut runs = 0;
    for (words, command) in &all {
        let Some(lines) = lines.get(words.as_str()) else { panic!("say here how `belay {words}` may meet a Secret") };
        let forms = forms(command);
        for (line, input) in lines {
            let line = line.replace("COMMIT", &world.commit);
            let args: Vec<&str> = line.split_whitespace().collect();
            let inputs: Vec<&str> = match input {
                Input::Nothing => vec![""],
                Input::Secret => {
                    ["secret.yaml", "beside.yaml", "list.yaml", "flow.json"].map(|name| good[name].as_str()).to_vec()
                }
                Input::Broken => broken.values().map(String::as_str).collect(),
            };
            for input in inputs {
                let ran = world.run(&args, input);
                assert!((0..=4).contains(&ran.code), "{args:?}: {ran:?}");
                runs += 1;
            }
            let input = if matches!(input, Input::Nothing) { "" } else { &good["beside.yaml"] };
            for form in &forms {
                world.run(&[&args[..], &["-o", form, "-vvv"]].concat(), input);
                runs += 1;
            }
        }
        world.run(&[words.split(' ').collect(), vec!["--help"]].concat(), "");
    }
    eprintln!("{} commands, {runs} runs", all.len());
}

fn rand_seed() -> u64 {
    u64::from(std::process::id())
}

/// Files that are no manifests, with something in them that nobody should read.
fn write_files(world: &World) {
    let token = &world.values.all[0];
    world.write("fates.yaml", &format!("rules: [{{image: a, fate: {token}}}]\n"));
    world.write(
        "token.toml",
        &format!("[[source]]\nrepository = \"https://git.example.com/a.git\"\ntoken = \"{token}\"\n"),
    );
    world.write("url.toml", &format!("[[source]]\nrepository = \"https://ada:{token}@git.example.com/a.git\"\n"));
    world.write("syntax.toml", &format!("[[source]]\nrepository = \"https://ada:{token}@git.example.com/a.git\n"));
    world.write("type.toml", &format!("[[source]]\nrepository = \"a\"\n[source.credentials]\ntoken_file = [\"{token}\"]\nusername = {{a = \"{token}\"}}\n"));
    world.write("bad-kubeconfig", &format!("apiVersion: v1\nkind: Config\nusers: [{{name: a, user: \"{token}\"}}]\n"));
    let head = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: \
                [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n";
    world.write("odd-kubeconfig", &format!("{head}users: [{{name: a, user: {{username: ada, password: {token}, client-key-data: {token}, client-certificate-data: \"{token}\"}}}}]\n"));
}
