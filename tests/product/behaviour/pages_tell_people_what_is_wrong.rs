//! The pages for people, of a running daemon, as they are without scripts.

use belay::history::Retention;
use belay::web::Web;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::shows_itself_over_http::get;
use crate::support::daemon::{World, broken, config_map, deployment, short};

pub async fn page(web: &Web, path: &str) -> String {
    let answer = get(web, path).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{path}: {answer}");
    answer
}

pub fn shows(page: &str, all: &[&str]) {
    for text in all {
        assert!(page.contains(text), "{text:?} is not in {page}");
    }
}

/// A picture that begins in the middle of a rollout says so.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_picture_says_since_when_it_is_drawn() {
    let (mut world, _) = World::with_web().await;
    let cut = "belay was started";
    {
        let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
        world.push("web.yaml", &broken("web", "never-ready"), "Never ready");
        world.until("it moves", |source| !source.under_way.is_empty()).await;
        tokio::time::sleep(std::time::Duration::from_secs(20)).await;
        let seen = page(&web, "/workloads/shop/Deployment/default/web").await;
        assert!(seen.contains("<svg class=\"progress\"") && !seen.contains(cut), "{seen}");
    }
    world.kill().await;
    world.start();
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    world.until("it goes on", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let seen = page(&web, "/workloads/shop/Deployment/default/web").await;
    shows(&seen, &["<svg class=\"progress\"", ", which began <time", cut, "draws what it saw since"]);
}

#[tokio::test(start_paused = true)]
async fn from_the_overview_to_the_evidence() {
    let (mut world, good) = World::with_web().await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    shows(&page(&web, "/").await, &["<title>1 ok · belay</title>", "synced", "●●</span> 2/2"]);
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let bad = world.push("web.yaml", &broken("web", "crash-after=1s"), "Break <it>");
    world.until("it moves", |source| !source.under_way.is_empty()).await;
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    let moving = page(&web, "/workloads/shop/Deployment/default/web").await;
    shows(&moving, &["Rollout under way", "<svg class=\"progress\"", "class=\"deadline\"", "unless something moves"]);
    world.through(&bad).await;
    let overview = page(&web, "/").await;
    shows(&overview, &["<title>1 held · belay</title>", "/icon/back.svg", "degraded", "Break &#60;it&#62;"]);
    shows(&overview, &["Git and the cluster differ, by rollback, since 2026-01-01", "</i> held</span>"]);
    shows(&overview, &[": exit code 1", "belay retry deployment/web -n default"]);
    // The row names both commits: the one that runs, and the one that failed.
    let both = format!(
        "runs <a href=\"/commits/{good}\"><code>{}</code></a>, wants <a href=\"/commits/{bad}\">",
        short(&good)
    );
    shows(&overview, &[&both, "href=\"/?state=held\""]);
    let timeline = page(&web, "/timeline").await;
    let lines: Vec<usize> = [&bad, &good].iter().map(|id| timeline.find(&format!("/commits/{id}")).unwrap()).collect();
    assert!(lines[0] < lines[1], "the newest comes first");
    shows(&timeline, &["rolled-back", "complete", "Break &#60;it&#62;"]);
    let commit = page(&web, &format!("/commits/{}", &bad[..10])).await;
    shows(
        &commit,
        &["rolled-back, held", "back to <a", "Evidence", "<h3>Pod web-", "belay retry deployment/web -n default"],
    );
    shows(
        &commit,
        &[
            &format!("https://git.example.com/shop/commit/{bad}"),
            "exit code",
            "spec.template.spec.containers[0].image",
            "web:1</del>",
            "web:2</ins>",
        ],
    );
    let workload = page(&web, "/workloads/shop/Deployment/default/web").await;
    shows(&workload, &["</i> held</span>", "<small>present</small>", "belay retry deployment/web -n default"]);
    shows(&workload, &["Git and the cluster differ, by rollback, since 2026-01-01", "<td>Running</td>"]);
    assert!(
        !workload.contains("belay undo"),
        "each earlier revision has failed, so that it would be refused: {workload}"
    );
    // Each revision with its commit and what became of that.
    let (_, revisions) = workload.split_once("<h2 id=\"revisions\">").unwrap();
    let (revisions, _) = revisions.split_once("</table>").unwrap();
    for (revision, commit, outcome) in [("3 <small>present</small>", &good, "complete"), ("2", &bad, "rolled-back")] {
        let row = revisions.split("<tr>").find(|row| row.contains(&format!("<th scope=\"row\">{revision}</th>")));
        let row = row.unwrap_or_else(|| panic!("revision {revision} is not in {revisions}"));
        assert!(row.contains(&format!("/commits/{commit}")) && row.contains(outcome), "{row}");
    }
    assert!(
        commit.contains("<h3>Events</h3>") && !commit.contains("RolloutComplete"),
        "of this rollout only: {commit}"
    );
    for path in [
        "/nothing",
        "/commits/ffffffff",
        "/workloads/shop/Deployment/default/other",
        "/workloads/other/Deployment/default/web",
    ] {
        let answer = get(&web, path).await;
        assert!(
            answer.starts_with("HTTP/1.1 404") && answer.contains("<h1>There is no such page</h1>"),
            "{path}: {answer}"
        );
    }
}

/// After the fix the page offers an undo, and timeline, delivery metrics and the daemon's page have what there was.
#[tokio::test(start_paused = true)]
async fn after_the_fix_the_pages_have_what_there_was() {
    let (mut world, _) = World::with_web().await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let bad = world.push("web.yaml", &broken("web", "crash-after=1s"), "Break <it>");
    world.through(&bad).await;
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Fix it");
    world.through(&fix).await;
    let fixed = page(&web, "/workloads/shop/Deployment/default/web").await;
    shows(&fixed, &["belay undo deployment/web -n default"]);
    assert!(!fixed.contains("belay retry"), "nothing is held: {fixed}");
    shows(&page(&web, "/delivery").await, &["33 %", "<svg class=\"bars\"", "Rollouts a month. Jan 2026: 3"]);
    shows(&page(&web, "/daemon").await, &["Last fetch", "this daemon has it", "Kubernetes"]);
    let filtered = |query: &str| format!("/timeline?{query}");
    let subjects = ["First version", "Break &#60;it&#62;", "Fix it"];
    for (query, shown) in [
        ("author=nobody", [false, false, false]),
        ("state=rolled-back", [false, true, false]),
        ("workload=default/web", [true, true, true]),
        ("workload=default/other&source=shop", [false, false, false]),
    ] {
        let timeline = page(&web, &filtered(query)).await;
        assert_eq!(subjects.map(|subject| timeline.contains(subject)), shown, "{query}: {timeline}");
    }
    shows(&page(&web, "/timeline").await, &["took ", ">Deployment default/web</a>"]);
}

/// The page shows the parts of a new ConfigMap that pods do not notice, with the command that helps.
#[tokio::test(start_paused = true)]
async fn what_a_workload_has_not_noticed() {
    let mut world = World::embedded().await;
    let map = |value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata: {{KEY: \"{value}\"}}\n")
    };
    let reads = format!("{}        envFrom: [{{configMapRef: {{name: settings}}}}]\n", deployment("web", "web:1", ""));
    world.repository.write("settings.yaml", map("1"));
    let first = world.push("web.yaml", &reads, "First version");
    world.start();
    world.through(&first).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let address = "/workloads/shop/Deployment/default/web";
    assert!(!page(&web, address).await.contains("will not notice"));
    let change = world.push("settings.yaml", &map("2"), "Another value");
    world.through(&change).await;
    let said = ["will not notice before it restarts", "<code>belay restart deployment/web -n default</code>"];
    shows(&page(&web, address).await, &said);
    shows(&page(&web, &format!("/commits/{change}")).await, &said);
}

/// Anybody who writes commits, manifests and logs writes into these pages.
#[tokio::test(start_paused = true)]
async fn hostile_texts_do_no_harm() {
    let mut world = World::embedded().await;
    let hostile = "</title><script>alert(1)</script>\"'><img src=x onerror=alert(1)> \u{202e}evil\u{2066}\u{200b}";
    world.repository.write("<b onmouseover=alert(1)>.yaml", "kind: [\"<script>alert(2)</script>");
    let manifest = deployment("web", "web:1", "").replacen(
        "metadata:",
        "metadata:\n  annotations: {belay.dev/suspend: \"<script>alert(3)</script>\"}",
        1,
    );
    let bad = world.push("web.yaml", &manifest, hostile);
    world.start();
    world.through(&bad).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let commit = format!("/commits/{bad}");
    for path in [
        "/",
        "/timeline",
        &commit,
        "/delivery",
        "/daemon",
        "/timeline?author=%3Cscript%3E&workload=%22%3E&state=%3Cscript%3E",
        "/?q=%3Cscript%3Ealert(4)&state=%22%3E%3Cscript%3E",
        "/commits/%3Cscript%3E",
    ] {
        let answer = get(&web, path).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        for tag in ["<script>", "<img", "<b on", "</title><s", "alert(1)</script>"] {
            assert!(!body.contains(tag), "{path}: {tag} in {body}");
        }
        if ["/", "/timeline", &commit].contains(&path) {
            assert!(body.contains("&#60;script&#62;alert(1)&#60;/script&#62;"), "{path}: it is not even there: {body}");
        }
        assert!(!body.contains(['\u{202e}', '\u{2066}', '\u{200b}']), "{path}: {body}");
        assert_eq!(body.matches("<script").count(), 1, "{path}: {body}");
        assert!(
            head.contains("content-security-policy: default-src 'none'; style-src 'self'; script-src 'self';"),
            "{head}"
        );
        assert!(!head.contains("unsafe-inline") && !body.contains(" style=") && !body.contains("<style"), "{path}");
    }
}

/// A line or a number that lacks what was forgotten says so.
#[tokio::test(start_paused = true)]
async fn what_is_no_longer_kept_is_told() {
    let mut world = World::embedded().await;
    world.repository.write("web.yaml", deployment("web", "web:1", ""));
    let first = world.repository.commit("First version");
    let second = world.push("a.yaml", &config_map("a", "1"), "Settings");
    world.start();
    world.through(&second).await;
    let mut newest = second.clone();
    for value in ["2", "3"] {
        newest = world.push("a.yaml", &config_map("a", value), "Other settings");
        world.through(&newest).await;
    }
    let kept = {
        let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
        let timeline = page(&web, "/timeline").await;
        assert!(!timeline.contains("no longer kept") && !timeline.contains("changed nothing here"), "{timeline}");
        assert!(!page(&web, "/delivery").await.contains("are kept"));
        page(&web, "/api/v1/stats").await
    };
    assert!(kept.contains("\"keptSince\":null"), "{kept}");
    world.stop().await;
    world.retention = Retention { age: None, records: Some(1) };
    world.start();
    world.through(&newest).await;
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let timeline = page(&web, "/timeline").await;
    let line = |commit: &str| timeline.lines().find(|line| line.contains(&format!("/commits/{commit}"))).unwrap();
    assert!(line(&second).contains("shop: its records are no longer kept"), "{timeline}");
    assert!(line(&first).contains("shop: 1 complete"), "{timeline}");
    assert!(line(&newest).contains("shop: 1 complete"), "{timeline}");
    shows(&page(&web, "/delivery").await, &["Not all records from before 2026-01-01", "are kept"]);
    shows(&page(&web, "/api/v1/stats").await, &["\"keptSince\":\"2026-01-01T"]);
}

/// A page that is open hears of a change within moments, and of the end of the daemon.
#[tokio::test(start_paused = true)]
async fn open_pages_hear_of_changes() {
    let (mut world, _) = World::with_web().await;
    let web = Web::open("127.0.0.1:0".parse().unwrap(), &[], world.shown()).await.unwrap();
    let mut stream = TcpStream::connect(web.address()).await.unwrap();
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut told = String::new();
    hear(&mut stream, &mut told, "event: hello").await;
    assert!(told.contains("content-type: text/event-stream") && !told.contains("event: change"), "{told}");
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second");
    world.through(&second).await;
    hear(&mut stream, &mut told, "event: change").await;
}

async fn hear(stream: &mut TcpStream, told: &mut String, what: &str) {
    let mut buffer = [0; 4096];
    while !told.contains(what) {
        let read = tokio::time::timeout(std::time::Duration::from_mins(5), stream.read(&mut buffer)).await;
        let length = read.unwrap_or_else(|_| panic!("{what} was never told: {told}")).unwrap();
        assert!(length > 0, "{told}");
        told.push_str(&String::from_utf8_lossy(&buffer[..length]));
    }
}
