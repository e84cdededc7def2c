//! API servers whose watches mean no good.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use serde_json::json;

use super::*;
use crate::clock::Clock;

const LONG: Duration = Duration::from_mins(20);
/// After so many lists, or watches, the server says nothing more: the clock of a test stands still while it is asked.
const TOO_OFTEN: usize = 1000;

/// The answers of a hostile server.
#[derive(Clone)]
struct Says {
    /// To each watch, with this code.
    code: u16,
    watch: String,
    /// As the revision of each list.
    revision: String,
    /// The number of objects of each list.
    listed: usize,
    /// The number of objects that are known in another namespace.
    known: usize,
    /// The first list is slow, and breaks off after three pages.
    breaks_off: bool,
}

const OK: Says =
    Says { code: 200, watch: String::new(), revision: String::new(), listed: 0, known: 0, breaks_off: false };

/// The result of following a server with these answers for a while.
struct Followed {
    lists: usize,
    watches: usize,
    seen: VecDeque<Seen>,
}

async fn followed(says: Says) -> Followed {
    let asked = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counted = Arc::clone(&asked);
    let service = tower::service_fn(move |request: Request<Body>| {
        let is_watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        if request.uri().path() != "/readyz" {
            counted[usize::from(is_watch)].fetch_add(1, Ordering::Relaxed);
        }
        let item = |number: usize| json!({"metadata": {"name": format!("n-{number}"), "namespace": "shop"}});
        let items: Vec<_> = (0..says.listed).map(item).collect();
        let lists = counted[0].load(Ordering::Relaxed);
        let is_slow = says.breaks_off && !is_watch && lists <= 3;
        let token = if is_slow { "more" } else { "" };
        let list = json!({"metadata": {"resourceVersion": says.revision, "continue": token}, "items": items});
        let (code, body) = if is_watch { (says.code, says.watch.clone()) } else { (200, list.to_string()) };
        let code = if says.breaks_off && !is_watch && lists == 4 { 500 } else { code };
        let is_too_often = counted.iter().any(|asked| asked.load(Ordering::Relaxed) > TOO_OFTEN);
        async move {
            if is_too_often {
                std::future::pending::<()>().await;
            }
            if is_slow {
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(body.into_bytes())).unwrap())
        }
    });
    let cluster = Cluster::new(kube::Client::new(service, "shop"), Clock::tokio(jiff::Timestamp::UNIX_EPOCH));
    let word = str::to_owned;
    let (kind, resource) = (word("ConfigMap"), word("configmaps"));
    let served = Served { group: String::new(), version: word("v1"), kind, resource, namespaced: true };
    let ((send, mut heard), (synced, mut told)) = (mpsc::channel(64), mpsc::channel(64));
    let key = |number: usize| ObjectKey {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: Some("other".to_owned()),
        name: number.to_string(),
    };
    let known = Arc::new(Mutex::new((0..says.known).map(key).collect()));
    let namespace = Some("shop".to_owned());
    let room = TextRoom::default();
    let scope = Scope { cluster, served, labels: String::new(), namespace, known, room, send, synced };
    let mut seen = VecDeque::new();
    let listening = async {
        loop {
            tokio::select! {
                Some(one) = heard.recv() => {
                    seen.push_back(one);
                    seen.truncate(10_000);
                }
                Some(_) = told.recv() => {}
                else => return,
            }
        }
    };
    let following = async { drop(tokio::time::timeout(LONG, scope.follow()).await) };
    tokio::select! {
        () = following => {}
        () = listening => {}
    }
    let [lists, watches] = [0, 1].map(|which| asked[which].load(Ordering::Relaxed));
    Followed { lists, watches, seen }
}

fn event(kind: &str, name: &str, revision: &str) -> String {
    let metadata = json!({"name": name, "namespace": "shop", "resourceVersion": revision});
    format!("{}\n", json!({"type": kind, "object": {"metadata": metadata}}))
}

/// Each of these would be asked again and again without a pause.
#[tokio::test(start_paused = true)]
async fn a_watch_that_always_ends_at_once_is_asked_for_seldom() {
    let error = json!({"type": "ERROR", "object": {"kind": "Status", "code": 410}});
    let (fine, revision) = (|| "5".to_owned(), "1".repeat(70_000));
    for (what, says) in [
        ("410", Says { code: 410, revision: fine(), ..OK }),
        ("410 in an event", Says { watch: format!("{error}\n"), revision: fine(), ..OK }),
        ("an event before the list", Says { watch: event("MODIFIED", "a", "3"), revision: fine(), ..OK }),
        ("an endless revision", Says { watch: event("MODIFIED", "a", &revision), revision: fine(), ..OK }),
        ("a list of an endless revision", Says { revision, ..OK }),
        ("no JSON", Says { watch: "<html>\n".to_owned(), revision: fine(), ..OK }),
        ("nothing", Says { revision: fine(), ..OK }),
    ] {
        let followed = followed(says).await;
        // Half a second at first, then a minute at most.
        assert!(
            followed.lists + followed.watches < 150,
            "{what}: {} lists, {} watches",
            followed.lists,
            followed.watches
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_that_no_request_could_name_is_told_and_forgotten() {
    let says = Says { watch: event("MODIFIED", "a", &"1".repeat(70_000)), revision: "5".to_owned(), ..OK };
    let followed = followed(says).await;
    assert!(followed.watches > 10, "it is watched again from the revision before: {}", followed.watches);
    let told = followed.seen.iter().any(
        |seen| matches!(seen, Seen::Trouble(_, Some(error)) if error.to_string().contains("a revision of 70000 bytes")),
    );
    assert!(told, "{:?}", followed.seen);
}

#[tokio::test(start_paused = true)]
async fn more_objects_than_a_list_may_have_are_told_and_listed_anew() {
    let says = Says { watch: event("ADDED", "a", "6"), revision: "5".to_owned(), known: OBJECTS, ..OK };
    let followed = followed(says).await;
    let told = followed.seen.iter().any(
        |seen| matches!(seen, Seen::Trouble(_, Some(error)) if error.to_string().contains("more than 200000 objects")),
    );
    assert!(told && followed.lists > 3, "{} lists", followed.lists);
}

/// Each list of so many is dear, for the server and for belay.
#[tokio::test(start_paused = true)]
async fn namespaces_that_have_too_many_objects_together_are_listed_seldom() {
    for (what, says) in [
        ("a list", Says { revision: "5".to_owned(), listed: 10, known: OBJECTS - 5, ..OK }),
        ("an event", Says { watch: event("ADDED", "a", "6"), revision: "5".to_owned(), known: OBJECTS, ..OK }),
    ] {
        let followed = followed(says).await;
        let told = |seen: &&Seen| matches!(seen, Seen::Trouble(_, Some(error)) if error.to_string().contains("200000 objects"));
        let (told, over) = (
            followed.seen.iter().filter(told).count(),
            followed.seen.iter().filter(|seen| matches!(seen, Seen::Trouble(_, None))).count(),
        );
        assert!(told > 0 && over == 0, "{what}: told {told} times, and {over} times that it is over");
        assert!((3..=8).contains(&followed.lists), "{what}: {} lists in 20 minutes", followed.lists);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_list_that_breaks_off_is_not_told_for_ever() {
    let says = Says { revision: "5".to_owned(), listed: 1, breaks_off: true, ..OK };
    let seen = followed(says).await.seen;
    let mut told = seen.iter().filter_map(|seen| match seen {
        Seen::Slow(_, message) => Some(message.as_deref()),
        _ => None,
    });
    assert!(told.next().flatten().is_some_and(|message| message.contains("is slow to list")));
    assert_eq!(told.next_back(), Some(None), "it is taken back");
}
