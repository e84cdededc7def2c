//! The same requests to the real API server and to the embedded one; the answers are compared.
//!
//! The requests are data: `tests/cases/exchange/*.http`. A file is one conversation, in a namespace of its own, `{ns}`.
//! `###` begins a request and names it; then come method and path, headers, an empty line, the body. `{uid}`, `{rv}` and
//! `{continue}` stand for what the answer before said in its metadata; `{rv:name}` for the resource version that the
//! answer to the request of that name had. `@differs: reason` beside the headers excuses a difference, and fails if
//! there is none; `@ignores: a.b, c.d` leaves fields out of the comparison; `@waits: 1` lets the real server's caches
//! catch up for so many seconds; `@compacts: yes` lets both servers forget what was before. Requests are an
//! administrator's, unless `Impersonate-User` or `Authorization: Bearer {token:name}`, with the token that the answer
//! to the request of that name held, says otherwise.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::Duration;

use http_body_util::BodyExt;
use kube::Client;
use minicluster::{Access, Authorization, MiniCluster, Part};
use serde_json::{Map, Value, json};

use crate::support::control_plane::{self, ControlPlane, Controllers};
use crate::token_volumes::{make_default_account, without_names};

const FOLDER: &str = "tests/cases/exchange";

/// Headers that clients read.
const HEADERS: [&str; 5] = ["content-type", "warning", "retry-after", "cache-control", "vary"];

#[tokio::test]
async fn both_servers_give_the_same_answers() {
    let Some(assets) = control_plane::assets("the exchanges with the reference API server") else { return };
    let mut plane = ControlPlane::start(&assets, Controllers::None).await;
    let access = Access { authorization: Authorization::Rbac, ..Access::default() };
    let cluster = MiniCluster::builder().without(Part::Controllers).without(Part::Kubelet).access(access);
    let cluster = cluster.start().await.unwrap();
    let (mut report, mut count) = (String::new(), 0);
    for conversation in conversations() {
        let mut sides =
            [Side::new(plane.client(), plane.client_of_nobody()), Side::new(cluster.client(), cluster.client())];
        for side in &mut sides {
            side.begin(&conversation.namespace).await;
        }
        for request in &conversation.requests {
            count += 1;
            let [real, ours] = &mut sides;
            // Real time: this is a real server.
            tokio::time::sleep(Duration::from_secs(request.waits)).await;
            if request.compacts {
                plane.compact().await;
                cluster.api().compact();
            }
            let answers = [real.ask(request).await, ours.ask(request).await];
            let differences = differences(&answers, request);
            let place = format!("{}: {}", conversation.name, request.name);
            match (&request.differs, differences.is_empty()) {
                (None, false) => writeln!(report, "{place}\n{differences}").unwrap(),
                (Some(reason), true) => writeln!(report, "{place}: no difference any more ({reason})").unwrap(),
                _ => {}
            }
        }
    }
    assert!(count > 0);
    assert!(report.is_empty(), "of {count} answers, these differ (real server < > embedded server):\n{report}");
}

struct Conversation {
    name: String,
    namespace: String,
    requests: Vec<Request>,
}

#[derive(Default)]
struct Request {
    name: String,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: String,
    differs: Option<String>,
    ignores: Vec<String>,
    waits: u64,
    compacts: bool,
}

fn conversations() -> Vec<Conversation> {
    let only = std::env::var("BELAY_EXCHANGE").unwrap_or_default();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let conversations = files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "http"));
    conversations
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let requests = text.split("###").skip(1).map(request).collect();
            Conversation { namespace: format!("x-{name}"), name, requests }
        })
        .filter(|conversation| conversation.name.contains(&only))
        .collect()
}

fn request(text: &str) -> Request {
    let (name, text) = text.split_once('\n').unwrap();
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let mut lines = head.lines();
    let (method, path) = lines.next().unwrap().split_once(' ').unwrap();
    let mut request = Request {
        name: name.trim().to_owned(),
        method: method.to_owned(),
        path: path.trim().to_owned(),
        body: body.trim().to_owned(),
        ..Request::default()
    };
    for line in lines.filter(|line| !line.trim().is_empty()) {
        let (key, value) = line.split_once(':').unwrap_or_else(|| panic!("{name}: {line}"));
        match key {
            "@differs" => request.differs = Some(value.trim().to_owned()),
            "@compacts" => request.compacts = value.trim() == "yes",
            "@waits" => request.waits = value.trim().parse().unwrap(),
            "@ignores" => request.ignores = value.split(',').map(|path| path.trim().to_owned()).collect(),
            _ => request.headers.push((key.to_owned(), value.trim().to_owned())),
        }
    }
    let typed = request.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case("content-type"));
    if !request.body.is_empty() && !typed {
        request.headers.push(("Content-Type".to_owned(), "application/json".to_owned()));
    }
    request
}

/// One server, and what it said before.
struct Side {
    /// An administrator's.
    client: Client,
    /// For requests that say themselves whose they are.
    bare: Client,
    said: BTreeMap<String, String>,
}

struct Answer {
    code: u16,
    headers: BTreeMap<String, String>,
    bodies: Vec<Value>,
}

impl Side {
    fn new(client: Client, bare: Client) -> Side {
        Side { client, bare, said: BTreeMap::new() }
    }

    async fn begin(&mut self, namespace: &str) {
        self.said.insert("{ns}".to_owned(), namespace.to_owned());
        let body = json!({ "metadata": { "name": namespace } }).to_string();
        let request = http::Request::post("/api/v1/namespaces").header("Content-Type", "application/json");
        let answer = self.client.send(request.body(body.into_bytes().into()).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 201, "the namespace {namespace}");
        make_default_account(&self.client, namespace).await;
    }

    fn fill(&self, text: &str) -> String {
        self.said.iter().fold(text.to_owned(), |text, (key, value)| text.replace(key, value))
    }

    async fn ask(&mut self, request: &Request) -> Answer {
        let mut built = http::Request::builder().method(request.method.as_str()).uri(self.fill(&request.path));
        if !request.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case("user-agent")) {
            built = built.header("User-Agent", "exchange/1.0");
        }
        for (key, value) in &request.headers {
            built = built.header(key, self.fill(value));
        }
        let built = built.body(body(&self.fill(&request.body)).into()).unwrap();
        let client = if built.headers().contains_key("Authorization") { &self.bare } else { &self.client };
        let sent = tokio::time::timeout(Duration::from_secs(20), client.send(built)).await;
        let answer = sent.unwrap_or_else(|_| panic!("{}: no answer", request.name));
        let answer = answer.unwrap_or_else(|error| panic!("{}: {error}", request.name));
        let (parts, body) = answer.into_parts();
        let headers = HEADERS.iter().filter_map(|name| {
            let values = parts.headers.get_all(*name).iter().map(|value| value.to_str().unwrap());
            // A field that the embedded server stores without an effect has a warning there, and there alone.
            let values: Vec<&str> = values.filter(|value| !value.ends_with(" by this server\"")).collect();
            (!values.is_empty()).then(|| ((*name).to_owned(), values.join(" | ")))
        });
        let headers = headers.collect();
        let body = tokio::time::timeout(Duration::from_secs(20), body.collect()).await;
        let body = body.unwrap_or_else(|_| panic!("{}: no end", request.name)).unwrap().to_bytes();
        let text = String::from_utf8_lossy(&body).into_owned();
        let bodies = bodies(&text);
        if let [only] = bodies.as_slice() {
            self.remember(&request.name, only);
        }
        Answer { code: parts.status.as_u16(), headers, bodies }
    }

    fn remember(&mut self, name: &str, body: &Value) {
        let metadata = &body["metadata"];
        for (key, field) in [("uid", "uid"), ("rv", "resourceVersion"), ("continue", "continue"), ("name", "name")] {
            if let Some(value) = metadata[field].as_str() {
                self.said.insert(format!("{{{key}}}"), value.to_owned());
                self.said.insert(format!("{{{key}:{name}}}"), value.to_owned());
            }
        }
        if let Some(token) = body["status"]["token"].as_str() {
            self.said.insert(format!("{{token:{name}}}"), token.to_owned());
        }
    }
}

/// `@repeat 1000 text` makes a body too large for a file.
fn body(text: &str) -> Vec<u8> {
    let Some((before, rest)) = text.split_once("@repeat ") else { return text.as_bytes().to_vec() };
    let (count, rest) = rest.split_once(' ').unwrap();
    let (what, after) = rest.split_once('@').unwrap();
    format!("{before}{}{after}", what.repeat(count.parse().unwrap())).into_bytes()
}

/// Returns one JSON value, the lines of a watch, or text.
fn bodies(text: &str) -> Vec<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return vec![value];
    }
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    lines.unwrap_or_else(|_| vec![Value::from(text)])
}

fn differences(answers: &[Answer; 2], request: &Request) -> String {
    let [real, ours] = answers;
    let mut out = String::new();
    if real.code != ours.code {
        writeln!(out, "  code: {} < > {}", real.code, ours.code).unwrap();
    }
    for name in HEADERS {
        let (one, other) = (real.headers.get(name), ours.headers.get(name));
        if one != other && !request.ignores.iter().any(|ignored| ignored == name) {
            writeln!(out, "  {name}: {one:?} < > {other:?}").unwrap();
        }
    }
    let plain = |answer: &Answer| -> Vec<Value> {
        let normal = answer.bodies.iter().map(|body| without_map_order(normal(body.clone())));
        normal
            .map(|mut body| {
                request.ignores.iter().for_each(|path| leave_out(&mut body, path));
                body
            })
            .collect()
    };
    let (one, other) = (plain(real), plain(ours));
    if one.len() != other.len() {
        writeln!(out, "  lines: {one:#?} < > {other:#?}").unwrap();
    }
    for (one, other) in one.iter().zip(&other) {
        compare("", one, other, &mut out);
    }
    out
}

/// Faults in the fields of a schema come in the order in which the reference walks a map; so do the rules that hold for
/// somebody.
fn without_map_order(mut body: Value) -> Value {
    if body["kind"] == "Status" && body["details"]["kind"] == "CustomResourceDefinition" {
        if let Some(Value::Array(causes)) = body.pointer_mut("/details/causes") {
            causes.sort_by_key(Value::to_string);
        }
        if let Some((start, _)) = body["message"].as_str().and_then(|text| text.split_once(" is invalid: ")) {
            body["message"] = json!(start);
        }
    }
    for rules in ["/status/resourceRules", "/status/nonResourceRules"] {
        if let Some(Value::Array(rules)) = body.pointer_mut(rules) {
            rules.sort_by_key(Value::to_string);
        }
    }
    body
}

fn compare(path: &str, one: &Value, other: &Value, out: &mut String) {
    match (one, other) {
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
            for key in keys {
                let none = Value::from("(absent)");
                compare(&format!("{path}.{key}"), a.get(key).unwrap_or(&none), b.get(key).unwrap_or(&none), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}[{index}]"), a, b, out);
            }
        }
        (Value::String(a), Value::String(b)) if in_one_order(a) == in_one_order(b) => {}
        _ if one == other => {}
        _ => writeln!(out, "  {path}: {} < > {}", short(one), short(other)).unwrap(),
    }
}

/// Returns the causes that an apply names line by line come in no order: the reference goes through maps, whose order
/// is by chance.
fn in_one_order(text: &str) -> String {
    let Some((head, causes)) = text.split_once("errors:\n") else { return text.to_owned() };
    let mut causes: Vec<&str> = causes.split('\n').collect();
    causes.sort_unstable();
    format!("{head}errors:\n{}", causes.join("\n"))
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    text.chars().take(4_000).collect()
}

/// Without what no two servers have in common: uids, revisions, times, generated names, addresses, prose.
fn normal(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let generated = members.get("generateName").and_then(Value::as_str).map(str::to_owned);
            let column = members.contains_key("priority") && members.contains_key("format");
            let members = members.into_iter().map(|(key, value)| {
                let value = match (key.as_str(), value) {
                    ("uid", Value::String(_)) => json!("(uid)"),
                    ("resourceVersion", Value::String(_)) => json!("(revision)"),
                    ("continue", Value::String(_)) => json!("(token)"),
                    ("token", Value::String(token)) if token.starts_with("ey") => json!("(token)"),
                    ("clusterIP", Value::String(address)) if address.starts_with("10.") => json!("(address)"),
                    ("clusterIPs", Value::Array(_)) => json!("(addresses)"),
                    ("nodePort" | "healthCheckNodePort", Value::Number(_)) => json!("(port)"),
                    ("serverAddress", _) => json!("(server)"),
                    ("description", _) if column => Value::Null,
                    ("name", Value::String(name)) => match &generated {
                        Some(prefix) if name.len() > 5 => json!(format!("({prefix}…)")),
                        _ => Value::String(without_names(&name)),
                    },
                    (_, value) => normal(value),
                };
                (key, value)
            });
            // A condition that is written again within the second keeps its time, and who wrote that first.
            let is_told = |(key, value): &(String, Value)| !value.is_null() && key != "f:lastTransitionTime";
            let members: Map<String, Value> = members.filter(is_told).collect();
            Value::Object(members)
        }
        Value::Array(items) => items.into_iter().map(normal).collect(),
        Value::String(text) if text.parse::<jiff::Timestamp>().is_ok() => json!("(time)"),
        Value::String(text) if text.starts_with("10.0.") && text.parse::<std::net::Ipv4Addr>().is_ok() => {
            json!("(address)")
        }
        Value::String(text) if text.starts_with("[{") => match serde_json::from_str::<Value>(&text) {
            Ok(inner) => inner,
            Err(_) => Value::String(text),
        },
        Value::String(text) => Value::String(without_numbers(&text)),
        other => other,
    }
}

/// Messages carry uids, revisions and ages.
fn without_numbers(text: &str) -> String {
    let text = &without_names(&without_uids(text));
    let words = text.split(' ').map(|word| {
        let bare = word.trim_matches(|c: char| "(),.:".contains(c));
        let seconds = bare.strip_suffix('s').is_some_and(|number| number.parse::<u32>().is_ok());
        if seconds { word.replace(bare, "(age)") } else { word.to_owned() }
    });
    let text: Vec<String> = words.collect();
    let text = text.join(" ");
    match text.find("resource version: ").or_else(|| text.find("ResourceVersion in record")) {
        Some(at) => {
            let (start, end) = text.split_at(at);
            format!("{start}{}", end.chars().filter(|c| !c.is_ascii_digit()).collect::<String>())
        }
        None => text,
    }
}

fn without_uids(text: &str) -> String {
    const SHAPE: &[u8] = b"xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let is_uid = |at: usize| {
        let part = text.as_bytes().get(at..at + SHAPE.len());
        let fits = |(byte, shape): (&u8, &u8)| if *shape == b'x' { byte.is_ascii_hexdigit() } else { byte == shape };
        part.is_some_and(|part| part.iter().zip(SHAPE).all(fits))
    };
    match (0..text.len()).find(|at| is_uid(*at)) {
        Some(at) => format!("{}(uid){}", &text[..at], without_uids(&text[at + SHAPE.len()..])),
        None => text.to_owned(),
    }
}

fn leave_out(value: &mut Value, path: &str) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    if let Value::Array(items) = value {
        items.iter_mut().for_each(|item| leave_out(item, path));
        return;
    }
    let Some(members) = value.as_object_mut() else { return };
    match rest {
        None => drop(members.remove(first)),
        Some(rest) => {
            if let Some(inner) = members.get_mut(first) {
                leave_out(inner, rest);
            }
        }
    }
}
