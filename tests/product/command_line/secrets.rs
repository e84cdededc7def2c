//! No command prints a value of a Secret: every command that the command line has, in every form of output, with good input
//! and with bad, at every verbosity. The values are other ones in every run; `BELAY_SEED=n` makes the same ones again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use clap::Command;
use minicluster::{MiniCluster, Random, Script};
use serde_json::json;

use crate::fixture::Fixture;
use crate::program::{Ran, belay, finish};

/// The length of a piece that gives a value away.
const PIECE: usize = 8;

/// The values that must not be seen, in the forms that may stand in YAML between double quotes.
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
                // The common prefix of such addresses is no secret.
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

    /// Returns the first piece of a value in what was printed.
    fn leak<'o>(&self, output: &'o str) -> Option<&'o str> {
        let bytes = output.as_bytes();
        let at = bytes.windows(PIECE).position(|piece| self.forbidden.contains(piece))?;
        let from = output.floor_char_boundary(at.saturating_sub(60));
        Some(&output[from..output.floor_char_boundary(at + 60)])
    }
}

/// A cluster, a working copy and a history, full of Secrets.
struct World {
    stage: Fixture,
    values: Values,
    copy: PathBuf,
    commit: String,
    leaks: Mutex<Vec<String>>,
}

const SECRET: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\n";

fn web(image: &str) -> String {
    crate::support::daemon::deployment("web", image, "")
        .replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2")
        + "      volumes: [{name: v, csi: {driver: csi.example.com, readOnly: true, nodePublishSecretRef: {name: csi}}}]\n      \
           imagePullSecrets: [{name: pull}]\n"
}

impl World {
    async fn new(seed: u64) -> World {
        let values = Values::new(seed);
        let said = format!("log={},message={},ready-after=5s,crash-after=100ms", values.quoted(0), values.quoted(4));
        let script = format!("rules: [{{image: 'web:2', fate: {}}}]", serde_json::to_string(&said).unwrap());
        let mut stage = Fixture::of(MiniCluster::builder().script(Script::parse(&script).unwrap())).await;
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
        World { stage, values, copy, commit, leaks: Mutex::default() }
    }

    /// Applies by hand an object that differs from the manifests, with kubectl's annotation that repeats it.
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
                self.leaks.lock().unwrap().push(format!("belay {args:?} on {stream}: {leak}"));
            }
        }
        ran
    }

    /// Returns a line in every form of output, and with everything that may be on its standard input; how many runs
    /// that were.
    fn each_form(&self, command: &Command, line: &str) -> usize {
        let (line, read) = line.split_once(" < ").unwrap_or((line, ""));
        let args: Vec<&str> = line.split_whitespace().collect();
        let inputs: Vec<String> = match read {
            "secret" => good(&self.values)
                .into_values()
                .filter(|text| text.contains("kind: Secret") || text.contains("\"Secret\""))
                .collect(),
            "broken" => broken(&self.values).into_values().collect(),
            _ => vec![String::new()],
        };
        for input in &inputs {
            let ran = self.run(&args, input);
            assert!((0..=4).contains(&ran.code), "{args:?}: {ran:?}");
        }
        let forms = forms(command);
        for form in &forms {
            self.run(&[&args[..], &["-o", form, "-vvv"]].concat(), &inputs[0]);
        }
        inputs.len() + forms.len()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.stage.home.path().join(name), text).unwrap();
    }
}

/// Manifests that nothing is wrong with.
fn good(values: &Values) -> BTreeMap<&'static str, String> {
    let (quoted, encoded) = (|which| values.quoted(which), |which| values.encoded(which));
    BTreeMap::from([
        ("secret.yaml", format!("# was {0}\n{SECRET}stringData:\n  a: {0}\n  b: {1}\n  d: {3}\ndata: {{c: {2}}}\n", quoted(0), quoted(1), encoded(2), quoted(4))),
        ("web.yaml", web("web:1")),
        // The output of its pods is in these only: one for a volume's driver, one for pulling images.
        ("csi.yaml", format!("{}stringData: {{a: {}}}\n", SECRET.replace("keys", "csi"), quoted(0))),
        ("pull.yaml", format!("{}stringData: {{a: {}}}\n", SECRET.replace("keys", "pull"), quoted(4))),
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

/// The command lines, and the state that is read meanwhile.
const LINES: &str = include_str!("../../cases/secrets.txt");

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

/// Returns the forms of output that a command has.
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
        let told: Vec<&str> = ran.err.lines().filter(|line| !line.contains("DEBUG")).collect();
        assert!(ran.code == 3 && ran.err.contains("DEBUG"), "{}: {}", ran.code, told.join("\n"));
    }
    let evidence = world.run(&["show", &world.commit, "--steps"], "").out;
    assert!(evidence.contains("***"), "the log is there, and masked: {evidence}");
    let token = &world.values.all[0];
    let remote = format!("http://ada:{token}@127.0.0.1:1/shop.git");
    git2::Repository::open(&world.copy).unwrap().remote_set_url("origin", &remote).unwrap();
    let mut all = BTreeMap::new();
    commands(&belay::cli::command(), "", &mut all);
    assert!(all.len() >= 24, "{all:?}");
    let lines: Vec<&str> = LINES.lines().filter(|line| !line.starts_with('#')).collect();
    let mut runs = 0;
    for (words, command) in &all {
        let mine: Vec<&&str> =
            lines.iter().filter(|line| line.starts_with(&format!("{words} ")) || line == &words).collect();
        assert!(!mine.is_empty(), "say in tests/cases/secrets.txt how `belay {words}` may meet a Secret");
        for line in mine {
            runs += world.each_form(command, &line.replace("COMMIT", &world.commit));
        }
        world.run(&[words.split(' ').collect(), vec!["--help"]].concat(), "");
    }
    eprintln!("{} commands, {runs} runs", all.len());
    let leaks = world.leaks.lock().unwrap();
    assert!(leaks.is_empty(), "values of Secrets are shown:\n{}", leaks.join("\n\n"));
}

fn rand_seed() -> u64 {
    u64::from(std::process::id())
}

/// Files that are no manifests, with something in them that nobody should read.
fn write_files(world: &World) {
    let token = &world.values.all[0];
    world.write("fates.yaml", &format!("rules: [{{image: a, fate: 'log=\"{token}\",nonsense'}}]\n"));
    let (url, values) = (format!("https://ada:{token}@git.example.com/a.git"), format!("{{a: {token}}}"));
    let argo = |url: &str| {
        format!(
            "---\napiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {{name: a}}\nspec: {{source: {{repoURL: '{url}', path: \
             a, helm: {{valuesObject: {values}, parameters: [{{name: password, value: {token}}}]}}}}}}\n"
        )
    };
    let flux = format!(
        "---\napiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata: {{name: a}}\nspec: {{url: '/srv', {token}: \
         {token}}}\n---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: a}}\nspec: {{chart: {{spec: \
         {{chart: a, sourceRef: {{kind: GitRepository, name: a}}}}}}, values: {values}, nonsense: {token}}}\n"
    )
    .replace(&format!("{token}: "), "nonsense: ");
    world.write("objects.yaml", &format!("{}{}{flux}", argo(&url), argo("/srv")));
    world.write(
        "token.toml",
        &format!("[[source]]\nrepository = \"https://git.example.com/a.git\"\ntoken = \"{token}\"\n"),
    );
    world.write("url.toml", &format!("[[source]]\nrepository = \"https://ada:{token}@git.example.com/a.git\"\n"));
    let collector = format!("[telemetry]\notlp = \"https://ada:{token}@collector.example.com\"\n");
    world.write("collector.toml", &format!("[[source]]\nrepository = \"a\"\n{collector}"));
    world.write("syntax.toml", &format!("[[source]]\nrepository = \"https://ada:{token}@git.example.com/a.git\n"));
    world.write("type.toml", &format!("[[source]]\nrepository = \"a\"\n[source.credentials]\ntoken_file = [\"{token}\"]\nusername = {{a = \"{token}\"}}\n"));
    let receiver = |rest: &str| format!("[[source]]\nrepository = \"a\"\n[[notify]]\nname = \"ops\"\n{rest}\n");
    let to = |url: &str| receiver(&format!("kind = \"webhook\"\nallow_private = true\nurl = \"{url}\""));
    world.write("notify.toml", &to(&format!("http://127.0.0.1:1/{token}")));
    world.write("odd-notify.toml", &to(&format!("ftp://127.0.0.1/{token}")));
    world.write("chat-url", &format!("nonsense {token}"));
    let file = world.stage.home.path().join("chat-url");
    world.write("chat.toml", &receiver(&format!("kind = \"slack\"\nurl_file = {file:?}")));
    world.write("bad-kubeconfig", &format!("apiVersion: v1\nkind: Config\nusers: [{{name: a, user: \"{token}\"}}]\n"));
    let head = "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: a, user: a}}]\nclusters: \
                [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n";
    for (name, ending) in [("exec-kubeconfig", "exit 1"), ("answer-kubeconfig", "exit 0")] {
        let exec = format!(
            "apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, args: [-c, 'echo {token}; {ending}']"
        );
        world.write(name, &format!("{head}users: [{{name: a, user: {{exec: {{{exec}}}}}}}]\n"));
    }
    world.write("odd-kubeconfig", &format!("{head}users: [{{name: a, user: {{username: ada, password: {token}, client-key-data: {token}, client-certificate-data: \"{token}\"}}}}]\n"));
}
