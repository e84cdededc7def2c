//! The same on a terminal of 80 columns, on one of 200, and in a pipe: there are colours and cut columns on a terminal only.

use serde_json::json;

use crate::program::{belay, finish, on_a_terminal, uncoloured};
use crate::served::Served;
use crate::support::daemon::deployment;

/// The command lines, and the choice if their lines may be wider than the terminal: only quoted text (a diff, a
/// message) may.
const LINES: &[(&str, Wide)] = &[
    ("help", Wide::Never),
    ("help set image", Wide::Never),
    ("version", Wide::Never),
    ("status", Wide::Never),
    ("status -A", Wide::Never),
    ("check broken", Wide::Never),
    ("plan --from good", Wide::Quoted),
    ("simulate good/web.yaml --image web:2", Wide::Quoted),
    ("rolling-update old --image web:2 --dry-run", Wide::Never),
    ("set image deploy/web app=registry.example.com/a/long/name:2 --live --dry-run", Wide::Quoted),
    ("set env deploy/web --list --live", Wide::Never),
    ("scale deploy/web --replicas 3 --live --dry-run", Wide::Never),
    ("undo deploy/web", Wide::Quoted),
    ("pause deploy/web --dry-run", Wide::Never),
    ("restart deploy/web --dry-run", Wide::Never),
    ("suspend deploy/web --dry-run", Wide::Quoted),
    ("retry deploy/web", Wide::Quoted),
];

#[derive(Clone, Copy, PartialEq)]
enum Wide {
    Never,
    Quoted,
}

async fn world() -> Served {
    let served = Served::new().await;
    let home = served.home();
    for folder in ["good", "broken"] {
        std::fs::create_dir(home.join(folder)).unwrap();
    }
    let text = deployment("web", "registry.example.com/a/name/that/goes/on/and/on:1", "");
    served.write("good/web.yaml", &text);
    let odd = format!("unknownField: {}\n", "a-value-that-goes-on-and-on-".repeat(6));
    served.write("broken/web.yaml", &format!("{}{odd}", text.replace("replicas: 2", "replicas: two")));
    let mut live: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    live["metadata"]["labels"] = json!({"belay.dev/source": "a-source-with-a-long-name"});
    served.post("/apis/apps/v1/namespaces/default/deployments", &live).await;
    let labels = json!({"app": "old"});
    let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "web:1"}]}});
    let old = json!({"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "old"},
        "spec": {"replicas": 1, "selector": labels, "template": template}});
    served.post("/api/v1/namespaces/default/replicationcontrollers", &old).await;
    let path = "/apis/apps/v1/namespaces/default/deployments/web";
    served.until(async || served.get(path).await["status"]["availableReplicas"] == 2).await;
    served
}

#[tokio::test(flavor = "multi_thread")]
async fn width_and_colour_are_the_terminals() {
    let served = world().await;
    for (line, wide) in LINES {
        let mut command = belay(served.home());
        command.args(line.split(' ')).env_remove("NO_COLOR");
        let piped = finish(command, "");
        assert!(!piped.out.contains('\x1b') && !piped.err.contains('\x1b'), "colour in a pipe: {line}: {piped:?}");
        for columns in [80, 200] {
            let Some(shown) = on_a_terminal(served.home(), served.home(), columns, line, "") else { return };
            assert_eq!(shown.code, piped.code, "{line}: {shown:?}");
            let text = uncoloured(&shown.out);
            for shown in text.lines().filter(|_| *wide == Wide::Never) {
                let width = shown.chars().count();
                assert!(width <= columns, "{line}: {width} of {columns} columns: {shown}");
            }
        }
    }
    for (line, coloured) in [("status", true), ("check broken", true), ("plan --from good", true), ("version", false)] {
        let Some(shown) = on_a_terminal(served.home(), served.home(), 80, line, "") else { return };
        assert_eq!(shown.out.contains("\x1b["), coloured, "{line}: {:?}", shown.out);
    }
}

/// Work that takes longer than a second is shown in one line that goes away, on a terminal only.
#[tokio::test(flavor = "multi_thread")]
async fn what_takes_longer_is_shown() {
    let home = tempfile::tempdir().unwrap();
    let line = "status --commit 0123abcd --wait --timeout 2500ms --state-dir state";
    let Some(shown) = on_a_terminal(home.path(), home.path(), 60, line, "") else { return };
    assert_eq!(shown.code, 4, "{shown:?}");
    assert!(shown.out.starts_with("\r\x1b[Kwaiting for commit 0123abcd ("), "{shown:?}");
    let (_, last) = shown.out.rsplit_once("\r\x1b[K").unwrap();
    assert!(last.starts_with("error: commit 0123abcd is not through after 2s500ms"), "{shown:?}");
    let mut piped = belay(home.path());
    piped.args(line.split(' '));
    let piped = finish(piped, "");
    assert!(piped.code == 4 && !piped.err.contains("waiting for commit"), "{piped:?}");
}

/// A first fetch that takes long is shown. The line is gone before the log goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_fetch_is_shown() {
    let home = tempfile::tempdir().unwrap();
    // A server that takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let repository = format!("http://{}/shop.git", silent.local_addr().unwrap());
    let line = format!("run --embedded --once --timeout 3s --repository {repository} --state-dir state");
    let Some(shown) = on_a_terminal(home.path(), home.path(), 100, &line, "") else { return };
    let drawn = "\r\x1b[Ksource default: fetching the repository (";
    assert!(shown.code != 0 && shown.out.contains(drawn), "{shown:?}");
    let (_, last) = shown.out.rsplit_once("fetching the repository (").unwrap();
    assert!(last.split_once(')').unwrap().1.starts_with("\r\x1b[K"), "{shown:?}");
}

/// Returns a text of a terminal without line ends and colours.
fn without_colours(text: &str) -> String {
    let mut left = String::new();
    for (number, part) in text.replace("\r\n", "\n").split('\x1b').enumerate() {
        let behind = part.strip_prefix('[').and_then(|part| part.split_once('m'));
        match behind.filter(|(colour, _)| colour.chars().all(|c| c.is_ascii_digit() || c == ';')) {
            Some((_, behind)) => left.push_str(behind),
            None if number == 0 => left.push_str(part),
            None => left.extend(["\x1b", part]),
        }
    }
    left
}

/// Characters that steer a terminal, that turn the direction of writing, and of no width, wherever a repository may have them.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_repository_steers_a_terminal() {
    let served = Served::new().await;
    for folder in ["hostile", "broken"] {
        std::fs::create_dir(served.home().join(folder)).unwrap();
    }
    let role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: \"a\u{202e}b\"}\nrules: []\n";
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {a: \"\\e[2Jx\\u202Ey\\u200Bz\", \"b\": \"1\"}\n";
    let env = "env: [{name: A, value: \"\\e]0;t\\a\\u2066x\\u200B\"}]";
    let web = deployment("web", "web:1", "").replace("image: web:1", &format!("image: web:1\n        {env}"));
    served.write("hostile/role.yaml", role);
    served.write("hostile/map.yaml", map);
    served.write("hostile/web.yaml", &web);
    served.write("broken/map.yaml", &map.replace("kind: ConfigMap", "\"ki\\u202End\": \"\\e[2J\"\nkind: ConfigMap"));
    let mut hidden = 0;
    for line in [
        "plan --from hostile",
        "plan --from hostile -o name",
        "plan --from hostile -o markdown",
        "plan --from hostile -o json",
        "plan --from hostile -o yaml",
        "plan --from broken",
        "check broken",
        "check broken -o json",
        "render hostile",
        "render hostile -o json",
        "render hostile -o name",
        "render broken",
        "set env deploy/web --list --dir hostile",
        "set env deploy/web B=1 --dir hostile --dry-run",
        "status deploy/a\u{202e}b\u{200b}",
    ] {
        let Some(shown) = on_a_terminal(served.home(), served.home(), 80, line, "") else { return };
        let text = without_colours(&shown.out);
        let is_hidden = |c: char| belay_core::manifest::is_hidden(c) && c != '\n' && c != '\t';
        assert!(!text.contains(is_hidden) && !text.is_empty(), "{line}: {text:?}");
        hidden += text.matches('\u{fffd}').count();
    }
    assert!(hidden > 5, "{hidden} were there to be hidden");
}
