//! Status and metrics over HTTP, of a running daemon: a hold is there as a value and on the page.

use belay::web::Web;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::daemon::{World, broken, deployment};

pub async fn get(web: &Web, path: &str) -> String {
    ask(web, "GET", path).await
}

async fn ask(web: &Web, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(web.address()).await.unwrap();
    let request =
        format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_seen_by_machines_and_people() {
    let mut world = World::embedded().await;
    let good = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    world.start();
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    world.through(&good).await;
    assert!(get(&web, "/readyz").await.starts_with("HTTP/1.1 200 OK"));
    assert!(get(&web, "/metrics").await.contains("belay_holds{source=\"shop\"} 0\n"));
    let bad = world.push("web.yaml", &broken("web", "never-ready"), "Broken");
    world.through(&bad).await;
    let metrics = get(&web, "/metrics").await;
    assert!(metrics.contains("belay_holds{source=\"shop\"} 1\n"), "{metrics}");
    let hold = format!("kind=\"Deployment\",namespace=\"default\",name=\"web\",commit=\"{bad}\"");
    assert!(metrics.contains(&hold), "{metrics}");
    let counted = "belay_rollouts_total{source=\"shop\",trigger=\"new-image\",outcome=\"rolled-back\"} 1\n";
    assert!(metrics.contains(counted), "{metrics}");
    for line in [
        format!(
            "belay_workload_info{{source=\"shop\",kind=\"Deployment\",namespace=\"default\",name=\"web\",state=\"held\",\
             commit=\"{good}\"}} 1\n"
        ),
        "belay_rollout_duration_seconds_count{source=\"shop\",outcome=\"rolled-back\"} 1\n".to_owned(),
        "belay_commit_to_complete_seconds_count{source=\"shop\"} 1\n".to_owned(),
        "belay_drift_corrections_total{source=\"shop\"} 0\n".to_owned(),
        "belay_fetches_total{source=\"shop\",result=\"error\"} 0\n".to_owned(),
    ] {
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    for counted in [
        "belay_fetches_total{source=\"shop\",result=\"ok\"}",
        "belay_api_requests_total{verb=\"patch\",code=\"200\"}",
        "belay_api_requests_total{verb=\"get\",code=\"200\"}",
    ] {
        let value = metrics.lines().find_map(|line| line.strip_prefix(counted)?.trim().parse::<u64>().ok());
        assert!(value.is_some_and(|value| value > 0), "{counted}: {metrics}");
    }
    let page = get(&web, "/").await;
    assert!(page.contains("Git and the cluster differ, by rollback, since 2026-01-01"), "{page}");
    world.stop().await;
    assert!(get(&web, "/healthz").await.starts_with("HTTP/1.1 500"), "a daemon that has ended is not well");
}

const SECRET: &str = "correct-horse-battery-staple";

/// Nothing is done at anybody's request, and what is kept and shown holds no value of a Secret.
#[tokio::test(start_paused = true)]
async fn it_only_reads_and_neither_keeps_nor_shows_a_secret() {
    let mut world = World::embedded().await;
    let secret = |value: &str| {
        format!("apiVersion: v1\nkind: Secret\nmetadata: {{name: key}}\nstringData: {{KEY: \"{value}\"}}\n")
    };
    let uses = |manifest: String| format!("{manifest}        envFrom: [{{secretRef: {{name: key}}}}]\n");
    world.repository.write("key.yaml", secret(&format!("{SECRET}-1")));
    world.push("web.yaml", &uses(deployment("web", "web:1", "")), "First version");
    world.start();
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let first = world.repository.tip().unwrap();
    world.through(&first).await;
    world.repository.write("key.yaml", secret(&format!("{SECRET}-2")));
    let bad = world.push("web.yaml", &uses(broken("web", "crash-after=1s")), "Broken");
    world.through(&bad).await;
    assert_eq!(world.status().held.len(), 2, "the Deployment, and the Secret that went back with it");
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in ["/", "/metrics", "/healthz", "/webhook", "/api/v1/status", "/api/v1/commits/abc"] {
            assert!(ask(&web, method, path).await.starts_with("HTTP/1.1 405"), "{method} {path}");
        }
    }
    let (commits, page) = (format!("/api/v1/commits/{bad}"), format!("/commits/{bad}"));
    let workload = "/workloads/shop/Deployment/default/web";
    for path in [
        "/",
        "/metrics",
        "/readyz",
        "/api/v1/status",
        "/api/v1/workloads",
        "/api/v1/history",
        &commits,
        "/timeline",
        &page,
        workload,
        "/delivery",
        "/daemon",
    ] {
        let shown = get(&web, path).await;
        assert!(!shown.contains(SECRET) && !shown.contains(&base64(SECRET)), "{path}: {shown}");
    }
    // The page says that it has changed.
    let shown = get(&web, &page).await;
    assert!(shown.contains("*** (before)</del>") && shown.contains("*** (after)</ins>"), "{shown}");
    let state = world.repository.beside("state");
    let mut kept = 0;
    for entry in std::fs::read_dir(&state).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            // A mirror holds what Git holds: nobody else may look into it.
            let mode = std::os::unix::fs::PermissionsExt::mode(&entry.metadata().unwrap().permissions());
            assert_eq!(mode & 0o077, 0, "{:?} is open to others: {mode:o}", entry.path());
            continue;
        }
        let bytes = std::fs::read(entry.path()).unwrap();
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        assert!(!holds(SECRET) && !holds(&base64(SECRET)), "{:?}", entry.path());
        kept += bytes.len();
    }
    assert!(kept > 0, "the history is there");
}

/// As much of the encoded form as does not depend on what follows.
fn base64(text: &str) -> String {
    use base64::Engine as _;
    let whole = text.len() / 3 * 3;
    base64::engine::general_purpose::STANDARD.encode(&text[..whole])
}
