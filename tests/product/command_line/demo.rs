//! `belay demo` as a person sees it. Real time: what it shows is a real process at work.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use belay::clock::Clock;
use belay::git::{Credentials, Edit, Location, Signing, WorkingCopy};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::docs::has_what_the_readme_shows;
use crate::program::{Running, belay};

/// Returns the text after a word on the screen, to the end of the line.
fn after<'a>(screen: &'a str, word: &str) -> &'a str {
    screen
        .lines()
        .find_map(|line| line.split_once(word))
        .unwrap_or_else(|| panic!("no {word:?} in:\n{screen}"))
        .1
        .trim()
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(started.elapsed() < Duration::from_secs(90), "{what}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn client(kubeconfig: &Path) -> kube::Client {
    let kubeconfig = kube::config::Kubeconfig::read_from(kubeconfig).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &kube::config::KubeConfigOptions::default()).await;
    kube::Client::try_from(config.unwrap()).unwrap()
}

async fn deployment(client: &kube::Client) -> Value {
    let request = http::Request::get("/apis/apps/v1/namespaces/shop/deployments/web").body(Vec::new()).unwrap();
    client.request(request).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_tells_the_story_and_can_be_kept() {
    let home = tempfile::tempdir().unwrap();
    let (screen, errors) = (home.path().join("screen"), home.path().join("errors"));
    let mut command = belay(home.path());
    command.args(["demo", "--keep"]).env("TMPDIR", home.path());
    command.stdout(File::create(&screen).unwrap()).stderr(File::create(&errors).unwrap()).stdin(Stdio::null());
    let mut running = Running(command.spawn().unwrap());
    let read = |path: &PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let told = until("the demo ends", async || {
        assert!(running.0.try_wait().unwrap().is_none(), "{}\n{}", read(&screen), read(&errors));
        Some(read(&screen)).filter(|screen| screen.contains("Ctrl-C ends it"))
    })
    .await;
    the_last_screen_shows_four_commits(&told);
    assert!(has_what_the_readme_shows(&told), "the README shows something else: {told}");
    for line in told.lines() {
        assert!(!line.contains('\x1b'), "no colours in a pipe: {line:?}");
    }

    // As it was left, a push made by hand rolls out.
    let client = client(Path::new(after(&told, "export KUBECONFIG="))).await;
    let copy = PathBuf::from(after(&told, "  cd ").split(" &&").next().unwrap());
    let pushed = push_image(&copy, "registry.example.com/shop/web:1.3");
    until("the push rolls out", async || {
        let live = deployment(&client).await;
        let is_there = live["metadata"]["annotations"]["belay.dev/commit"] == pushed.as_str()
            && live["status"]["updatedReplicas"] == 3
            && live["status"]["replicas"] == 3
            && live["status"]["availableReplicas"] == 3;
        is_there.then_some(())
    })
    .await;
    running.signal("-INT");
    let ended = running.ended().await.expect("it ends when told");
    assert!(ended.success(), "{ended}\n{}", read(&errors));
    assert!(!copy.exists(), "the temporary folder is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_shows_a_canary() {
    let home = tempfile::tempdir().unwrap();
    let mut command = tokio::process::Command::from(belay(home.path()));
    let told =
        command.args(["demo", "--canary"]).env("TMPDIR", home.path()).stdin(Stdio::null()).output().await.unwrap();
    assert!(told.status.success(), "{told:?}");
    let told = String::from_utf8(told.stdout).unwrap();
    for words in [
        "it failed within canary step 1 of 2, after its new pods were ready",
        "no database",
        "is held: nothing applies it again",
    ] {
        assert!(told.contains(words), "{words:?} is missing: {told}");
    }
    let history: Vec<&str> = told.lines().skip_while(|line| !line.contains("$ belay history")).collect();
    let ended =
        |subject: &str, outcome: &str| history.iter().any(|line| line.ends_with(subject) && line.contains(outcome));
    assert!(ended("Cache headers for images", " complete ") && ended("Faster images", " rolled-back "), "{told}");
}

fn the_last_screen_shows_four_commits(told: &str) {
    let history: Vec<&str> =
        told.lines().skip_while(|line| !line.contains("belay history")).take_while(|line| !line.is_empty()).collect();
    let of = |subject: &str| {
        let found = history.iter().filter(|line| line.ends_with(subject)).collect::<Vec<_>>();
        assert_eq!(found.len(), 1, "{subject}: {history:#?}");
        *found[0]
    };
    assert!(of("The shop's front").contains(" complete "));
    assert!(of("Cache headers for images").contains(" complete "));
    assert!(of("Faster images").contains(" rolled-back "));
    assert!(of("Name the image that was built").contains(" complete "));
    assert!(told.contains("is ImagePullBackOff (container web)"), "the reason: {told}");
    assert!(told.contains("     pods:\n"), "the evidence: {told}");
    let revisions = told.lines().skip_while(|line| !line.starts_with("REVISION")).collect::<Vec<_>>();
    let failed: Vec<&&str> = revisions.iter().filter(|line| line.contains("— failed: ")).collect();
    assert!(matches!(failed[..], [line] if line.contains("Faster images (Ada)")), "{revisions:#?}");
}

/// Commits a new image as a person does, and pushes it.
fn push_image(folder: &Path, image: &str) -> String {
    let copy = WorkingCopy::open(folder).unwrap();
    let text = std::fs::read_to_string(folder.join("web.yaml")).unwrap();
    let changed = text.replace("registry.example.com/shop/web:1.2", image);
    assert_ne!(text, changed);
    let edit = Edit { path: "web.yaml".to_owned(), content: Some(changed.into_bytes()) };
    let commit = copy.commit(&[edit], "A newer image", Signing::Never, Clock::system().now()).unwrap();
    let location: Location = copy.destination().unwrap();
    copy.push(&Credentials::new(&location), &CancellationToken::new()).unwrap();
    commit.to_string()
}
