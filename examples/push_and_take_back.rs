//! belay as a library: a repository, a cluster, the daemon between them; a good push, and a bad one that is taken back.
//!
//! `cargo run --example push_and_take_back`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::path::Path;

use belay::clock::Clock;
use belay::cluster::Cluster;
use belay::config::SourceConfig;
use belay::daemon::Daemon;
use belay::git::{Credentials, Edit, Location, Signing, WorkingCopy, create_bare};
use belay::history::{History, Query};
use minicluster::MiniCluster;
use tokio_util::sync::CancellationToken;

const MANIFEST: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  progressDeadlineSeconds: 600
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:TAG
";

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let (bare, clone, state) = (folder.path().join("web.git"), folder.path().join("web"), folder.path().join("state"));
    create_bare(&bare, "main")?;
    let copy = WorkingCopy::create(&clone, "main", "Ada", "ada@example.com")?;
    copy.set_origin(&bare.display().to_string().parse::<Location>()?)?;

    let clock = Clock::tokio("2026-01-01T00:00:00Z".parse()?);
    let minicluster = MiniCluster::builder().clock(clock.clone()).start().await?;
    let (history, _) = History::open(&state, clock.now())?;
    let stop = CancellationToken::new();
    let mut daemon = Daemon::new(history.clone(), clock.clone(), stop.clone());
    let source = SourceConfig { name: "web".to_owned(), ..SourceConfig::of(bare.display().to_string()) };
    daemon.follow(source, &Cluster::new(minicluster.client_as("belay"), clock.clone()))?;
    let mut status = daemon.status();
    let daemon = tokio::spawn(daemon.run());

    for (tag, subject) in [("1.0", "First version"), ("404", "An image that was never pushed")] {
        let commit = push(&copy, &bare, tag, subject, &clock)?;
        status
            .wait_for(|status| {
                let source = status.sources.get("web");
                source.is_some_and(|source| source.settled && source.planned.as_ref() == Some(&commit))
            })
            .await?;
    }
    let mut records = history.records(&Query::default())?;
    records.reverse();
    for record in &records {
        let reason = record.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        println!("{} {} {}{reason}", record.commit.short(), record.object, record.outcome);
    }
    stop.cancel();
    daemon.await?;
    minicluster.stop().await;
    let outcomes: Vec<String> = records.iter().map(|record| record.outcome.to_string()).collect();
    assert_eq!(outcomes, ["complete", "rolled-back"]);
    Ok(())
}

/// Commits the manifest with an image, and pushes it.
fn push(
    copy: &WorkingCopy,
    bare: &Path,
    tag: &str,
    subject: &str,
    clock: &Clock,
) -> Result<belay_core::rollout::CommitId, Box<dyn Error>> {
    let content = MANIFEST.replace("TAG", tag).into_bytes();
    let edit = Edit { path: "web.yaml".to_owned(), content: Some(content) };
    let commit = copy.commit(&[edit], subject, Signing::Never, clock.now())?;
    let location = bare.display().to_string().parse::<Location>()?;
    copy.push(&Credentials::new(&location), &CancellationToken::new())?;
    Ok(commit)
}

#[test]
fn it_runs() -> Result<(), Box<dyn Error>> {
    main()
}
