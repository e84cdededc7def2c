//! The outcome of a commit is sent to receivers elsewhere: once, in order, and again if one does not answer. Nothing
//! waits for them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belay::config::{Config, NotifyConfig};
use belay::daemon::note_lasting_trouble;
use belay::notices::{self, Links, Settings};
use belay::telemetry::NoticeLabels;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::schema::fits;
use crate::support::daemon::{World, broken, deployment, image, path_of};
use crate::support::receivers::{ReceiverBehaviour, Receivers, Sent};

/// Receivers at `NAME.example`.
fn hooks(names: &[&str]) -> Vec<NotifyConfig> {
    let hook = |name: &&str| {
        format!("[[notify]]\nname = \"{name}\"\nkind = \"webhook\"\nurl = \"https://{name}.example/hook\"\n")
    };
    receivers(&names.iter().map(hook).collect::<String>())
}

fn receivers(text: &str) -> Vec<NotifyConfig> {
    let text = format!("[[source]]\nname = \"shop\"\nrepository = \"/srv\"\n{text}");
    Config::parse(&text, "belay.toml").unwrap().notify
}

struct Telling {
    post: Receivers,
    stop: CancellationToken,
    task: JoinHandle<()>,
    lasting: JoinHandle<()>,
}

impl Telling {
    /// Begins to tell what the daemon of this world writes down.
    fn begin(world: &World, post: &Receivers, receivers: Vec<NotifyConfig>) -> Telling {
        post.keep_time(&world.clock);
        let stop = CancellationToken::new();
        let links = Links {
            public_url: Some("https://belay.example.com/".to_owned()),
            commit_urls: BTreeMap::from([("shop".to_owned(), "https://git.example.com/commit/{commit}".to_owned())]),
            ..Links::default()
        };
        let (history, clock, metrics) = (world.history().clone(), world.clock.clone(), world.metrics());
        let settings = Settings { history, clock, metrics, links, post: Arc::new(post.clone()) };
        let lasting = note_lasting_trouble(world.listen(), world.history().clone(), world.clock.clone());
        let task = tokio::spawn(notices::tell(receivers, None, settings, stop.clone()));
        Telling { post: post.clone(), stop, task, lasting: tokio::spawn(lasting) }
    }

    /// Stops, at once, whatever the receivers do.
    async fn end(self) {
        self.stop.cancel();
        self.lasting.abort();
        tokio::time::timeout(Duration::from_millis(100), self.task).await.expect("it stops at once").unwrap();
    }
}

/// Returns the sample Deployment complete, and receivers of what comes next.
async fn told(names: &[&str]) -> (World, Telling) {
    let mut world = World::embedded().await;
    // A day passes in one of the tests.
    world.config.interval = belay::config::Span(Duration::from_mins(1));
    world.with_first_version().await;
    let telling = Telling::begin(&world, &Receivers::default(), hooks(names));
    pass(1).await;
    (world, telling)
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_says_what_failed_why_and_what_runs_now() {
    let mut world = World::embedded().await;
    world.repository.author("Ada", "ada@example.com");
    let good = world.with_first_version().await;
    let folder = tempfile::tempdir().unwrap();
    let (secret, slack) = (folder.path().join("secret"), folder.path().join("slack"));
    std::fs::write(&secret, "s3cret\n").unwrap();
    std::fs::write(&slack, "https://slack.example/services/T0/B0/token-1\n").unwrap();
    let both = format!(
        "[[notify]]\nname = \"ops\"\nkind = \"webhook\"\nurl = \"https://ops.example/hook\"\nsecret_file = {secret:?}\n\
         [[notify]]\nname = \"chat\"\nkind = \"slack\"\nurl_file = {slack:?}\nevents = [\"rolled-back\"]\n"
    );
    let telling = Telling::begin(&world, &Receivers::default(), receivers(&both));
    pass(1).await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "Faster <!channel> images");
    world.through(&bad).await;
    pass(15).await;

    let sent = telling.post.sent("ops.example");
    assert_eq!(sent.len(), 1, "{sent:#?}");
    let Sent { headers, body, .. } = &sent[0];
    let schema = notices::schema();
    assert_eq!(fits(body, &schema, &schema, ""), Ok(()), "{body:#}");
    assert_eq!(
        (&body["event"], &body["source"], &body["final"]),
        (&"rolled-back".into(), &"shop".into(), &true.into())
    );
    assert_eq!((&body["commit"], &body["subject"]), (&bad.clone().into(), &"Faster <!channel> images".into()));
    assert_eq!(body["author"]["name"], "Ada");
    let wrong = &body["wrong"][0];
    assert_eq!((&wrong["object"]["name"], &wrong["state"]), (&"web".into(), &"rolled-back".into()));
    let cause = wrong["cause"].as_str().unwrap();
    assert!(cause.contains("new pod: ") && cause.ends_with(" web:2"), "{cause}");
    assert_eq!(wrong["reason"]["code"], "ProgressDeadlineExceeded");
    let runs = &wrong["runsNow"];
    assert_eq!(
        (&runs["commit"], &runs["subject"], &runs["revision"]),
        (&good.into(), &"First version".into(), &1.into())
    );
    assert_eq!(body["page"], format!("https://belay.example.com/commits/{bad}"));
    assert_eq!(body["forge"], format!("https://git.example.com/commit/{bad}"));
    assert_eq!(
        (&headers["x-belay-event"], &body["delivery"]),
        (&"rolled-back".to_owned(), &headers["x-belay-delivery"].clone().into())
    );
    assert!(headers["x-belay-signature-256"].starts_with("sha256="));

    let sent = telling.post.sent("slack.example");
    let text = sent[0].body["text"].as_str().unwrap();
    for part in [
        cause,
        "rolled-back",
        "`Faster &lt;!channel&gt; images`",
        "`Ada`",
        "`Deployment default/web`",
        "`First version` (revision 1)",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.contains(&format!("<https://belay.example.com/commits/{bad}|the evidence>")), "{text}");
    assert_eq!((sent.len(), sent[0].headers.contains_key("x-belay-signature-256")), (1, false));
    assert_eq!(world.metrics().notices("ops", NoticeLabels::Sent), 1);
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_one_message_and_one_more_when_it_is_undone() {
    let (mut world, telling) = told(&["ops"]).await;
    for number in 0..300 {
        world.repository.write(format!("{number}.yaml"), map(number));
    }
    let many = world.repository.commit("Three hundred");
    world.repository.push();
    world.through(&many).await;
    pass(15).await;
    assert_eq!(telling.post.events("ops.example"), ["complete"]);
    assert_eq!(telling.post.sent("ops.example")[0].body["objects"]["complete"], 300);

    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    pass(15).await;
    world.undo_to("web:1").await;
    pass(60).await;
    assert_eq!(image(&world.get(&path_of("web")).await.unwrap()), "web:1");
    assert_eq!(telling.post.events("ops.example"), ["complete", "complete", "rolled-back"]);
    let commits: Vec<Value> = telling.post.sent("ops.example").iter().map(|sent| sent.body["commit"].clone()).collect();
    assert_eq!(commits, [many, second.clone(), second].map(Value::from));
    telling.end().await;
}

fn map(number: usize) -> String {
    crate::support::daemon::config_map(&format!("map-{number}"), "1")
}

#[tokio::test(start_paused = true)]
async fn a_dead_receiver_delays_nothing_and_is_given_up_after_a_day() {
    let (mut world, telling) = told(&["dead", "mute", "ops"]).await;
    telling.post.set("dead.example", ReceiverBehaviour::Away);
    telling.post.set("mute.example", ReceiverBehaviour::Silent);
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    pass(15).await;
    assert_eq!(telling.post.sent("ops.example").len(), 1);
    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    world.through(&third).await;
    pass(15).await;
    assert_eq!(telling.post.sent("ops.example").len(), 2, "what is old elsewhere delays no newer one here");

    pass(25 * 3600).await;
    let metrics = world.metrics();
    let counted = |name| {
        [NoticeLabels::Sent, NoticeLabels::Failed, NoticeLabels::GivenUp].map(|noticed| metrics.notices(name, noticed))
    };
    assert_eq!(counted("ops"), [2, 0, 0]);
    let tried = telling.post.sent("dead.example");
    assert_eq!(counted("dead"), [0, tried.len() as u64, 2]);
    let gaps: Vec<i64> = tried.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_secs()).collect();
    assert!(gaps.is_sorted() && gaps[0] <= 16 && gaps.iter().all(|gap| *gap <= 3600 + 6), "{gaps:?}");
    assert!(tried.len() < 40, "{}", tried.len());
    assert!(tried.iter().all(|sent| sent.body["commit"] == second.as_str()), "in order: the second was not reached");

    telling.post.set("dead.example", ReceiverBehaviour::Takes);
    let fourth = world.push("web.yaml", &deployment("web", "web:4", ""), "Fourth version");
    world.through(&fourth).await;
    pass(3600 + 15).await;
    assert_eq!(telling.post.sent("dead.example").last().unwrap().body["commit"], fourth);
    assert_eq!(counted("dead")[0], 1);
    // One of them is in the middle of a message.
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_same_message_is_sent_again_and_none_is_lost() {
    let (mut world, telling) = told(&["ops"]).await;
    telling.post.set("ops.example", ReceiverBehaviour::Says(500, None));
    let post = telling.post.clone();
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    world.through(&third).await;
    pass(20).await;
    telling.end().await;
    world.kill().await;
    let before = post.sent("ops.example");
    assert!(!before.is_empty());

    world.start();
    post.set("ops.example", ReceiverBehaviour::Takes);
    let telling = Telling::begin(&world, &post, hooks(&["ops", "new"]));
    pass(120).await;
    let after = post.sent("ops.example").split_off(before.len());
    let commits: Vec<&Value> = after.iter().map(|sent| &sent.body["commit"]).collect();
    assert_eq!(commits, [&Value::from(second), &Value::from(third)]);
    let id = |sent: &Sent| sent.headers["x-belay-delivery"].clone();
    assert_eq!(id(&after[0]), id(&before[0]), "the same message has the same id");
    assert_ne!(id(&after[1]), id(&after[0]));
    assert_eq!(after[0].body, before[0].body);
    assert_eq!(post.sent("new.example").len(), 0, "it is told what happens from here on");
    telling.end().await;
}

/// A receiver that brings belay down does not bring it down again at each start.
#[tokio::test(start_paused = true)]
async fn what_ends_belay_is_sent_again_later_and_later() {
    let (mut world, mut telling) = told(&["ops"]).await;
    telling.post.set("ops.example", ReceiverBehaviour::Silent);
    let post = telling.post.clone();
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    for attempt in 1..=5 {
        while post.sent("ops.example").len() < attempt {
            pass(1).await;
        }
        // In the middle of it everything ends.
        telling.task.abort();
        telling.lasting.abort();
        world.kill().await;
        world.start();
        telling = Telling::begin(&world, &post, hooks(&["ops"]));
    }
    let sent = post.sent("ops.example");
    let gaps: Vec<i64> = sent.windows(2).map(|pair| pair[1].at.duration_since(pair[0].at).as_secs()).collect();
    assert!(gaps.iter().zip([10, 20, 40, 80]).all(|(gap, least)| (least..=least + 6).contains(gap)), "{gaps:?}");
    post.set("ops.example", ReceiverBehaviour::Takes);
    pass(200).await;
    assert_eq!(post.sent("ops.example").len(), 6, "it is told in the end");
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_receiver_may_say_when_to_come_back_and_may_refuse() {
    let (mut world, telling) = told(&["ops"]).await;
    telling.post.set("ops.example", ReceiverBehaviour::Says(429, Some(600)));
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    pass(15).await;
    telling.post.set("ops.example", ReceiverBehaviour::Takes);
    pass(570).await;
    assert_eq!(telling.post.sent("ops.example").len(), 1, "not before ten minutes are over");
    pass(40).await;
    assert_eq!(telling.post.sent("ops.example").len(), 2);
    // A message that will never be taken does not keep the next one.
    telling.post.set("ops.example", ReceiverBehaviour::Says(400, None));
    let third = world.push("web.yaml", &deployment("web", "web:3", ""), "Third version");
    world.through(&third).await;
    pass(60).await;
    let metrics = world.metrics();
    let counted = [NoticeLabels::Sent, NoticeLabels::Failed, NoticeLabels::GivenUp]
        .map(|noticed| metrics.notices("ops", noticed));
    assert_eq!((counted, telling.post.sent("ops.example").len()), ([1, 1, 1], 3));
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn only_what_was_asked_for_is_told() {
    let mut world = World::embedded().await;
    world.with_first_version().await;
    let some = "[[notify]]\nname = \"a\"\nkind = \"webhook\"\nurl = \"https://a.example/\"\nevents = [\"rejected\"]\nsources = [\"shop\"]\n";
    let telling = Telling::begin(&world, &Receivers::default(), receivers(some));
    pass(1).await;
    let second = world.push("web.yaml", &deployment("web", "web:2", ""), "Second version");
    world.through(&second).await;
    let third = world.push("bad.yaml", "kind: Deployment\nspec: {}\n", "No name");
    world.through(&third).await;
    pass(20).await;
    assert_eq!(telling.post.events("a.example"), ["rejected"]);
    assert_eq!(telling.post.sent("a.example")[0].body["commit"], third);
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_is_told_again_after_an_hour_while_it_lasts() {
    let (mut world, telling) = told(&["ops"]).await;
    let bad = world.push("web.yaml", &broken("web", "image-pull-error"), "Broken");
    world.through(&bad).await;
    pass(3000).await;
    assert_eq!(telling.post.events("ops.example"), ["rolled-back"]);
    pass(700).await;
    assert_eq!(telling.post.events("ops.example"), ["rolled-back", "held"]);
    let sent = telling.post.sent("ops.example").pop().unwrap();
    let schema = notices::schema();
    assert_eq!(fits(&sent.body, &schema, &schema, ""), Ok(()), "{:#}", sent.body);
    assert_eq!((&sent.body["commit"], &sent.body["subject"]), (&bad.clone().into(), &"Broken".into()));
    assert_eq!(sent.body["page"], format!("https://belay.example.com/commits/{bad}"));
    let wrong = &sent.body["wrong"][0];
    assert_eq!(
        (&wrong["object"]["name"], &wrong["state"], &wrong["commit"]),
        (&"web".into(), &"held".into(), &bad.into())
    );
    assert!(sent.body["since"].is_string() && wrong["runsNow"]["subject"] == "First version", "{:#}", sent.body);
    let fix = world.push("web.yaml", &deployment("web", "web:3", ""), "Mended");
    world.through(&fix).await;
    pass(600).await;
    assert_eq!(telling.post.events("ops.example"), ["rolled-back", "held", "complete"], "nothing is held any more");
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_that_is_blocked_for_long_is_told_once_and_that_it_no_longer_is() {
    let (mut world, telling) = told(&["ops", "mute"]).await;
    world.repository.go_away();
    world.until("it is blocked", |source| source.blocked_by().is_some()).await;
    pass(120).await;
    world.repository.come_back();
    world.until("it is reached", |source| source.blocked_by().is_none()).await;
    pass(600).await;
    assert_eq!(telling.post.events("ops.example"), Vec::<String>::new(), "what passes soon is not told");
    world.repository.go_away();
    world.until("it is blocked", |source| source.blocked_by().is_some()).await;
    pass(330).await;
    assert_eq!(telling.post.events("ops.example"), ["blocked"]);
    let sent = telling.post.sent("ops.example").pop().unwrap();
    let schema = notices::schema();
    assert_eq!(fits(&sent.body, &schema, &schema, ""), Ok(()), "{:#}", sent.body);
    assert_eq!((&sent.body["source"], &sent.body["commit"]), (&"shop".into(), &Value::Null));
    assert!(sent.body["sources"][0]["reason"].as_str().unwrap().len() > 10, "{:#}", sent.body);
    assert_eq!(sent.body["page"], "https://belay.example.com/");
    // Another daemon after a crash does not know since when, and does not tell it again.
    let post = telling.post.clone();
    telling.end().await;
    world.kill().await;
    world.start();
    let telling = Telling::begin(&world, &post, hooks(&["ops", "mute"]));
    pass(400).await;
    assert_eq!(telling.post.events("ops.example"), ["blocked"]);
    world.repository.come_back();
    world.until("it is reached", |source| source.blocked_by().is_none() && source.planned.is_some()).await;
    pass(120).await;
    assert_eq!(telling.post.events("ops.example"), ["blocked", "unblocked"]);
    pass(400).await;
    assert_eq!(telling.post.events("ops.example"), ["blocked", "unblocked"]);
    telling.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_repository_with_a_hundred_old_troubles_is_one_message_at_first() {
    let mut world = World::embedded().await;
    for number in 0..100 {
        world.repository.write(format!("{number}.yaml"), format!("kind: Deployment\nspec: {number}\n"));
        world.repository.commit(&format!("Odd {number}"));
    }
    let head = world.push("web.yaml", &deployment("web", "web:1", ""), "First version");
    // The receiver is known before the first look succeeds.
    world.repository.go_away();
    world.start();
    let telling = Telling::begin(&world, &Receivers::default(), hooks(&["ops"]));
    pass(1).await;
    world.repository.come_back();
    world.through(&head).await;
    pass(60).await;
    let sent = telling.post.sent("ops.example");
    let told: Vec<(&str, bool)> =
        sent.iter().map(|sent| (sent.headers["x-belay-event"].as_str(), sent.body["past"] == true)).collect();
    assert_eq!(told, [("rejected", true), ("complete", false)]);
    let past = &sent[0].body;
    assert_eq!(
        (past["wrong"].as_array().unwrap().len(), &past["more"], &past["commit"]),
        (20, &80.into(), &head.into())
    );
    assert_ne!(past["wrong"][0]["commit"], past["wrong"][1]["commit"], "each says which commit is charged with it");
    telling.end().await;
}
