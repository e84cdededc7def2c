//! A real Prometheus, which scrapes pods that answer worse than those of before: the analysis takes the version back.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::time::Instant;

use crate::fixture::Fixture;
use crate::program::{Running, belay};
use crate::support::daemon::deployment;

/// Serves the counters of all pods, as an exporter does. Each answers 50 requests a second; every fifth answer of `web:2` is bad.
async fn export(listener: TcpListener, client: kube::Client) {
    let pods: Api<Pod> = Api::default_namespaced(client);
    let mut since: BTreeMap<String, Instant> = BTreeMap::new();
    while let Ok((mut stream, _)) = listener.accept().await {
        let mut request = [0; 4096];
        drop(stream.read(&mut request).await);
        let mut text = String::from("# TYPE http_requests_total counter\n");
        for pod in pods.list(&ListParams::default()).await.unwrap() {
            let (name, spec) = (pod.metadata.name.unwrap(), pod.spec.unwrap());
            let began = *since.entry(name.clone()).or_insert_with(Instant::now);
            let total = began.elapsed().as_secs_f64() * 50.0;
            let is_bad = spec.containers[0].image.as_deref() == Some("web:2");
            let bad = total * if is_bad { 0.2 } else { 0.001 };
            for (code, count) in [("200", total - bad), ("500", bad)] {
                writeln!(text, "http_requests_total{{pod=\"{name}\",code=\"{code}\"}} {}", count.floor()).unwrap();
            }
        }
        let answer = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{text}",
            text.len()
        );
        drop(stream.write_all(answer.as_bytes()).await);
    }
}

/// Starts Prometheus on a port of its own. Returns it with its address; `None` where it is not installed.
fn prometheus(home: &Path, exporter: &str) -> Option<(Running, String)> {
    let config = format!(
        "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: pods, static_configs: [{{targets: [\"{exporter}\"]}}]}}]\n"
    );
    fs::write(home.join("prometheus.yml"), config).unwrap();
    let mut command = Command::new("prometheus");
    command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"]);
    command.current_dir(home).stdout(Stdio::null()).stderr(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: prometheus is not installed");
        return None;
    };
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let running = Running(child);
    let listens = lines.by_ref().map_while(Result::ok).find(|line| line.contains("\"Listening on\"")).unwrap();
    let (_, address) = listens.split_once("address=").unwrap();
    let address = address.trim().to_owned();
    // Its log is read on, so that it is never kept waiting for a reader.
    std::thread::spawn(move || lines.map_while(Result::ok).for_each(drop));
    Some((running, address))
}

fn configure(stage: &Fixture, prometheus: &str) {
    let repository = stage.repository.path().display();
    let text = format!(
        r#"
[[source]]
name = "shop"
repository = "{repository}"
interval = "1s"
bake = "30s"
analysis = ["errors", "up"]

[[analysis]]
name = "errors"
prometheus = "http://{prometheus}"
bad = 'http_requests_total{{pod=~"{{{{pods}}}}",code=~"5.."}}'
total = 'http_requests_total{{pod=~"{{{{pods}}}}"}}'
interval = "5s"

[[analysis]]
name = "up"
prometheus = "http://{prometheus}"
query = 'count(http_requests_total{{pod=~"{{{{pods}}}}"}})'
min = 1
interval = "5s"
"#
    );
    fs::write(stage.home.path().join("belay.toml"), text).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_prometheus_shows_that_a_version_is_worse() {
    let mut stage = Fixture::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let exporter = listener.local_addr().unwrap().to_string();
    let exporting = tokio::spawn(export(listener, stage.cluster.client()));
    let Some((_prometheus, address)) = prometheus(stage.home.path(), &exporter) else { return };
    configure(&stage, &address);
    let mut command = belay(stage.home.path());
    command.args(["run", "--config", "belay.toml"]).args(stage.globals());
    command.stdout(Stdio::null()).stderr(fs::File::create(stage.home.path().join("log")).unwrap());
    let _daemon = Running(command.spawn().unwrap());

    let first = stage.repository.commit_file("web.yaml", &deployment("web", "web:1", ""), "First version");
    stage.repository.push();
    // There are no old pods to compare with: the bake time ends when that has been waited for, and nothing is wrong.
    let waited = stage.run(&["status", "--commit", &first, "--wait", "--timeout", "5s"]);
    assert_eq!(waited.code, 4, "it bakes: {waited:?}");
    let good = stage.repository.commit_file("web.yaml", &deployment("web", "web:1b", ""), "As good as the first");
    stage.repository.push();
    // The old pods of the bad version are those of this one, which have run for a bake time when it is complete.
    let waited = stage.run(&["status", "--commit", &good, "--wait", "--timeout", "120s"]);
    assert_eq!(waited.code, 0, "{waited:?}\n{}", stage.log());
    let bad = stage.repository.commit_file("web.yaml", &deployment("web", "web:2", ""), "Every fifth answer is bad");
    stage.repository.push();
    let waited = stage.run(&["status", "--commit", &bad, "--wait", "--timeout", "90s"]);
    let shown = stage.run(&["show", &bad, "--steps"]);
    assert_eq!(waited.code, 3, "{waited:?}\n{shown:?}\n{}", stage.log());
    for part in ["rolled-back", "bad answers of", "1.25 times the old error rate", "errors: fail", "up: pass"] {
        assert!(shown.out.contains(part), "{part:?} is missing: {}", shown.out);
    }
    assert!(!shown.out.contains("up: none"), "the way back is not measured: {}", shown.out);
    let verified = stage.run(&["show", &bad, "--verify"]);
    assert!(verified.code == 0 && verified.out.contains("each as recorded"), "{verified:?}");
    exporting.abort();
}
