//! `belay set`, `scale` and `new` in a working copy: only the wanted lines change, and what is refused changes nothing.

use std::path::{Path, PathBuf};
use std::process::Command;

use belay::git::{Edit, Location, Signing, WorkingCopy, create_bare};
use serde_json::Value;

use crate::program::{Ran, belay, finish};

/// A home with a working copy that has a repository to push to.
pub struct Copy {
    pub home: tempfile::TempDir,
    pub folder: PathBuf,
}

const WEB: &str = "# The shop's front.\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels: {app: web, \
                   tier: front}\nspec:\n  replicas: 2 # two\n  selector: {matchLabels: {app: web}}\n  template:\n    \
                   metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - name: app\n        image: \
                   'nginx:1.25' # keep\n        env:\n        # about A\n        - name: A\n          value: a\n        - \
                   {name: B, value: b}\n      - name: side\n        image: side:1\n";

const MANY: &str = "apiVersion: v1\r\nkind: List\r\nitems:\r\n- apiVersion: batch/v1\r\n  kind: CronJob\r\n  metadata: \
                    {name: nightly, labels: {tier: front}}\r\n  spec:\r\n    schedule: '0 3 * * *'\r\n    jobTemplate:\r\n      \
                    spec:\r\n        template:\r\n          spec:\r\n            restartPolicy: Never\r\n            \
                    containers: [{name: app, image: job:1}]\r\n---\r\napiVersion: v1\r\nkind: Secret\r\nmetadata: {name: \
                    keys}\r\nstringData: {password: hunter2}\r\n---\r\napiVersion: v1\r\nkind: Pod\r\nmetadata: {name: one, \
                    labels: {tier: back}}\r\nspec:\r\n  containers: [{name: app, image: &i pod:1}, {name: other, image: \
                    *i}]\r\n";

impl Copy {
    pub fn new() -> Copy {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("deploy");
        let bare = home.path().join("deploy.git");
        create_bare(&bare, "main").unwrap();
        let copy = WorkingCopy::create(&folder, "main", "Ada", "ada@example.com").unwrap();
        copy.set_origin(&bare.display().to_string().parse::<Location>().unwrap()).unwrap();
        let edit = |path: &str, text: &str| Edit { path: path.to_owned(), content: Some(text.as_bytes().to_vec()) };
        let edits = [edit("shop/web.yaml", WEB), edit("shop/many.yaml", MANY), edit("README.md", "hello\n")];
        copy.commit(&edits, "First\n", Signing::Never, "2026-01-01T00:00:00Z".parse().unwrap()).unwrap();
        Copy { home, folder }
    }

    pub fn belay(&self, args: &[&str]) -> Ran {
        self.with_input(args, "")
    }

    fn with_input(&self, args: &[&str], input: &str) -> Ran {
        let mut command = belay(self.home.path());
        command.args(args).current_dir(self.folder.join("shop"));
        finish(command, input)
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.join(path)).unwrap()
    }

    pub fn git(&self, args: &[&str]) -> String {
        self.git_in(&self.folder, args)
    }

    fn git_in(&self, folder: &Path, args: &[&str]) -> String {
        let mut command = Command::new("git");
        command.env("HOME", self.home.path()).env("GIT_CONFIG_NOSYSTEM", "1").current_dir(folder).args(args);
        let ran = finish(command, "");
        assert_eq!(ran.code, 0, "git {args:?}: {ran:?}");
        ran.out
    }

    /// Nothing is changed, staged or committed since the first commit.
    fn untouched(&self, what: &str) {
        assert_eq!(self.git(&["status", "--porcelain"]), "", "{what}");
        assert_eq!(self.git(&["rev-list", "--count", "HEAD"]).trim(), "1", "{what}");
    }
}

#[test]
fn an_image_is_set_in_one_line_and_committed() {
    let copy = Copy::new();
    let tried = copy.belay(&["set", "image", "web", "app=nginx:1.27", "--dry-run"]);
    assert_eq!(tried.code, 0, "{tried:?}");
    copy.untouched("a dry run");
    let ran = copy.belay(&["set", "image", "web", "app=nginx:1.27"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(ran.out, tried.out);
    assert_eq!(
        ran.out,
        "--- a/shop/web.yaml\n+++ b/shop/web.yaml\n@@ -12,7 +12,7 @@\n     spec:\n       containers:\n       - name: \
         app\n-        image: 'nginx:1.25' # keep\n+        image: 'nginx:1.27' # keep\n         env:\n         # about A\n\
         \u{20}        - name: A\n"
    );
    assert_eq!(copy.read("shop/web.yaml"), WEB.replace("1.25", "1.27"));
    assert_eq!(
        copy.git(&["log", "-1", "--format=%an <%ae> %s"]),
        "Ada <ada@example.com> Set image nginx:1.27 of deployment web\n"
    );
    assert_eq!(copy.git(&["status", "--porcelain"]), "");
    assert!(ran.err.starts_with("committed ") && ran.err.contains(" on main: Set image"), "{}", ran.err);
}

#[test]
fn a_commit_says_what_is_wanted_and_is_pushed() {
    let copy = Copy::new();
    let ran = copy.belay(&[
        "set",
        "image",
        "-l",
        "tier=front",
        "app=new:2",
        "--note",
        "Newer images",
        "--description",
        "Because.",
        "--push",
        "-o",
        "json",
    ]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let value: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["files"], serde_json::json!(["shop/many.yaml", "shop/web.yaml"]));
    assert_eq!(value["objects"].as_array().unwrap().len(), 2);
    assert_eq!(copy.git(&["log", "-1", "--format=%B"]).trim(), "Newer images\n\nBecause.");
    let pushed = copy.git_in(&copy.home.path().join("deploy.git"), &["rev-parse", "main"]);
    assert_eq!(pushed.trim(), value["commit"].as_str().unwrap());
    assert_eq!(copy.read("shop/many.yaml"), MANY.replace("job:1", "new:2"));
}

#[test]
fn secrets_beside_a_change_are_not_shown() {
    let copy = Copy::new();
    let ran = copy.belay(&["set", "image", "nightly", "app=job:2"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains("+") && !ran.out.contains("hunter2") && !ran.err.contains("hunter2"), "{}", ran.out);
    let listed = copy.belay(&["set", "env", "web", "--from", "secret/keys", "--dry-run"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.out.contains("+        - name: PASSWORD\n") && !listed.out.contains("hunter2"), "{}", listed.out);
}

/// The keys are those of the manifest in the workload's namespace. There is no cluster here that could be asked.
#[test]
fn keys_are_those_of_the_manifest_in_the_namespace_of_the_workload() {
    let copy = Copy::new();
    let map = |namespace: &str, key: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: conf, namespace: {namespace}}}\ndata: {{{key}: x}}\n"
        )
    };
    let web = WEB.replace("  name: web\n", "  name: api\n  namespace: b\n");
    for (file, text) in [("conf-a.yaml", map("a", "one")), ("conf-b.yaml", map("b", "two")), ("api.yaml", web)] {
        std::fs::write(copy.folder.join("shop").join(file), text).unwrap();
    }
    copy.git(&["add", "."]);
    copy.git(&["commit", "-q", "-m", "Configuration"]);
    let set = |words: &[&str]| copy.belay(&[&["set", "env"], words, &["--dry-run"]].concat());
    let of_b = set(&["api", "-c", "app", "--from", "configmap/conf"]);
    assert_eq!(of_b.code, 0, "{of_b:?}");
    assert!(of_b.out.contains("- {name: TWO, valueFrom: ") && !of_b.out.contains("ONE"), "{}", of_b.out);
    // In the namespace of the other workload is no such manifest.
    let missing = set(&["web", "-c", "app", "--from", "configmap/conf"]);
    let told = "there is no manifest of ConfigMap default/conf in .; say which keys it has: --keys KEY,KEY\n";
    assert_eq!((missing.code, missing.err), (1, format!("error: {told}")), "{}", missing.out);
    let named = set(&["web", "-c", "app", "--from", "secret/made-elsewhere", "--keys", "user,pass"]);
    assert_eq!(named.code, 0, "{named:?}");
    assert!(["USER", "PASS"].iter().all(|name| named.out.contains(&format!("name: {name}"))), "{named:?}");
    let piped = copy.with_input(&["set", "env", "-f", "-", "web", "--from", "secret/keys"], WEB);
    assert!(piped.code == 1 && piped.err.contains("--keys KEY,KEY"), "{piped:?}");
}

/// A kubeconfig leads to a server, and nobody asks that server without `--live`.
#[test]
fn keys_are_never_asked_of_the_cluster() {
    let copy = Copy::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let server = listener.local_addr().unwrap();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{{name: a, cluster: {{server: 'http://{server}'}}}}]\n\
         users: [{{name: a, user: {{}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a, namespace: elsewhere}}}}]\n"
    );
    std::fs::create_dir(copy.home.path().join(".kube")).unwrap();
    std::fs::write(copy.home.path().join(".kube/config"), kubeconfig).unwrap();
    for (more, code) in [
        (&["web", "--from", "secret/keys"][..], 0),
        (&["web", "-c", "app", "--from", "secret/made-elsewhere"], 1),
        (&["web", "-c", "app", "--from", "secret/made-elsewhere", "--keys", "user"], 0),
    ] {
        let ran = copy.belay(&[&["set", "env", "--dry-run"], more].concat());
        assert_eq!(ran.code, code, "{ran:?}");
        assert!(listener.accept().is_err(), "{more:?} asked the cluster");
    }
    let live = ["set", "env", "web", "--from", "secret/keys", "--live", "--dry-run", "--request-timeout", "1s"];
    assert_eq!(copy.belay(&live).code, 1);
    assert!(listener.accept().is_ok(), "the server is that of the kubeconfig");
}

#[test]
fn variables_are_set_and_removed_in_their_lines() {
    let copy = Copy::new();
    let ran = copy.belay(&["set", "env", "web", "-c", "app", "A=1", "C=x y", "B-"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let wanted =
        WEB.replace("value: a\n        - {name: B, value: b}\n", "value: \"1\"\n        - {name: C, value: x y}\n");
    assert_eq!(copy.read("shop/web.yaml"), wanted);
    assert_eq!(copy.git(&["log", "-1", "--format=%s"]), "Set A, C, remove B of deployment web\n");
    let ran = copy.belay(&["set", "env", "web", "-c", "side", "NEW=1"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(
        copy.read("shop/web.yaml")
            .ends_with("        image: side:1\n        env:\n        - name: NEW\n          value: \"1\"\n")
    );
    let ran = copy.belay(&["set", "env", "web", "-c", "app", "A=again", "--overwrite=false"]);
    assert_eq!((ran.code, ran.err.as_str()), (1, "error: 'A' already has a value, and --overwrite is false\n"));
    let listed = copy.belay(&["set", "env", "web", "--list"]);
    assert_eq!(listed.out, "# Deployment web, container app\nA=1\nC=x y\n# Deployment web, container side\nNEW=1\n");
    let ran = copy.with_input(&["set", "env", "web", "-c", "side", "-"], "# comment\nM=2\n\nO=3\n");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(copy.read("shop/web.yaml").contains("        - name: M\n          value: \"2\"\n"));
}

#[test]
fn standard_input_goes_to_standard_output() {
    let copy = Copy::new();
    let ran = copy.with_input(&["set", "image", "-f", "-", "app=x:1"], WEB);
    assert_eq!((ran.code, ran.out.as_str()), (0, WEB.replace("'nginx:1.25'", "'x:1'").as_str()), "{}", ran.err);
    let ran = copy.with_input(&["scale", "-f", "-", "web", "--replicas", "5"], WEB);
    assert_eq!((ran.code, ran.out.as_str()), (0, WEB.replace("replicas: 2", "replicas: 5").as_str()), "{}", ran.err);
    copy.untouched("standard input");
}

#[test]
fn what_can_not_be_done_is_refused_and_changes_nothing() {
    let copy = Copy::new();
    for (line, message) in [
        ("set image web nope=x:1", "unable to find container named \"nope\"; Deployment default/web has app, side"),
        ("set image web app=nginx:1.25", "nothing would change"),
        ("set image wep app=x:1", "no manifest of a workload \"wep\" is here; there is deployment.apps/web"),
        ("set image secret/keys app=x:1", "Secret default/keys has no pods"),
        ("set image web", "no image: say CONTAINER=IMAGE"),
        ("set image app=x:1", "no workload: say KIND/NAME"),
        ("set image web app=", "is not CONTAINER=IMAGE"),
        ("set image one other=x:1", "it is written at line"),
        ("set env web A=1 A-", "can not both modify and remove"),
        ("set env web 1A=1", "can't be the name of a variable"),
        ("set env web", "no variable:"),
        ("set env web --from secret/keys --keys nope", "Secret keys has no key \"nope\"; it has password"),
        ("set image -l tier=none app=x:1", "no manifest here has the labels"),
        ("scale web --replicas 2", "nothing would change"),
        ("scale one --replicas 2", "has no replicas to set"),
        ("scale web --replicas 3 --current-replicas 7", "Expected replicas to be 7, was 2"),
        ("new deployment web --image x", "Deployment default/web is there already"),
        ("new deployment other --image x --file many.yaml", "shop/many.yaml is there already"),
        ("new deployment other --image x --file README", "would not be read as a manifest"),
        ("new daemonset other --image x --replicas 2", "has a pod on every node"),
    ] {
        let ran = copy.belay(&line.split(' ').collect::<Vec<_>>());
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{line}: {ran:?}");
        assert!(ran.err.contains(message), "{line}: {}", ran.err);
        copy.untouched(line);
    }
    for line in ["set", "set image", "scale web", "new deployment", "new deployment A --image x", "new pod a --image x"]
    {
        let ran = copy.belay(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 2, "{line}: {ran:?}");
    }
    std::fs::write(copy.folder.join("shop/web.yaml"), WEB.replace("# two", "# more")).unwrap();
    let ran = copy.belay(&["set", "image", "web", "app=x:1"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("shop/web.yaml has changes that are not committed"), "{}", ran.err);
    let outside = belay(copy.home.path()).args(["set", "image", "web", "app=x:1"]).output().unwrap();
    assert!(String::from_utf8_lossy(&outside.stderr).contains("is not in a Git working copy"));
}

#[test]
fn scaling_changes_one_number() {
    let copy = Copy::new();
    let ran = copy.belay(&["scale", "deploy/web", "--replicas=5"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(copy.read("shop/web.yaml"), WEB.replace("replicas: 2 # two", "replicas: 5 # two"));
    assert_eq!(copy.git(&["log", "-1", "--format=%s"]), "Scale deployment web to 5\n");
}

#[test]
fn a_new_manifest_passes_the_check() {
    let copy = Copy::new();
    for kind in ["deployment", "statefulset", "daemonset"] {
        let name = format!("new-{kind}");
        let ran = copy.belay(&["new", kind, &name, "--image", "web:1", "--port", "8080", "--env", "MODE=on"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert_eq!(copy.git(&["log", "-1", "--format=%s"]), format!("Add {kind} {name}\n"));
        let text = copy.read(&format!("shop/{name}.yaml"));
        for part in ["requests:", "readinessProbe:", "value: \"on\"", "containerPort: 8080", "Fill in"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }
    let checked = copy.belay(&["check"]);
    assert_eq!(checked.code, 0, "{checked:?}");
    assert_eq!(copy.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_a_secret_gives_is_never_shown() {
    let copy = Copy::new();
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: conf}\ndata: {level: high}\n";
    std::fs::write(copy.folder.join("shop/conf.yaml"), map).unwrap();
    copy.git(&["add", "."]);
    copy.git(&["commit", "-q", "-m", "Configuration"]);
    for from in ["secret/keys", "configmap/conf"] {
        let ran = copy.belay(&["set", "env", "web", "-c", "app", "--from", from]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    let from = "# PASSWORD from secret keys, key password\n";
    let listed = copy.belay(&["set", "env", "web", "-c", "app", "--list"]);
    assert_eq!(
        listed.out,
        format!("# Deployment web, container app\nA=a\nB=b\n{from}# LEVEL from configmap conf, key level\n")
    );
    let resolved = copy.belay(&["set", "env", "web", "-c", "app", "--list", "--resolve"]);
    assert_eq!(resolved.out, format!("# Deployment web, container app\nA=a\nB=b\n{from}LEVEL=high\n"));
    for format in ["json", "yaml", "name", "wide"] {
        let ran = copy.belay(&["set", "env", "web", "--list", "--resolve", "-o", format]);
        assert_eq!(ran.code, 0, "{ran:?}");
        assert!(!ran.out.contains("hunter2"), "{}", ran.out);
    }
    // From the one to the other, and to a plain value.
    let ran = copy.belay(&["set", "env", "web", "-c", "app", "PASSWORD=plain"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(copy.read("shop/web.yaml").contains("        - {name: PASSWORD, value: plain}\n"), "{}", ran.out);
}

#[test]
fn the_width_of_the_terminal_makes_no_difference() {
    let copy = Copy::new();
    let at = |columns: &str, args: &[&str]| {
        let mut command = belay(copy.home.path());
        command.env("COLUMNS", columns).args(args).current_dir(copy.folder.join("shop"));
        finish(command, "")
    };
    for args in [
        &[
            "set",
            "image",
            "web",
            "app=registry.example.com/a/very/long/name/of/an/image/that/goes/on:1.27",
            "--dry-run",
        ][..],
        &["scale", "web", "--replicas", "7", "--dry-run"],
        &["new", "statefulset", "db", "--image", "db:1", "--dry-run"],
        &["set", "env", "web", "--list"],
        &["set", "image", "web", "nope=x"],
    ] {
        let (narrow, wide) = (at("80", args), at("200", args));
        assert_eq!((narrow.code, &narrow.out, &narrow.err), (wide.code, &wide.out, &wide.err), "{args:?}");
    }
    copy.untouched("dry runs");
    for command in ["undo", "suspend", "resume-sync", "pause", "resume", "restart", "retry", "scale", "new"] {
        for columns in ["80", "200"] {
            let help = at(columns, &[command, "--help"]);
            assert_eq!(help.code, 0, "{command}");
            assert!(help.out.lines().all(|line| line.chars().count() <= 100), "{command}:\n{}", help.out);
        }
    }
}
