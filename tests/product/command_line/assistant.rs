//! `belay mcp`: sessions of an assistant over pipes, and of a client that sends anything.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::fixture::Fixture;
use crate::program::{Ran, belay, finish};
use crate::support::daemon::{broken, deployment};

const BEGIN: &str = r#"{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}"#;

/// Sends these lines, and returns the answers by their ids, as JSON.
fn session(home: &Path, args: &[&str], lines: &[String]) -> BTreeMap<String, Value> {
    let mut command = belay(home);
    command.arg("mcp").args(args);
    let Ran { code, out, err } = finish(command, &format!("{}\n", lines.join("\n")));
    assert_eq!(code, 0, "{err}");
    out.lines()
        .map(|line| {
            let answer: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
            assert_eq!(answer["jsonrpc"], "2.0", "{line}");
            (answer["id"].to_string(), answer)
        })
        .collect()
}

fn request(id: u64, method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

fn call(id: u64, tool: &str, arguments: &Value) -> String {
    request(id, "tools/call", &json!({"name": tool, "arguments": arguments}))
}

/// Returns the result of a tool that printed JSON.
fn printed(answer: &Value) -> Value {
    assert_eq!(answer["result"]["isError"], false, "{answer:#}");
    serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_reads_what_became_of_a_commit() {
    let mut stage = Fixture::new().await;
    let quick = |manifest: &str| manifest.replace("progressDeadlineSeconds: 30", "progressDeadlineSeconds: 2");
    let good = stage.repository.commit_file("web.yaml", &quick(&deployment("web", "web:1", "")), "First");
    stage.repository.push();
    let path = stage.repository.path().display().to_string();
    let once = ["run", "--once", "--interval", "1s", "--repository", &path];
    assert_eq!(stage.run(&once).code, 0);
    let bad = stage.repository.commit_file("web.yaml", &quick(&broken("web", "never-ready")), "Broken");
    stage.repository.push();
    assert_eq!(stage.run(&once).code, 3);
    let home = stage.home.path();
    std::fs::create_dir(home.join("manifests")).unwrap();
    std::fs::write(home.join("manifests/web.yaml"), deployment("web", "web:9", "")).unwrap();
    std::fs::write(
        home.join("manifests/wrong.yaml"),
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndada: {}\n",
    )
    .unwrap();
    let globals = stage.globals();
    let args: Vec<&str> = globals.iter().map(String::as_str).chain(["--dir", "manifests"]).collect();
    let before = stage.run(&["history", "--all", "-o", "json"]).out;
    let answers = session(
        home,
        &args,
        &[
            BEGIN.to_owned(),
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
            request(1, "ping", &json!({})),
            request(2, "tools/list", &json!({})),
            call(3, "status", &json!({})),
            call(4, "history", &json!({"failed": true})),
            call(5, "show", &json!({"commit": &bad[..8]})),
            call(6, "stats", &json!({"since": "1d", "by": "workload"})),
            call(7, "plan", &json!({"folder": ".", "source": "default"})),
            call(8, "check", &json!({"path": "web.yaml"})),
            call(9, "check", &json!({"path": "wrong.yaml"})),
            call(10, "simulate", &json!({"file": "web.yaml", "image": "web:10", "ready_after": "2s"})),
            call(11, "simulate", &json!({"live": "deploy/web", "image": "web:10"})),
            call(12, "check", &json!({"path": "../kubeconfig"})),
            call(13, "show", &json!({"commit": "ffffffff"})),
        ],
    );
    assert_eq!(answers["\"begin\""]["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(answers["\"begin\""]["result"]["serverInfo"]["name"], "belay");
    assert_eq!(answers["1"]["result"], json!({}));
    let tools: Vec<&str> =
        answers["2"]["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(tools, ["status", "history", "show", "stats", "plan", "check", "simulate"]);
    assert_eq!(printed(&answers["3"])["workloads"][0]["state"], "held");
    let failed = printed(&answers["4"]);
    assert_eq!(
        (failed["records"].as_array().unwrap().len(), &failed["records"][0]["commit"]),
        (1, &bad.as_str().into())
    );
    let shown = printed(&answers["5"]);
    assert_eq!(shown["records"][0]["backTo"], good.as_str());
    assert!(shown["records"][0]["evidence"]["pods"][0]["name"].is_string(), "{shown:#}");
    assert_eq!(printed(&answers["6"])["stats"][0]["failures"], 1);
    assert_eq!(printed(&answers["7"])["steps"][0]["object"]["name"], "web");
    assert_eq!(printed(&answers["8"])["complaints"], json!([]));
    assert_eq!(printed(&answers["9"])["complaints"][0]["message"], "there is no field dada");
    assert!(printed(&answers["10"])["steps"].as_array().is_some_and(|steps| !steps.is_empty()), "{:#}", answers["10"]);
    printed(&answers["11"]);
    for (id, says) in [("12", "outside of the folder"), ("13", "there is no commit that begins with")] {
        let text = answers[id]["result"]["content"][0]["text"].as_str().unwrap();
        assert!(answers[id]["result"]["isError"] == true && text.contains(says), "{text}");
    }
    assert_eq!(stage.run(&["history", "--all", "-o", "json"]).out, before, "nothing was written");
}

#[test]
fn a_client_that_sends_anything_gets_errors() {
    let home = tempfile::tempdir().unwrap();
    let answers = session(
        home.path(),
        &[],
        &[
            request(1, "tools/list", &json!({})),
            request(2, "ping", &json!({})),
            BEGIN.to_owned(),
            request(3, "tools/run", &json!({})),
            request(4, "tools/call", &json!({"name": "undo", "arguments": {"workload": "web"}})),
            request(5, "tools/call", &json!({"name": "status", "arguments": [1]})),
            request(6, "tools/call", &json!({})),
            request(7, "initialize", &json!({"protocolVersion": 1})),
            request(8, "tools/list", &json!({"cursor": "x"})),
            call(9, "check", &json!({"path": "/etc/passwd"})),
            call(10, "status", &json!({"namespace": "a\u{0}b"})),
            call(11, "history", &json!({"workload": "--help"})),
            request(12, "resources/list", &json!({})),
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#.to_owned(),
            r#"{"jsonrpc":"2.0","id":13,"result":{}}"#.to_owned(),
            String::new(),
            r#"{"jsonrpc":"2.0","id":14,"method":"ping"}"#.to_owned(),
        ],
    );
    let codes: Vec<(&str, i64)> = ["1", "3", "4", "5", "6", "7", "8", "12"]
        .into_iter()
        .map(|id| (id, answers[id]["error"]["code"].as_i64().unwrap()))
        .collect();
    let expected = [
        ("1", -32600),
        ("3", -32601),
        ("4", -32602),
        ("5", -32602),
        ("6", -32602),
        ("7", -32602),
        ("8", -32602),
        ("12", -32601),
    ];
    assert_eq!(codes, expected);
    for id in ["9", "10", "11"] {
        assert_eq!(answers[id]["result"]["isError"], true, "{:#}", answers[id]);
    }
    assert!(!answers["11"]["result"].to_string().contains("Usage"), "{:#}", answers["11"]);
    assert!(answers["2"]["result"].is_object() && answers["14"]["result"].is_object() && !answers.contains_key("13"));
    for (line, code) in [("{".to_owned(), -32700), ("[]".to_owned(), -32600), ("x".repeat(3 << 20), -32700)] {
        let answers = session(home.path(), &[], &[line, request(2, "ping", &json!({}))]);
        assert_eq!((&answers["null"]["error"]["code"], &answers["2"]["result"]), (&json!(code), &json!({})));
    }
}

#[test]
fn an_option_that_is_wrong_is_an_error_at_once() {
    let home = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["mcp", "--dir", "nowhere"][..], "--dir nowhere"),
        (&["mcp", "--server", "http://example.com", "--token-file", "none"], "use https://"),
    ] {
        let mut command = belay(home.path());
        command.args(args);
        let ran = finish(command, BEGIN);
        assert!(ran.code == 1 && ran.err.contains(says) && ran.out.is_empty(), "{ran:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is sent, each line of the output is an answer, and a ping at the end has one.
    #[test]
    fn no_input_ends_the_session(
        noise in prop::collection::vec(prop_oneof![
            any::<String>(),
            "[\\[{\"a:1,}\\] ]{0,40}",
            Just(r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"check","arguments":{"path":{}}}}"#.to_owned()),
            "\\PC{0,20}".prop_map(|text| json!({"jsonrpc": "2.0", "id": text, "method": text, "params": {"a": text}}).to_string()),
        ], 0..30),
        is_begun: bool,
    ) {
        let home = tempfile::tempdir().unwrap();
        let mut lines = if is_begun { vec![BEGIN.to_owned()] } else { Vec::new() };
        lines.extend(noise.into_iter().map(|line| line.replace(['\n', '\r'], " ")));
        lines.push(request(7, "ping", &json!({})));
        let answers = session(home.path(), &[], &lines);
        prop_assert_eq!(&answers["7"]["result"], &json!({}));
    }
}
