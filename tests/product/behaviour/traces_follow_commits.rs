//! A commit that has settled is a trace at the collector: the parts of its rollout, their times, and how each ended. Nothing
//! waits for the collector.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use belay::config::Config;
use belay::notices::{self, Collector, Links, Settings};
use belay::telemetry::NoticeLabels;
use expect_test::expect;
use jiff::Timestamp;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::support::canary::{web, with_steps};
use crate::support::daemon::{World, broken, config_map, deployment, short};
use crate::support::receivers::{ReceiverBehaviour, Receivers, Sent};

const HOST: &str = "collector.example";
const STEPS: &str = "1 1m, 50% 2m";

/// A span, as a collector reads it.
struct Span {
    id: String,
    parent: Option<String>,
    name: String,
    start: i128,
    end: i128,
    status: Value,
    attributes: BTreeMap<String, Value>,
}

/// Reads the spans of a request, as strictly as the protocol says. Returns the id of their trace, too.
fn spans(body: &Value) -> (String, Vec<Span>) {
    let all = body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
    let trace = all[0]["traceId"].as_str().unwrap().to_owned();
    let is_id = |id: &str, digits: usize| id.len() == digits && id.bytes().all(|digit| digit.is_ascii_hexdigit());
    assert!(is_id(&trace, 32), "{trace}");
    let read = |span: &Value| {
        let text = |key: &str| span[key].as_str().map(str::to_owned);
        let time = |key: &str| text(key).unwrap().parse::<i128>().unwrap();
        let read = Span {
            id: text("spanId").unwrap(),
            parent: text("parentSpanId"),
            name: text("name").unwrap(),
            start: time("startTimeUnixNano"),
            end: time("endTimeUnixNano"),
            status: span["status"].clone(),
            attributes: attributes(&span["attributes"]),
        };
        assert!(is_id(&read.id, 16) && read.start <= read.end && text("traceId").unwrap() == trace, "{span:#}");
        read
    };
    let read: Vec<Span> = all.iter().map(read).collect();
    for span in &read {
        let parent = |parent: &String| read.iter().find(|one| one.id == *parent).unwrap();
        let is_in = |parent: &Span| parent.start <= span.start && span.end <= parent.end;
        assert!(span.parent.as_ref().is_none_or(|id| is_in(parent(id))), "{} is not within its parent", span.name);
    }
    (trace, read)
}

fn attributes(list: &Value) -> BTreeMap<String, Value> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| {
        let value = &one["value"];
        let text = if value["intValue"].is_string() { &value["intValue"] } else { &value["stringValue"] };
        assert!(text.is_string(), "{one}");
        (one["key"].as_str().unwrap().to_owned(), text.clone())
    })
    .collect()
}

/// Returns a trace as text: a line a span, below its parent, with seconds since its root began, status and cause.
fn as_text(body: &Value) -> String {
    let (_, all) = spans(body);
    let mut text = String::new();
    for root in all.iter().filter(|span| span.parent.is_none()) {
        write_below(&mut text, &all, root, 0, root.start);
    }
    text
}

fn write_below(text: &mut String, all: &[Span], span: &Span, depth: usize, began: i128) {
    let seconds = |at: i128| (at - began) / 1_000_000_000;
    let status = match span.status["code"].as_i64() {
        None => "",
        Some(1) => " ok",
        Some(2) => " ERROR",
        code => panic!("{code:?}"),
    };
    let why = span.status["message"].as_str().map(|why| format!(" {why:?}")).unwrap_or_default();
    let step = span.attributes.get("belay.step").map(|step| format!(" ({})", step.as_str().unwrap()));
    let (from, to) = (seconds(span.start), seconds(span.end));
    let indent = "  ".repeat(depth);
    writeln!(text, "{indent}{} {from}-{to} s{status}{why}{}", span.name, step.unwrap_or_default()).unwrap();
    for child in all.iter().filter(|child| child.parent.as_ref() == Some(&span.id)) {
        write_below(text, all, child, depth + 1, began);
    }
}

/// The task that sends traces of a world.
struct Tracing {
    post: Receivers,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Tracing {
    fn begin(world: &World, post: &Receivers) -> Tracing {
        post.keep_time(&world.clock);
        let text = format!("[[source]]\nrepository = \"/srv\"\n[telemetry]\notlp = \"http://{HOST}:4318\"\n");
        let config = Config::parse(&text, "belay.toml").unwrap();
        let repositories = BTreeMap::from([("shop".to_owned(), "https://git.example.com/shop.git".to_owned())]);
        let collector = Collector::new(&config.telemetry, "belay-1".to_owned(), repositories);
        let links = Links { branches: BTreeMap::from([("shop".to_owned(), "main".to_owned())]), ..Links::default() };
        let (history, clock, metrics) = (world.history().clone(), world.clock.clone(), world.metrics());
        let settings = Settings { history, clock, metrics, links, post: Arc::new(post.clone()) };
        let stop = CancellationToken::new();
        let task = tokio::spawn(notices::tell(Vec::new(), collector, settings, stop.clone()));
        Tracing { post: post.clone(), stop, task }
    }

    fn sent(&self) -> Vec<Sent> {
        self.post.sent(HOST)
    }

    /// Stops, at once, whatever the collector does.
    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(Duration::from_millis(100), self.task).await.expect("it stops at once").unwrap();
    }
}

/// Returns the sample Deployment complete, and a collector of the traces from then on.
async fn traced() -> (World, Tracing) {
    let mut world = World::embedded().await;
    world.with_first_version().await;
    let tracing = Tracing::begin(&world, &Receivers::default());
    pass(1).await;
    (world, tracing)
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn counted(world: &World) -> [u64; 3] {
    let metrics = world.metrics();
    [NoticeLabels::Sent, NoticeLabels::Failed, NoticeLabels::GivenUp].map(|result| metrics.traces(result))
}

#[tokio::test(start_paused = true)]
async fn a_good_commit_is_one_trace() {
    let (mut world, tracing) = traced().await;
    world.repository.write("settings.yaml", config_map("settings", "1"));
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    assert_eq!(tracing.sent().len(), 0, "nothing is sent before it has settled");
    world.through(&second).await;
    pass(15).await;
    let sent = tracing.sent();
    assert_eq!((sent.len(), counted(&world)), (1, [1, 0, 0]));
    assert_eq!(sent[0].path, "/v1/traces");
    expect![[r#"
        commit shop 0-2 s ok
          fetch 0-0 s
          plan 0-0 s
          rollout Deployment default/web 0-2 s ok
          apply ConfigMap default/settings 0-0 s ok
    "#]]
    .assert_eq(&as_text(&sent[0].body));
    let resource = attributes(&sent[0].body["resourceSpans"][0]["resource"]["attributes"]);
    let expected = [
        ("service.instance.id", "belay-1"),
        ("service.name", "belay"),
        ("service.version", env!("CARGO_PKG_VERSION")),
        ("vcs.ref.head.name", "main"),
        ("vcs.ref.head.revision", &second),
        ("vcs.ref.type", "branch"),
        ("vcs.repository.url.full", "https://git.example.com/shop.git"),
    ];
    assert_eq!(resource, expected.map(|(key, value)| (key.to_owned(), Value::from(value))).into());
    let (_, spans) = spans(&sent[0].body);
    let rollout = spans.iter().find(|span| span.name.starts_with("rollout")).unwrap();
    let of_rollout = |key: &str| rollout.attributes.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    assert_eq!(
        ["k8s.namespace.name", "k8s.deployment.name", "belay.outcome", "belay.trigger", "belay.revision"]
            .map(of_rollout),
        ["default", "web", "complete", "new-image", "2"]
    );
    tracing.end().await;
}

/// A canary that fails, in a commit with a Secret, and whose pods write a line into their log.
#[tokio::test(start_paused = true)]
async fn a_commit_that_goes_back_says_where_and_why() {
    let mut world = World::embedded().await;
    let first = world.push("web.yaml", &web(STEPS, "web:1"), "First version");
    world.start();
    world.through(&first).await;
    let tracing = Tracing::begin(&world, &Receivers::default());
    pass(1).await;
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {password: hunter2}\n";
    world.repository.write("keys.yaml", secret);
    let fate = r#"crash-after=40s,code=3,log=\"no database\""#;
    let bad = world.push("web.yaml", &with_steps(STEPS, &broken("web", fate)), "Second version");
    world.through(&bad).await;
    pass(15).await;
    let sent = tracing.sent();
    assert_eq!(sent.len(), 1);
    expect![[r#"
        commit shop 0-51 s ERROR "rolled-back: a new pod has restarted: exit code 3: Error"
          fetch 0-0 s
          plan 0-0 s
          rollout Deployment default/web 0-51 s ERROR "rolled-back: a new pod has restarted: exit code 3: Error"
            canary 0-1 s ok (canary step 1 of 2: 1 new pod)
            bake 1-51 s ERROR (canary step 1 of 2, watched for 1m)
            rollback 51-51 s ok (revision 1 (FIRST First version (Ada)))
          apply Secret default/keys 0-0 s ok
    "#]]
    .assert_eq(&as_text(&sent[0].body).replace(short(&first), "FIRST"));
    let text = sent[0].body.to_string();
    assert!(!text.contains("hunter2") && !text.contains("no database"), "{text}");

    // A later commit goes through each step.
    let third = world.push("web.yaml", &web(STEPS, "web:3"), "Third version");
    world.through(&third).await;
    pass(15).await;
    expect![[r#"
        commit shop 0-184 s ok
          fetch 0-0 s
          plan 0-0 s
          rollout Deployment default/web 0-184 s ok
            canary 0-1 s ok (canary step 1 of 2: 1 new pod)
            bake 1-61 s ok (canary step 1 of 2, watched for 1m)
            canary 61-62 s ok (canary step 2 of 2: 2 new pods)
            bake 62-182 s ok (canary step 2 of 2, watched for 2m)
            canary 182-184 s ok (the canary is over: all pods are replaced)
    "#]]
    .assert_eq(&as_text(&tracing.sent()[1].body));
    tracing.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_becomes_of_it_later_is_in_the_same_trace() {
    let (mut world, tracing) = traced().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    pass(15).await;
    world.undo_to("web:1").await;
    pass(60).await;
    let sent = tracing.sent();
    assert_eq!(sent.len(), 2);
    expect![[r#"
        commit shop, again 0-0 s ERROR "rolled-back: taken back by hand (kubectl-rollout) to revision 3"
          rollout Deployment default/web 0-0 s ERROR "rolled-back: taken back by hand (kubectl-rollout) to revision 3"
            rollback 0-0 s ok (as somebody did by hand)
    "#]]
    .assert_eq(&as_text(&sent[1].body));
    let ((trace, before), (same, after)) = (spans(&sent[0].body), spans(&sent[1].body));
    assert_eq!(trace, same);
    assert!(after.iter().all(|span| before.iter().all(|one| one.id != span.id)), "no span is sent twice");
    tracing.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_is_away_gets_all_traces_when_it_is_back() {
    let (mut world, tracing) = traced().await;
    tracing.post.set(HOST, ReceiverBehaviour::Away);
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    pass(15).await;
    // Its answer is not waited for, either.
    tracing.post.set(HOST, ReceiverBehaviour::Silent);
    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    world.through(&third).await;
    pass(15).await;
    let before = tracing.sent();
    assert_eq!(counted(&world)[0], 0);
    let post = tracing.post.clone();
    tracing.end().await;
    world.kill().await;

    world.start();
    post.set(HOST, ReceiverBehaviour::Takes);
    let tracing = Tracing::begin(&world, &post);
    pass(120).await;
    let after = tracing.sent().split_off(before.len());
    let commit = |sent: &Sent| {
        attributes(&sent.body["resourceSpans"][0]["resource"]["attributes"])["vcs.ref.head.revision"].clone()
    };
    assert_eq!(after.iter().map(commit).collect::<Vec<_>>(), [second, third]);
    assert_eq!(after[0].body, before[0].body, "the same trace, with the same ids");
    tracing.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_trace_is_dropped_and_counted() {
    let (mut world, tracing) = traced().await;
    let mut sent = 0;
    for (number, (status, dropped)) in [(401, 1), (307, 2), (500, 3), (503, 3)].into_iter().enumerate() {
        tracing.post.set(HOST, ReceiverBehaviour::Says(status, None));
        let image = format!("web:{}", number + 2);
        let commit = world.push("web.yaml", &deployment("web", &image, ""), &image);
        world.through(&commit).await;
        pass(8).await;
        sent += 1;
        assert_eq!((tracing.sent().len(), counted(&world)[2]), (sent, dropped), "{status}");
    }
    tracing.post.set(HOST, ReceiverBehaviour::Takes);
    pass(20).await;
    assert_eq!(counted(&world), [1, 1, 3], "only what may pass is tried again");
    tracing.end().await;
}

/// After a day a trace is dropped: a collector that is away for good takes up no room.
#[tokio::test(start_paused = true)]
async fn a_trace_is_given_up_after_a_day() {
    let mut world = World::embedded().await;
    // A day passes.
    world.config.interval = belay::config::Span(Duration::from_mins(1));
    world.with_first_version().await;
    let tracing = Tracing::begin(&world, &Receivers::default());
    pass(1).await;
    tracing.post.set(HOST, ReceiverBehaviour::Away);
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    pass(25 * 3600).await;
    let [sent, failed, given_up] = counted(&world);
    assert_eq!((sent, given_up), (0, 1));
    assert!((20..40).contains(&failed), "{failed}");
    let times: Vec<Timestamp> = tracing.sent().iter().map(|sent| sent.at).collect();
    let gaps: Vec<i64> = times.windows(2).map(|pair| pair[1].duration_since(pair[0]).as_secs()).collect();
    assert!(gaps.is_sorted() && gaps[0] <= 16, "{gaps:?}");
    tracing.end().await;
}
