//! JSON over HTTP of a running daemon: what `-o json` prints, by the schemas of its OpenAPI document.

use belay::web::Web;
use serde_json::Value;

use crate::schema::fits;
use crate::shows_itself_over_http::get;
use crate::support::daemon::{World, broken, deployment};

/// Returns the code and the body of an answer.
async fn ask(web: &Web, path: &str) -> (u16, Value) {
    let answer = get(web, path).await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    // Longer bodies come in pieces, each with its length.
    let chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    assert!(!chunked, "{head}");
    (code, serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {body}")))
}

#[tokio::test(start_paused = true)]
async fn by_the_schemas_of_its_document() {
    let (mut world, good) = World::with_web().await;
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    let worse = world.push("worse.yaml", "kind: [", "Worse");
    world.through(&worse).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let (_, document) = ask(&web, "/api/v1/openapi.json").await;
    let printed = belay::cli::schemas();
    for (path, of, command) in [
        ("/api/v1/status", "/api/v1/status", Some("status")),
        ("/api/v1/workloads?state=held", "/api/v1/workloads", None),
        ("/api/v1/history?since=7d&failed=true", "/api/v1/history", Some("history")),
        (&format!("/api/v1/commits/{}", &bad[..9]), "/api/v1/commits/{sha}", Some("show")),
        ("/api/v1/history?since=2020-01-01&until=2020-01-02T08:00:00Z", "/api/v1/history", Some("history")),
        ("/api/v1/stats?since=2020-01-01&until=2020-02-01", "/api/v1/stats", Some("history --stats")),
        ("/api/v1/stats?by=workload", "/api/v1/stats", Some("history --stats")),
    ] {
        let (code, answer) = ask(&web, path).await;
        assert_eq!(code, 200, "{path}: {answer}");
        let schema = &document["paths"][of]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        fits(&answer, schema, &document, "").unwrap_or_else(|why| panic!("{path}: {why}: {answer:#}"));
        if let Some(schema) = command.map(|command| &printed[command]) {
            fits(&answer, schema, schema, "").unwrap_or_else(|why| panic!("{path}: {why}: {answer:#}"));
        }
    }
    let (_, status) = ask(&web, "/api/v1/status").await;
    assert_eq!(status["sources"][0]["state"], "degraded");
    assert_eq!(status["workloads"][0]["state"], "held");
    assert_eq!(status["workloads"][0]["commit"], good, "the commit whose pods run");
    assert_eq!(status["workloads"][0]["desired"], 2);
    assert_eq!(status["objects"][0]["state"], "rejected");
    let (_, workloads) = ask(&web, "/api/v1/workloads?name=web&namespace=default&source=shop").await;
    assert_eq!(workloads["workloads"][0], status["workloads"][0]);
    assert_eq!(ask(&web, "/api/v1/workloads?state=complete").await.1["workloads"], serde_json::json!([]));
    let (_, commit) = ask(&web, &format!("/api/v1/commits/{bad}")).await;
    assert_eq!(commit["records"][0]["outcome"], "rolled-back");
    assert!(commit["records"][0]["evidence"]["pods"][0]["name"].is_string(), "{commit:#}");
    let (_, stats) = ask(&web, "/api/v1/stats").await;
    assert_eq!((&stats["stats"][0]["rollouts"], &stats["stats"][0]["failures"]), (&2.into(), &1.into()));
}

#[tokio::test(start_paused = true)]
async fn a_page_of_records_at_a_time() {
    let (mut world, first) = World::with_web().await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second");
    world.through(&second).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let (_, newest) = ask(&web, "/api/v1/history?limit=1").await;
    let records = newest["records"].as_array().unwrap();
    assert_eq!((records.len(), &records[0]["commit"]), (1, &second.into()));
    let (_, older) = ask(&web, &format!("/api/v1/history?limit=9&before={}", records[0]["id"])).await;
    let commits: Vec<&Value> = older["records"].as_array().unwrap().iter().map(|record| &record["commit"]).collect();
    assert_eq!(commits, [&Value::from(first)]);
}

/// `since` and `until` are read as `belay history` reads them: a length of time, a date, a time.
#[tokio::test(start_paused = true)]
async fn of_a_period() {
    let (world, _) = World::with_web().await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let (_, all) = ask(&web, "/api/v1/history").await;
    let began: jiff::Timestamp = all["records"][0]["started"].as_str().unwrap().parse().unwrap();
    let second = jiff::SignedDuration::from_secs(1);
    for (period, count) in [
        (format!("since={began}"), 1),
        (format!("since={}", began + second), 0),
        (format!("until={}", began + second), 1),
        (format!("until={began}"), 0),
        ("since=2000-01-01".to_owned(), 1),
        ("until=2000-01-01".to_owned(), 0),
        ("since=1d".to_owned(), 1),
    ] {
        let (code, answer) = ask(&web, &format!("/api/v1/history?{period}")).await;
        assert_eq!((code, answer["records"].as_array().unwrap().len()), (200, count), "{period}: {answer:#}");
        let (_, stats) = ask(&web, &format!("/api/v1/stats?{period}")).await;
        let counted: u64 = stats["stats"].as_array().unwrap().iter().filter_map(|line| line["rollouts"].as_u64()).sum();
        assert_eq!(counted, count as u64, "{period}: {stats:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_with_a_question_is_said() {
    let (world, first) = World::with_web().await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    for (path, code, said) in [
        ("/api/v1/history?sinse=7d", 400, "sinse"),
        ("/api/v1/history?since=yesterday", 400, "yesterday"),
        ("/api/v1/history?since=99999999999999d", 400, "since"),
        ("/api/v1/history?until=2026-13-01", 400, "write a date (2026-11-19)"),
        ("/api/v1/history?since=1h&until=2h", 400, "is not after since"),
        ("/api/v1/stats?until=99999999999999d", 400, "until"),
        ("/api/v1/history?kind=Deployment", 400, "name"),
        ("/api/v1/commits/ffffffffff", 404, "no commit"),
        ("/api/v1/commits/..%2F..%2Fetc", 404, "no commit"),
    ] {
        let (answered, answer) = ask(&web, path).await;
        assert_eq!(answered, code, "{path}: {answer}");
        assert!(answer["error"].as_str().unwrap().contains(said), "{path}: {answer}");
    }
    std::fs::remove_file(world.repository.beside("state").join("history.db")).unwrap();
    let (code, answer) = ask(&web, &format!("/api/v1/commits/{first}")).await;
    assert_eq!(code, 503, "{answer}");
}
