//! Traces: the spans of records, their ids and bounds, and a collector on loopback.

use std::net::TcpListener;
use std::time::Duration;

use expect_test::expect;
use jiff::Timestamp;
use serde_json::json;

use super::{answering, file};
use crate::config::Config;
use crate::history::{Arrival, FetchTimes};
use crate::notices::collector::Collector;
use crate::notices::commit_trace::{SPANS, SettledCommit, TraceSpan};
use crate::notices::delivery::{HttpAnswer, Post as _, SendError};
use crate::notices::otlp::{export_request, rejected_spans};
use crate::notices::send::Http;
use belay_core::manifest::ObjectKey;
use belay_core::rollout::{CommitId, Evidence, Outcome, PodSeen, Reason, ReasonCode, Record, RecordId, Step, StepKind};

fn commit() -> CommitId {
    "1a2b3c4d5e6f708192a3b4c5d6e7f8091a2b3c4d".parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + second).unwrap()
}

fn object(group: &str, kind: &str, name: &str) -> ObjectKey {
    let namespace = Some("shop".to_owned());
    ObjectKey { group: group.to_owned(), kind: kind.to_owned(), namespace, name: name.to_owned() }
}

fn ended(id: i64, object: ObjectKey, outcome: Outcome, from: i64, to: i64) -> Record {
    let rolls_out = object.kind == "Deployment";
    let planned = Record::planned("shop", &commit(), object, at(from));
    Record { id: RecordId(id), outcome, rolls_out, ended: Some(at(to)), ..planned }
}

fn step(second: i64, kind: StepKind, detail: &str) -> Step {
    Step { at: at(second), kind, detail: detail.to_owned() }
}

/// A canary whose pods crash in its second step, and a ConfigMap.
fn settled() -> SettledCommit {
    let reason = "it failed within canary step 2 of 2: pod web-1 is Error (container app, exit code 3): no database";
    let pod = PodSeen { name: "web-1".to_owned(), log: vec!["no database".to_owned()], ..PodSeen::default() };
    let web = Record {
        reason: Some(Reason::new(ReasonCode::CanaryFailed, reason)),
        revision: Some(7),
        evidence: Some(Evidence { pods: vec![pod], ..Evidence::default() }),
        ..ended(1, object("apps", "Deployment", "web"), Outcome::RolledBack, 5, 100)
    };
    let steps = vec![
        step(6, StepKind::Applying, ""),
        step(6, StepKind::Canary, "canary step 1 of 2: 1 new pod"),
        step(7, StepKind::Applied, "as generation 2"),
        step(8, StepKind::Progress, "1 of 1"),
        step(10, StepKind::Baking, "watched until 00:01:10"),
        step(70, StepKind::Canary, "canary step 2 of 2: 2 new pods"),
        step(80, StepKind::Verdict, reason),
        step(80, StepKind::Evidence, "pods: 1, events: 0"),
        step(81, StepKind::GoingBack, "to revision 6"),
        step(82, StepKind::WentBack, "as generation 4"),
    ];
    let settings = ended(2, object("", "ConfigMap", "settings"), Outcome::Complete, 5, 6);
    SettledCommit {
        instance: "belay-1".to_owned(),
        source: "shop".to_owned(),
        commit: commit(),
        subject: Some("Faster images".to_owned()),
        outcome: Outcome::RolledBack,
        objects: 2,
        arrival: Some(Arrival {
            source: "shop".to_owned(),
            head: commit(),
            at: at(5),
            fetch: Some(FetchTimes { began: at(0), ended: at(1) }),
        }),
        is_again: false,
        records: vec![(web, steps), (settings, Vec::new())],
    }
}

fn line(span: &TraceSpan) -> String {
    let seconds = |time: Timestamp| time.as_second() - at(0).as_second();
    let attributes: Vec<String> = span.attributes.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let events: Vec<String> = span.events.iter().map(|(time, name)| format!("{name} {} s", seconds(*time))).collect();
    let parent = span.parent.as_deref().unwrap_or("none");
    let (from, to) = (seconds(span.start), seconds(span.end));
    let first = format!("{} < {parent}: {} {from}-{to} s {:?}", span.id, span.name, span.status);
    let details = [attributes.join(" "), events.join(", ")].into_iter().filter(|details| !details.is_empty());
    let details: String = details.map(|details| format!("  {details}\n")).collect();
    format!("{first}\n{details}")
}

#[test]
fn the_spans_of_a_commit_follow_from_its_records() {
    let text: String = settled().spans().iter().map(line).collect();
    expect![[r#"
        47d07ead9f7a4b42 < none: commit shop 0-100 s Error("rolled-back: a new pod crashes: exit code 3")
          belay.source="shop" belay.outcome="rolled-back" belay.objects=2 belay.commit.subject="Faster images"
        cb30e9eb059e0cfe < 47d07ead9f7a4b42: fetch 0-1 s Unset
        4e4753cf3e13df1c < 47d07ead9f7a4b42: plan 1-5 s Unset
        22256455584a2e85 < 47d07ead9f7a4b42: rollout Deployment shop/web 5-100 s Error("rolled-back: a new pod crashes: exit code 3")
          k8s.namespace.name="shop" k8s.deployment.name="web" belay.object.kind="Deployment" belay.outcome="rolled-back" belay.trigger="commit" belay.reason="CanaryFailed" belay.revision=7
          applying 6 s, applied 7 s, verdict 80 s, evidence saved 80 s, went back 82 s
        56a872de987a84f5 < 47d07ead9f7a4b42: apply ConfigMap shop/settings 5-6 s Ok
          k8s.namespace.name="shop" belay.object.name="settings" belay.object.kind="ConfigMap" belay.outcome="complete" belay.trigger="commit"
        a6d6afd7d1075c26 < 22256455584a2e85: canary 6-10 s Ok
          belay.step="canary step 1 of 2: 1 new pod"
        5e3a5140fc0ea7cc < 22256455584a2e85: bake 10-70 s Ok
          belay.step="watched until 00:01:10"
        6cb7defd3cbfec67 < 22256455584a2e85: canary 70-80 s Error("")
          belay.step="canary step 2 of 2: 2 new pods"
        ab77137f26c98ceb < 22256455584a2e85: rollback 81-100 s Ok
          belay.step="to revision 6"
    "#]].assert_eq(&text);
}

#[test]
fn ids_are_the_same_after_a_restart_and_another_daemons_are_others() {
    let (one, same) = (settled(), settled());
    assert_eq!((one.trace_id(), one.spans()), (same.trace_id(), same.spans()));
    let others = [
        SettledCommit { instance: "belay-2".to_owned(), ..settled() },
        SettledCommit { source: "site".to_owned(), ..settled() },
        SettledCommit { commit: "89abcdef0123456789abcdef0123456789abcdef".parse().unwrap(), ..settled() },
    ];
    for other in others {
        assert_ne!(one.trace_id(), other.trace_id());
        assert!(one.spans().iter().zip(other.spans()).all(|(one, other)| one.id != other.id));
    }
    let again = SettledCommit { is_again: true, arrival: None, ..settled() };
    assert_eq!(one.trace_id(), again.trace_id());
    let roots = [one, again].map(|commit| commit.spans().remove(0));
    assert_ne!(roots[0].id, roots[1].id);
    assert_eq!((roots[1].name.as_str(), roots[1].start), ("commit shop, again", at(5)));
}

#[test]
fn a_trace_is_bounded_and_its_times_are_in_order() {
    let records = |count: i64| {
        let steps = || (0..100).map(|second| step(second, StepKind::Canary, "canary")).collect();
        (0..count)
            .map(|id| (ended(id, object("apps", "Deployment", "web"), Outcome::Complete, 5, 3), steps()))
            .collect()
    };
    let large = SettledCommit { records: records(300), outcome: Outcome::Complete, ..settled() };
    let spans = large.spans();
    assert_eq!(spans.len(), SPANS);
    assert_eq!(spans.iter().filter(|span| span.name.starts_with("rollout")).count(), 300, "objects come first");
    // A clock that was set back makes no span that ends before it begins.
    assert!(spans.iter().all(|span| span.start <= span.end));
    let nothing = SettledCommit { records: Vec::new(), ..settled() };
    assert!(nothing.spans().is_empty());
}

#[test]
fn a_span_is_json_as_otlp_has_it() {
    let spans = settled().spans();
    let body = export_request("0123456789abcdef0123456789abcdef", &spans[..1], vec![("vcs.ref.type", "branch".into())]);
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let version = env!("CARGO_PKG_VERSION");
    let span = json!({
        "traceId": "0123456789abcdef0123456789abcdef",
        "spanId": "47d07ead9f7a4b42",
        "name": "commit shop",
        "kind": 1,
        "startTimeUnixNano": "1767225600000000000",
        "endTimeUnixNano": "1767225700000000000",
        "attributes": [
            text("belay.source", "shop"),
            text("belay.outcome", "rolled-back"),
            {"key": "belay.objects", "value": {"intValue": "2"}},
            text("belay.commit.subject", "Faster images"),
        ],
        "events": [],
        "status": {"code": 2, "message": "rolled-back: a new pod crashes: exit code 3"},
    });
    let resource = [text("service.name", "belay"), text("service.version", version), text("vcs.ref.type", "branch")];
    let scope = json!({"name": "belay", "version": version});
    let scoped = json!({"scope": scope, "spans": [span]});
    assert_eq!(body, json!({"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": [scoped]}]}));
    let child = export_request("0123456789abcdef0123456789abcdef", &spans[3..4], Vec::new());
    let child = &child["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(child["parentSpanId"], "47d07ead9f7a4b42");
    assert_eq!(child["events"][0], json!({"timeUnixNano": "1767225606000000000", "name": "applying"}));
}

#[test]
fn a_collector_may_leave_spans_out() {
    for (answer, left_out) in [
        ("", None),
        ("{}", None),
        (r#"{"partialSuccess":{}}"#, None),
        (r#"{"partialSuccess":{"rejectedSpans":"0","errorMessage":"old"}}"#, None),
        (r#"{"partialSuccess":{"rejectedSpans":"3","errorMessage":"too long"}}"#, Some(("3", "too long"))),
        (r#"{"partialSuccess":{"rejectedSpans":3}}"#, Some(("3", ""))),
        (r#"{"partialSuccess":{"rejectedSpans":"3","err…"#, None),
    ] {
        let left_out = left_out.map(|(spans, why): (&str, &str)| (spans.to_owned(), why.to_owned()));
        assert_eq!(rejected_spans(answer), left_out, "{answer}");
    }
}

/// Sends a trace to a collector at this address, with a token.
async fn sent(address: &str, token: &str) -> Result<HttpAnswer, SendError> {
    let text =
        format!("[[source]]\nrepository = \"/srv\"\n[telemetry]\notlp = \"{address}\"\ntoken_file = {token:?}\n");
    let config = Config::parse(&text, "belay.toml").unwrap().telemetry;
    let collector = Collector::new(&config, "belay-1".to_owned(), Default::default()).unwrap();
    Http::new().post(collector.delivery(b"{}".to_vec())?).await
}

#[tokio::test]
async fn a_token_goes_to_the_collector_and_nowhere_else() {
    let folder = tempfile::tempdir().unwrap();
    let token = file(folder.path(), "token", "s3cret-token\n");
    let (port, received) = answering("HTTP/1.1 200 OK\r\ncontent-length: 21\r\n\r\n{\"partialSuccess\":{}}");
    let answer = sent(&format!("http://127.0.0.1:{port}/otlp"), &token).await.unwrap();
    assert_eq!((answer.status, rejected_spans(&answer.text)), (200, None));
    let received = received.join().unwrap();
    assert!(received.starts_with("POST /otlp/v1/traces HTTP/1.1\r\n"), "{received}");
    for header in ["authorization: Bearer s3cret-token\r\n", "content-type: application/json\r\n"] {
        assert!(received.contains(header), "{header}: {received}");
    }

    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let location = elsewhere.local_addr().unwrap();
    let redirect = format!(
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{location}/v1/traces\r\ncontent-length: 12\r\n\r\ns3cret-token"
    );
    let (port, received) = answering(redirect);
    let answer = sent(&format!("http://127.0.0.1:{port}"), &token).await.unwrap();
    assert_eq!(answer.to_string(), "307 Temporary Redirect (redirects are not followed): …");
    received.join().unwrap();
    elsewhere.set_nonblocking(true).unwrap();
    assert!(elsewhere.accept().is_err(), "nobody was redirected");

    let error = sent("http://127.0.0.1:1", "/nowhere/token").await.unwrap_err().to_string();
    assert!(error.contains("/nowhere/token") && error.contains("No such file"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_collector_that_never_answers_is_waited_for_with_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let token = file(folder.path(), "token", "s3cret-token\n");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let began = tokio::time::Instant::now();
    let error = sent(&format!("http://{}", silent.local_addr().unwrap()), &token).await.unwrap_err();
    assert_eq!(error.to_string(), "127.0.0.1 did not answer within 20 s");
    assert_eq!(began.elapsed(), Duration::from_secs(20));
}
